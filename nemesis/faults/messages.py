"""Faults of single messages: the relay holds, drops, repeats, delays or refuses a message.

A step of the schedule names the message (``nemesis.message_spec``, docs/wire.md). If no client or
broker sends such a message, the run does not follow its schedule.
"""

from collections.abc import Iterator

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.messages import Action
from highwater.harness.base.errors import HarnessError
from highwater.nemesis.faults.registry import MESSAGE, FaultTarget, aimed
from highwater.nemesis.message_spec import VERBS, MessageSpec


@aimed("hold-message", at="message", needs=MESSAGE)
def hold_message(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Hold one message until healing; a held request arrives even if its client has ended."""
    yield from _act(cluster, target, "hold")


@aimed("drop-message", at="message", needs=MESSAGE)
def drop_message(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Drop one message, and close its connection."""
    yield from _act(cluster, target, "drop")


@aimed("repeat-message", at="message", needs=MESSAGE)
def repeat_message(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Send one request twice, as if its client retried."""
    yield from _act(cluster, target, "repeat")


@aimed("delay-message", at="message", needs=MESSAGE)
def delay_message(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Delay one message; a delayed request arrives even if its client has ended."""
    yield from _act(cluster, target, "delay")


@aimed("refuse-message", at="message", needs=MESSAGE)
def refuse_message(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Refuse one request with an error, before or after the broker handles it."""
    yield from _act(cluster, target, "refuse")


def _act(cluster: Cluster, target: FaultTarget, action: Action) -> Iterator[str]:
    network = cluster.network
    if network is None:
        raise HarnessError(
            "this cluster runs without the relay between its nodes",
            hint="Start it with one: --wire.",
        )
    spec = MessageSpec.of(target.message)
    messages = network.catch(spec.rule(action, target.topic.name))
    try:
        yield f"to be {VERBS[action]}: {target.message}"
    finally:
        messages.release("healing" if target.healing() else "schedule")
    if not messages.caught:
        target.miss(f"no message was {VERBS[action]}: the relay saw no {target.message}")

"""Faults of the tested program: of its instances, and of their connections to brokers.

Each fault hits one running instance. While a fault stops the instance, Highwater does not restart
it, so that other instances can get its partitions. The relay finds the process of each connection,
and so the instance.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import client_name
from highwater.harness.base.errors import HarnessError
from highwater.nemesis.faults.clients import answers_lost, client_links, client_requests, release
from highwater.nemesis.faults.network import DELAY_S
from highwater.nemesis.faults.registry import (
    PROGRAM,
    FaultTarget,
    InstanceUnderTest,
    NothingDoneError,
    aimed,
    by_request,
)
from highwater.nemesis.faults.topic_config import changed

_MARKER_BYTES: Final = 78
"""The size of a batch with a transaction marker. Brokers must still accept this batch, because
otherwise the coordinator never ends the transaction."""

_COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit", "EndTxn")


@aimed("app-kill", at="program", needs=PROGRAM, commands=())
def app_kill(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """SIGKILL an instance of the program."""
    victim = _victim(target)
    victim.kill()
    try:
        yield f"instance {victim.number} of the program is killed"
    finally:
        victim.start()


@aimed("app-pause", at="program", needs=PROGRAM, commands=())
def app_pause(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """Freeze an instance of the program (SIGSTOP)."""
    victim = _victim(target)
    victim.pause()
    try:
        yield f"instance {victim.number} of the program is paused"
    finally:
        victim.resume()


@aimed("app-stop", at="program", needs=PROGRAM, commands=())
def app_stop(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """SIGTERM an instance of the program."""
    victim = _victim(target)
    ended = victim.terminate()
    how = "is stopped" if ended else "does not end after SIGTERM, and is killed"
    try:
        yield f"instance {victim.number} of the program {how}"
    finally:
        victim.start()


@aimed("app-scale", at="program", needs=PROGRAM, commands=())
def app_scale(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """Start one more instance; healing stops it cleanly (SIGTERM)."""
    if target.program is None:
        raise NothingDoneError("the run has no program under test")
    spare = target.program.spare
    spare.start()
    try:
        yield f"instance {spare.number} of the program joins the others"
    finally:
        spare.leave()


@aimed("app-cut", at="program", needs=PROGRAM)
def app_cut(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Isolate an instance from every broker, in both directions."""
    network, victim = _connected(cluster, target)
    with client_links(network, "cut", victim.client):
        yield f"instance {victim.number} of the program reaches no broker"


@aimed("app-slow", at="program", needs=PROGRAM)
def app_slow(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Delay every message between an instance and the brokers by 100 to 300 ms."""
    network, victim = _connected(cluster, target)
    with client_links(network, "slow", victim.client):
        yield f"messages from and to instance {victim.number} take {DELAY_S:g} s and more"


@aimed("app-lose-answers", at="program", needs=PROGRAM)
def app_lose_answers(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Forward the requests of an instance, but drop every response."""
    network, victim = _connected(cluster, target)
    with answers_lost(network, victim.client):
        yield f"instance {victim.number} of the program gets no response to its requests"


@aimed("app-repeat-requests", at="program", needs=PROGRAM)
def app_repeat_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Send every request of an instance twice, as if the instance retried."""
    network, victim = _connected(cluster, target)
    with client_requests(network, victim.client, target, "repeat"):
        yield f"requests of instance {victim.number} of the program arrive twice"


@aimed("app-refuse-outputs", at="program", needs=PROGRAM, why_not=by_request, commands=())
def app_refuse_outputs(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Make brokers refuse every output record as too large (max.message.bytes) until healing."""
    topic = target.program.out if target.program else ""
    if not topic:
        raise NothingDoneError("the program writes to no topic of the run")
    yield from changed(cluster, target, "max.message.bytes", str(_MARKER_BYTES), topic=topic)


@aimed("app-hold-commit", at="program", needs=PROGRAM)
def app_hold_commit(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Hold an instance's next commit of offsets or of a transaction until healing."""
    network, victim = _connected(cluster, target)
    source = client_name(victim.client)
    with ExitStack() as rules:
        for name in _COMMITS:
            rule = MessageRule(action="hold", api=APIS[name].key, source=source)
            messages = network.catch(rule)
            rules.callback(release, messages, target)
        yield f"the next commit of instance {victim.number} of the program is held"


def _connected(cluster: Cluster, target: FaultTarget) -> tuple[Network, InstanceUnderTest]:
    """Return the relay, and an instance whose connections the relay can identify."""
    network = cluster.network
    if network is None:
        raise HarnessError("this cluster has no relay between the program and the brokers")
    victim = _victim(target)
    if victim.client not in network.clients():
        raise NothingDoneError(
            f"the relay knows no connection of instance {victim.number} of the program"
        )
    return network, victim


def _victim(target: FaultTarget) -> InstanceUnderTest:
    running = target.program.running() if target.program else ()
    if not running:
        raise NothingDoneError("no instance of the program runs")
    return running[int(target.choice * len(running))]

"""Faults between clients and brokers: a client is isolated or slow, or responses are lost.

The relay, a proxy between clients and brokers (docs/wire.md), injects these faults. Clients connect
through it if the run has the option ``--wire-clients``. The target is a named client, or a random
client among the connected ones.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from random import Random
from typing import Final

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.apis import api_name
from highwater.clusters.relay.kafka_frames import PRODUCE
from highwater.clusters.relay.messages import SIDES, Action, MessageRule
from highwater.clusters.relay.network import CaughtMessages, Network
from highwater.clusters.relay.refusals import ERRORS, LEGAL, NAMES, refusable
from highwater.clusters.relay.rules import (
    ANY,
    ANY_CLIENT,
    Kind,
    Node,
    RelayRule,
    between,
    client_name,
    into,
    out_of,
)
from highwater.harness.base.errors import HarnessError
from highwater.nemesis.faults.network import DELAY_S, JITTER_S
from highwater.nemesis.faults.registry import CLIENTS, FaultTarget, NothingDoneError, aimed

LATE_S: Final = 0.5
"""The seconds by which ``delay-requests`` delays each request."""

_PRODUCES: Final = 6
_FIRST_MOST: Final = 12
_TIMES_MOST: Final = 3
"""Limits for the random rules by which ``refuse-requests`` refuses Produce requests: the number of
rules, the first request that a rule refuses, and the number of requests that a rule refuses."""


@aimed("cut-client", at="client", needs=CLIENTS)
def cut_client(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Isolate a client from every broker, in both directions."""
    network, client = _client(cluster, target)
    with client_links(network, "cut", client):
        yield f"{client} reaches no broker"


@aimed("slow-client", at="client", needs=CLIENTS)
def slow_client(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Delay every message between a client and the brokers by 100 to 300 ms."""
    network, client = _client(cluster, target)
    with client_links(network, "slow", client):
        yield f"messages from and to {client} take {DELAY_S:g} s and more"


@aimed("lose-answers", at="client", needs=CLIENTS)
def lose_answers(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Forward a client's requests, but drop every response to the client."""
    network, client = _client(cluster, target)
    with answers_lost(network, client):
        yield f"{client} gets no response to its requests"


@aimed("repeat-requests", at="client", needs=CLIENTS)
def repeat_client_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Send every request of a client twice, as if the client retried."""
    network, client = _client(cluster, target)
    with client_requests(network, client, target, "repeat"):
        yield f"requests of {client} arrive twice"


@aimed("delay-requests", at="client", needs=CLIENTS)
def delay_client_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Delay every request of a client by half a second; it arrives even if the client has ended."""
    network, client = _client(cluster, target)
    with client_requests(network, client, target, "delay", delay_s=LATE_S):
        yield f"requests of {client} arrive {LATE_S:g} s late"


@aimed("misroute-client", at="client", needs=CLIENTS)
def misroute_client(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Connect a client to the wrong broker, as if an address was reused."""
    network, client = _client(cluster, target)
    if len(network.brokers) == 1:
        raise NothingDoneError("the cluster has only one broker")
    broker, other = Random(target.choice).sample(sorted(network.brokers), 2)  # noqa: S311
    links = out_of(client_name(client), [broker])
    reset = RelayRule(kind="reset", links=links)
    try:
        with network.under(RelayRule(kind="misroute", links=links, to=other)):
            with network.under(reset):
                pass
            yield f"connections of {client} to broker {broker} reach broker {other}"
    finally:
        with network.under(reset):
            pass


@aimed("refuse-requests", at="client", needs=CLIENTS)
def refuse_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Refuse some requests of a client, or of all clients, before or after brokers handle them."""
    network = _network(cluster)
    client = client_name(target.client) if target.client else ANY_CLIENT
    rules = drawn_refusals(client, target.choice)
    with ExitStack() as ends:
        for rule in rules:
            messages = network.catch(rule)
            ends.callback(release, messages, target)
        words = (f"{api_name(rule.api)} {NAMES[rule.error]}" for rule in rules)
        yield f"requests of {target.client or 'clients'} are refused: {', '.join(words)}"


def drawn_refusals(client: Node, seed: float) -> tuple[MessageRule, ...]:
    """Return rules that refuse some requests of each kind with a random error."""
    dice = Random(seed)  # noqa: S311 - a schedule is to be repeatable, not secret
    rules = []
    for api in (*LEGAL, *[PRODUCE] * (_PRODUCES - 1)):
        side = dice.choice(SIDES)
        legal = [name for name in ERRORS if refusable(api, name, acted=side == "answer")]
        ends = (client, ANY) if side == "request" else (ANY, client)
        rules.append(
            MessageRule(
                action="refuse",
                api=api,
                side=side,
                source=ends[0],
                target=ends[1],
                first=dice.randint(1, _FIRST_MOST if api == PRODUCE else 1),
                times=dice.randint(1, _TIMES_MOST),
                error=ERRORS[dice.choice(legal)],
            )
        )
    return tuple(rules)


def release(messages: CaughtMessages, target: FaultTarget) -> None:
    """Forward held messages, and record the cause: healing, or the schedule."""
    messages.release("healing" if target.healing() else "schedule")


def _network(cluster: Cluster) -> Network:
    if cluster.network is None:
        raise HarnessError(
            "this cluster runs without the relay, which clients must pass",
            hint="Add --wire-clients.",
        )
    return cluster.network


def _client(cluster: Cluster, target: FaultTarget) -> tuple[Network, str]:
    """Return the relay and the target client: the named client, or a connected client."""
    network = _network(cluster)
    if target.client:
        return network, target.client
    clients = network.clients()
    if not clients:
        raise NothingDoneError("no client is connected through the relay")
    return network, clients[int(target.choice * len(clients))]


def client_links(network: Network, kind: Kind, client: str) -> AbstractContextManager[None]:
    """Block or delay messages between a client and every broker during the ``with`` block."""
    links = between([client_name(client)], network.brokers)
    if kind == "slow":
        return network.under(RelayRule(kind=kind, links=links, delay_s=DELAY_S, jitter_s=JITTER_S))
    return network.under(RelayRule(kind=kind, links=links))


def answers_lost(network: Network, client: str) -> AbstractContextManager[None]:
    """Drop every response to a client during the ``with`` block."""
    links = into(client_name(client), network.brokers)
    return network.under(RelayRule(kind="cut", links=links))


@contextmanager
def client_requests(
    network: Network, client: str, target: FaultTarget, action: Action, *, delay_s: float = 0.0
) -> Iterator[None]:
    """Hold, drop, repeat or delay every request of a client during the ``with`` block."""
    rule = MessageRule(action=action, source=client_name(client), times=0, delay_s=delay_s)
    messages = network.catch(rule)
    try:
        yield
    finally:
        release(messages, target)

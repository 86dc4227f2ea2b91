"""Faults between clients and brokers: a client that is cut off or slow, answers that are lost.

The wire (docs/wire.md) makes these faults; clients connect through the wire if a run asks for it.
The target is a client that is named, or one of the connected clients.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.messages import Action, MessageRule
from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import Kind, RelayRule, between, client_name, into
from highwater.harness.base.errors import HarnessError
from highwater.nemesis.faults.network import DELAY_S, JITTER_S
from highwater.nemesis.faults.registry import CLIENTS, FaultTarget, NothingDoneError, aimed

LATE_S: Final = 0.5
"""By how many seconds ``delay-requests`` delays each request."""


@aimed("cut-client", at="client", needs=CLIENTS)
def cut_client(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Cut a client off from every broker, both ways."""
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
    """Let a client's requests arrive, but lose every answer."""
    network, client = _client(cluster, target)
    with answers_lost(network, client):
        yield f"{client} gets no answer to what it asks"


@aimed("repeat-requests", at="client", needs=CLIENTS)
def repeatclient_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Let every request of a client arrive twice, as if the client retried."""
    network, client = _client(cluster, target)
    with client_requests(network, client, target, "repeat"):
        yield f"requests of {client} arrive twice"


@aimed("delay-requests", at="client", needs=CLIENTS)
def delayclient_requests(cluster: Cluster, target: FaultTarget) -> Iterator[str]:
    """Let every request of a client arrive half a second late, even if the client has gone."""
    network, client = _client(cluster, target)
    with client_requests(network, client, target, "delay", delay_s=LATE_S):
        yield f"requests of {client} arrive {LATE_S:g} s late"


def _client(cluster: Cluster, target: FaultTarget) -> tuple[Network, str]:
    """Return the wire and the target client: the named client, or one of the connected clients."""
    network = cluster.network
    if network is None:
        raise HarnessError("this cluster has no wire", hint="Add --wire-clients.")
    if target.client:
        return network, target.client
    clients = network.clients()
    if not clients:
        raise NothingDoneError("no client is connected through the wire")
    return network, clients[int(target.choice * len(clients))]


def client_links(network: Network, kind: Kind, client: str) -> AbstractContextManager[None]:
    """Cut or slow the links between a client and every broker, while the block lasts."""
    links = between([client_name(client)], network.brokers)
    if kind == "slow":
        return network.under(RelayRule(kind=kind, links=links, delay_s=DELAY_S, jitter_s=JITTER_S))
    return network.under(RelayRule(kind=kind, links=links))


def answers_lost(network: Network, client: str) -> AbstractContextManager[None]:
    """Lose every answer to a client while the block lasts."""
    links = into(client_name(client), network.brokers)
    return network.under(RelayRule(kind="cut", links=links))


@contextmanager
def client_requests(
    network: Network, client: str, target: FaultTarget, action: Action, *, delay_s: float = 0.0
) -> Iterator[None]:
    """Hold, drop, repeat or delay every request of a client while the block lasts."""
    rule = MessageRule(action=action, source=client_name(client), times=0, delay_s=delay_s)
    messages = network.catch(rule)
    try:
        yield
    finally:
        messages.release("healing" if target.healing() else "schedule")

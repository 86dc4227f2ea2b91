"""Faults of the network: links that are cut, slow or reset, and messages that are held back.

The relay, a proxy between the nodes (docs/wire.md), injects these faults; a run with such a fault
uses it. During the fault clients reach every broker, even a former leader that does not know the
new leader. Messages that a blocked link holds arrive after healing, like packets that TCP sends
again.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.network import Network
from highwater.clusters.relay.rules import (
    COORDINATION,
    Kind,
    Link,
    RelayRule,
    between,
    into,
    out_of,
    ring,
)
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.release import Release
from highwater.nemesis.faults.coordination import controllers_says
from highwater.nemesis.faults.registry import CONTROLLERS, FaultTarget, aimed, fault

DELAY_S: Final = 0.1
JITTER_S: Final = 0.2
BYTES_PER_S: Final = 20_000.0
"""The bytes per second that ``throttle`` allows, far fewer than any workload needs."""


@fault("isolate")
def isolate(cluster: Cluster, broker: int) -> Iterator[str]:
    """Isolate a broker from its peers and from ZooKeeper or the controller, in both directions."""
    network = _network(cluster)
    yield from _links(
        network,
        "cut",
        between([broker], network.nodes),
        f"broker {broker} is isolated from all other nodes",
    )


@fault("partition")
def partition(cluster: Cluster, broker: int) -> Iterator[str]:
    """Isolate a broker from the other brokers only: it keeps its session and its leadership."""
    network = _network(cluster)
    says = f"broker {broker} reaches no other broker"
    yield from _links(network, "cut", between([broker], network.brokers), says)


@fault("partition-outbound")
def partition_outbound(cluster: Cluster, broker: int) -> Iterator[str]:
    """Block messages from a broker to all other nodes; the broker still receives."""
    network = _network(cluster)
    says = f"no node receives messages from broker {broker}"
    yield from _links(network, "cut", out_of(broker, network.nodes), says)


@fault("partition-inbound")
def partition_inbound(cluster: Cluster, broker: int) -> Iterator[str]:
    """Block messages from all other nodes to a broker; the broker still sends."""
    network = _network(cluster)
    says = f"broker {broker} receives messages from no node"
    yield from _links(network, "cut", into(broker, network.nodes), says)


@fault("partition-halves")
def partition_halves(cluster: Cluster, broker: int) -> Iterator[str]:
    """Split brokers into a smaller group with the target and a larger group with the quorum."""
    network = _network(cluster)
    minority, majority = _halves(network, broker)
    links = between(minority, majority | {COORDINATION})
    yield from _links(
        network,
        "cut",
        links,
        f"brokers {_names(minority)} and {_names(majority)} are isolated from each other",
    )


@fault("bridge")
def bridge(cluster: Cluster, broker: int) -> Iterator[str]:
    """Split the other brokers into two groups; only the target broker reaches both."""
    network = _network(cluster)
    others = sorted(network.brokers - {broker})
    first_half, rest = others[: len(others) // 2], others[len(others) // 2 :]
    says = f"only broker {broker} reaches {_names(first_half)} and {_names(rest)}"
    yield from _links(network, "cut", between(first_half, rest), says)


@fault("partition-majorities-ring")
def partition_majorities_ring(cluster: Cluster, broker: int) -> Iterator[str]:
    """Let each broker reach a different majority of the brokers (Jepsen's majorities-ring)."""
    network = _network(cluster)
    del broker
    yield from _links(
        network,
        "cut",
        ring(network.brokers),
        "every broker reaches a different majority of the brokers",
    )


@fault("reset")
def reset(cluster: Cluster, broker: int) -> Iterator[str]:
    """Reset a broker's connections with every node, and refuse new connections."""
    network = _network(cluster)
    links = between([broker], network.nodes)
    yield from _links(network, "reset", links, f"connections of broker {broker} are reset")


@fault("slow-link")
def slow_link(cluster: Cluster, broker: int) -> Iterator[str]:
    """Delay every message between a broker and its peers by 100 to 300 ms."""
    network = _network(cluster)
    links = between([broker], network.brokers)
    rule = RelayRule(kind="slow", links=links, delay_s=DELAY_S, jitter_s=JITTER_S)
    with network.under(rule):
        yield f"messages from and to broker {broker} take {DELAY_S:g} s and more"


@fault("throttle")
def throttle(cluster: Cluster, broker: int) -> Iterator[str]:
    """Limit each connection between a broker and its peers to 20 kB a second."""
    network = _network(cluster)
    links = between([broker], network.brokers)
    with network.under(RelayRule(kind="slow", links=links, bytes_per_s=BYTES_PER_S)):
        yield f"broker {broker} has {BYTES_PER_S / 1000:g} kB a second for each peer"


def _on_wire(kafka: Release, driver: str) -> str:
    if kafka.coordination == "kraft" or driver != "docker":
        return ""
    return "connections between ZooKeepers in containers do not pass the relay"


@fault("hold-hw")
def hold_hw(cluster: Cluster, broker: int) -> Iterator[str]:
    """Hold fetch responses that raise a follower's HW, so that its HW-lag window stays open."""
    network = _network(cluster)
    rule = RelayRule(kind="hold", links=into(broker, network.brokers), what="hw")
    with network.under(rule):
        yield f"broker {broker} receives no higher HW"


@fault("hold-leadership")
def hold_leadership(cluster: Cluster, broker: int) -> Iterator[str]:
    """Hold messages about leaders to a broker: the broker keeps its old role."""
    network = _network(cluster)
    sources = network.nodes | {broker}
    links = frozenset((source, broker) for source in sources)
    with network.under(RelayRule(kind="hold", links=links, what="leadership")):
        yield f"broker {broker} learns of no new leader"


@fault("hold-isr")
def hold_isr(cluster: Cluster, broker: int) -> Iterator[str]:
    """Hold a broker's requests to change an ISR: as leader it cannot change its ISR."""
    network = _network(cluster)
    links = frozenset((broker, target) for target in network.nodes)
    with network.under(RelayRule(kind="hold", links=links, what="isr")):
        yield f"broker {broker} can change no ISR"


@aimed("controller-isolate", at="coordination", why_not=_on_wire, needs=CONTROLLERS)
def controller_isolate(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Isolate a controller or ZooKeeper from its peers, but not from brokers.

    An isolated leader of the quorum still responds to brokers, but cannot commit. It resigns, or
    learns of the next leader. Several targets are also isolated from each other.
    """
    network = _network(cluster)
    if not network.controllers.issuperset(aim.controllers):
        raise HarnessError(
            "the relay is not between these ZooKeepers",
            hint="The relay needs addresses in 127.0.0.0/8, as on Linux (docs/wire.md).",
        )
    links = between(aim.controllers, network.controllers)
    says = controllers_says(cluster, aim.controllers, "isolated from the other controllers")
    yield from _links(network, "cut", links, says)


def _network(cluster: Cluster) -> Network:
    if cluster.network is None:
        raise HarnessError("this cluster runs without the relay", hint="Start it with one: --wire.")
    return cluster.network


def _links(network: Network, kind: Kind, links: frozenset[Link], says: str) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(network.under(RelayRule(kind=kind, links=links)))
        yield says


def _halves(network: Network, broker: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the smaller group (the broker, and the brokers with the next ids), and the larger."""
    ids = sorted(network.brokers)
    start = ids.index(broker)
    circle = ids[start:] + ids[:start]
    minority = frozenset(circle[: max(1, (len(ids) - 1) // 2)])
    return minority, network.brokers - minority


def _names(brokers: frozenset[int] | list[int]) -> str:
    return "brokers " + ", ".join(map(str, sorted(brokers)))

"""Rules and routes for the bytes between two nodes. The harness sends them to the relay as JSON."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

COORDINATION: Final = 0
"""The node number of a single ZooKeeper or KRaft controller. Brokers count from 1. If a cluster has
several controllers, their ids are their node numbers, and this number in a rule means all
controllers."""

FIRST_CONTROLLER: Final = 100
"""Node id of the first KRaft controller, or ``myid`` of the first ZooKeeper."""


CLIENT: Final = "client:"
ANY: Final = "*"
ANY_CLIENT: Final = CLIENT + ANY
ANY_BROKER: Final = "broker-*"

Node = int | str
"""The number of a node, or the name of a client: ``client:`` and the client id that it sends."""

Link = tuple[Node, Node]
"""The bytes from the first node to the second, on connections that either node opened."""

Users = Literal["nodes", "clients", "both"]
"""The users of an address: nodes, clients (which send client ids), or both."""

Kind = Literal["cut", "reset", "slow", "hold", "misroute"]
HeldMessage = Literal["hw", "leadership", "isr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An address on which the relay listens, and its target.

    Attributes:
        listen: host and port; port 0 means any free port.
        upstream: host and port of the target node.
        server: number of the target node.
        source: number of the only node that uses this address; None if several nodes use it.
        users: the users of this address: nodes, clients or both.
        zookeeper: whether the protocol is ZooKeeper's.
        alias: for connections between ZooKeepers, ``host:port`` at which the target reaches the
            source through the relay. It replaces the address that the source sends; other bytes do
            not change. None for all other connections.
    """

    listen: tuple[str, int]
    upstream: tuple[str, int]
    server: int
    source: int | None = None
    users: Users = "nodes"
    zookeeper: bool = False
    alias: str | None = None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Decode a route from JSON."""
        ends = {name: (plain[name][0], plain[name][1]) for name in ("listen", "upstream")}
        return cls(**{**plain, **ends})


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRule:
    """A fault on some links.

    Attributes:
        kind: ``cut`` stops all bytes until the rule ends, as if packets were dropped and
            retransmitted. ``reset`` closes every connection of the link and refuses new
            connections. ``slow`` delays and throttles. ``hold`` holds one kind of message, and
            every later message on its connection. ``misroute`` sends new connections to another
            node, as if that node had reused the address.
        delay_s: delay of every message.
        jitter_s: greatest additional random delay of a message; messages stay in order.
        bytes_per_s: limit on bytes per second for each connection; 0 means no limit.
        what: messages to hold. ``hw``: Fetch responses to a follower with a HW above ``above``.
            ``leadership``: a controller's requests (on KRaft: responses with metadata). ``isr``:
            changes of an ISR.
        topics: names of topics, and their ids if brokers fetch by id; empty means any topic.
        partition: number of the partition; -1 means any.
        above: the greatest HW that the relay forwards; None means the last HW sent to each
            follower.
        to: for ``misroute``, the number of the node that gets the new connections.
    """

    kind: Kind
    links: frozenset[Link]
    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    what: HeldMessage = "hw"
    topics: frozenset[str] = frozenset()
    partition: int = -1
    above: int | None = None
    to: int = COORDINATION

    def plain(self) -> dict[str, Any]:
        """Return the rule as JSON data."""
        links = sorted(self.links, key=str)
        return asdict(self) | {"links": links, "topics": sorted(self.topics)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Decode a rule from JSON."""
        links = frozenset((source, target) for source, target in plain.pop("links"))
        return cls(links=links, topics=frozenset(plain.pop("topics")), **plain)

    def concerns(self, topic: str, partition: int) -> bool:
        """Return whether the rule applies to a partition."""
        return (not self.topics or topic in self.topics) and self.partition in {-1, partition}


def is_controller(node: Node | None) -> bool:
    """Return whether a node is a ZooKeeper or KRaft controller."""
    return isinstance(node, int) and (node == COORDINATION or node >= FIRST_CONTROLLER)


def client_name(client_id: str) -> str:
    """Return a client's node name: ``producer-0`` -> ``client:producer-0``."""
    return CLIENT + client_id


def node_name(node: Node) -> str:
    """Return a node's name for tables and messages: ``broker-1``, ``client:producer-0``."""
    if isinstance(node, str):
        return node
    if node == COORDINATION:
        return "coordination"
    return f"controller-{node}" if is_controller(node) else f"broker-{node}"


def between(nodes: Iterable[Node], others: Collection[Node]) -> frozenset[Link]:
    """Return every link between two groups of nodes, in both directions."""
    return frozenset(
        link for node in nodes for other in others if node != other for link in _both(node, other)
    )


def out_of(node: Node, others: Iterable[Node]) -> frozenset[Link]:
    """Return the links from a node to each of the other nodes."""
    return frozenset((node, other) for other in others if other != node)


def into(node: Node, others: Iterable[Node]) -> frozenset[Link]:
    """Return the links to a node from each of the other nodes."""
    return frozenset((other, node) for other in others if other != node)


def ring(nodes: Iterable[int]) -> frozenset[Link]:
    """Return the links to stop for a fault like Jepsen's ``majorities-ring``.

    Nodes form a ring. Each node stays connected to its neighbours, which are a majority with it. No
    two nodes have the same majority. In a ring of three nodes, only one link is stopped.
    """
    circle = sorted(nodes)
    count = len(circle)
    if count <= 3:  # noqa: PLR2004 - see above
        return between(circle[:1], circle[1:2])
    neighbours = (count // 2 + 1) // 2
    links: set[Link] = set()
    for index, node in enumerate(circle):
        for step in range(neighbours + 1, count - neighbours):
            links |= _both(node, circle[(index + step) % count])
    return frozenset(links)


def _both(node: Node, other: Node) -> frozenset[Link]:
    return frozenset(((node, other), (other, node)))

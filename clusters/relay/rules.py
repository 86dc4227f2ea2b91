"""What is done to the bytes that go from one node to another: plain data, on both sides alike."""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

COORDINATION: Final = 0
"""ZooKeeper, or the KRaft controller, among the numbers of brokers, which count from 1."""

Link = tuple[int, int]
"""Bytes that go from the first node to the second, whoever of them has opened the connection."""

Kind = Literal["cut", "reset", "slow", "hold"]
HeldMessage = Literal["hw", "leadership", "isr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRule:
    """One thing that is done on some links.

    Attributes:
        kind: ``cut`` lets nothing pass until the rule is gone, as packets that are dropped and sent
            again; ``reset`` ends every connection of the link and refuses new ones; ``slow`` delays
            and throttles; ``hold`` keeps one kind of message back, and whatever comes behind it on
            its connection.
        delay_s: what every message waits.
        jitter_s: up to so much more, drawn for each message; none overtakes another.
        bytes_per_s: of each connection; 0 is no limit.
        what: is held: answers to a follower's fetch that tell a HW above ``above``; a controller's
            requests about leadership (on KRaft: answers that bring metadata); changes of an ISR.
        topic: its name, or its id where brokers fetch by that; empty is any.
        partition: -1 is any.
        above: the highest HW that may pass; None is what each follower was told last.
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

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"links": sorted(self.links), "topics": sorted(self.topics)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """From JSON."""
        links = frozenset((source, target) for source, target in plain.pop("links"))
        return cls(links=links, topics=frozenset(plain.pop("topics")), **plain)

    def concerns(self, topic: str, partition: int) -> bool:
        """Whether a partition is one of those that are held."""
        return (not self.topics or topic in self.topics) and self.partition in {-1, partition}


def between(nodes: Iterable[int], others: Collection[int]) -> frozenset[Link]:
    """Every link between two groups of nodes, in both directions."""
    return frozenset(
        link for node in nodes for other in others if node != other for link in _both(node, other)
    )


def out_of(node: int, others: Iterable[int]) -> frozenset[Link]:
    """What a node says to others."""
    return frozenset((node, other) for other in others if other != node)


def into(node: int, others: Iterable[int]) -> frozenset[Link]:
    """What others say to a node."""
    return frozenset((other, node) for other in others if other != node)


def ring(nodes: Iterable[int]) -> frozenset[Link]:
    """The links that are missing when each node sees a majority, and no two the same one.

    Nodes stand in a circle, and each sees as many neighbours on either side as a majority needs
    (Jepsen's ``majorities-ring``); of three, which would all see each other, only one link is left
    out.
    """
    circle = sorted(nodes)
    count = len(circle)
    if count <= 3:  # noqa: PLR2004 - as said
        return between(circle[:1], circle[1:2])
    reach = (count // 2 + 1) // 2
    cut: set[Link] = set()
    for index, node in enumerate(circle):
        for step in range(reach + 1, count - reach):
            cut |= _both(node, circle[(index + step) % count])
    return frozenset(cut)


def _both(node: int, other: int) -> frozenset[Link]:
    return frozenset(((node, other), (other, node)))

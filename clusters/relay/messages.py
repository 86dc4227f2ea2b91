"""Rules for single messages: hold, drop, repeat or delay the n-th of a kind.

A message is never overtaken on its connection, as TCP keeps the order of bytes: what is behind it
waits. But a request in hand outlives the connection of its client, as bytes under way do.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from highwater.clusters.relay.apis import ANY_API
from highwater.clusters.relay.kafka_frames import Header
from highwater.clusters.relay.request_properties import Properties
from highwater.clusters.relay.rules import (
    ANY,
    ANY_BROKER,
    ANY_CLIENT,
    CLIENT,
    COORDINATION,
    Node,
    is_controller,
)

Action = Literal["hold", "drop", "repeat", "delay"]
Side = Literal["request", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRule:
    """A rule for messages of one kind.

    Attributes:
        action: ``hold`` keeps it until the rule ends; ``delay`` for ``delay_s``; ``drop`` loses it
            and, since TCP loses nothing else, its connection; ``repeat`` sends a request a second
            time, on a connection of the relay's own, as a client does that tries again.
        api: key of the request; ``ANY_API`` is any.
        side: whether the request itself is meant or the answer to it.
        source: its sender: a node, ``client:*``, ``broker-*`` or ``*``.
        target: its receiver, in the same words.
        first: the number of the first message to act on, among those that fit, from 1 on.
        times: how many to act on; 0 is all.
        delay_s: of ``delay``.
        transactional_id: of the request; None is any, as are the following.
        topics: names, and the ids where clients or brokers use these; empty is any.
        partition: of the topic; -1 is any.
        epoch: of the producer, or else of the leader.
        correlation: id of the request on its connection.
    """

    action: Action
    api: int = ANY_API
    side: Side = "request"
    source: Node = ANY
    target: Node = ANY
    first: int = 1
    times: int = 1
    delay_s: float = 0.0
    transactional_id: str | None = None
    topics: frozenset[str] = frozenset()
    partition: int = -1
    epoch: int | None = None
    correlation: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return the rule as JSON data."""
        return asdict(self) | {"topics": sorted(self.topics)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Decode a rule from JSON."""
        return cls(topics=frozenset(plain.pop("topics")), **plain)

    def covers(self, side: Side, source: Node, target: Node) -> bool:
        """Return whether messages from one node to another may fit."""
        return side == self.side and _is(self.source, source) and _is(self.target, target)

    def fits(self, head: Header, properties: Callable[[], Properties]) -> bool:
        """Return whether a request, or the answer to it, is of this kind.

        Args:
            properties: of the request; called only if they decide.
        """
        if self.api not in {ANY_API, head.api}:
            return False
        if self.correlation not in {None, head.correlation}:
            return False
        if self.transactional_id is None and self.epoch is None and not self._names_partition:
            return True
        seen = properties()
        return (
            self.transactional_id in {None, seen.transactional_id}
            and self.epoch in {None, seen.epoch}
            and (not self._names_partition or self.partition_of(seen) is not None)
        )

    @property
    def _names_partition(self) -> bool:
        return bool(self.topics) or self.partition >= 0

    def partition_of(self, properties: Properties) -> tuple[str, int] | None:
        """Return the first partition of a request that the rule is about."""
        for topic, partition in properties.partitions:
            if (not self.topics or topic in self.topics) and self.partition in {-1, partition}:
                return topic, partition
        return None


def _is(pattern: Node, node: Node) -> bool:
    if pattern in {ANY, node}:
        return True
    if is_controller(node):
        return pattern == COORDINATION
    is_client = isinstance(node, str) and node.startswith(CLIENT)
    return (pattern == ANY_CLIENT and is_client) or (
        pattern == ANY_BROKER and isinstance(node, int)
    )


class MessageCatcher:
    """One rule, and how many messages have fitted it so far."""

    def __init__(self, rule_id: int, rule: MessageRule) -> None:
        self.rule_id = rule_id
        self.rule = rule
        self.fitted = 0

    def catches(self, head: Header, properties: Callable[[], Properties]) -> bool:
        """Count a message if it fits; return whether to act on it."""
        rule = self.rule
        if not rule.fits(head, properties):
            return False
        self.fitted += 1
        return rule.first <= self.fitted and (
            rule.times == 0 or self.fitted < rule.first + rule.times
        )


class MessageInHand:
    """One message that a rule acts on.

    Attributes:
        number: counts such messages, from 1 on.
        waits: whether it is to wait when its turn comes.
        due: when it is to go on, in seconds of the loop's clock.
        ends: the two nodes of its connection.
        partition: topic and partition that the rule is about, if the request has any.
    """

    __slots__ = ("due", "ends", "number", "partition", "rule", "rule_id", "waits")

    def __init__(
        self, number: int, catcher: MessageCatcher, ends: frozenset[Node], due: float
    ) -> None:
        self.number = number
        self.rule_id = catcher.rule_id
        self.rule = catcher.rule
        self.waits = catcher.rule.action in {"hold", "delay"}
        self.due = due
        self.ends = ends
        self.partition: tuple[str, int] | None = None

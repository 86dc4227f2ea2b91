"""Rules for single messages: hold, drop, repeat, delay or refuse the n-th message of a kind.

A message to which a rule applies is *held* until it is forwarded or lost. Later messages on its
connection wait, because TCP preserves the order of bytes. A held request is delivered even after
its client has closed the connection, like bytes that are already on the network.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self, get_args

from highwater.clusters.relay.apis import ANY_API
from highwater.clusters.relay.kafka_frames import Header
from highwater.clusters.relay.refusals import is_legal
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

Action = Literal["hold", "drop", "repeat", "delay", "refuse"]
Side = Literal["request", "answer"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRule:
    """A rule for messages of one kind.

    Attributes:
        action: ``hold`` delays the message until the rule ends. ``delay`` delays it for
            ``delay_s``. ``drop`` drops the message and closes its connection, because TCP cannot
            lose a single message. ``repeat`` sends a request a second time, on a new connection of
            the relay, like a client that retries. ``refuse`` responds with an error instead of the
            broker: the broker does not get the request, or the relay replaces its response.
        api: API key of the request; ``ANY_API`` means any request.
        side: ``request`` or ``answer``: whether the rule is for the request or its response.
        source: sender of the message: a node, ``client:*``, ``broker-*`` or ``*``.
        target: receiver of the message, in the form of ``source``.
        first: number, from 1, of the first matching message to which the rule applies.
        times: number of messages to which the rule applies; 0 means all.
        transactional_id: transactional id in the request; None means any.
        topics: names of topics, and topic ids if requests have ids; empty means any topic.
        partition: number of the partition; -1 means any.
        epoch: the producer epoch if the request has one, otherwise the leader epoch; None means
            any.
        correlation: correlation id of the request on its connection; None means any.
        error: error code of ``refuse``. The rule matches only requests whose response may have this
            error.
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
    error: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the rule as JSON data."""
        return asdict(self) | {"topics": sorted(self.topics)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Decode a rule from JSON."""
        return cls(topics=frozenset(plain.pop("topics")), **plain)

    def covers(self, side: Side, source: Node, target: Node) -> bool:
        """Return whether messages from ``source`` to ``target`` may match the rule."""
        return side == self.side and _is(self.source, source) and _is(self.target, target)

    def fits(self, head: Header, properties: Callable[[], Properties]) -> bool:
        """Return whether a request, or its response, matches the rule.

        Args:
            properties: decodes the request's properties. It is slow, and called only if needed.
        """
        if self.api not in {ANY_API, head.api}:
            return False
        if self.correlation not in {None, head.correlation}:
            return False
        if self.error and not is_legal(head, properties(), self.error, acted=self.side == "answer"):
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
        """Return (topic, number) of the first partition that matches the rule, or None."""
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
    """One rule, and the number of messages that it has matched."""

    def __init__(self, rule_id: int, rule: MessageRule) -> None:
        self.rule_id = rule_id
        self.rule = rule
        self.fitted = 0

    def catches(self, head: Header, properties: Callable[[], Properties]) -> bool:
        """Count a matching message. Return whether its number is in the range of the rule."""
        rule = self.rule
        if not rule.fits(head, properties):
            return False
        self.fitted += 1
        return rule.first <= self.fitted and (
            rule.times == 0 or self.fitted < rule.first + rule.times
        )


class MessageInHand:
    """One message to which a rule applies.

    Attributes:
        number: number of the message among all held messages, from 1.
        waits: whether the rule still holds or delays the message.
        due: time at which a delayed message is forwarded, in seconds of the loop's clock.
        ends: the two nodes at the ends of its connection.
        partition: topic and number of the request's first partition that matches the rule, if any.
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

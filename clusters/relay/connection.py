"""One connection through the relay, from the node that opened it to the one that it asks."""

import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from highwater.clusters.relay import kafka_frames
from highwater.clusters.relay.channel import Channel
from highwater.clusters.relay.kafka_frames import FetchedPartition, Header
from highwater.clusters.relay.rules import COORDINATION, RelayRule

_RESET: Final = struct.pack("ii", 1, 0)
_METADATA: Final = frozenset(("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"))
"""The name and the id of KRaft's metadata log."""

Row = dict[str, Any]
OnEvent = Callable[[int], None]


def _idle(mask: int) -> None:
    """Do nothing: the callback before the event loop sets another."""


class Host(Protocol):
    """The part of the event loop that a connection uses."""

    @property
    def last_hw(self) -> dict[tuple[int, str, int], int]:
        """The last HW sent to each follower, by (follower, topic, partition)."""

    def rules(self, source: int, target: int) -> list[RelayRule]:
        """Return the rules of one link."""

    def note(self, row: Row) -> None:
        """Report an observation."""

    def schedule(self, channel: Channel, due: float) -> None:
        """Call the channel's ``release_due`` at that time."""

    def clock(self) -> float:
        """Return monotonic seconds."""


_DECISION_READERS: Final = {
    kafka_frames.LEADER_AND_ISR: kafka_frames.leader_and_isr,
    kafka_frames.ALTER_PARTITION: kafka_frames.alter_partition,
}


class PendingRequest(NamedTuple):
    """A request without an answer so far."""

    head: Header
    fetch: kafka_frames.Fetch | None
    decided: list[kafka_frames.LeadershipDecision]


class RelayConnection:
    """Two channels, and the nodes at their ends.

    Args:
        host: the event loop.
        client: the accepted socket.
        server: number of the node that is asked.
        source: number of the node that asks, if its address identifies it; otherwise its first
            request does. None is a client or a tool, which no rule concerns.
        zookeeper: whether the protocol is ZooKeeper's.
    """

    def __init__(
        self,
        host: Host,
        client: socket.socket,
        *,
        server: int,
        source: int | None,
        zookeeper: bool,
    ) -> None:
        self.client = client
        self.upstream: socket.socket | None = None
        self.upstream_address = ("", 0)
        self.connected = False
        self.on_client: OnEvent = _idle
        self.on_upstream: OnEvent = _idle
        self.server = server
        self.source = source
        self._host = host
        inspector: RequestInspector = (
            ZooKeeperRequestInspector(self) if zookeeper else RequestInspector(self)
        )
        self.requests = self._channel(inspector)
        self.answers = self._channel(AnswerInspector(self, inspector))
        self.apply_rules()

    def apply_rules(self) -> None:
        """Apply the current rules of its link."""
        if self.source is not None:
            self.requests.apply_rules(self._host.rules(self.source, self.server))
            self.answers.apply_rules(self._host.rules(self.server, self.source))

    @property
    def refused(self) -> bool:
        """True if a rule resets it."""
        if self.source is None:
            return False
        ends = (self.source, self.server), (self.server, self.source)
        return any(rule.kind == "reset" for end in ends for rule in self._host.rules(*end))

    def set_source(self, source: int) -> None:
        """Set the node that asks, which its first request has named."""
        self.source = source
        self.apply_rules()

    @property
    def last_hw(self) -> dict[tuple[int, str, int], int]:
        """The last HW sent to each follower, by (follower, topic, partition)."""
        return self._host.last_hw

    def note(self, kind: str, source: int, target: int, **facts: object) -> None:
        """Report an observation about the link."""
        self._host.note({"kind": kind, "source": source, "target": target, **facts})

    def close(self, *, reset: bool = False) -> None:
        """Close both ends."""
        for end in (self.client, self.upstream):
            if end is not None:
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()

    def _channel(self, inspector: "RequestInspector | AnswerInspector") -> Channel:
        def schedule(due: float) -> None:
            self._host.schedule(channel, due)

        channel = Channel(inspector, schedule, self._host.clock)
        return channel


class RequestInspector:
    """Inspects a node's requests in Kafka's protocol."""

    def __init__(self, connection: RelayConnection) -> None:
        self._connection = connection
        self.pending: deque[PendingRequest] = deque()

    def read(self, frame: bytearray) -> object:
        """Decode a request, keep it for its answer, and set the source if it is not known."""
        try:
            head = kafka_frames.header(frame)
            fetch = kafka_frames.fetch(frame, head) if head.api == kafka_frames.FETCH else None
            decode = _DECISION_READERS.get(head.api)
            decided = [] if decode is None else decode(frame, head)
            if self._connection.source is None:
                source = kafka_frames.sender(head, frame)
                if source is not None:
                    self._connection.set_source(source)
        except (struct.error, IndexError, UnicodeDecodeError):
            return None
        request = PendingRequest(head, fetch, decided)
        self.pending.append(request)
        return request

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds it: it is about leadership, or changes an ISR."""
        if not isinstance(note, PendingRequest):
            return False
        api = note.head.api
        return any(
            (rule.what == "leadership" and api in kafka_frames.LEADERSHIP)
            or (rule.what == "isr" and api == kafka_frames.ALTER_PARTITION)
            for rule in rules
        )

    def may_overtake(self, note: object) -> bool:
        """Return False: a broker handles the requests of a connection in their order."""
        del note
        return False

    def on_passed(self, note: object) -> None:
        """Report a follower's LEO, which is its fetch offset, and leadership decisions."""
        if not isinstance(note, PendingRequest) or self._connection.source is None:
            return
        ends = self._connection.source, self._connection.server
        if note.fetch is not None and ends[1] != COORDINATION and note.fetch.replica >= 0:
            for partition in note.fetch.partitions:
                self._connection.note(
                    "fetch",
                    *ends,
                    topic=partition.topic,
                    partition=partition.partition,
                    leo=partition.offset,
                    epoch=partition.epoch,
                )
        kind = "isr" if note.head.api == kafka_frames.ALTER_PARTITION else "leadership"
        for decision in note.decided:
            self._connection.note(kind, *ends, **decision._asdict())


class AnswerInspector:
    """Inspects answers in Kafka's protocol."""

    def __init__(self, connection: RelayConnection, requests: RequestInspector) -> None:
        self._connection = connection
        self._pending = requests.pending

    def read(self, frame: bytearray) -> object:
        """Decode a follower's Fetch answer; return None for other answers."""
        request = None
        correlation = kafka_frames.correlation(frame) if len(frame) >= 8 else -1  # noqa: PLR2004 - its id
        while self._pending:
            pending = self._pending.popleft()  # skips requests without an answer (acks=0)
            if pending.head.correlation == correlation:
                request = pending
                break
        if request is None or request.fetch is None or request.fetch.replica < 0:
            return None
        try:
            return kafka_frames.fetch_response(frame, request.head.version)
        except (struct.error, IndexError):
            return None

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds it: it has a HW above the limit, or new metadata."""
        partitions: list[FetchedPartition] = note if isinstance(note, list) else []
        for rule in rules:
            for partition in partitions:
                if self._concerns(rule, partition):
                    self._report(rule, partition)
                    return True
        return False

    def _concerns(self, rule: RelayRule, partition: FetchedPartition) -> bool:
        if self._connection.server == COORDINATION:
            of_metadata = partition.topic in _METADATA and partition.records_bytes > 0
            return rule.what == "leadership" and of_metadata
        if (
            rule.what != "hw"
            or partition.error
            or not rule.concerns(partition.topic, partition.partition)
        ):
            return False
        follower = self._connection.source or 0
        last = self._connection.last_hw.get((follower, partition.topic, partition.partition), 0)
        return partition.hw > (last if rule.above is None else rule.above)

    def _report(self, rule: RelayRule, partition: FetchedPartition) -> None:
        self._connection.note(
            "held",
            self._connection.server,
            self._connection.source or 0,
            topic=partition.topic,
            partition=partition.partition,
            hw=partition.hw,
            what=rule.what,
        )

    def may_overtake(self, note: object) -> bool:
        """Return False: answers come in the order of their requests."""
        del note
        return False

    def on_passed(self, note: object) -> None:
        """Report the HW that a follower gets."""
        connection = self._connection
        if not isinstance(note, list) or connection.server == COORDINATION:
            return
        follower = connection.source or 0
        for partition in note:
            if partition.error == 0:
                connection.last_hw[follower, partition.topic, partition.partition] = partition.hw
                connection.note(
                    "told",
                    connection.server,
                    follower,
                    topic=partition.topic,
                    partition=partition.partition,
                    hw=partition.hw,
                )


class ZooKeeperRequestInspector(RequestInspector):
    """Inspects requests to ZooKeeper: only a write of a partition's state matters."""

    def read(self, frame: bytearray) -> object:
        """Decode the write of a state node to topic, partition and data, or a ping to "ping"."""
        kind = kafka_frames.zookeeper_kind(frame)
        if kind == kafka_frames.ZK_PING:
            return "ping"
        if kind == kafka_frames.ZK_SET_DATA:
            node = kafka_frames.isr_node(frame)
            if node is not None:
                return (*node, kafka_frames.isr_written(frame))
        return None

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds it: it changes a partition's state."""
        return isinstance(note, tuple) and any(rule.what == "isr" for rule in rules)

    def may_overtake(self, note: object) -> bool:
        """Let pings overtake, or the session would end; ZooKeeper's client accepts any order."""
        return note == "ping"

    def on_passed(self, note: object) -> None:
        """Report the ISR that is written."""
        if not isinstance(note, tuple):
            return
        topic, partition, data = note
        try:
            state = json.loads(data)
        except ValueError:
            return
        self._connection.note(
            "isr",
            self._connection.source or 0,
            self._connection.server,
            topic=topic,
            partition=partition,
            isr=state.get("isr"),
            epoch=state.get("leader_epoch"),
            leader=state.get("leader"),
        )

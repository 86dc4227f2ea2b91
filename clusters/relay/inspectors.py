"""Inspectors of frames: they decode requests and responses, and find the rules for them."""

import json
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from highwater.clusters.relay import kafka_frames, refusals
from highwater.clusters.relay.channel import FrameInspector, InspectedFrame
from highwater.clusters.relay.kafka_frames import FetchedPartition, Header
from highwater.clusters.relay.messages import MessageInHand, Side
from highwater.clusters.relay.request_log import RECORDED
from highwater.clusters.relay.request_properties import Properties, answered, properties
from highwater.clusters.relay.rules import Node, RelayRule, Users, client_name, is_controller

_METADATA: Final = frozenset(("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"))
"""The topic name and the topic id of KRaft's metadata log."""

_DECISION_READERS: Final = {
    kafka_frames.LEADER_AND_ISR: kafka_frames.leader_and_isr,
    kafka_frames.ALTER_PARTITION: kafka_frames.alter_partition,
}


_GREETING: Final = struct.Struct(">qqi")
"""The first fields of a ZooKeeper's election connection: version (negative), id and address length.
Before 3.5 a ZooKeeper sends only the id."""


class InspectedConnection(Protocol):
    """The part of a connection that its inspectors use."""

    source: Node | None
    server: int
    users: Users

    @property
    def of_client(self) -> bool:
        """True if the requests come from a client and not from a node."""

    @property
    def follower(self) -> int:
        """Number of the node that sends the requests; 0 if the node is unknown."""

    @property
    def last_hw(self) -> dict[tuple[int, str, int], int]:
        """The last HW sent to each follower, by (follower, topic, partition)."""

    def set_source(self, source: Node) -> None:
        """Set the sender of the requests, which the first request names."""

    def note(self, kind: str, source: Node, target: Node, **facts: object) -> None:
        """Report an observation about messages from ``source`` to ``target``."""

    def catch(self, note: object) -> MessageInHand | None:
        """Return a held message if a rule applies to the inspected message; else None."""

    def on_message(self, inspected: InspectedFrame) -> None:
        """Report a forwarded message that was held, or that is related to a held message.

        Related messages are the response to a held request, messages that waited behind a held
        message, and messages between the same two nodes.
        """

    def on_request(self, request: "PendingRequest", *, has_answer: bool) -> None:
        """Record a client's request when it is forwarded."""

    def on_answer(self, request: "PendingRequest", frame: bytearray) -> None:
        """Record the response to a client's request when the response is forwarded."""

    def on_event(self, event: str, inspected: InspectedFrame, cause: str = "") -> None:
        """Report an event of a held message."""

    def answer_refused(self) -> None:
        """Send the relay's own responses to refused requests, in the order of the requests."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that has no response yet.

    Attributes:
        place: number of the request on its connection, from 1.
        frame: all bytes of the request.
        hand: set if a rule for single messages applies to the request.
        refusal: the relay's own response, if the request does not reach the broker.
    """

    head: Header
    place: int
    frame: bytearray
    fetch: kafka_frames.Fetch | None
    decided: list[kafka_frames.LeadershipDecision]
    hand: MessageInHand | None = None
    refusal: bytearray | None = None

    def properties(self) -> Properties:
        """Decode the properties that rules use. Return no properties if the frame is malformed."""
        try:
            return properties(self.frame, self.head)
        except (struct.error, IndexError, UnicodeDecodeError):
            return Properties()


class Answer(NamedTuple):
    """A response and its request. ``partitions`` is empty unless a follower gets the response."""

    request: PendingRequest
    partitions: list[FetchedPartition]


def message_of(note: object) -> tuple[Side, PendingRequest] | None:
    """Return ``request`` or ``answer``, and the request, of an inspected Kafka message.

    The result is None for other messages, such as ZooKeeper's.
    """
    if isinstance(note, PendingRequest):
        return "request", note
    return ("answer", note.request) if isinstance(note, Answer) else None


class _KafkaInspector(FrameInspector):
    """An inspector of Kafka's protocol. No message may overtake another message."""

    def __init__(self, connection: InspectedConnection) -> None:
        self._connection = connection

    def on_event(self, event: str, inspected: InspectedFrame, cause: str = "") -> None:
        """Report an event of a held message."""
        self._connection.on_event(event, inspected, cause)

    def catch(self, note: object) -> MessageInHand | None:
        """Return a held message if a rule applies to the inspected message; else None."""
        return self._connection.catch(note)


class RequestInspector(_KafkaInspector):
    """Inspects a node's requests in Kafka's protocol."""

    def __init__(self, connection: InspectedConnection) -> None:
        super().__init__(connection)
        self._count = 0
        self.pending: deque[PendingRequest] = deque()

    def read(self, frame: bytearray) -> object:
        """Decode a request. Store it until its response. If the sender is unknown, set it."""
        fetch, decided = None, []
        try:
            head = kafka_frames.header(frame)
            if not self._connection.of_client:
                if head.api == kafka_frames.FETCH:
                    fetch = kafka_frames.fetch(frame, head)
                decode = _DECISION_READERS.get(head.api)
                decided = [] if decode is None else decode(frame, head)
            if self._connection.source is None:
                self._name_source(head, frame)
            has_answer = kafka_frames.has_answer(frame, head)
        except (struct.error, IndexError, UnicodeDecodeError):
            return None
        self._count += 1
        request = PendingRequest(head, self._count, frame, fetch, decided)
        if has_answer:
            self.pending.append(request)
        return request

    def _name_source(self, head: Header, frame: bytearray) -> None:
        """Set the sender: the broker that the request names, otherwise a client."""
        users = self._connection.users
        source = None if users == "clients" else kafka_frames.sender(head, frame)
        if source is not None:
            self._connection.set_source(source)
        elif users != "nodes":
            self._connection.set_source(client_name(head.client))

    def expect(self, request: PendingRequest) -> PendingRequest:
        """Return a copy of another connection's request. Store it until its response arrives."""
        copy = replace(request, place=1)
        if kafka_frames.has_answer(request.frame, request.head):
            self.pending.append(copy)
        return copy

    def forget(self, note: object) -> None:
        """Expect no response to a request, because the request will not be sent."""
        if isinstance(note, PendingRequest) and note in self.pending:
            self.pending.remove(note)

    def refuse(self, inspected: InspectedFrame) -> bool:
        """Respond with an error instead of the broker. Return True, so that the request is dropped.

        The relay sends the response after the responses to earlier requests, because clients expect
        this order.
        """
        note, hand = inspected.note, inspected.hand
        if not isinstance(note, PendingRequest) or hand is None:
            return False
        error = hand.rule.error
        self._connection.on_event("refused", inspected, refusals.NAMES[error])
        if note.head.api in RECORDED:
            self._connection.on_request(note, has_answer=True)
        note.refusal = refusals.refusal(note.head, note.properties(), error)
        self._connection.answer_refused()
        return True

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds the request, because it may change leadership or an ISR."""
        if not isinstance(note, PendingRequest):
            return False
        api = note.head.api
        return any(
            (rule.what == "leadership" and api in kafka_frames.LEADERSHIP)
            or (rule.what == "isr" and api == kafka_frames.ALTER_PARTITION)
            for rule in rules
        )

    def on_passed(self, inspected: InspectedFrame) -> None:
        """Report the LEO in a follower's Fetch (its fetch offset), or new leaders and ISRs."""
        note, source = inspected.note, self._connection.source
        if not isinstance(note, PendingRequest) or source is None:
            return
        self._connection.on_message(inspected)
        if self._connection.of_client:
            if note.head.api in RECORDED:
                self._connection.on_request(note, has_answer=note in self.pending)
            return
        ends = source, self._connection.server
        if note.fetch is not None and not is_controller(ends[1]) and note.fetch.replica >= 0:
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


def _has_no_error(note: Answer, frame: bytearray) -> bool:
    head = note.request.head
    try:
        if head.api == kafka_frames.FETCH:
            partitions = kafka_frames.fetch_response(frame, head.version)
            return not any(partition.error for partition in partitions)
        return not any(partition.error for partition in answered(frame, head))
    except (struct.error, IndexError):
        return False


class AnswerInspector(_KafkaInspector):
    """Inspects responses in Kafka's protocol."""

    def __init__(self, connection: InspectedConnection, requests: RequestInspector) -> None:
        super().__init__(connection)
        self._pending = requests.pending

    def read(self, frame: bytearray) -> object:
        """Find the request of a response. Decode the response to a follower's Fetch."""
        request = None
        correlation = kafka_frames.correlation(frame) if len(frame) >= 8 else -1  # noqa: PLR2004 - length with the id
        for place, pending in enumerate(self._pending):
            if pending.head.correlation == correlation:
                request = pending
                for _ in range(place + 1):  # responses come in order: earlier requests get none
                    self._pending.popleft()
                break
        if request is None:  # the request could not be decoded
            return None
        if request.fetch is None or request.fetch.replica < 0:
            return Answer(request, [])
        try:
            return Answer(request, kafka_frames.fetch_response(frame, request.head.version))
        except (struct.error, IndexError):
            return Answer(request, [])

    def own_frame(self) -> bytearray | None:
        """Return the response to a refused request, if all earlier requests have a response."""
        return self._pending[0].refusal if self._pending else None

    def refuse(self, inspected: InspectedFrame) -> bool:
        """Replace a successful response by an error. Return False, so that it is forwarded."""
        note, hand = inspected.note, inspected.hand
        if isinstance(note, Answer) and hand is not None and _has_no_error(note, inspected.frame):
            head, error = note.request.head, hand.rule.error
            inspected.frame[:] = refusals.refusal(head, note.request.properties(), error)
            self._connection.on_event("refused", inspected, refusals.NAMES[error])
        return False

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds the response, because of its metadata or its high HW."""
        partitions = note.partitions if isinstance(note, Answer) else []
        for rule in rules:
            for partition in partitions:
                if self._concerns(rule, partition):
                    self._report(rule, partition)
                    return True
        return False

    def _concerns(self, rule: RelayRule, partition: FetchedPartition) -> bool:
        if is_controller(self._connection.server):
            of_metadata = partition.topic in _METADATA and partition.records_bytes > 0
            return rule.what == "leadership" and of_metadata
        if (
            rule.what != "hw"
            or partition.error
            or not rule.concerns(partition.topic, partition.partition)
        ):
            return False
        follower = self._connection.follower
        last = self._connection.last_hw.get((follower, partition.topic, partition.partition), 0)
        return partition.hw > (last if rule.above is None else rule.above)

    def _report(self, rule: RelayRule, partition: FetchedPartition) -> None:
        self._connection.note(
            "held",
            self._connection.server,
            self._connection.follower,
            topic=partition.topic,
            partition=partition.partition,
            hw=partition.hw,
            what=rule.what,
        )

    def on_passed(self, inspected: InspectedFrame) -> None:
        """Report the HW that a follower gets in this response."""
        connection, note = self._connection, inspected.note
        if not isinstance(note, Answer):
            return
        connection.on_message(inspected)
        if connection.of_client:
            if note.request.head.api in RECORDED:
                connection.on_answer(note.request, inspected.frame)
            return
        if is_controller(connection.server):
            return
        follower = connection.follower
        for partition in note.partitions:
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
    """Inspects requests to ZooKeeper. Only a write of a partition's state is relevant."""

    def read(self, frame: bytearray) -> object:
        """Return (topic, partition, data) of a write to a partition's znode, or "ping", or None."""
        kind = kafka_frames.zookeeper_kind(frame)
        if kind == kafka_frames.ZK_PING:
            return "ping"
        if kind == kafka_frames.ZK_SET_DATA:
            node = kafka_frames.isr_node(frame)
            if node is not None:
                return (*node, kafka_frames.isr_written(frame))
        return None

    def catch(self, note: object) -> None:
        """Return None: rules for single messages apply only to Kafka's messages."""
        del note

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether a rule holds the request, because it changes a partition's state."""
        return isinstance(note, tuple) and any(rule.what == "isr" for rule in rules)

    def may_overtake(self, note: object) -> bool:
        """Return True for pings. Without pings, ZooKeeper would end the session."""
        return note == "ping"

    def on_passed(self, inspected: InspectedFrame) -> None:
        """Report the ISR that the request writes."""
        note = inspected.note
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


class OpaqueInspector(FrameInspector):
    """Replaces the address at the start of an election connection between ZooKeepers.

    This protocol has no frames. Since 3.5 a ZooKeeper first sends its own address. A ZooKeeper with
    a greater id then connects to that address instead (``QuorumCnxManager.InitialMessage``), and
    would bypass the relay. So this class writes the relay's address, as a NAT router does.

    Args:
        alias: ``host:port`` at which the other ZooKeeper reaches the sender; empty if no address is
            replaced.
    """

    def __init__(self, alias: str = "") -> None:
        self._alias = alias.encode("ascii")

    def read(self, frame: bytearray) -> None:
        """Replace an address in the first bytes. Return None, because no rule needs the frame."""
        alias, self._alias = self._alias, b""
        if not alias or len(frame) < _GREETING.size:
            return
        version, server, size = _GREETING.unpack_from(frame)
        if version < 0 and 0 <= size <= len(frame) - _GREETING.size:
            rest = frame[_GREETING.size + size :]
            frame[:] = _GREETING.pack(version, server, len(alias)) + alias + rest

"""Decoders for the parts of Kafka's and ZooKeeper's protocols that the relay needs.

Of most requests, this module decodes only the header. It decodes Fetch requests, LeaderAndIsr and
AlterPartition completely, and Fetch responses up to the records. kafka-python has neither
LeaderAndIsr nor AlterPartition, and is too slow for every frame. Tests compare the other decoders
with kafka-python, version by version. ``request_properties`` decodes other requests, for rules for
single messages and for the request log of a program. The layouts come from Kafka's
``clients/src/main/resources/common/message/*.json``.
"""

import base64
import re
import struct
from typing import Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLED_SHUTDOWN: Final = 7
ALTER_PARTITION: Final = 56
LEADERSHIP: Final = frozenset((LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA))

ZK_SET_DATA: Final = 5
ZK_PING: Final = 11

_HEADER = struct.Struct(">hhi")
FLEXIBLE_FETCH: Final = 12
_TOPIC_IDS: Final = 13
_REPLICA_IS_TAGGED: Final = 15
_REPLICA_STATE: Final = 1
_BROKER_CLIENT = re.compile(
    r"(?:(?:raft|AddPartitionsManager|Persister)-client-|broker-|__remote_log_metadata_client_)?(\d+)"
    r"(?:-(?:fetcher|txn-marker).*|_(?:producer|consumer|admin))?"
)
_ISR_NODE = re.compile(rb"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_I16, _I32, _I64 = (struct.Struct(form) for form in (">h", ">i", ">q"))

Buffer = bytes | bytearray | memoryview


class Header(NamedTuple):
    """Header of a request. ``body`` is the position of the request's body in the frame."""

    api: int
    version: int
    correlation: int
    client: str
    body: int


class RequestedPartition(NamedTuple):
    """One partition in a Fetch. In a follower's Fetch, the offset is the follower's LEO."""

    topic: str
    partition: int
    offset: int
    epoch: int


class Fetch(NamedTuple):
    """A Fetch request. ``replica`` is the follower's id, or negative for a consumer."""

    replica: int
    partitions: list[RequestedPartition]


class FetchedPartition(NamedTuple):
    """One partition in the response to a Fetch."""

    topic: str
    partition: int
    error: int
    hw: int
    records_bytes: int


class LeadershipDecision(NamedTuple):
    """A partition in LeaderAndIsr or AlterPartition. Leader -1: the request has no leader."""

    topic: str
    partition: int
    leader: int
    epoch: int
    isr: list[int]


class Cursor:
    """Reads a message from its beginning to its end.

    Args:
        data: the frame.
        at: position at which to start.
        flexible: whether lengths are varints and tagged fields follow (KIP-482).
    """

    __slots__ = ("at", "data", "flexible")

    def __init__(self, data: Buffer, at: int, *, flexible: bool) -> None:
        self.data = data
        self.at = at
        self.flexible = flexible

    def number(self, form: struct.Struct) -> int:
        """Read a number with a fixed size."""
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def varint(self) -> int:
        """Read an unsigned number that has seven bits in each byte."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - this bit says that more bytes follow
                return value
            shift += 7

    def length(self, form: struct.Struct) -> int:
        """Read the length of an array, a string or bytes. Return 0 for null."""
        return max(0, self.varint() - 1 if self.flexible else self.number(form))

    def text(self) -> str:
        """Read a string."""
        size = self.length(_I16)
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8", "replace")

    def name(self) -> str | None:
        """Read a string, or None for null."""
        size = self.varint() - 1 if self.flexible else self.number(_I16)
        if size < 0:
            return None
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8", "replace")

    def ids(self) -> list[int]:
        """Read an array of broker ids."""
        return [self.number(_I32) for _ in range(self.length(_I32))]

    def topic(self, version: int, ids_since: int = 13) -> str:
        """Read a topic's name, or its id in Kafka's text form if this version has ids."""
        if version < ids_since:
            return self.text()
        self.at += 16
        return topic_id(bytes(self.data[self.at - 16 : self.at]))

    def tags(self) -> dict[int, int]:
        """Skip the tagged fields. Return tag -> position of the field's value."""
        positions = {}
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            positions[tag] = self.at
            self.at += size
        return positions


def topic_id(raw: bytes) -> str:
    """Return a topic id of 16 bytes in Kafka's text form."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def header(frame: Buffer) -> Header:
    """Decode the header of a request. The frame starts with its length.

    Raises:
        struct.error: the frame is not a request.
    """
    api, version, correlation = _HEADER.unpack_from(frame, 4)
    cursor = Cursor(frame, 4 + _HEADER.size, flexible=False)
    bare = (api, version) == (CONTROLLED_SHUTDOWN, 0)  # the only request without a client id
    return Header(api, version, correlation, "" if bare else cursor.text(), cursor.at)


def correlation(frame: Buffer) -> int:
    """Decode the correlation id of a response."""
    (value,) = _I32.unpack_from(frame, 4)
    return int(value)


def fetch(frame: Buffer, head: Header) -> Fetch:
    """Decode a Fetch request, v0 to v18.

    Raises:
        struct.error, IndexError: the frame is not a Fetch.
    """
    version = head.version
    cursor = Cursor(frame, head.body, flexible=version >= FLEXIBLE_FETCH)
    cursor.tags()
    replica = cursor.number(_I32) if version < _REPLICA_IS_TAGGED else -1
    # max wait, min bytes; max bytes; isolation; session's id and epoch
    cursor.at += 8 + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7)  # noqa: PLR2004
    partitions = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version)
        for _ in range(cursor.length(_I32)):
            partition = cursor.number(_I32)
            epoch = cursor.number(_I32) if version >= 9 else -1  # noqa: PLR2004 - KIP-320
            partitions.append(RequestedPartition(topic, partition, cursor.number(_I64), epoch))
            # last fetched epoch; log start offset; max bytes
            cursor.at += 4 * (version >= 12) + 8 * (version >= 5) + 4  # noqa: PLR2004
            cursor.tags()
        cursor.tags()
    if version >= _REPLICA_IS_TAGGED:
        _skip_forgotten(cursor, version)
        cursor.text()  # the rack
        state = cursor.tags().get(_REPLICA_STATE)
        replica = -1 if state is None else Cursor(frame, state, flexible=True).number(_I32)
    return Fetch(replica, partitions)


def _skip_forgotten(cursor: Cursor, version: int) -> None:
    for _ in range(cursor.length(_I32)):
        cursor.topic(version)
        count = cursor.length(_I32)
        cursor.at += 4 * count
        cursor.tags()


def fetch_response(frame: Buffer, version: int) -> list[FetchedPartition]:
    """Decode the response to a Fetch of this version. Skip the records.

    Raises:
        struct.error, IndexError: the frame is not such a response.
    """
    cursor = Cursor(frame, 8, flexible=version >= FLEXIBLE_FETCH)
    cursor.tags()
    # throttle time; error and session
    cursor.at += 4 * (version >= 1) + 6 * (version >= 7)  # noqa: PLR2004
    partitions = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version)
        partitions += [
            _fetched_partition(cursor, topic, version) for _ in range(cursor.length(_I32))
        ]
        cursor.tags()
    return partitions


def _fetched_partition(cursor: Cursor, topic: str, version: int) -> FetchedPartition:
    partition, error = cursor.number(_I32), cursor.number(_I16)
    hw = cursor.number(_I64)
    if version >= 4:  # noqa: PLR2004 - last stable offset; log start; aborted transactions
        cursor.at += 8 + 8 * (version >= 5)  # noqa: PLR2004
        for _ in range(cursor.length(_I32)):
            cursor.at += 16
            cursor.tags()
    cursor.at += 4 * (version >= 11)  # noqa: PLR2004 - preferred read replica
    size = cursor.length(_I32)
    cursor.at += size
    cursor.tags()
    return FetchedPartition(topic, partition, error, hw, size)


def leader_and_isr(frame: Buffer, head: Header) -> list[LeadershipDecision]:
    """Decode a LeaderAndIsr request, v0 to v7.

    Raises:
        struct.error, IndexError: the frame is not a LeaderAndIsr.
    """
    version = head.version
    cursor = Cursor(frame, head.body, flexible=version >= 4)  # noqa: PLR2004
    cursor.tags()
    # controller's id and kind and epoch; broker's epoch; type
    cursor.at += 8 + (version >= 7) + 8 * (version >= 2) + (version >= 5)  # noqa: PLR2004
    if version < 2:  # noqa: PLR2004 - partitions were not grouped by topic
        return [_leader(cursor, cursor.text(), version) for _ in range(cursor.length(_I32))]
    decisions = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.text()
        cursor.at += 16 * (version >= 5)  # noqa: PLR2004 - the topic's id
        decisions += [_leader(cursor, topic, version) for _ in range(cursor.length(_I32))]
        cursor.tags()
    return decisions


def _leader(cursor: Cursor, topic: str, version: int) -> LeadershipDecision:
    partition, _, leader, epoch = (cursor.number(_I32) for _ in range(4))
    isr = cursor.ids()
    cursor.at += 4  # the partition's epoch
    for _ in range(3 if version >= 3 else 1):  # noqa: PLR2004 - replicas; to add, to remove
        cursor.ids()
    cursor.at += (version >= 1) + (version >= 6)  # noqa: PLR2004 - is new; is recovering
    cursor.tags()
    return LeadershipDecision(topic, partition, leader, epoch, isr)


def alter_partition(frame: Buffer, head: Header) -> list[LeadershipDecision]:
    """Decode an AlterPartition (AlterIsr) request, v0 to v3.

    Raises:
        struct.error, IndexError: the frame is not an AlterPartition.
    """
    version = head.version
    cursor = Cursor(frame, head.body, flexible=True)
    cursor.tags()
    cursor.at += 12  # the leader's id and epoch as a broker
    decisions = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.text() if version < 2 else cursor.topic(_TOPIC_IDS)  # noqa: PLR2004
        for _ in range(cursor.length(_I32)):
            partition, epoch = cursor.number(_I32), cursor.number(_I32)
            isr = cursor.ids() if version < 3 else _with_epochs(cursor)  # noqa: PLR2004 - KIP-903
            cursor.at += 4 + (version >= 1)  # the partition's epoch; is recovering
            cursor.tags()
            decisions.append(LeadershipDecision(topic, partition, -1, epoch, isr))
        cursor.tags()
    return decisions


def _with_epochs(cursor: Cursor) -> list[int]:
    isr = []
    for _ in range(cursor.length(_I32)):
        isr.append(cursor.number(_I32))
        cursor.at += 8
        cursor.tags()
    return isr


def has_answer(frame: Buffer, head: Header) -> bool:
    """Return whether a broker responds to a request. Only a Produce with acks=0 has no response."""
    if head.api != PRODUCE:
        return True
    cursor = Cursor(frame, head.body, flexible=head.version >= 9)  # noqa: PLR2004
    cursor.tags()
    if head.version >= 3:  # noqa: PLR2004 - KIP-98
        cursor.name()
    return cursor.number(_I16) != 0


def sender(head: Header, frame: Buffer) -> int | None:
    """Return the id of the broker that sent a request; None for a client or an unknown sender.

    A broker's client id contains its node id: ``2`` (between broker and controller),
    ``broker-2-fetcher-0``, ``raft-client-2``, ``Persister-client-2`` (to a share coordinator). But
    up to 0.10.2, a fetcher's client id contains the leader's id (``ReplicaFetcherThread``). So for
    a Fetch, this function uses the request's replica id.
    """
    if head.api == FETCH:
        replica = fetch(frame, head).replica
        return replica if replica >= 0 else None
    match = _BROKER_CLIENT.fullmatch(head.client)
    return int(match[1]) if match else None


def zookeeper_kind(frame: Buffer) -> int:
    """Return the operation code of a ZooKeeper request. A connection's first request has none."""
    return int(_I32.unpack_from(frame, 8)[0]) if len(frame) >= 12 else 0  # noqa: PLR2004


def isr_node(frame: Buffer) -> tuple[str, int] | None:
    """Return (topic, partition) if a ZooKeeper write changes a partition's state, else None."""
    match = _ISR_NODE.match(frame, 16)
    return (match[1].decode(), int(match[2])) if match else None


def isr_written(frame: Buffer) -> bytes:
    """Return the data in a write to ZooKeeper: the bytes after the path.

    Raises:
        struct.error: the frame is not a write to ZooKeeper.
    """
    (path,) = _I32.unpack_from(frame, 12)
    (size,) = _I32.unpack_from(frame, 16 + path)
    return bytes(frame[20 + path : 20 + path + max(0, size)])

"""The properties of requests, and of the responses to a program. They are decoded only when needed.

Rules for single messages and the checkers of a program under test use these properties. The layouts
of the messages come from the sources that ``kafka_frames`` names.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from highwater.clusters.relay.kafka_frames import (
    ALTER_PARTITION,
    FETCH,
    FLEXIBLE_FETCH,
    LEADER_AND_ISR,
    PRODUCE,
    Buffer,
    Cursor,
    Header,
    alter_partition,
    fetch,
    leader_and_isr,
)

OFFSET_COMMIT: Final = 8
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28

_BATCH_MAGIC, _BATCH_PRODUCER, _BATCH_EPOCH, _BATCH_COUNT, _BATCH_V2 = 16, 43, 51, 57, 2
_NO_PRODUCER: Final = -1
_NEVER: Final = 1 << 15
TOPIC_IDS_SINCE: Final = {PRODUCE: 13, OFFSET_COMMIT: 10, TXN_OFFSET_COMMIT: 6}
"""The first version of each request with topic ids instead of names, by API key (KIP-516, KIP-848,
KIP-1319)."""

SINGLE_ERROR: Final = frozenset((INIT_PRODUCER_ID, ADD_OFFSETS_TO_TXN, END_TXN))
"""Requests whose response has one error and no partitions."""

_I8, _I16, _I32, _I64 = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))


class RecordBatch(NamedTuple):
    """The records for one partition in a Produce.

    Attributes:
        records: number of records; None in a record format before 0.11.
        begin: position in the frame at which the batch begins.
        end: position in the frame at which the batch ends.
    """

    records: int | None
    begin: int
    end: int


class Properties(NamedTuple):
    """The properties of a request. A rule for single messages can use the first four.

    Attributes:
        transactional_id: None if the request has no transactional id.
        producer_id: None if the request has no producer id.
        epoch: the producer epoch if the request has one, otherwise the leader epoch; None without
            both.
        partitions: topic (name or id) and number of each partition in the request.
        group: consumer group in an offset commit.
        instance: in an offset commit, the ``group.instance.id`` of a static member (KIP-345).
        offsets: in an offset commit, the offset to commit for each partition.
        batches: in a Produce, the record batch for each partition.
        acks: acks of a Produce; -1 means all.
        commits: whether an EndTxn commits the transaction.
    """

    transactional_id: str | None = None
    producer_id: int | None = None
    epoch: int | None = None
    partitions: tuple[tuple[str, int], ...] = ()
    group: str | None = None
    instance: str | None = None
    offsets: tuple[int, ...] = ()
    batches: tuple[RecordBatch, ...] = ()
    acks: int | None = None
    commits: bool | None = None


class AnsweredPartition(NamedTuple):
    """A partition in a response.

    ``offset`` is the first record's offset. Only the response to a Produce has this offset.
    """

    topic: str
    partition: int
    error: int
    offset: int | None = None


def properties(frame: Buffer, head: Header) -> Properties:
    """Decode the properties of a request. Return no properties for requests of other kinds.

    Raises:
        struct.error, IndexError: the frame is not such a request.
    """
    if head.api == FETCH:
        partitions = fetch(frame, head).partitions
        epochs = {partition.epoch for partition in partitions} - {-1}
        places = tuple((partition.topic, partition.partition) for partition in partitions)
        return Properties(epoch=max(epochs, default=None), partitions=places)
    if head.api in {ALTER_PARTITION, LEADER_AND_ISR}:
        decode = alter_partition if head.api == ALTER_PARTITION else leader_and_isr
        decided = decode(frame, head)
        places = tuple((decision.topic, decision.partition) for decision in decided)
        epoch = max((decision.epoch for decision in decided), default=None)
        return Properties(epoch=epoch, partitions=places)
    read = _READERS.get(head.api)
    if read is None:
        return Properties()
    decode_body, flexible_since = read
    cursor = Cursor(frame, head.body, flexible=head.version >= flexible_since)
    cursor.tags()
    return decode_body(cursor, head.version)


def _produce(cursor: Cursor, version: int) -> Properties:
    transactional_id = cursor.name() if version >= 3 else None  # noqa: PLR2004 - KIP-98
    acks = cursor.number(_I16)
    cursor.at += 4  # timeout
    places, batches, producer_id, epoch = [], [], None, None
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version)
        for _ in range(cursor.length(_I32)):
            places.append((topic, cursor.number(_I32)))
            size, records = cursor.length(_I32), None
            if size >= _BATCH_COUNT + 4 and cursor.data[cursor.at + _BATCH_MAGIC] == _BATCH_V2:
                (records,) = _I32.unpack_from(cursor.data, cursor.at + _BATCH_COUNT)
                (number,) = _I64.unpack_from(cursor.data, cursor.at + _BATCH_PRODUCER)
                if number != _NO_PRODUCER:
                    producer_id = int(number)
                    (epoch,) = _I16.unpack_from(cursor.data, cursor.at + _BATCH_EPOCH)
            batches.append(RecordBatch(records, cursor.at, cursor.at + size))
            cursor.at += size
            cursor.tags()
        cursor.tags()
    begins = Properties(transactional_id, producer_id, epoch, tuple(places))
    return begins._replace(batches=tuple(batches), acks=acks)


def _offset_commit(cursor: Cursor, version: int) -> Properties:
    group = cursor.name()
    if version >= 1:
        cursor.at += 4  # generation
        cursor.name()  # the member
    instance = cursor.name() if version >= 7 else None  # noqa: PLR2004 - KIP-345
    cursor.at += 8 * (2 <= version <= 4)  # noqa: PLR2004 - retention
    places, offsets = [], []
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version, TOPIC_IDS_SINCE[OFFSET_COMMIT])
        for _ in range(cursor.length(_I32)):
            places.append((topic, cursor.number(_I32)))
            offsets.append(cursor.number(_I64))
            # the leader's epoch; timestamp
            cursor.at += 4 * (version >= 6) + 8 * (version == 1)  # noqa: PLR2004
            cursor.name()  # metadata
            cursor.tags()
        cursor.tags()
    return Properties(
        partitions=tuple(places), group=group, instance=instance, offsets=tuple(offsets)
    )


def _init_producer_id(cursor: Cursor, version: int) -> Properties:
    transactional_id = cursor.name()
    cursor.at += 4  # timeout
    if version < 3:  # noqa: PLR2004 - KIP-360
        return Properties(transactional_id)
    return Properties(transactional_id, cursor.number(_I64), cursor.number(_I16))


def _of_transaction(cursor: Cursor, version: int) -> Properties:
    """Read the first fields of an EndTxn or AddOffsetsToTxn."""
    del version
    return Properties(cursor.name(), cursor.number(_I64), cursor.number(_I16))


def _end(cursor: Cursor, version: int) -> Properties:
    begins = _of_transaction(cursor, version)
    return begins._replace(commits=bool(cursor.number(_I8)))


def _add_partitions(cursor: Cursor, version: int) -> Properties:
    if version < 4:  # noqa: PLR2004 - from v4 on for many transactions (KIP-890)
        begins = _of_transaction(cursor, version)
        return begins._replace(partitions=_numbers(cursor))
    first = Properties()
    places: list[tuple[str, int]] = []
    for index in range(cursor.length(_I32)):
        begins = _of_transaction(cursor, version)
        first = begins if index == 0 else first
        cursor.at += 1  # verify only
        places += _numbers(cursor)
        cursor.tags()
    return first._replace(partitions=tuple(places))


def _numbers(cursor: Cursor) -> tuple[tuple[str, int], ...]:
    """Read an array of topics and their partitions. Return (topic, partition) pairs."""
    places = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.text()
        places += [(topic, partition) for partition in cursor.ids()]
        cursor.tags()
    return tuple(places)


def _txn_offset_commit(cursor: Cursor, version: int) -> Properties:
    transactional_id = cursor.name()
    group = cursor.name()
    producer_id, epoch = cursor.number(_I64), cursor.number(_I16)
    instance = None
    if version >= 3:  # noqa: PLR2004 - KIP-447
        cursor.at += 4  # generation
        cursor.name()  # the member
        instance = cursor.name()
    places, offsets = [], []
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version, TOPIC_IDS_SINCE[TXN_OFFSET_COMMIT])
        for _ in range(cursor.length(_I32)):
            places.append((topic, cursor.number(_I32)))
            offsets.append(cursor.number(_I64))
            cursor.at += 4 * (version >= 2)  # noqa: PLR2004 - the leader's epoch
            cursor.name()  # metadata
            cursor.tags()
        cursor.tags()
    begins = Properties(transactional_id, producer_id, epoch, tuple(places))
    return begins._replace(group=group, instance=instance, offsets=tuple(offsets))


def _markers(cursor: Cursor, version: int) -> Properties:
    producer_id = epoch = None
    places: list[tuple[str, int]] = []
    for _ in range(cursor.length(_I32)):
        producer_id, epoch = cursor.number(_I64), cursor.number(_I16)
        cursor.at += 1  # commit or abort
        places += _numbers(cursor)
        cursor.at += 4 + (version >= 2)  # noqa: PLR2004 - the coordinator's epoch; KIP-1228
        cursor.tags()
    return Properties(None, producer_id, epoch, tuple(places))


_READERS: Final[dict[int, tuple[Callable[[Cursor, int], Properties], int]]] = {
    PRODUCE: (_produce, 9),
    OFFSET_COMMIT: (_offset_commit, 8),
    INIT_PRODUCER_ID: (_init_producer_id, 2),
    ADD_PARTITIONS_TO_TXN: (_add_partitions, 3),
    ADD_OFFSETS_TO_TXN: (_of_transaction, 3),
    END_TXN: (_end, 3),
    WRITE_TXN_MARKERS: (_markers, 1),
    TXN_OFFSET_COMMIT: (_txn_offset_commit, 3),
}
"""The reader of each request's body, and the first flexible version of the request (KIP-482)."""


def flexible_since(api: int) -> int:
    """Return the first flexible version (KIP-482) of Fetch, or of a request in ``_READERS``."""
    return FLEXIBLE_FETCH if api == FETCH else _READERS[api][1]


def answered(frame: Buffer, head: Header) -> list[AnsweredPartition]:
    """Decode the response to a Produce, an offset commit or a request in ``SINGLE_ERROR``.

    For AddPartitionsToTxn, only responses to clients (up to version 3) can be decoded.

    Raises:
        struct.error, IndexError: the frame is not such a response.
    """
    version = head.version
    cursor = Cursor(frame, 8, flexible=version >= flexible_since(head.api))
    cursor.tags()
    if head.api != PRODUCE:
        cursor.at += 4 * (head.api != OFFSET_COMMIT or version >= 3)  # noqa: PLR2004 - throttle time
    if head.api in SINGLE_ERROR:
        return [AnsweredPartition("", 0, cursor.number(_I16))]
    ids_since = TOPIC_IDS_SINCE.get(head.api, _NEVER)
    partitions = []
    for _ in range(cursor.length(_I32)):
        topic = cursor.topic(version, ids_since)
        for _ in range(cursor.length(_I32)):
            partition, error = cursor.number(_I32), cursor.number(_I16)
            offset = _appended(cursor, version) if head.api == PRODUCE else None
            cursor.tags()
            partitions.append(AnsweredPartition(topic, partition, error, offset))
        cursor.tags()
    return partitions


def _appended(cursor: Cursor, version: int) -> int:
    """Read the other fields of a partition in a Produce response; return the first offset."""
    offset = cursor.number(_I64)
    # the time of the append; the log's first offset
    cursor.at += 8 * (version >= 2) + 8 * (version >= 5)  # noqa: PLR2004
    if version >= 8:  # noqa: PLR2004 - KIP-467
        for _ in range(cursor.length(_I32)):
            cursor.at += 4
            cursor.name()
            cursor.tags()
        cursor.name()
    return offset

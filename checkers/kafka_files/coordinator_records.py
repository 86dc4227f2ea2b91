"""Decode the records of ``__transaction_state`` and ``__share_group_state``.

``__transaction_state`` has ``TransactionLogKey`` and ``TransactionLogValue``, in version 0 and in
version 1 (with flexible fields). ``__share_group_state`` has ``ShareSnapshot…`` and
``ShareUpdate…`` (KIP-932); the version of a key names the kind of record. A later version may only
add tagged fields (KIP-915).
"""

import struct
from collections.abc import Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiokafka.protocol.types import (
    Array,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

Row = dict[str, Any]
Place = tuple[str, int]

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    *("Dead", "PrepareEpochFence"),
)
"""The names of the values of Kafka's TransactionState, in the order of their numbers."""

_EPOCH_RAISED_SINCE: Final = 2
"""The first transaction version in which each transaction has its own producer epoch (KIP-890)."""

_CLIENT_VERSION: Final = 2
"""The number of the tagged field ``ClientTransactionVersion`` in TransactionLogValue."""

_SHORT: Final = struct.Struct(">h")


class _Uuid:
    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_TRANSACTION_KEY: Final = Schema(("version", Int16), ("name", String()))
_IDENTITY: Final = (
    *(("version", Int16), ("producer_id", Int64), ("epoch", Int16)),
    *(("timeout_ms", Int32), ("status", Int8)),
)
_TIMES: Final = (("updated_ms", Int64), ("started_ms", Int64))
_TRANSACTION: Final[Mapping[int, Schema]] = MappingProxyType(
    {
        0: Schema(
            *_IDENTITY,
            ("partitions", Array(("topic", String()), ("numbers", Array(Int32)))),
            *_TIMES,
        ),
        1: Schema(
            *_IDENTITY,
            (
                "partitions",
                CompactArray(
                    ("topic", CompactString()),
                    ("numbers", CompactArray(Int32)),
                    ("tags", TaggedFields),
                ),
            ),
            *_TIMES,
            ("tags", TaggedFields),
        ),
    }
)
_SHARE_KEY: Final = Schema(
    ("version", Int16), ("group", String()), ("topic_id", _Uuid), ("partition", Int32)
)
_BATCHES: Final = CompactArray(
    *(("first", Int64), ("last", Int64), ("state", Int8), ("deliveries", Int16)),
    ("tags", TaggedFields),
)
_NUMBERS: Final = (("version", Int16), ("snapshot_epoch", Int32))
_SNAPSHOT: Final = Schema(
    *_NUMBERS,
    *(("state_epoch", Int32), ("leader_epoch", Int32), ("start", Int64)),
    *(("created_ms", Int64), ("written_ms", Int64), ("batches", _BATCHES)),
)
_UPDATE: Final = Schema(*_NUMBERS, ("leader_epoch", Int32), ("start", Int64), ("batches", _BATCHES))


class TransactionRecord(NamedTuple):
    """A state of a transactional id.

    Attributes:
        at, at_ms: the record's offset in ``__transaction_state``, and its timestamp in ms since
            1970.
        place: the transactional id, and the partition of ``__transaction_state``.
        status: the number of the TransactionState. None means that the record removes the id; then
            the next fields have no meaning.
        partitions: the topics and partitions of the transaction.
        data_epoch: the producer epoch of the transaction's records, if this is a Prepare state.
    """

    at: int
    at_ms: int
    place: Place
    status: int | None
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = 0
    partitions: frozenset[Place] = frozenset()
    data_epoch: int = -1

    @property
    def name(self) -> str:
        """The transactional id."""
        return self.place[0]

    @property
    def state(self) -> str:
        """The state's name."""
        return "removed" if self.status is None else STATES[self.status]


class ShareRecord(NamedTuple):
    """A record about a partition of a share group.

    Attributes:
        at: the record's offset in ``__share_group_state``.
        place: the share group and the partition.
        whole: true if the record has the complete state; false if the record changes the previous
            state.
        removes: true if the record removes the state.
        state_epoch: the state epoch; -1 if the record does not have the complete state.
        leader_epoch, start: the partition's leader epoch and start offset; -1 if the record does
            not change them.
        batches: first offset, last offset, DeliveryState and delivery count of each batch.
    """

    at: int
    place: Place
    topic_id: bytes
    whole: bool
    removes: bool
    snapshot_epoch: int = -1
    state_epoch: int = -1
    leader_epoch: int = -1
    start: int = -1
    batches: tuple[tuple[int, int, int, int], ...] = ()


def transaction_record(row: Row) -> TransactionRecord | None:
    """Return the state in a row of ``__transaction_state``; None if the row has no state."""
    try:
        version, name = _TRANSACTION_KEY.decode(BytesIO(row["key"] or b""))
        place, at, at_ms = (str(name), 0), row["offset"], row["timestamp_ms"]
        if row["control"] or version:
            return None
        if row["value"] is None:
            return TransactionRecord(at, at_ms, place, status=None)
        schema = _TRANSACTION[min(_version(row["value"]), max(_TRANSACTION))]
        fields = dict(zip(schema.names, schema.decode(BytesIO(row["value"])), strict=True))
        client = fields.get("tags", {}).get(_CLIENT_VERSION)
        raised = client is not None and _version(client) >= _EPOCH_RAISED_SINCE
        return TransactionRecord(
            *(at, at_ms, place, fields["status"]),
            *(fields["producer_id"], fields["epoch"], fields["timeout_ms"]),
            partitions=frozenset(
                (str(topic), number)
                for topic, numbers, *_ in fields["partitions"] or ()
                for number in numbers or ()
            ),
            data_epoch=fields["epoch"] - raised,
        )
    except (ValueError, struct.error, KeyError):
        return None


def share_record(row: Row) -> ShareRecord | None:
    """Return the record about a partition in a row of ``__share_group_state``; else None."""
    try:
        version, group, topic_id, partition = _SHARE_KEY.decode(BytesIO(row["key"] or b""))
        if row["control"] or version not in {0, 1}:
            return None
        at, place, whole = row["offset"], (str(group), partition), version == 0
        if row["value"] is None:
            return ShareRecord(at, place, topic_id, whole, removes=True)
        schema = _SNAPSHOT if whole else _UPDATE
        fields = dict(zip(schema.names, schema.decode(BytesIO(row["value"])), strict=True))
        return ShareRecord(
            *(at, place, topic_id, whole),
            removes=False,
            snapshot_epoch=fields["snapshot_epoch"],
            state_epoch=fields.get("state_epoch", -1),
            leader_epoch=fields["leader_epoch"],
            start=fields["start"],
            batches=tuple(batch[:4] for batch in fields["batches"] or ()),
        )
    except (ValueError, struct.error):
        return None


def _version(value: bytes) -> int:
    return int(_SHORT.unpack_from(value)[0])

"""One row a record, of all that anybody said of it: compiled sums over rows grouped by record.

The scan of a history deals its rows out to *buckets* by their record, and each bucket is summed up
by itself. Most records are as they should be; of those nothing is left but the sums of their slot.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import (
    ADRIFT,
    PEEK,
    READ_BY_ANY,
    READ_OK,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
)
from checkers.clients.numbers import NONE, Numbers

PIECE: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("key", "slot", "deed", "offset")),
        *((name, pa.int64()) for name in ("invoke_ns", "complete_ns")),
        ("fact", pa.int32()),
        ("final", pa.bool_()),
        ("fence", pa.bool_()),
    ]
)
"""What a bucket has of a row; ``NONE`` stands for null."""

RECORD: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("key", "slot", "history")),
        ("facts", pa.int32()),
        *((name, pa.int64()) for name in ("first", "last", "writer", "begun", "ended")),
        *((name, pa.int64()) for name in ("told", "met_first", "met_last", "met_by")),
        ("fence", pa.bool_()),
        ("doubts", pa.int32()),
    ]
)

DOUBTS: Final = (
    *("maybe", "twice", "aborted", "phantom", "own", "foreseen", "unread", "stray"),
    *("adrift", "peeked", "missing", "again"),
)
"""What may be wrong with a record, or makes it hard to judge: bits of ``doubts``, in this order.

``missing``: acknowledged, and not in the final read. ``again``: sent, and there at several offsets.
"""

OF_FINAL_READS: Final = ("missing", "again")

BOOKS: Final = ("sent", "acknowledged", "failed", "unknown", "read")
SUMS: Final = ("known", *DOUBTS, *BOOKS)
SLOT: Final = pa.schema(
    [
        ("slot", pa.int64()),
        ("bound", pa.int64()),
        ("reach", pa.int64()),
        ("complete", pa.bool_()),
        ("rows", pa.int64()),
        *((name, pa.int64()) for name in SUMS),
    ]
)
"""Sums of a slot. ``bound``: how far readers came; ``reach`` the final one, which has read its
``fence`` if the slot is ``complete``; ``rows`` were summed up. The fence is in no books."""

_MOST: Final = np.iinfo(np.int64).max
_Bools = NDArray[np.bool_]


def doubt(*names: str) -> Column:
    """Whether there is one of these doubts about a row of records."""
    return F.col("doubts").bitwiseAND(F.lit(bits(*names))) != 0


def bits(*names: str) -> int:
    """The bits of some doubts."""
    return sum(1 << DOUBTS.index(name) for name in names)


def records(rows: Numbers, histories: tuple[NDArray[Any], NDArray[Any]]) -> Numbers:
    """Rows of ``PIECE`` as rows of ``RECORD``, and what only ``slots`` asks for.

    Args:
        rows: at least one, in any order; all rows of their records.
        histories: slots in order, and the history of each.
    """
    order = np.argsort(rows["key"])
    rows = {name: column[order] for name, column in rows.items()}
    key = rows["key"]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    fact, offset, final = rows["fact"], rows["offset"], rows["final"]
    sent, seen_by_any = _any(fact, SENT), _any(fact, READ_BY_ANY)
    placed = ~_any(fact, SENT_FAIL) & (offset != NONE)
    met = final & _any(fact, SEEN_OK) & (offset != NONE)
    answered = rows["complete_ns"] != NONE
    writer = _most(first, rows["deed"], sent)
    other = _least(first, rows["deed"], sent)
    size = np.diff(np.append(first, len(key)))
    met_by = np.repeat(writer, size) == rows["deed"]
    record = {
        "rows": size,
        "key": key[first],
        "slot": rows["slot"][first],
        "facts": np.bitwise_or.reduceat(fact, first),
        "first": _least(first, offset, placed),
        "last": _most(first, offset, placed),
        "writer": writer,
        "begun": _least(first, rows["invoke_ns"], sent),
        "ended": _most(first, rows["complete_ns"], _any(fact, SENT_OK) & answered),
        "told": _most(first, offset, sent & (offset != NONE)),
        "met_first": _least(first, offset, met),
        "met_last": _most(first, offset, met),
        "met_by": _least(first, rows["complete_ns"], seen_by_any & answered),
        "fence": np.logical_or.reduceat(rows["fence"] & sent, first),
        "own": np.logical_or.reduceat(met_by & seen_by_any, first) | (writer != other),
    }
    at = np.searchsorted(histories[0], record["slot"])
    record["history"] = histories[1][at]
    doubts = _doubts(record)
    all_doubts = np.zeros(len(first), np.int32)
    for place, name in enumerate(DOUBTS):
        all_doubts |= doubts[name].astype(np.int32) << np.int32(place)
    return record | {"doubts": all_doubts}


def _doubts(record: Numbers) -> dict[str, _Bools]:
    facts, told = record["facts"], record["first"] != NONE
    sent, sure = _any(facts, SENT), _any(facts, SENT_OK | READ_BY_ANY)
    maybe = _any(facts, SENT_OK | SENT_INFO)
    acknowledged = _any(facts, SENT_OK) & ~record["fence"]
    met_by, begun = record["met_by"], record["begun"]
    return {
        "maybe": ~sure & _any(facts, SENT_INFO) & told,
        "twice": record["first"] != record["last"],
        "aborted": _any(facts, SENT_FAIL) & ~maybe & _any(facts, READ_OK),
        "phantom": ~sent,
        "own": sent & _any(facts, READ_BY_ANY) & record["own"],
        "foreseen": (met_by != NONE) & (begun != NONE) & (met_by < begun),
        "unread": maybe & ~_any(facts, SEEN_OK),
        "stray": _any(facts, STRAY),
        "adrift": _any(facts, ADRIFT),
        "peeked": _any(facts, PEEK) & ~_any(facts, READ_BY_ANY),
        "missing": acknowledged & (record["met_first"] == NONE),
        "again": sent & (record["met_first"] != record["met_last"]),
    }


def slots(record: Numbers) -> pa.Table:
    """Records summed up, in ``SLOT``, a row a slot."""
    slot, place = np.unique(record["slot"], return_inverse=True)
    facts, fence = record["facts"], record["fence"]
    sent, met = _any(facts, SENT) & ~fence, record["met_first"] != NONE
    acknowledged = sent & _any(facts, SENT_OK)
    sums = {
        "known": _any(facts, SENT_OK | READ_BY_ANY) & (record["first"] != NONE),
        "sent": sent,
        "acknowledged": acknowledged,
        "failed": sent & _any(facts, SENT_FAIL),
        "unknown": sent & _any(facts, SENT_INFO),
        "read": acknowledged & met,
    } | {name: (record["doubts"] >> bit) & 1 != 0 for bit, name in enumerate(DOUBTS)}
    columns: dict[str, Any] = {"slot": slot}
    for name, true in sums.items():
        columns[name] = np.bincount(place[true], minlength=len(slot))
    for name, column, asked in (
        ("bound", "first", _any(facts, SEEN_OK)),
        ("reach", "met_last", met),
    ):
        most = np.full(len(slot), NONE)
        np.maximum.at(most, place[asked], record[column][asked])
        columns[name] = pa.array(most, mask=most == NONE)
    columns["rows"] = np.bincount(place, record["rows"], len(slot)).astype(np.int64)
    columns["complete"] = np.bincount(place[fence & met], minlength=len(slot)) > 0
    return pa.table([pa.array(columns[name]) for name in SLOT.names], names=SLOT.names).cast(SLOT)


def table(record: Numbers, asked: _Bools) -> pa.Table:
    """Some of the records, in ``RECORD``."""
    columns = [record[name][asked] for name in RECORD.names]
    arrays = [
        pa.array(column, mask=column == NONE if column.dtype == np.int64 else None)
        for column in columns
    ]
    return pa.table(arrays, schema=RECORD)


def joined(pieces: Sequence[pa.Table]) -> Numbers:
    """Pieces of a bucket as columns of numbers."""
    whole = pa.concat_tables(pieces)
    return {name: whole[name].to_numpy() for name in PIECE.names}


def _any(facts: NDArray[Any], some: int) -> _Bools:
    found: _Bools = (facts & np.int32(some)) != 0
    return found


def _least(first: NDArray[Any], column: NDArray[Any], asked: _Bools) -> NDArray[Any]:
    """The least number of each record among the rows asked for; NONE where there are none."""
    least: NDArray[Any] = np.minimum.reduceat(np.where(asked, column, _MOST), first)
    least[least == _MOST] = NONE
    return least


def _most(first: NDArray[Any], column: NDArray[Any], asked: _Bools) -> NDArray[Any]:
    most: NDArray[Any] = np.maximum.reduceat(np.where(asked, column, NONE), first)
    return most

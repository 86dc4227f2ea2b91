"""Kernels that sum up all rows of each record.

Most records are right; of these only the sums of their slot remain. All rows of the others are
kept, so that the history is not read again for them.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Ints,
    Numbers,
    any_of,
    greatest,
    groups,
    least,
    nullable,
    numbers,
    sizes,
)
from highwater.checkers.history.row_flags import (
    ADRIFT,
    IN_FINAL,
    OF_FENCE,
    PEEK,
    PROOF,
    READ_BY_ANY,
    READ_OK,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
)
from highwater.checkers.history.rows import ROW

DOUBTS: Final = (
    *("maybe", "twice", "aborted", "phantom", "own", "foreseen", "unread", "stray"),
    *("adrift", "peeked", "missing", "again"),
)
"""Reasons to doubt a record: bits of ``doubts``, in this order.

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
``fence`` if the slot is ``complete``; ``rows`` were summed up. The fence is in no ledger."""

DOUBTFUL: Final = pa.schema([*ROW, ("facts", pa.int32()), ("doubts", pa.int32())])
"""A row of a record in doubt, with the facts of all rows of that record, and the doubts."""

TALLY: Final = pa.schema([*DOUBTFUL, ("sums", pa.struct(list(SLOT)))])
"""Rows of ``DOUBTFUL``, and rows where only ``sums`` is not null: some of the sums of a slot."""

RECORD: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("key", "slot")),
        ("facts", pa.int32()),
        *((name, pa.int64()) for name in ("first", "last", "writer", "begun", "ended")),
    ]
)
"""One row a record. ``first`` and ``last`` are the least and greatest offset that a client named
for it, failed sends apart; ``writer`` is the ``deed`` that sent it, the greatest of several,
between ``begun`` and ``ended`` (null: it is not known to have succeeded)."""


def bits(*names: str) -> int:
    """Return the bits of some doubts."""
    return sum(1 << DOUBTS.index(name) for name in names)


def tally(rows: pa.Table, *, doubts: int) -> pa.Table:
    """Rows of ``ROW`` as rows of ``TALLY``: those in doubt, and sums. A kernel by ``key``.

    Args:
        rows: that tell of records.
        doubts: those whose records' rows are given on.
    """
    ordered, first, record = _summed(rows)
    in_doubt = np.repeat((record["doubts"] & np.int32(doubts)) != 0, record["rows"])
    row = np.flatnonzero(in_doubt)
    doubtful = {name: ordered[name][row] for name in ROW.names}
    record_of = np.repeat(np.arange(len(first)), record["rows"])[row]
    facts = record["facts"][record_of]
    proof = any_of(facts, SENT_INFO) & any_of(facts, READ_OK) & any_of(doubtful["fact"], SENT)
    proof &= record["writer"][record_of] == doubtful["deed"]
    doubtful["fact"] = doubtful["fact"] | np.where(proof, PROOF, 0).astype(np.int32)
    doubtful |= {"facts": facts, "doubts": record["doubts"][record_of]}
    sums = _slots(record)
    columns = [_arrow(doubtful[field.name]) for field in DOUBTFUL]
    doubtful_rows = pa.table([*columns, pa.nulls(len(row), TALLY.field("sums").type)], schema=TALLY)
    none = [pa.nulls(len(sums), field.type) for field in DOUBTFUL]
    return pa.concat_tables(
        [doubtful_rows, pa.table([*none, sums.to_struct_array()], schema=TALLY)]
    )


def records(rows: pa.Table) -> pa.Table:
    """Rows of ``ROW`` as rows of ``RECORD``, one a record. A kernel by ``key``."""
    _, _, record = _summed(rows)
    return pa.table([_arrow(record[name]) for name in RECORD.names], schema=RECORD)


def summed(sums: pa.Table) -> pa.Table:
    """Rows of ``SLOT``, several for a slot, as one a slot."""
    how = {"bound": "max", "reach": "max", "complete": "any"}
    aggregations = [(name, how.get(name, "sum")) for name in SLOT.names[1:]]
    grouped = sums.group_by("slot").aggregate(aggregations)
    return grouped.rename_columns(["slot", *SLOT.names[1:]]).cast(SLOT)


def _summed(rows: pa.Table) -> tuple[Numbers, Ints, Numbers]:
    """Return rows in the order of their records, where each record begins, and its flags."""
    columns = numbers(rows, ROW.names)
    order = np.argsort(columns["key"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    key, fact, offset = columns["key"], columns["fact"], columns["offset"]
    first = groups(key)
    sent, seen_by_any = any_of(fact, SENT), any_of(fact, READ_BY_ANY)
    placed = ~any_of(fact, SENT_FAIL) & (offset != NONE)
    read_back = any_of(fact, IN_FINAL) & any_of(fact, SEEN_OK) & (offset != NONE)
    answered = columns["complete_ns"] != NONE
    writer = greatest(first, columns["deed"], sent)
    size = sizes(first, len(key))
    met_by = np.repeat(writer, size) == columns["deed"]
    record = {
        "rows": size,
        "key": key[first],
        "slot": columns["slot"][first],
        "facts": np.bitwise_or.reduceat(fact, first),
        "first": least(first, offset, placed),
        "last": greatest(first, offset, placed),
        "writer": writer,
        "begun": least(first, columns["invoke_ns"], sent),
        "ended": greatest(first, columns["complete_ns"], any_of(fact, SENT_OK) & answered),
        "met_first": least(first, offset, read_back),
        "met_last": greatest(first, offset, read_back),
        "met_by": least(first, columns["complete_ns"], seen_by_any & answered),
        "fence": np.logical_or.reduceat(any_of(fact, OF_FENCE) & sent, first),
        "own": np.logical_or.reduceat(met_by & seen_by_any, first)
        | (writer != least(first, columns["deed"], sent)),
    }
    doubts = _doubts(record)
    all_doubts = np.zeros(len(first), np.int32)
    for place, name in enumerate(DOUBTS):
        all_doubts |= doubts[name].astype(np.int32) << np.int32(place)
    return columns, first, record | {"doubts": all_doubts}


def _doubts(record: Numbers) -> dict[str, Bools]:
    facts, has_first = record["facts"], record["first"] != NONE
    sent, sure = any_of(facts, SENT), any_of(facts, SENT_OK | READ_BY_ANY)
    maybe = any_of(facts, SENT_OK | SENT_INFO)
    acknowledged = any_of(facts, SENT_OK) & ~record["fence"]
    met_by, begun = record["met_by"], record["begun"]
    return {
        "maybe": ~sure & any_of(facts, SENT_INFO) & has_first,
        "twice": record["first"] != record["last"],
        "aborted": any_of(facts, SENT_FAIL) & ~maybe & any_of(facts, READ_OK),
        "phantom": ~sent,
        "own": sent & any_of(facts, READ_BY_ANY) & record["own"],
        "foreseen": (met_by != NONE) & (begun != NONE) & (met_by < begun),
        "unread": maybe & ~any_of(facts, SEEN_OK),
        "stray": any_of(facts, STRAY),
        "adrift": any_of(facts, ADRIFT),
        "peeked": any_of(facts, PEEK) & ~any_of(facts, READ_BY_ANY),
        "missing": acknowledged & (record["met_first"] == NONE),
        "again": sent & (record["met_first"] != record["met_last"]),
    }


def _slots(record: Numbers) -> pa.Table:
    """Return records summed up, in ``SLOT``, a row a slot."""
    slot, place = np.unique(record["slot"], return_inverse=True)
    facts, fence = record["facts"], record["fence"]
    sent, read_back = any_of(facts, SENT) & ~fence, record["met_first"] != NONE
    acknowledged = sent & any_of(facts, SENT_OK)
    sums = {
        "known": any_of(facts, SENT_OK | READ_BY_ANY) & (record["first"] != NONE),
        "sent": sent,
        "acknowledged": acknowledged,
        "failed": sent & any_of(facts, SENT_FAIL),
        "unknown": sent & any_of(facts, SENT_INFO),
        "read": acknowledged & read_back,
    } | {name: (record["doubts"] >> bit) & 1 != 0 for bit, name in enumerate(DOUBTS)}
    columns: dict[str, Any] = {"slot": slot}
    for name, true in sums.items():
        columns[name] = np.bincount(place[true], minlength=len(slot))
    for name, column, condition in (
        ("bound", "first", any_of(facts, SEEN_OK)),
        ("reach", "met_last", read_back),
    ):
        most = np.full(len(slot), NONE)
        np.maximum.at(most, place[condition], record[column][condition])
        columns[name] = nullable(most)
    columns["rows"] = np.bincount(place, record["rows"], len(slot)).astype(np.int64)
    columns["complete"] = np.bincount(place[fence & read_back], minlength=len(slot)) > 0
    return pa.table([pa.array(columns[name]) for name in SLOT.names], names=SLOT.names).cast(SLOT)


def _arrow(column: Any) -> pa.Array:  # noqa: ANN401 - an array of any type
    return nullable(column) if column.dtype == np.int64 else pa.array(column)

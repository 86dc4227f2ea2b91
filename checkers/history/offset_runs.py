"""Rows in order, reduced to offset runs: a billion records in order are a few thousand rows.

An *offset run* is a range of one client's rows in one slot in which nothing can be wrong: a
reader's offsets rise by one from row to row; a producer's rise from operation to operation, and by
one within an operation. So every step out of order lies between two offset runs, and no row inside
one is read again. Rows are reduced as they come from the file, before any shuffle.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.checkers.history.columns import NONE, Numbers, numbers
from highwater.checkers.history.row_flags import (
    ADRIFT,
    BLIND,
    ENDED,
    EVERYWHERE,
    MOVES,
    PEEK,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_OK,
)

SLOT_TOLD: Final = 0
READS: Final = 1
SENDS: Final = 2
COUNTED: Final = 3
SINGLE: Final = 4
ROW_ALONE: Final = 5
"""``what`` a row is: a range of offsets that sends acknowledge, an offset run of a reader, or one
of a producer. COUNTED is no offset run: it counts the rows of a client and slot (``place``), those
of records among them (``last_place``), and joins their flags (``op``, bits of
``checkers.history.row_flags``). SINGLE and ROW_ALONE are offset runs of one row, which
``checkers.history.steps`` makes. A row of the history that moved a reader, or tells where a log
ended, is kept as it is, with the bits of its fact, all greater than these."""

OFFSET_RUN: Final = pa.schema(
    [
        ("what", pa.int32()),
        ("client", pa.int64()),
        ("slot", pa.int64()),
        ("sent", pa.bool_()),  # an offset run of a producer; null if it is no offset run
        ("ok", pa.bool_()),  # its operations ended well; those of longer runs always did
        ("sure", pa.bool_()),  # the record read was committed
        ("op", pa.int64()),
        ("at", pa.int64()),
        ("place", pa.int64()),  # the first row's offset
        ("last_op", pa.int64()),
        ("last_at", pa.int64()),
        ("last_place", pa.int64()),
    ]
)

INPUT: Final = ("client", "slot", "op", "at", "offset", "fact")
"""The columns of ``checkers.history.rows.ROW`` that ``offset_runs`` reads."""


def offset_runs(rows: pa.Table) -> pa.Table:
    """Return the offset runs of rows, in ``OFFSET_RUN``; a kernel over any range of rows."""
    columns = numbers(rows, INPUT)
    fact = columns["fact"]
    columns["pair"], columns["place"] = _told_apart(columns)
    parts = [_counted(columns)]
    moves = (fact & (MOVES | ENDED)) != 0
    if moves.any():
        parts.append(_moves(_chosen(columns, moves)))
    located = ((fact & (SENT_OK | SEEN)) != 0) & ((fact & (BLIND | ADRIFT)) == 0)
    located &= columns["offset"] != NONE
    sent = located & ((fact & SENT_OK) != 0)
    if sent.any():
        sends = _chosen(columns, sent)
        parts += [_slots_told(sends), _offset_runs(sends, SENDS)]
    seen = located & ~sent
    if seen.any():
        parts.append(_offset_runs(_chosen(columns, seen), READS))
    return pa.Table.from_batches(parts, OFFSET_RUN)


def _chosen(columns: Numbers, chosen: NDArray[np.bool_]) -> Numbers:
    return {name: column[chosen] for name, column in columns.items()}


def _told_apart(columns: Numbers) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return small numbers for the client and slot of each row, and for its slot."""
    clients, client = _codes(columns["client"])
    slots, slot = _codes(columns["slot"])
    small = np.int16 if len(clients) * len(slots) <= np.iinfo(np.int16).max else np.int64
    return (client * len(slots) + slot).astype(small), slot.astype(small)


def _codes(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    encoded = pa.array(column).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


def _counted(rows: Numbers) -> pa.RecordBatch:
    """Return the number of rows of each client and slot, and their flags."""
    order = np.argsort(rows["pair"], kind="stable")
    pair, fact = rows["pair"][order], rows["fact"][order]
    first, last = _stretches(pair[1:] == pair[:-1])
    of_records = ((fact & (SENT | SEEN)) != 0).astype(np.int64)
    return _batch(
        what=COUNTED,
        client=rows["client"][order][first],
        slot=rows["slot"][order][first],
        op=np.bitwise_or.reduceat(fact, first).astype(np.int64),
        place=last - first + 1,
        last_place=np.add.reduceat(of_records, first),
    )


def _offset_runs(rows: Numbers, what: int) -> pa.RecordBatch:
    """Return the offset runs of rows that are all sends, or all reads."""
    order = _sorted(rows["pair"], rows["op"], rows["at"])
    rows = {name: column[order] for name, column in rows.items()}
    pair, op, place = rows["pair"], rows["op"], rows["offset"]
    ok = (rows["fact"] & (SENT_OK | SEEN_OK)) != 0
    sure = (rows["fact"] & PEEK) == 0
    same = op[1:] == op[:-1]
    step = place[1:] == place[:-1] + 1
    if what == SENDS:
        step |= ~same & (place[1:] > place[:-1])
    goes_on = (pair[1:] == pair[:-1]) & step & (ok[1:] == ok[:-1]) & (sure[1:] == sure[:-1])
    goes_on &= ok[1:] | same
    first, last = _stretches(goes_on)
    return _batch(
        what=what,
        client=rows["client"][first],
        slot=rows["slot"][first],
        sent=what == SENDS,
        ok=ok[first],
        sure=sure[first],
        op=op[first],
        at=rows["at"][first],
        place=place[first],
        last_op=op[last],
        last_at=rows["at"][last],
        last_place=place[last],
    )


def _sorted(groups: NDArray[Any], *by: NDArray[Any]) -> NDArray[Any]:
    """Return the order of rows by small numbers and then by others; most rows are in order."""
    order = np.argsort(groups, kind="stable")
    group = groups[order]
    same, grows = group[1:] == group[:-1], np.zeros(max(len(group) - 1, 0), np.bool_)
    for column in reversed(by):
        sorted_column = column[order]
        grows = (sorted_column[1:] > sorted_column[:-1]) | (
            (sorted_column[1:] == sorted_column[:-1]) & grows
        )
    return order if bool((grows | ~same).all()) else np.lexsort((*reversed(by), groups))


def _slots_told(sends: Numbers) -> pa.RecordBatch:
    """Return ranges of offsets that acknowledged sends of any client name."""
    order = _sorted(sends["place"], sends["offset"])
    slot, place = sends["slot"][order], sends["offset"][order]
    first, last = _stretches((slot[1:] == slot[:-1]) & (place[1:] <= place[:-1] + 1))
    return _batch(what=SLOT_TOLD, slot=slot[first], place=place[first], last_place=place[last])


def _stretches(goes_on: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first and last rows of ranges, from whether each row but the first goes on."""
    breaks = np.flatnonzero(~goes_on) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks - 1, [len(goes_on)]))
    return first, last


def _moves(rows: Numbers) -> pa.RecordBatch:
    offset = rows["offset"]
    return _batch(
        what=rows["fact"] & (MOVES | ENDED | EVERYWHERE),
        place=pa.array(offset, mask=offset == NONE),
        **{name: rows[name] for name in ("client", "slot", "op", "at")},
    )


def _batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - arrays of all types
    """Return columns of ``OFFSET_RUN``: arrays, one value for all rows, or null if missing."""
    size = len(columns["slot"])
    arrays = []
    for field in OFFSET_RUN:
        column = columns.get(field.name)
        if column is None or isinstance(column, int):
            arrays.append(pa.repeat(pa.scalar(column, field.type), size))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.record_batch(arrays, schema=OFFSET_RUN)

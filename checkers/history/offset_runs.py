"""Offset runs: a billion rows of consecutive records are reduced to a few thousand rows.

An *offset run* is a sequence of one client's rows in one partition whose offsets are in order. A
reader's offsets increase by one from row to row. A producer's offsets increase from operation to
operation, and by one within an operation. So a wrong step can only be between two offset runs, and
the rows inside a run are not read again. Each Spark task reduces its rows before any shuffle.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history import send_waits
from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Groups,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    grouped,
    numbers,
    schema,
    sort,
)

SLOT_TOLD: Final = 0
READS: Final = 1
SENDS: Final = 2
COUNTED: Final = 3
SINGLE: Final = 4
ROW_ALONE: Final = 5
WAITED: Final = 6
ACKNOWLEDGED: Final = 7
"""The values of ``what``, the kind of a row. SLOT_TOLD: a range of offsets that responses to sends
acknowledge. READS: an offset run of a reader. SENDS: an offset run of a producer. SINGLE and
ROW_ALONE: offset runs of one row, made by ``checkers.history.steps``.

COUNTED: counts for a client and a partition. ``place`` is the number of rows, ``last_place`` the
number of rows about records, and ``op`` has the flags of the rows (``checkers.history.row_flags``).
WAITED and ACKNOWLEDGED: a range of time of ``checkers.history.send_waits``, from ``place`` to
``last_place``.

A row that moved a reader, or that states a log's end, is copied. The copy's ``what`` has the bits
of the row's ``fact``, which are greater than these values."""

OFFSET_RUN: Final = schema(
    *("what", "client", "slot", "sent", "ok", "sure", "op", "at", "place"),
    *("last_op", "last_at", "last_place"),
    what=pa.int32(),
    sent=pa.bool_(),
    ok=pa.bool_(),
    sure=pa.bool_(),
)
"""Columns of an offset run. ``sent``: true for a producer's offset run; null for a row that is
no offset run. ``ok``: the operation succeeded; all operations of an offset run over several
operations succeeded. ``sure``: the records that were read are committed. ``place`` and
``last_place``: the offsets of the first and the last row."""

INPUT: Final = ("client", "slot", "op", "at", "offset", "invoke_ns", "complete_ns", "fact")
"""The columns of ``checkers.history.rows.ROW`` that ``offset_runs`` reads."""


def offset_runs(rows: pa.Table) -> pa.Table:
    """Return the offset runs of any range of rows, as ``OFFSET_RUN`` rows."""
    columns = numbers(rows, INPUT)
    fact = columns["fact"]
    located = located_rows(columns)
    sent = located & any_of(fact, flags.SENT_OK)
    sends = choose(columns, sent)
    parts = [
        _counted(columns),
        _moves(choose(columns, any_of(fact, flags.MOVES | flags.ENDED))),
        known_offsets(sends["slot"], sends["offset"]),
        _offset_runs(sends, SENDS),
        _offset_runs(choose(columns, located & ~sent), READS),
        _times(WAITED, send_waits.waits(columns)),
        _times(ACKNOWLEDGED, send_waits.acknowledged(columns)),
    ]
    return pa.concat_tables(parts)


def located_rows(columns: Numbers) -> Bools:
    """Return a mask of the rows of ``ROW`` that have the offset of their record."""
    fact = columns["fact"]
    has_offset: Bools = columns["offset"] != NONE
    tells = any_of(fact, flags.SENT_OK | flags.SEEN) & ~any_of(fact, flags.BLIND | flags.ADRIFT)
    return has_offset & tells


def known_offsets(slot: Ints, offset: Ints) -> pa.Table:
    """Return the ranges of consecutive offsets in these offsets, as SLOT_TOLD rows."""
    rows = sort({"slot": slot, "place": offset}, "slot", "place")
    slot, place = rows["slot"], rows["place"]
    goes_on = (slot[1:] == slot[:-1]) & (place[1:] <= place[:-1] + 1)
    run = Groups.joined(goes_on, len(slot))
    columns = {"slot": slot[run.first], "place": place[run.first], "last_place": place[run.last]}
    return arrow({"what": SLOT_TOLD} | columns, OFFSET_RUN)


def single_rows(rows: Numbers, what: int) -> pa.Table:
    """Return each row as an offset run of one row. ``rows`` also have ``place`` and ``ok``."""
    columns = {name: rows[name] for name in ("client", "slot", "ok", "op", "at", "place")}
    columns |= {f"last_{name}": rows[name] for name in ("op", "at", "place")}
    return arrow(columns | {"sent": any_of(rows["fact"], flags.SENT), "what": what}, OFFSET_RUN)


def _counted(rows: Numbers) -> pa.Table:
    rows, group = grouped(rows, "client", "slot")
    fact = rows["fact"]
    of_records = any_of(fact, flags.SENT | flags.SEEN).astype(np.int64)
    columns = {name: rows[name][group.first] for name in ("client", "slot")} | {
        "what": COUNTED,
        "op": np.bitwise_or.reduceat(fact, group.first).astype(np.int64),
        "place": group.size,
        "last_place": np.add.reduceat(of_records, group.first),
    }
    return arrow(columns, OFFSET_RUN)


def _times(what: int, spans: pa.Table) -> pa.Table:
    columns = numbers(spans)
    ends = {"place": columns["since"], "last_place": columns["until"]}
    return arrow({"slot": columns["slot"], "what": what} | ends, OFFSET_RUN)


def _moves(rows: Numbers) -> pa.Table:
    what = rows["fact"] & np.int32(flags.MOVES | flags.ENDED | flags.EVERYWHERE)
    return arrow(rows | {"what": what, "place": rows["offset"]}, OFFSET_RUN)


def _offset_runs(rows: Numbers, what: int) -> pa.Table:
    rows = sort(rows, "client", "slot", "op", "at")
    op, place, fact = rows["op"], rows["offset"], rows["fact"]
    ok, sure = any_of(fact, flags.SENT_OK | flags.SEEN_OK), ~any_of(fact, flags.PEEK)
    same_op = op[1:] == op[:-1]
    step = place[1:] == place[:-1] + 1
    if what == SENDS:
        step |= ~same_op & (place[1:] > place[:-1])
    goes_on = step & (ok[1:] | same_op)
    for column in (rows["client"], rows["slot"], ok, sure):
        goes_on &= column[1:] == column[:-1]
    run = Groups.joined(goes_on, len(op))
    rows |= {"place": place, "ok": ok, "sure": sure}
    last = choose({f"last_{name}": rows[name] for name in ("op", "at", "place")}, run.last)
    columns = choose(rows, run.first) | last | {"what": what, "sent": what == SENDS}
    return arrow(columns, OFFSET_RUN)

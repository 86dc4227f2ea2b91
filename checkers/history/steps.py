"""Wrong steps of clients through a log, as in ``poll-skip`` and ``nonmonotonic-poll``.

A *step* leads from one row of a client to the client's next row in the same partition. Inside an
operation (``inner``) a step begins at the previous row. Between operations a step begins at the
last row of the previous successful operation in the partition. An operation that failed, or whose
outcome is unknown, does not move a reader, because its positions are committed with its transaction
(KIP-98).

The place of a row is its offset. The place of a send without an offset is the offset at which its
record was read. A step to the next known offset (``delta`` 1) is correct. Offsets of control
markers are ignored.

Two rules differ from Jepsen's. If a value has two offsets, Jepsen uses either of them; Highwater
uses the offset in the row. After a send with an unknown offset, Jepsen starts a new sequence;
Highwater ignores the send.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.core.derived import derived
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Numbers,
    any_of,
    choose,
    grouped,
    numbers,
    schema,
)
from highwater.checkers.history.offset_runs import (
    OFFSET_RUN,
    READS,
    ROW_ALONE,
    SENDS,
    SINGLE,
    SLOT_TOLD,
    known_offsets,
    located_rows,
    single_rows,
)
from highwater.checkers.history.reader_moves import MOVED, unexcused
from highwater.checkers.history.version_order import Order
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

SKIPPED_MAX: Final = 16
"""The greatest number of skipped offsets that a step lists in ``left_out``."""

STEP: Final = schema(
    *("client", "slot", "sent", "inner", "sought", "overlaps", "from_op", "from_at", "from_place"),
    *("op", "at", "place", "delta", "left_out"),
    **dict.fromkeys(("sent", "inner", "sought", "overlaps"), pa.bool_()),
    left_out=pa.list_(pa.int64()),
)
"""A wrong step: its sequence, the row where it begins, and the row where it ends.

``delta`` is the step's length in known offsets. A ``delta`` of 2 or more means that offsets were
skipped; 0 or less means that the client went back. ``left_out`` lists the first skipped offsets. A
``sought`` step begins at the offset of a seek. Such a step shows only which records the reader did
not return. ``overlaps`` is true for a step between overlapping offset runs; such a step is not
reliable."""

_SEQUENCE: Final = ("client", "slot", "sent")
"""The columns that identify a sequence of rows: one client's sends to a partition, or its reads of
the partition."""

_SINGLE: Final = ("client", "slot", "op", "at", "offset", "fact")


@derived
def wrong_steps(view: ClientHistory) -> Rows:
    """Return the wrong steps that no assignment, seek or rebalance excuses, as ``STEP`` rows."""
    offset_runs = known_runs(view)
    if view.suspects["stray"]:
        stray = view.doubtful.where(flags.STRAY, "facts")
        offset_runs = offset_runs.union(stray.by(["key"], strays, OFFSET_RUN))
    all_steps = offset_runs.by(["slot"], steps, STEP).persist()
    tangled = all_steps.only("overlaps", True).select(_SEQUENCE).persist()
    if len(tangled):
        rows = view.rows.where(flags.SENT_OK | flags.SEEN).join(tangled, ["client", "slot"], "semi")
        both = offset_runs.join(tangled, ["slot"], "semi").union(rows.map(alone, OFFSET_RUN))
        rest = all_steps.join(tangled, ["slot"], "anti")
        all_steps = rest.union(both.by(["slot"], steps, STEP)).persist()
    if view.tells(flags.MOVES) and len(all_steps):
        moves = view.offset_runs.where(flags.MOVES, "what").renamed({"what": "fact"})
        all_steps = all_steps.union(moves.select(MOVED.names))
        all_steps = all_steps.by(["client"], unexcused, STEP).persist()
    return all_steps


def known_runs(view: ClientHistory) -> Rows:
    """Return the offset runs, and the offsets of ``ClientHistory.placed_late``."""
    if not view.late:
        return view.offset_runs
    return view.offset_runs.union(view.placed_late.map(_late, OFFSET_RUN))


def _late(rows: pa.Table) -> pa.Table:
    return known_offsets(rows["slot"].to_numpy(), rows["offset"].to_numpy())


def strays(rows: pa.Table) -> pa.Table:
    """Return each row without a reliable offset as an offset run at its record's known offset.

    ``rows`` are rows of ``DOUBTFUL``; all rows of one ``key`` must be in one table. A record
    without a known offset is left out.
    """
    columns, record = grouped(numbers(rows, (*_SINGLE, "key", "facts")), "key", then=("at",))
    fact, offset = columns["fact"], columns["offset"]
    place = record.spread(record.least(offset, ~any_of(fact, flags.SENT_FAIL) & (offset != NONE)))
    read = any_of(columns["facts"], flags.READ_BY_ANY | flags.SEEN_OK)
    self_sent = any_of(fact, flags.SENT_INFO) & any_of(fact, flags.PROVEN) & (offset != NONE)
    place = np.where(self_sent, offset, np.where(read, place, NONE))
    sure = ~any_of(fact, flags.SENT_FAIL | flags.READ_OTHER | flags.PEEK_OTHER)
    stray = any_of(fact, flags.STRAY) & (place != NONE)
    return single_rows(choose(columns | {"place": place, "ok": sure}, stray), SINGLE)


def alone(rows: pa.Table) -> pa.Table:
    """Return each row that has its record's offset as a ROW_ALONE offset run of one row."""
    columns = numbers(rows, _SINGLE)
    ok = any_of(columns["fact"], flags.SENT_OK | flags.SEEN_OK)
    singles = columns | {"place": columns["offset"], "ok": ok}
    return single_rows(choose(singles, located_rows(columns)), ROW_ALONE)


def steps(rows: pa.Table) -> pa.Table:
    """Return wrong steps, and steps between overlapping offset runs, as ``STEP`` rows.

    The rows are ``OFFSET_RUN`` rows. All rows of one ``slot`` must be in one table. The ROW_ALONE
    rows of a sequence replace its other offset runs.
    """
    offset_runs = numbers(rows)
    what = offset_runs["what"]
    tells = (what == SLOT_TOLD) | ((what == READS) & offset_runs["sure"])
    order = Order(*(offset_runs[name][tells] for name in ("slot", "place", "last_place")))
    linked = _linked(_sequences(offset_runs))
    delta, first = order.between(linked["slot"], linked["from_place"], linked["place"])
    wrong = (delta != 1) | linked["overlaps"]
    linked, first = choose(linked | {"delta": delta}, wrong), first[wrong]
    size = np.where(linked["sought"], 0, np.clip(linked["delta"] - 1, 0, SKIPPED_MAX))
    end = np.cumsum(size)
    left_out = order.offset(np.repeat(first - (end - size), size) + np.arange(size.sum()))
    lists = pa.ListArray.from_arrays(pa.array(np.append(0, end), pa.int32()), pa.array(left_out))
    return pa.table([*(linked[name] for name in STEP.names[:-1]), lists], schema=STEP)


def _sequences(offset_runs: Numbers) -> Numbers:
    """Return the rows that begin or end a step, in order. A seek is marked as ``sought``."""
    what, place = offset_runs["what"], offset_runs["place"]
    seeks = any_of(what, flags.SEEK_FLAG) & ~any_of(what, flags.EVERYWHERE) & (place != NONE)
    start = {"place": place - 1, "last_place": place - 1}
    start |= {f"last_{name}": offset_runs[name] for name in ("op", "at")}
    offset_runs = offset_runs | {
        name: np.where(seeks, start[name], offset_runs[name]) for name in start
    }
    offset_runs |= {"sought": seeks, "ok": offset_runs["ok"] | seeks}
    linked = seeks | np.isin(what, (READS, SENDS, SINGLE, ROW_ALONE))
    ordered, sequence = grouped(choose(offset_runs, linked), *_SEQUENCE, then=("op", "at"))
    by_rows = sequence.spread(sequence.any(ordered["what"] == ROW_ALONE))
    return choose(ordered, ~(by_rows & np.isin(ordered["what"], (READS, SENDS))))


def _linked(rows: Numbers) -> Numbers:
    """Return the steps between sorted rows that may be wrong, or lead between overlapping runs."""
    place, number = rows["place"], np.arange(len(rows["at"]))
    sequence = Groups.of(*(rows[name] for name in _SEQUENCE))
    first = sequence.spread(sequence.first)
    before = number - 1
    same, last_op = number > first, rows["last_op"][before]
    inner = same & (last_op == rows["op"])
    # If any two offset runs overlap, two neighbours overlap.
    overlaps = same & ((last_op > rows["op"]) | inner & (rows["last_at"][before] > rows["at"]))
    good = np.append(-1, np.maximum.accumulate(np.where(rows["ok"], number, -1)))[:-1]
    begin = np.where(inner, before, np.where(good >= first, good, -1))
    end, seeks = rows["last_place"][begin], rows["sought"][begin]
    back = place <= end
    # Other producers may write between two operations of one producer.
    far = np.where(rows["sent"] & ~inner, rows["ok"] & back, place != end + 1)
    odd = (begin >= 0) & far & ~rows["sought"] & ~(seeks & (inner | back))
    origin = {f"from_{name}": rows[f"last_{name}"][begin] for name in ("op", "at", "place")}
    origin |= {"inner": inner, "sought": seeks, "overlaps": overlaps}
    return choose(rows | origin, odd | overlaps)

"""Steps of clients through logs: poll-skip, nonmonotonic-poll, and related kinds.

A *step* leads from one row of a client to its next in the same slot. Inside an operation
(``inner``) that is the row before. Between operations it is the last row of the last operation that
ended well and touched the slot: an operation that failed, or whose end is unknown, does not move a
reader (KIP-98: its positions are committed with its transaction). A row's place is its offset; for
a send without an offset it is where its record was read. A step to the next known offset, ``delta``
1, is right: offsets at which no client saw a record, such as control markers, do not count. Jepsen
looks a row's place up by its value, which is any of its places if it has two; we take the row's
own. A send whose place is unknown is left out; Jepsen begins anew after it.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history.columns import NONE, Numbers, any_of, groups, least, numbers, sizes
from highwater.checkers.history.kernel_tools import choose, sort
from highwater.checkers.history.offset_runs import (
    OFFSET_RUN,
    READS,
    ROW_ALONE,
    SENDS,
    SINGLE,
    SLOT_TOLD,
)
from highwater.checkers.history.reader_moves import MOVED, unexcused
from highwater.checkers.history.row_flags import (
    ADRIFT,
    BLIND,
    EVERYWHERE,
    MOVES,
    PEEK_OTHER,
    PROVEN,
    READ_BY_ANY,
    READ_OTHER,
    SEEK_FLAG,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
)
from highwater.checkers.history.version_order import Order, stretches
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows, complete

SKIPPED_MAX: Final = 16
"""Skipped offsets that a step names; its delta counts them all."""

STEP: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("client", "slot")),
        *((name, pa.bool_()) for name in ("sent", "inner", "sought", "overlaps")),
        *((f"from_{name}", pa.int64()) for name in ("op", "at", "place")),
        *((name, pa.int64()) for name in ("op", "at", "place", "delta")),
        ("left_out", pa.list_(pa.int64())),
    ]
)
"""A wrong step: its sequence, and the rows from and to which it leads.

``delta`` is its length in known offsets: 2 and more skip some, 0 and less go back. ``left_out`` are
the first of those skipped. ``sought`` steps begin at the place of a seek, and only show which
records the reader did not find. A step that ``overlaps`` comes from overlapping offset runs, and is
not reliable.
"""

_SEQUENCE: Final = ("client", "slot", "sent")
"""The key of a sequence: the sends of a client to a slot, or its reads there."""

_SINGLE: Final = ("client", "slot", "op", "at", "offset", "fact")


def wrong_steps(view: ClientHistory) -> Rows:
    """Return every wrong step that no move excuses, in ``STEP``."""
    offset_runs = view.offset_runs
    if view.suspects["stray"]:
        offset_runs = offset_runs.union(
            view.doubtful.where(STRAY, "facts").by(["key"], strays, OFFSET_RUN)
        )
    if view.late:
        offset_runs = offset_runs.union(view.placed_late.map(located_rows, OFFSET_RUN))
    all_steps = offset_runs.by(["slot"], steps, STEP).persist()
    tangled = all_steps.only("overlaps", True).select(_SEQUENCE).persist()
    if len(tangled):
        rows = view.rows.where(SENT_OK | SEEN).join(tangled, ["client", "slot"], "semi")
        both = offset_runs.join(tangled, ["slot"], "semi").union(rows.map(alone, OFFSET_RUN))
        rest = all_steps.join(tangled, ["slot"], "anti")
        all_steps = rest.union(both.by(["slot"], steps, STEP)).persist()
    if view.tells(MOVES) and len(all_steps):
        moves = view.offset_runs.where(MOVES, "what").renamed({"what": "fact"}).select(MOVED.names)
        all_steps = all_steps.union(moves).by(["client"], unexcused, STEP).persist()
    return all_steps


def strays(rows: pa.Table) -> pa.Table:
    """Return rows without a certain offset of their own whose record's place is known from others.

    A kernel by ``key`` from ``DOUBTFUL`` to ``OFFSET_RUN``.
    """
    columns = sort(numbers(rows, ("key", *_SINGLE, "facts")), "key")
    fact, offset, first = columns["fact"], columns["offset"], groups(columns["key"])
    place = least(first, offset, ~any_of(fact, SENT_FAIL) & (offset != NONE))
    place = np.repeat(place, sizes(first, len(fact)))
    read = any_of(columns["facts"], READ_BY_ANY | SEEN_OK)
    self_sent = any_of(fact, SENT_INFO) & any_of(fact, PROVEN) & (offset != NONE)
    place = np.where(self_sent, offset, np.where(read, place, NONE))
    sure = ~any_of(fact, SENT_FAIL | READ_OTHER | PEEK_OTHER)
    stray = any_of(fact, STRAY) & (place != NONE)
    return _singles(choose(columns | {"place": place, "ok": sure}, stray), SINGLE)


def alone(rows: pa.Table) -> pa.Table:
    """Return every row that names its record's place as an offset run of its own.

    A kernel from ``ROW``.
    """
    columns = numbers(rows, _SINGLE)
    fact, offset = columns["fact"], columns["offset"]
    located = any_of(fact, SENT_OK | SEEN) & ~any_of(fact, BLIND | ADRIFT) & (offset != NONE)
    ok = any_of(fact, SENT_OK | SEEN_OK)
    return _singles(choose(columns | {"place": offset, "ok": ok}, located), ROW_ALONE)


def located_rows(rows: pa.Table) -> pa.Table:
    """Return rows that name a place as ranges of the log.

    A kernel from ``ROW`` to ``OFFSET_RUN``.
    """
    place = rows["offset"].to_numpy()
    slot, low, end = stretches(rows["slot"].to_numpy(), place, place)
    columns = {
        "slot": slot,
        "place": low,
        "last_place": end - 1,
        "what": np.full(len(slot), SLOT_TOLD),
    }
    return complete(pa.table(columns), OFFSET_RUN)


def _singles(rows: Numbers, what: int) -> pa.Table:
    columns = {name: rows[name] for name in ("client", "slot", "ok", "op", "at", "place")}
    columns |= {f"last_{name}": rows[name] for name in ("op", "at", "place")}
    columns |= {"sent": any_of(rows["fact"], SENT), "what": np.full(len(rows["at"]), what)}
    return complete(pa.table(columns), OFFSET_RUN)


def steps(rows: pa.Table) -> pa.Table:
    """Return wrong steps, and those whose offset runs overlap.

    A kernel by ``slot``.

    Args:
        rows: in ``OFFSET_RUN``. If a sequence has ROW_ALONE rows, these are used instead of its
            other offset runs.
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
    """Return the linked rows in order; ``sought`` steps begin at the place of a seek."""
    what, place = offset_runs["what"], offset_runs["place"]
    seeks = any_of(what, SEEK_FLAG) & ~any_of(what, EVERYWHERE) & (place != NONE)
    start = {"place": place - 1, "last_place": place - 1}
    start |= {f"last_{name}": offset_runs[name] for name in ("op", "at")}
    offset_runs = offset_runs | {
        name: np.where(seeks, start[name], offset_runs[name]) for name in start
    }
    offset_runs |= {"sought": seeks, "ok": offset_runs["ok"] | seeks}
    linked = seeks | np.isin(what, (READS, SENDS, SINGLE, ROW_ALONE))
    ordered = sort(choose(offset_runs, linked), *_SEQUENCE, "op")
    what, first = ordered["what"], groups(*(ordered[name] for name in _SEQUENCE))
    by_rows = np.logical_or.reduceat(what == ROW_ALONE, first)
    by_rows = np.repeat(by_rows, sizes(first, len(what)))
    return choose(ordered, ~(by_rows & np.isin(what, (READS, SENDS))))


def _linked(rows: Numbers) -> Numbers:
    """Return steps that may be wrong, and those with overlapping offset runs, as ``STEP``.

    Args:
        rows: offset runs in order.
    """
    place, number = rows["place"], np.arange(len(rows["at"]))
    first = groups(*(rows[name] for name in _SEQUENCE))
    first = np.repeat(first, sizes(first, len(number)))
    before = number - 1
    same, last_op = number > first, rows["last_op"][before]
    inner = same & (last_op == rows["op"])
    # If offset runs overlap any before them, one overlaps its neighbour.
    overlaps = same & ((last_op > rows["op"]) | inner & (rows["last_at"][before] > rows["at"]))
    good = np.append(-1, np.maximum.accumulate(np.where(rows["ok"], number, -1)))[:-1]
    begin = np.where(inner, before, np.where(good >= first, good, -1))
    end, seeks = rows["last_place"][begin], rows["sought"][begin]
    back = place <= end
    # Between operations of a producer others may write.
    far = np.where(rows["sent"] & ~inner, rows["ok"] & back, place != end + 1)
    odd = (begin >= 0) & far & ~rows["sought"] & ~(seeks & (inner | back))
    origin = {f"from_{name}": rows[f"last_{name}"][begin] for name in ("op", "at", "place")}
    origin |= {"inner": inner, "sought": seeks, "overlaps": overlaps}
    return choose(rows | origin, odd | overlaps)

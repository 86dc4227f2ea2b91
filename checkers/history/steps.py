"""Steps of clients through logs: poll-skip, nonmonotonic-poll, and their kin.

A *step* leads from one row of a client to its next in the same slot. Inside an operation
(``inner``) that is the row before. Between operations it is the last row of the last operation that
ended well and touched the slot: what failed, or ended in an unknown way, leaves a reader where it
was (KIP-98: its positions are committed with its transaction). A row's place is its offset; a send
that was told none stands where its record was read.

Right is a step to the next known offset, ``delta`` 1: gaps in which nobody ever saw a record, such
as control markers, are none. Jepsen looks a row's place up by its value, which is any of its places
if it has two; we take the row's own. A send whose place is unknown is left out, where Jepsen begins
anew after it.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history.columns import NONE, Numbers, any_of, groups, least, numbers, sizes
from highwater.checkers.history.kernel_tools import choose, sort
from highwater.checkers.history.offset_runs import (
    READS,
    ROW_ALONE,
    SENDS,
    SINGLE,
    SLOT_TOLD,
    STRIDE,
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
"""A step that is not right: of which sequence, from where and to where.

``delta`` is its length in known offsets: 2 and more skip some, 0 and less go back. ``left_out`` are
the first of those skipped. ``sought`` steps begin where a reader sought to go on from, and tell
only what it did not find. Where a step ``overlaps``, so do strides, and it is not to be relied on.
"""

_SEQUENCE: Final = ("client", "slot", "sent")
"""Whose rows are one sequence: what a client sent to a slot, or what it read there."""

_SINGLE: Final = ("client", "slot", "op", "at", "offset", "fact")


def wrong_steps(view: ClientHistory) -> Rows:
    """Every step that is not right and that nothing excuses, in ``STEP``."""
    strides = view.strides
    if view.suspects["stray"]:
        strides = strides.union(view.doubtful.where(STRAY, "facts").by(["key"], strays, STRIDE))
    if view.late:
        strides = strides.union(view.placed_late.map(located_rows, STRIDE))
    all_steps = strides.by(["slot"], steps, STEP).persist()
    tangled = all_steps.only("overlaps", True).select(_SEQUENCE).persist()
    if len(tangled):
        rows = view.rows.where(SENT_OK | SEEN).join(tangled, ["client", "slot"], "semi")
        both = strides.join(tangled, ["slot"], "semi").union(rows.map(alone, STRIDE))
        rest = all_steps.join(tangled, ["slot"], "anti")
        all_steps = rest.union(both.by(["slot"], steps, STEP)).persist()
    if view.tells(MOVES) and len(all_steps):
        moves = view.strides.where(MOVES, "what").renamed({"what": "fact"}).select(MOVED.names)
        all_steps = all_steps.union(moves).by(["client"], unexcused, STEP).persist()
    return all_steps


def strays(rows: pa.Table) -> pa.Table:
    """Rows that were told no offset, or not for sure, where their record stands all the same.

    A kernel by ``key`` from ``DOUBTFUL`` to ``STRIDE``.
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
    """Every row that says where its record stands as a stride of its own. A kernel from ``ROW``."""
    columns = numbers(rows, _SINGLE)
    fact, offset = columns["fact"], columns["offset"]
    located = any_of(fact, SENT_OK | SEEN) & ~any_of(fact, BLIND | ADRIFT) & (offset != NONE)
    ok = any_of(fact, SENT_OK | SEEN_OK)
    return _singles(choose(columns | {"place": offset, "ok": ok}, located), ROW_ALONE)


def located_rows(rows: pa.Table) -> pa.Table:
    """Rows that tell a place as ranges of the log. A kernel from ``ROW`` to ``STRIDE``."""
    place = rows["offset"].to_numpy()
    slot, low, end = stretches(rows["slot"].to_numpy(), place, place)
    columns = {
        "slot": slot,
        "place": low,
        "last_place": end - 1,
        "what": np.full(len(slot), SLOT_TOLD),
    }
    return complete(pa.table(columns), STRIDE)


def _singles(rows: Numbers, what: int) -> pa.Table:
    columns = {name: rows[name] for name in ("client", "slot", "ok", "op", "at", "place")}
    columns |= {f"last_{name}": rows[name] for name in ("op", "at", "place")}
    columns |= {"sent": any_of(rows["fact"], SENT), "what": np.full(len(rows["at"]), what)}
    return complete(pa.table(columns), STRIDE)


def steps(rows: pa.Table) -> pa.Table:
    """Return steps that are not right, and those whose strides overlap. A kernel by ``slot``.

    Args:
        rows: in ``STRIDE``. Of a sequence with rows alone, these are looked at and not its strides.
    """
    strides = numbers(rows)
    what = strides["what"]
    tells = (what == SLOT_TOLD) | ((what == READS) & strides["sure"])
    order = Order(*(strides[name][tells] for name in ("slot", "place", "last_place")))
    linked = _linked(_sequences(strides))
    delta, first = order.between(linked["slot"], linked["from_place"], linked["place"])
    wrong = (delta != 1) | linked["overlaps"]
    linked, first = choose(linked | {"delta": delta}, wrong), first[wrong]
    size = np.where(linked["sought"], 0, np.clip(linked["delta"] - 1, 0, SKIPPED_MAX))
    end = np.cumsum(size)
    left_out = order.offset(np.repeat(first - (end - size), size) + np.arange(size.sum()))
    lists = pa.ListArray.from_arrays(pa.array(np.append(0, end), pa.int32()), pa.array(left_out))
    return pa.table([*(linked[name] for name in STEP.names[:-1]), lists], schema=STEP)


def _sequences(strides: Numbers) -> Numbers:
    """Return what is linked, in order; ``sought`` begins where a reader sought to go on from."""
    what, place = strides["what"], strides["place"]
    seeks = any_of(what, SEEK_FLAG) & ~any_of(what, EVERYWHERE) & (place != NONE)
    start = {"place": place - 1, "last_place": place - 1}
    start |= {f"last_{name}": strides[name] for name in ("op", "at")}
    strides = strides | {name: np.where(seeks, start[name], strides[name]) for name in start}
    strides |= {"sought": seeks, "ok": strides["ok"] | seeks}
    linked = seeks | np.isin(what, (READS, SENDS, SINGLE, ROW_ALONE))
    ordered = sort(choose(strides, linked), *_SEQUENCE, "op")
    what, first = ordered["what"], groups(*(ordered[name] for name in _SEQUENCE))
    by_rows = np.logical_or.reduceat(what == ROW_ALONE, first)
    by_rows = np.repeat(by_rows, sizes(first, len(what)))
    return choose(ordered, ~(by_rows & np.isin(what, (READS, SENDS))))


def _linked(rows: Numbers) -> Numbers:
    """Return steps that may be wrong, and those with overlapping strides, as ``STEP``.

    Args:
        rows: strides in order.
    """
    place, number = rows["place"], np.arange(len(rows["at"]))
    first = groups(*(rows[name] for name in _SEQUENCE))
    first = np.repeat(first, sizes(first, len(number)))
    before = number - 1
    same, last_op = number > first, rows["last_op"][before]
    inner = same & (last_op == rows["op"])
    # Of strides that overlap any before them, one overlaps that stands next to it.
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

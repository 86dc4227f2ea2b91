"""Whether clients went through logs in order: poll-skip, nonmonotonic-poll, and their kin.

A *step* leads from one row of a client to its next in the same slot. Inside an operation
(``inner``) that is the row before. Between operations it is the last row of the last operation that
ended well and touched the slot: what failed, or ended nobody knows how, leaves a reader where it
was (KIP-98: its positions are committed with its transaction). A row's place is its offset; a send
that was told none stands where its record was read.

Right is a step to the next known offset, ``delta`` 1: gaps in which nobody ever saw a record, such
as control markers, are none. Jepsen looks a row's place up by its value, which is any of its places
if it has two; we take the row's own. A send whose place is unknown is left out, where Jepsen begins
anew after it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.clients.columns import NONE, Bools, Ints, Numbers, any_of, groups, least, numbers
from checkers.clients.facts import (
    ADRIFT,
    BLIND,
    EVERYWHERE,
    MOVES,
    PEEK_OTHER,
    PROVEN,
    READ_BY_ANY,
    READ_OTHER,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    SOUGHT,
    STRAY,
)
from checkers.clients.kernels import choose, sort
from checkers.clients.moves import MOVED, unexcused
from checkers.clients.places import Order
from checkers.clients.strides import KNOWN, READS, ROW_ALONE, SENDS, SINGLE, STRIDE
from checkers.clients.view import View
from checkers.engine import Rows, complete

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

SEQUENCE: Final = ("client", "slot", "sent")
"""Whose rows are one sequence: what a client sent to a slot, or what it read there."""


def wrong_steps(view: View) -> Rows:
    """Every step that is not right and that nothing excuses, in ``STEP``."""
    strides = view.strides
    if view.suspects["stray"]:
        strides = strides.union(view.doubtful.where(STRAY, "facts").by(["key"], strays, STRIDE))
    if view.late:
        strides = strides.union(view.placed_late.map(known, STRIDE))
    found = strides.by(["slot"], steps, STEP).kept()
    tangled = found.only("overlaps", True).distinct(SEQUENCE)
    if len(tangled):
        sequences = view.engine.table(tangled)
        rows = view.rows.where(SENT_OK | SEEN).map(alone, STRIDE).join(sequences, SEQUENCE, "semi")
        both = strides.join(sequences, ["slot"], "semi").union(rows)
        rest = found.join(sequences, ["slot"], "anti")
        found = rest.union(both.by(["slot"], steps, STEP)).kept()
    if view.tells(MOVES) and len(found):
        moves = view.strides.where(MOVES, "what").renamed({"what": "fact"}).select(MOVED.names)
        found = found.union(moves).by(["client"], unexcused, STEP).kept()
    return found


def strays(rows: pa.Table) -> pa.Table:
    """Rows that were told no offset, or not for sure, where their record stands all the same.

    A kernel by ``key`` from ``DOUBTFUL`` to ``STRIDE``.
    """
    found = sort(
        numbers(rows, ("key", "client", "slot", "op", "at", "offset", "fact", "facts")), "key"
    )
    fact, offset = found["fact"], found["offset"]
    first = groups(found["key"])
    place = least(first, offset, ~any_of(fact, SENT_FAIL) & (offset != NONE))
    place = np.repeat(place, np.diff(np.append(first, len(fact))))
    met = any_of(found["facts"], READ_BY_ANY | SEEN_OK)
    own = any_of(fact, SENT_INFO) & any_of(fact, PROVEN) & (offset != NONE)
    there = np.where(own, offset, np.where(met, place, NONE))
    asked = any_of(fact, STRAY) & (place != NONE) & (there != NONE)
    sure = ~any_of(fact, SENT_FAIL | READ_OTHER | PEEK_OTHER)
    return _singles(choose(found | {"place": there, "ok": sure}, asked), SINGLE)


def alone(rows: pa.Table) -> pa.Table:
    """Every row that says where its record stands as a stride of its own. A kernel from ``ROW``."""
    found = numbers(rows, ("client", "slot", "op", "at", "offset", "fact"))
    fact, offset = found["fact"], found["offset"]
    told = any_of(fact, SENT_OK | SEEN) & ~any_of(fact, BLIND | ADRIFT) & (offset != NONE)
    ok = any_of(fact, SENT_OK | SEEN_OK)
    return _singles(choose(found | {"place": offset, "ok": ok}, told), ROW_ALONE)


def known(rows: pa.Table) -> pa.Table:
    """Rows whose places others tell, as stretches of the log. A kernel from ``ROW``."""
    place = {"place": rows["offset"], "last_place": rows["offset"]}
    what = pa.repeat(pa.scalar(KNOWN, pa.int32()), len(rows))
    return complete(pa.table({"what": what, "slot": rows["slot"], **place}), STRIDE)


def _singles(rows: Numbers, what: int) -> pa.Table:
    columns = {name: rows[name] for name in ("client", "slot", "ok", "op", "at", "place")}
    columns |= {f"last_{name}": rows[name] for name in ("op", "at", "place")}
    columns |= {"sent": any_of(rows["fact"], SENT), "what": np.full(len(rows["at"]), what)}
    return complete(pa.table(columns), STRIDE)


def steps(rows: pa.Table) -> pa.Table:
    """Steps that are not right, and those whose strides overlap. A kernel by ``slot``.

    Args:
        rows: in ``STRIDE``. Of a sequence with rows alone, these are looked at and not its strides.
    """
    strides = numbers(rows)
    what = strides["what"]
    tells = (what == KNOWN) | ((what == READS) & strides["sure"])
    order = Order(*(strides[name][tells] for name in ("slot", "place", "last_place")))
    links = Links.of(_sequences(strides))
    at = np.flatnonzero(links.overlaps | links.odd)
    found = links.steps(at)
    if not len(at):
        return STEP.empty_table()
    ends = found["slot"], found["from_place"], found["place"]
    delta = order.length(*ends)
    skips = np.where(found["sought"], 1, delta)
    size, left_out = order.left_out(*ends[:2], skips, SKIPPED_MAX)
    starts = pa.array(np.concatenate(([0], np.cumsum(size))), pa.int32())
    lists = pa.ListArray.from_arrays(starts, pa.array(left_out, pa.int64()))
    columns = [
        pa.array(column)
        for column in ((found | {"delta": delta})[name] for name in STEP.names[:-1])
    ]
    table = pa.table([*columns, lists], names=STEP.names)
    return table.filter(pa.array((delta != 1) | found["overlaps"]))


def _sequences(strides: Numbers) -> Numbers:
    """What is linked, in order; ``sought`` begins where a reader sought to go on from."""
    what, place = strides["what"], strides["place"]
    sought = any_of(what, SOUGHT) & ~any_of(what, EVERYWHERE) & (place != NONE)
    start = np.where(sought, place - 1, place)
    last = {
        f"last_{name}": np.where(sought, strides[name], strides[f"last_{name}"])
        for name in ("op", "at")
    }
    last_place = np.where(sought, start, strides["last_place"])
    strides = strides | last | {"place": start, "last_place": last_place, "sought": sought}
    strides["ok"] = strides["ok"] | sought
    single = (what == ROW_ALONE) | (what == SINGLE) | sought
    found = sort(choose(strides, single | (what == READS) | (what == SENDS)), *SEQUENCE, "op")
    if not (what == ROW_ALONE).any():
        return found
    first = groups(*(found[name] for name in SEQUENCE))
    size = np.diff(np.append(first, len(found["at"])))
    tangled = np.repeat(np.logical_or.reduceat(found["what"] == ROW_ALONE, first), size)
    whole = (found["what"] == READS) | (found["what"] == SENDS)
    return choose(found, ~(tangled & whole))


@dataclass(frozen=True, slots=True)
class Links:
    """Strides in order, and where the step to each begins.

    Attributes:
        rows: the columns of the strides.
        begin: from which each step leads, or -1: the one before in the same operation, else the
            last one before, of the same sequence, that ended well.
        inner: whether that is within one operation.
        overlaps: whether the one before ends behind the begin of this. One that overlaps any before
            it makes one overlap that stands next to it.
        odd: whether the step may be wrong. Between operations of producers others may write.
    """

    rows: Numbers
    begin: Ints
    inner: Bools
    overlaps: Bools
    odd: Bools

    @classmethod
    def of(cls, rows: Numbers) -> "Links":
        """The links of strides in the order of their sequences."""
        size = len(rows["at"])
        number = np.arange(size)
        same = np.zeros(size, np.bool_)
        same[1:] = np.logical_and.reduce([rows[name][1:] == rows[name][:-1] for name in SEQUENCE])
        first = np.maximum.accumulate(np.where(same, 0, number))
        ended_well = np.maximum.accumulate(np.where(rows["ok"], number, -1))
        good = np.concatenate(([-1], ended_well[:-1]))[:size]
        good = np.where(good >= first, good, -1)
        before = number - 1
        last_op, last_at = rows["last_op"][before], rows["last_at"][before]
        inner = same & (last_op == rows["op"])
        behind = (last_op > rows["op"]) | inner & (last_at > rows["at"])
        begin = np.where(inner, before, good)
        odd = (begin >= 0) & _odd(rows, begin, inner)
        return cls(rows, begin, inner, same & behind, odd)

    def steps(self, at: Ints) -> Numbers:
        """The steps to some strides."""
        rows, begin = self.rows, self.begin[at]
        began = {f"from_{name}": rows[f"last_{name}"][begin] for name in ("op", "at", "place")}
        own = {name: rows[name][at] for name in (*SEQUENCE, "op", "at", "place")}
        told = {"inner": self.inner[at], "overlaps": self.overlaps[at]}
        return {**own, **began, **told, "sought": rows["sought"][begin]}


def _odd(rows: Numbers, begin: Ints, inner: Bools) -> Bools:
    place, end, sought = rows["place"], rows["last_place"][begin], rows["sought"]
    back = place <= end
    far = np.where(rows["sent"] & ~inner, rows["ok"] & back, place != end + 1)
    odd: Bools = far & ~sought & ~(sought[begin] & (inner | back))
    return odd

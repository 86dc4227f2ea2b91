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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from checkers import frames
from checkers.clients.facts import (
    EVERYWHERE,
    MOVES,
    PEEK_OTHER,
    READ_BY_ANY,
    READ_OTHER,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    SOUGHT,
    STRAY,
    has,
)
from checkers.clients.moves import unexcused
from checkers.clients.numbers import Bools, Ints, Numbers
from checkers.clients.places import Order
from checkers.clients.strides import READS, SENDS
from checkers.clients.view import FEW, View, in_a_place

_COLUMNS: Final = (
    *("client", "slot", "sent", "ok", "sought"),
    *("op", "at", "place", "last_op", "last_at", "last_place"),
)

_PAIR: Final = ["client", "slot", "sent"]
_LINKED: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("client", "slot")),
        *((name, pa.bool_()) for name in ("sent", "inner", "sought")),
        *((f"from_{name}", pa.int64()) for name in ("op", "at", "place")),
        *((name, pa.int64()) for name in ("op", "at", "place")),
        ("overlaps", pa.bool_()),
    ]
)

WRONG_STEPS: Final = "wrong-steps"
POLL_SKIP: Final = "poll-skip"
NONMONOTONIC_POLL: Final = "nonmonotonic-poll"
NONMONOTONIC_SEND: Final = "nonmonotonic-send"
INT_POLL_SKIP: Final = "int-poll-skip"
INT_NONMONOTONIC_POLL: Final = "int-nonmonotonic-poll"
INT_SEND_SKIP: Final = "int-send-skip"
INT_NONMONOTONIC_SEND: Final = "int-nonmonotonic-send"
KINDS: Final = (
    *(INT_NONMONOTONIC_SEND, INT_SEND_SKIP, NONMONOTONIC_SEND),
    *(INT_NONMONOTONIC_POLL, INT_POLL_SKIP, NONMONOTONIC_POLL, POLL_SKIP),
)


def wrong_steps(view: View) -> DataFrame:
    """Every step that is not right and that nothing excuses. Kept, as ``WRONG_STEPS``.

    ``client, slot, sent, inner, sought, from_op, from_at, from_place, op, at, place``, and
    ``delta``, its length in known offsets: 2 and more skip some, 0 and less go back. ``sought``
    steps begin where a reader sought to go on from, and tell only what it did not find.
    """
    return view.keep(WRONG_STEPS, _wrong(view))


def _wrong(view: View) -> DataFrame:
    found = _suspicious(view)
    fields = [*found.schema, T.StructField("delta", T.LongType())]
    wrong = frames.mapped(found, _Measuring(view.order), fields)
    if not view.moved:
        return wrong
    moves = view.strides.where(has("what", MOVES))
    named = moves.select("client", "slot", "op", "at", F.col("what").alias("fact"))
    return unexcused(wrong, named)


class _Measuring:
    """A kernel: steps that are not right, with their ``delta``."""

    def __init__(self, order: Path) -> None:
        self._order = order

    def __call__(self, steps: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = Order(self._order)
        for batch in steps:
            slot, begin, end = (batch[name].to_numpy() for name in ("slot", "from_place", "place"))
            before, known = order.before(slot, begin)
            length = order.before(slot, end)[0] - before
            delta = np.where(end > begin, length + 1 - known, length)
            yield batch.append_column("delta", pa.array(delta)).filter(pa.array(delta != 1))


def kinds(steps: pa.RecordBatch) -> pa.Array:
    """What steps that are not right are called; null for one that begins at a place sought."""
    inner, sent, sought = (
        steps[name].to_numpy(zero_copy_only=False) for name in ("inner", "sent", "sought")
    )
    back = steps["delta"].to_numpy() < 1
    each = (sent & inner & back, sent & inner, sent, inner & back, inner, back, True)
    number = np.select(each, range(len(KINDS)))
    return pa.array(KINDS).take(pa.array(number, mask=sought))


def _suspicious(view: View) -> DataFrame:
    """Steps that are not to the next offset. Where strides overlap, row by row."""
    singles = _singles(view)
    ours = [_of_strides(view), *singles]
    steps = view.keep("steps", _linked(ours, alone=view.few_strides and not singles))
    if view.any("steps", ds.field("overlaps")):
        tangled = steps.where("overlaps").select(*_PAIR).distinct()
        rows = [one.join(tangled, _PAIR, "left_semi") for one in (_of_rows(view), *singles)]
        plain = steps.join(tangled, _PAIR, "left_anti")
        steps = view.keep("single-steps", plain.unionByName(_linked(rows, alone=False)))
    return steps.drop("overlaps")


def _linked(strides: Sequence[DataFrame], *, alone: bool) -> DataFrame:
    """Steps between strides that may be wrong, and those whose strides overlap."""
    both = reduce(DataFrame.unionByName, strides)
    together = frames.together(both, _PAIR, by=("op", "at"), alone=alone)
    return frames.mapped(together, _linking, from_arrow_schema(_LINKED).fields)


def _linking(strides: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A kernel over strides in their order, those of a client in a slot side by side."""
    held: list[pa.RecordBatch] = []
    for batch in strides:
        rows = pa.Table.from_batches([*held, batch]).combine_chunks().to_batches()[0]
        links = _Links.of(rows)
        new = np.arange(len(rows)) >= len(rows) - len(batch)
        yield links.steps(np.flatnonzero(new & (links.overlaps | links.odd)))
        last = len(rows) - 1
        kept = {last, int(links.good[last]) if not links.ok[last] else last} - {-1}
        held = [rows.take(pa.array(sorted(kept)))]


@dataclass(frozen=True, slots=True)
class _Links:
    """Strides in order, and where the step to each begins.

    Attributes:
        rows: the columns of the strides.
        good: the last one before each, of the same client in the same slot, that ended well, or -1.
        begin: from which each step leads, or -1.
        inner: whether that is within one operation.
        overlaps: whether the one before ends behind the begin of this. One that overlaps any before
            it makes one overlap that stands next to it.
        odd: whether the step may be wrong. Between operations of producers others may write.
    """

    rows: Numbers
    ok: Bools
    good: Ints
    begin: Ints
    inner: Bools
    overlaps: Bools
    odd: Bools

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "_Links":
        rows: Numbers = {
            name: batch[name].to_numpy(zero_copy_only=False) for name in batch.schema.names
        }
        number = np.arange(len(batch))
        same = np.zeros(len(batch), np.bool_)
        same[1:] = np.logical_and.reduce([rows[name][1:] == rows[name][:-1] for name in _PAIR])
        first = np.maximum.accumulate(np.where(same, 0, number))
        ended_well = np.maximum.accumulate(np.where(rows["ok"], number, -1))
        good = np.concatenate(([-1], ended_well[:-1]))
        good = np.where(good >= first, good, -1)
        before = number - 1
        last_op, last_at = rows["last_op"][before], rows["last_at"][before]
        inner = same & (last_op == rows["op"])
        behind = (last_op > rows["op"]) | inner & (last_at > rows["at"])
        begin = np.where(inner, before, good)
        odd = (begin >= 0) & _odd(rows, begin, inner)
        return cls(rows, rows["ok"], good, begin, inner, same & behind, odd)

    def steps(self, at: Ints) -> pa.RecordBatch:
        """The steps to some strides, in ``_LINKED``."""
        rows, begin = self.rows, self.begin[at]
        began = {f"from_{name}": rows[f"last_{name}"][begin] for name in ("op", "at", "place")}
        own = {name: rows[name][at] for name in (*_PAIR, "op", "at", "place")}
        told = {"inner": self.inner[at], "overlaps": self.overlaps[at]}
        columns = {**own, **began, **told, "sought": rows["sought"][begin]}
        return pa.record_batch([columns[name] for name in _LINKED.names], schema=_LINKED)


def _odd(rows: Numbers, begin: Ints, inner: Bools) -> Bools:
    place, end, sought = rows["place"], rows["last_place"][begin], rows["sought"]
    back = place <= end
    far = np.where(rows["sent"] & ~inner, rows["ok"] & back, place != end + 1)
    odd: Bools = far & ~sought & ~(sought[begin] & (inner | back))
    return odd


def _of_strides(view: View) -> DataFrame:
    both = view.strides.where(F.col("what").isin(READS, SENDS))
    return both.select(*_columns(sent=F.col("what") == SENDS, sought=F.lit(False)))


def _of_rows(view: View) -> DataFrame:
    """Every row as a stride of its own."""
    return view.rows.where(in_a_place()).select(
        *_row_columns(sent=has("fact", SENT), ok=_ended_well())
    )


def _singles(view: View) -> list[DataFrame]:
    """Rows whose place others tell, and where readers sought to go on, as strides of a row."""
    found = [_strays(view)] if view.suspects["stray"] else []
    if view.moved:
        sought = has("what", SOUGHT) & ~has("what", EVERYWHERE)
        start = F.col("place") - 1
        seeks = view.strides.where(sought & F.col("place").isNotNull())
        here = {"last_op": F.col("op"), "last_at": F.col("at"), "place": start, "last_place": start}
        yes, no = F.lit(True), F.lit(False)
        found.append(seeks.withColumns(here).select(*_columns(sent=no, sought=yes, ok=yes)))
    return found


def _strays(view: View) -> DataFrame:
    """Rows that were told no offset, or not for sure, where their record stands all the same."""
    strays = view.rows.where(has("fact", STRAY))
    if view.suspects["stray"] <= FEW:
        strays = F.broadcast(strays)
    told = view.doubtful.where(has("facts", STRAY) & F.col("first").isNotNull())
    both = strays.join(told.select("key", "facts", "first"), "key")
    proven = view.proven.withColumn("proven", F.lit(True))
    met = has("facts", READ_BY_ANY | SEEN_OK)
    own = F.col("proven") & has("fact", SENT_INFO)
    place = F.coalesce(F.when(own, F.col("offset")), F.when(met, F.col("first")))
    found = both.join(proven, "deed", "left").withColumn("offset", place)
    sure = ~has("fact", SENT_FAIL | READ_OTHER | PEEK_OTHER)
    sent = has("fact", SENT)
    return found.where(F.col("offset").isNotNull()).select(*_row_columns(sent=sent, ok=sure))


def _ended_well() -> Column:
    return has("fact", SENT_OK | SEEN_OK)


def _row_columns(**columns: Column) -> list[Column]:
    here = {"last_op": F.col("op"), "last_at": F.col("at"), "sought": F.lit(False)}
    place = {"place": F.col("offset"), "last_place": F.col("offset")}
    return _columns(**here, **place, **columns)


def _columns(**columns: Column) -> list[Column]:
    return [columns.get(name, F.col(name)).alias(name) for name in _COLUMNS]

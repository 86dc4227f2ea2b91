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

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812

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
from checkers.clients.places import Order
from checkers.clients.strides import READS, SENDS
from checkers.clients.view import FEW, View, in_a_place

_COLUMNS: Final = (
    *("client", "slot", "sent", "ok", "sought"),
    *("op", "at", "place", "last_op", "last_at", "last_place"),
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
    ours = _of_strides(view).unionByName(singles)
    pairs = ["client", "slot", "sent"]
    linked = _linked(ours).where(F.col("overlaps") | _odd())
    steps = view.keep("steps", linked.select(*_steps(), "overlaps"))
    if view.any("steps", ds.field("overlaps")):
        tangled = steps.where("overlaps").select(*pairs).distinct()
        rows = _of_rows(view).unionByName(singles).join(tangled, pairs, "left_semi")
        one_by_one = _linked(rows).where(_odd()).select(*_steps())
        plain = steps.drop("overlaps").join(tangled, pairs, "left_anti")
        return view.keep("single-steps", plain.unionByName(one_by_one))
    return steps.drop("overlaps")


def _steps() -> list[Column]:
    """Linked strides as steps, of which ``wrong_steps`` tells."""
    began = [F.col(f"begin.last_{name}").alias(f"from_{name}") for name in ("op", "at", "place")]
    return [
        *map(F.col, ("client", "slot", "sent", "inner")),
        F.col("begin.sought").alias("sought"),
        *began,
        *map(F.col, ("op", "at", "place")),
    ]


def _linked(strides: DataFrame) -> DataFrame:
    """Strides with where the step to each begins, and whether it overlaps one before."""
    order = Window.partitionBy("client", "slot", "sent").orderBy("op", "at")
    past = order.rowsBetween(Window.unboundedPreceding, -1)
    end = F.struct("last_op", "last_at", "last_place", "sought")
    previous = F.lag(end).over(order)
    inner = F.coalesce(previous["last_op"] == F.col("op"), F.lit(False))
    good = F.last(F.when(F.col("ok"), end), ignorenulls=True).over(past)
    reach = F.max(F.struct("last_op", "last_at")).over(past)
    return strides.withColumns(
        {
            "inner": inner,
            "begin": F.when(inner, previous).otherwise(good),
            "overlaps": F.coalesce(reach > F.struct("op", "at"), F.lit(False)),
        }
    )


def _odd() -> Column:
    """Whether a step may be wrong. Between operations of producers others may write."""
    begin, place = F.col("begin.last_place"), F.col("place")
    between = F.col("sent") & ~F.col("inner")
    far = F.when(between, F.col("ok") & (place <= begin)).otherwise(place != begin + 1)
    pointless = F.col("sought") | (F.col("begin.sought") & (F.col("inner") | (place <= begin)))
    return F.coalesce(far & ~pointless, F.lit(False))


def _of_strides(view: View) -> DataFrame:
    both = view.strides.where(F.col("what").isin(READS, SENDS))
    return both.select(*_columns(sent=F.col("what") == SENDS, sought=F.lit(False)))


def _of_rows(view: View) -> DataFrame:
    """Every row as a stride of its own."""
    return view.rows.where(in_a_place()).select(
        *_row_columns(sent=has("fact", SENT), ok=_ended_well())
    )


def _singles(view: View) -> DataFrame:
    """Rows whose place others tell, and where readers sought to go on, as strides of a row."""
    sought = has("what", SOUGHT) & ~has("what", EVERYWHERE)
    start = F.col("place") - 1
    seeks = view.strides.where(sought & F.col("place").isNotNull())
    here = {"last_op": F.col("op"), "last_at": F.col("at"), "place": start, "last_place": start}
    yes, no = F.lit(True), F.lit(False)
    found = seeks.withColumns(here).select(*_columns(sent=no, sought=yes, ok=yes))
    return found.unionByName(_strays(view)) if view.suspects["stray"] else found


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

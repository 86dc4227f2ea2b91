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

from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients import picks
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
from checkers.clients.linking import LINKED, PAIR, STRIDE, Linking
from checkers.clients.moves import unexcused
from checkers.clients.numbers import Numbers
from checkers.clients.places import Order
from checkers.clients.telling import Share, portions
from checkers.clients.view import FEW, View, in_a_place
from checkers.leaves import for_spark

_STEP: Final = LINKED.remove(LINKED.get_field_index("overlaps")).append(
    pa.field("delta", pa.int64())
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
    if not view.tells(MOVES):
        return _measured(view, WRONG_STEPS)
    measured = _measured(view, "measured")
    if not view.any("measured"):
        return view.made(WRONG_STEPS, _STEP, lambda folder: for_spark(folder, 0, _STEP).close())
    moves = view.strides.where(has("what", MOVES))
    named = moves.select("client", "slot", "op", "at", F.col("what").alias("fact"))
    return view.keep(WRONG_STEPS, unexcused(measured, named))


def _measured(view: View, name: str) -> DataFrame:
    """Steps that are not right, kept under a name."""
    steps = _suspicious(view)
    shares = view.shares(sum(ds.dataset(one).count_rows() for one in steps))
    return view.made(
        name, _STEP, lambda folder: view.each(shares, _Measuring(steps, view.order, folder))
    )


class _Measuring:
    """A task of Spark's: steps that are not right, with their ``delta``.

    Args:
        steps: folders of Parquet files, in ``LINKED``.
        order: the version order.
        folder: where to leave them.
    """

    def __init__(self, steps: Sequence[Path], order: Path, folder: Path) -> None:
        self._steps = tuple(steps)
        self._order = order
        self._folder = folder

    def __call__(self, number: int, share: Share) -> None:
        """Measure what falls to one task, whose number its file bears."""
        order = Order(self._order)
        with for_spark(self._folder, number, _STEP) as writer:
            for batch in portions(self._steps, share):
                steps = batch.drop_columns(["overlaps"])
                slot, begin, end = (
                    steps[name].to_numpy() for name in ("slot", "from_place", "place")
                )
                before, known = order.before(slot, begin)
                length = order.before(slot, end)[0] - before
                delta = np.where(end > begin, length + 1 - known, length)
                wrong = pa.array(delta != 1)
                writer.write_batch(steps.append_column("delta", pa.array(delta)).filter(wrong))


def kinds(steps: pa.RecordBatch) -> pa.Array:
    """What steps that are not right are called; null for one that begins at a place sought."""
    inner, sent, sought = (
        steps[name].to_numpy(zero_copy_only=False) for name in ("inner", "sent", "sought")
    )
    back = steps["delta"].to_numpy() < 1
    each = (sent & inner & back, sent & inner, sent, inner & back, inner, back, True)
    number = np.select(each, range(len(KINDS)))
    return pa.array(KINDS).take(pa.array(number, mask=sought))


def _suspicious(view: View) -> list[Path]:
    """Folders of steps that are not to the next offset. Where strides overlap, row by row."""
    singles = {f"singles-{number}": one for number, one in enumerate(_singles(view))}
    for name, single in singles.items():
        view.keep(name, single)
    _link(view, "steps", [view.stretched, *map(view.folder, singles)])
    if not view.any("steps", ds.field("overlaps")):
        return [view.folder("steps")]
    overlaps = ds.dataset(view.folder("steps")).to_table(list(PAIR), filter=ds.field("overlaps"))
    tangled = overlaps.group_by(list(PAIR)).aggregate([])
    rows = reduce(DataFrame.unionByName, [_of_rows(view), *singles.values()])
    view.keep("rows", rows.join(view.spark.createDataFrame(tangled), list(PAIR), "left_semi"))
    _link(view, "single-steps", [view.folder("rows")])
    view.made("plain-steps", LINKED, partial(_untangled, view.folder("steps"), tangled))
    return [view.folder("plain-steps"), view.folder("single-steps")]


def _link(view: View, name: str, strides: Sequence[Path]) -> None:
    linking = Linking(strides, view.empty(f"sorted-{name}"))
    view.made(name, LINKED, lambda folder: view.each([folder], linking))


def _untangled(steps: Path, tangled: pa.Table, folder: Path) -> None:
    """The steps of all sequences but some."""
    those = picks.one(_whole(tangled))
    with for_spark(folder, 0, LINKED) as writer:
        for batch in portions([steps]):
            writer.write_batch(batch.filter(pa.array(~np.isin(picks.one(_whole(batch)), those))))


def _whole(rows: pa.Table | pa.RecordBatch) -> Numbers:
    """Which sequence each row is of, in whole numbers."""
    return {name: rows[name].cast(pa.int64()).to_numpy() for name in PAIR}


def _of_rows(view: View) -> DataFrame:
    """Every row as a stride of its own."""
    return view.rows.where(in_a_place()).select(
        *_row_columns(sent=has("fact", SENT), ok=_ended_well())
    )


def _singles(view: View) -> list[DataFrame]:
    """Rows whose place others tell, and where readers sought to go on, as strides of a row."""
    found = [_strays(view)] if view.suspects["stray"] else []
    if view.tells(SOUGHT):
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
    return [columns.get(name, F.col(name)).alias(name) for name in STRIDE.names]

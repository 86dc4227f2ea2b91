"""Steps that are not right, with the records that they leave out.

poll-skip, nonmonotonic-poll, nonmonotonic-send and their internal forms are steps of
``checkers.clients.sequence``.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from checkers import frames
from checkers.clients.numbers import Ints
from checkers.clients.picks import PLACE, one, within
from checkers.clients.places import Order
from checkers.clients.sequence import kind
from checkers.clients.view import View
from checkers.clients.witness import finding

SKIPPED_MAX: Final = 16
"""Skipped records that an anomaly names; its delta counts them all."""

_RECORD: Final = pa.struct([("offset", pa.int64()), ("value", pa.string()), ("note", pa.string())])
_COPIES: Final = from_arrow_schema(pa.schema([("copies", pa.list_(_RECORD))]))
_SKIPPED: Final = ("client", "at", "slot", "offset")
_TOGETHER: Final = 5  # of Spark's batches, of 10,000 steps each; records are gone through for each

STEPS: Final = frozenset(
    {
        *("poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "int-poll-skip"),
        *("int-nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send"),
    }
)


def step_findings(view: View, steps: DataFrame, kinds: frozenset[str]) -> list[DataFrame]:
    """The findings of these kinds, as ``checkers.clients.witness.finding`` makes them."""
    named = steps.withColumn("kind", kind()).where(F.col("kind").isin(*(kinds & STEPS)))
    ends = [F.struct(F.col("from_at").alias("at"), "client"), F.struct("at", "client")]
    back = finding(named.where(F.col("delta") < 1), F.col("kind"), ends=ends)
    over = named.where(F.col("delta") > 1)
    view.keep("skipped", skipped(view, over, most=SKIPPED_MAX).select(*PLACE))
    rows = view.rows_of("at-skipped", PLACE, view.told("skipped", *PLACE))
    view.keep("left-out", view.placed_among(rows).select(*PLACE, "value"))
    naming = _Naming(view.order, view.folder("left-out"))
    first = F.col("copies")[0]
    ahead = finding(
        frames.mapped(over, naming, [*over.schema, *_COPIES]),
        F.col("kind"),
        ends=ends,
        offset=first["offset"],
        value=first["value"],
    )
    return [back, ahead]


def skipped(view: View, over: DataFrame, *, most: int | None = None) -> DataFrame:
    """``client, at`` of steps, and ``slot, offset`` of what they leave out, a row each.

    Args:
        view: the history.
        over: steps to further than the next offset.
        most: of each step, the first ones alone.
    """
    fields = [T.StructField(name, T.LongType()) for name in _SKIPPED]
    return frames.mapped(over, _Listing(view.order, most), fields)


class _Listing:
    """A kernel: what each step leaves out."""

    def __init__(self, order: Path, most: int | None) -> None:
        self._order = order
        self._most = most

    def __call__(self, steps: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = Order(self._order)
        for batch in steps:
            for row, offset in order.left_out(batch, self._most):
                named = batch.select(["client", "at", "slot"]).take(pa.array(row))
                yield named.append_column("offset", pa.array(offset))


class _Naming:
    """A kernel: steps with ``copies``, the records known to stand where each leaves something out.

    Args:
        order: the version order.
        records: a folder of Parquet files: ``slot, offset, value``.
    """

    def __init__(self, order: Path, records: Path) -> None:
        self._order = order
        self._records = records

    def __call__(self, steps: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = Order(self._order)
        for batch in _gathered(steps):
            ((row, offset),) = order.left_out(batch, SKIPPED_MAX)
            place = one({"slot": batch["slot"].to_numpy()[row], "offset": offset})
            copies = self._copies(place, np.bincount(row))
            shown = pc.greater(pc.list_value_length(copies), 0)
            yield batch.append_column("copies", copies).filter(shown)

    def _copies(self, places: Ints, sizes: Ints) -> pa.ListArray:
        """The records at places, of which each step has so many."""
        known = self._known(np.unique(places))
        begin, end = (np.searchsorted(known["place"], places, side) for side in ("left", "right"))
        many = end - begin
        ends = np.cumsum(many)
        at = pa.array(np.repeat(end - ends, many) + np.arange(ends[-1]))
        taken = (
            known.select(["offset", "value"])
            .take(at)
            .append_column("note", pa.repeat("skipped", len(at)))
        )
        starts = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(sizes)])]
        return pa.ListArray.from_arrays(
            pa.array(starts, pa.int32()), taken.to_struct_array().combine_chunks()
        )

    def _known(self, places: Ints) -> pa.Table:
        """``place, offset, value`` of the records at some places, once each and in order."""
        found = []
        for batch in ds.dataset(self._records, format="parquet").to_batches():
            place = one({name: batch[name].to_numpy() for name in PLACE})
            here = batch.select(["offset", "value"]).append_column("place", pa.array(place))
            found.append(here.filter(pa.array(within(place, places))))
        records = pa.Table.from_batches(found).group_by(["place", "offset", "value"]).aggregate([])
        order = pc.sort_indices(
            records, [(name, "ascending", "at_start") for name in ("place", "value")]
        )
        return records.take(order)


def _gathered(steps: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same steps, many at a time: the records are gone through for each."""
    each = iter(steps)
    while batches := list(islice(each, _TOGETHER)):
        yield pa.concat_batches(batches)

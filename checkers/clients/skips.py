"""Steps that are not right, with the records that they leave out.

poll-skip, nonmonotonic-poll, nonmonotonic-send and their internal forms are steps of
``checkers.clients.sequence``. They are told by Spark's tasks, which read them as they were kept:
for Spark itself to make findings of 62,500 steps took 1.2 s, and a task 0.1.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - PySpark's own convention

from checkers import frames, leaves
from checkers.clients.facts import READ_BY_ANY, SENT_OK
from checkers.clients.numbers import Bools, Ints
from checkers.clients.picks import PLACE, ROW, Among, Held, Want, distinct, one
from checkers.clients.places import Order
from checkers.clients.sequence import KINDS, WRONG_STEPS, kinds
from checkers.clients.telling import FINDING, SHOWN, Share, portions
from checkers.clients.view import View

SKIPPED: Final = "at-skipped"
STEPPED: Final = "of-steps"
"""Rows of the history that steps ask for, as ``View.held`` names them."""

SKIPPED_MAX: Final = 16
"""Skipped records that an anomaly names; its delta counts them all."""

STEPS: Final = frozenset(KINDS)

_RECORD: Final = FINDING.field("copies").type.value_type
_PLACED: Final = pa.schema([("place", pa.int64()), ("offset", pa.int64()), ("value", pa.string())])
_LISTED: Final = ("client", "at", "slot", "offset")


def wants(view: View) -> dict[str, Want]:
    """What steps that are not right will ask of the history: what they leave out, and their ends.

    Args:
        view: the history, whose ``sequence.wrong_steps`` are kept.
    """
    steps = view.folder(WRONG_STEPS)
    return {
        SKIPPED: Want(
            by=PLACE,
            rows=lambda: _places(steps, Order(view.order)),
            columns=("offset", "value"),
            facts=SENT_OK | READ_BY_ANY,
        ),
        STEPPED: Want(by=ROW, rows=lambda: _ends(steps), columns=SHOWN),
    }


def step_findings(view: View, asked: frozenset[str]) -> Path:
    """The findings of these kinds: a folder of files, in ``checkers.clients.telling.FINDING``.

    Args:
        view: the history, whose ``sequence.wrong_steps`` are kept.
        asked: some of ``STEPS``.
    """
    steps, order, told = view.folder(WRONG_STEPS), view.order, view.folder("step-findings")
    view.hold(wants(view))
    told.mkdir(exist_ok=True)
    naming = _Naming(steps, order, view.held(SKIPPED), _late(view), told, asked)
    view.each(view.shares(ds.dataset(steps).count_rows()), naming)
    return told


def skipped(view: View, over: DataFrame) -> DataFrame:
    """``client, at`` of steps, and ``slot, offset`` of what they leave out, a row each.

    Args:
        view: the history.
        over: steps to further than the next offset.
    """
    fields = [T.StructField(name, T.LongType()) for name in _LISTED]
    return frames.mapped(over, _Listing(view.order), fields)


class _Listing:
    """A kernel: what each step leaves out."""

    def __init__(self, order: Path) -> None:
        self._order = order

    def __call__(self, steps: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = Order(self._order)
        for batch in steps:
            for row, offset in order.left_out(batch, None):
                named = batch.select(["client", "at", "slot"]).take(pa.array(row))
                yield named.append_column("offset", pa.array(offset))


def _late(view: View) -> Path | None:
    """A folder of what steps leave out, as far as only other rows tell that it stood there."""
    if not view.late:
        return None
    rows = view.rows_of(SKIPPED, PLACE, _places(view.folder(WRONG_STEPS), Order(view.order)))
    view.keep("left-out-late", view.placed_late(rows).select(*PLACE, "value"))
    return view.folder("left-out-late")


def _ends(folder: Path) -> pa.Table:
    """``at, client`` of the rows that steps lead from and to."""
    found = ds.dataset(folder, format="parquet").to_table(
        ["from_at", "at", "client"], filter=~ds.field("sought")
    )
    ends = [found.select([name, "client"]).rename_columns(list(ROW)) for name in ("from_at", "at")]
    return pa.concat_tables(ends)


def _places(folder: Path, order: Order) -> pa.Table:
    """``slot, offset`` of what steps leave out, as far as anomalies name it."""
    found = []
    for steps in portions([folder]):
        over = steps.filter(pc.and_(pc.greater(steps["delta"], 1), pc.invert(steps["sought"])))
        for row, offset in order.left_out(over, SKIPPED_MAX):
            found.append(pa.table([over["slot"].to_numpy()[row], offset], names=list(PLACE)))
    kept = pa.schema([(name, pa.int64()) for name in PLACE])
    return pa.concat_tables(found) if found else kept.empty_table()


def _asked(steps: pa.RecordBatch, asked: frozenset[str]) -> Bools:
    """Which steps are of these kinds."""
    among: Bools = pc.is_in(kinds(steps), pa.array(sorted(asked))).to_numpy(zero_copy_only=False)
    return among


class _Naming:
    """A task of Spark's: some steps as findings, with the records known to stand in between.

    Args:
        steps: a folder of Parquet files: ``sequence.wrong_steps``.
        order: the version order.
        records: a folder of rows that stood somewhere, as ``checkers.clients.picks`` left them.
        late: a folder of Parquet files with more of them: ``slot, offset, value``.
        folder: where to leave the findings.
        asked: the kinds that are asked for.
    """

    def __init__(
        self,
        steps: Path,
        order: Path,
        records: Path,
        late: Path | None,
        folder: Path,
        asked: frozenset[str],
    ) -> None:
        self._steps = steps
        self._order = order
        self._records = records
        self._late = late
        self._folder = folder
        self._asked = asked

    def __call__(self, number: int, share: Share) -> None:
        """Name what falls to one task, whose number its file bears."""
        order, records = Order(self._order), Held([self._records])
        with leaves.writer(self._folder, number, FINDING) as writer:
            for batch in portions([self._steps], share):
                steps = batch.filter(pa.array(_asked(batch, self._asked)))
                delta = steps["delta"].to_numpy()
                if (delta < 1).any():
                    writer.write_batch(_finding(steps.filter(pa.array(delta < 1))))
                if (delta > 1).any():
                    over = steps.filter(pa.array(delta > 1))
                    writer.write_batch(self._named(order, records, over))

    def _named(self, order: Order, records: Held, steps: pa.RecordBatch) -> pa.RecordBatch:
        """Steps that leave something out, as far as any of it is known to have stood there."""
        ((row, offset),) = order.left_out(steps, SKIPPED_MAX)
        place = one({"slot": steps["slot"].to_numpy()[row], "offset": offset})
        known = self._known(records, place, offset)
        copies = _copies(known, place, np.bincount(row))
        shown = pc.greater(pc.list_value_length(copies), 0)
        return _finding(steps.filter(shown), copies.filter(shown))

    def _known(self, records: Held, places: Ints, offsets: Ints) -> pa.Table:
        """``place, offset, value`` of the records at some places, once each and in order."""
        among = Among(distinct(places))
        near = records.between("offset", offsets.min(), offsets.max())
        found = [_PLACED.empty_table(), *(_at(among, batch["one"], batch) for batch in near)]
        if self._late is not None:
            for batch in ds.dataset(self._late, format="parquet").to_batches():
                place = one({name: batch[name].to_numpy() for name in PLACE})
                found.append(_at(among, pa.array(place), batch))
        known = pa.concat_tables(found).group_by(_PLACED.names).aggregate([])
        order = pc.sort_indices(
            known, [(name, "ascending", "at_start") for name in ("place", "value")]
        )
        return known.take(order)


def _at(places: Among, place: pa.Array, rows: pa.RecordBatch) -> pa.Table:
    """Those rows whose place is among some, in ``_PLACED``."""
    told = pa.table([place, rows["offset"], rows["value"]], schema=_PLACED)
    return told.filter(pa.array(places(place.to_numpy())))


def _copies(known: pa.Table, places: Ints, sizes: Ints) -> pa.ListArray:
    """The records at places, of which each step has so many."""
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
    records = taken.to_struct_array().combine_chunks().cast(_RECORD)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), records)


def _finding(steps: pa.RecordBatch, copies: pa.ListArray | None = None) -> pa.RecordBatch:
    """Steps as findings; the record at fault is the first copy, else that of the last row."""
    rows = len(steps)
    first = None if copies is None else copies.flatten().take(copies.offsets[:-1])
    at = np.stack([steps[name].to_numpy() for name in ("from_at", "at")], axis=1).ravel()
    client = np.repeat(steps["client"].to_numpy(), 2)
    kind = FINDING.field("ends").type.value_type
    ends = pa.StructArray.from_arrays([at, client], fields=list(kind))
    columns = {
        "kind": kinds(steps),
        "ends": pa.ListArray.from_arrays(pa.array(2 * np.arange(rows + 1), pa.int32()), ends),
        "named": pa.repeat(copies is not None, rows),
        "delta": steps["delta"],
    }
    if copies is not None and first is not None:
        columns["copies"] = copies
        columns |= {name: pc.struct_field(first, name) for name in ("offset", "value")}
    arrays = [columns.get(one.name, pa.nulls(rows, one.type)) for one in FINDING]
    return pa.record_batch(arrays, schema=FINDING)

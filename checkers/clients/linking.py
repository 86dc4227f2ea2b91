"""Links strides to steps: rows in their order, compared with those before.

A task sorts them without Spark (``checkers.ordering``) and goes through them once, holding a few:
Spark's windows over 62,500 strides took 1.5 s, and this takes a tenth.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from checkers.clients.numbers import Bools, Ints, Numbers
from checkers.leaves import dataset, for_spark
from checkers.ordering import in_order

PAIR: Final = ("client", "slot", "sent")
"""Whose rows are one sequence: what a client sent to a slot, or what it read there."""

STRIDE: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("client", "slot")),
        *((name, pa.bool_()) for name in ("sent", "ok", "sought")),
        *((name, pa.int64()) for name in ("op", "at", "place")),
        *((f"last_{name}", pa.int64()) for name in ("op", "at", "place")),
    ]
)
"""What is linked; ``sought`` begins where a reader sought to go on from, and may be null."""

LINKED: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("client", "slot")),
        *((name, pa.bool_()) for name in ("sent", "inner", "sought")),
        *((f"from_{name}", pa.int64()) for name in ("op", "at", "place")),
        *((name, pa.int64()) for name in ("op", "at", "place")),
        ("overlaps", pa.bool_()),
    ]
)

TOGETHER: Final = 1_000_000
"""So many rows are sorted at once."""


class Linking:
    """A task of Spark's: steps that may be wrong, and those whose strides overlap.

    Args:
        strides: folders of Parquet files, in columns of ``STRIDE``; rows of which it is not known
            whether they were ``sent`` are no strides.
        scratch: an empty folder.
    """

    def __init__(self, strides: Sequence[Path], scratch: Path) -> None:
        self._strides = tuple(strides)
        self._scratch = scratch

    def __call__(self, number: int, folder: Path) -> None:
        """Leave the steps, in ``LINKED``, in a folder."""
        found = dataset(self._strides, STRIDE)
        strides = found.filter(ds.field("sent").is_valid())
        tables = in_order(strides, (*PAIR, "op", "at"), self._scratch, range_rows=TOGETHER)
        with for_spark(folder, number, LINKED) as writer:
            for steps in _linked(batch for table in tables for batch in table.to_batches()):
                writer.write_batch(steps)


def _linked(strides: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The steps of strides in order; of those before only the last is held, and the last good."""
    held: list[pa.RecordBatch] = []
    for batch in strides:
        rows = pa.Table.from_batches([*held, batch]).combine_chunks().to_batches()[0]
        links = _Links.of(rows)
        new = np.arange(len(rows)) >= len(rows) - len(batch)
        yield links.steps(np.flatnonzero(new & (links.overlaps | links.odd)))
        last = len(rows) - 1
        good = last if links.rows["ok"][last] else int(links.good[last])
        held = [rows.take(pa.array(sorted({last, good} - {-1})))]


@dataclass(frozen=True, slots=True)
class _Links:
    """Strides in order, and where the step to each begins.

    Attributes:
        rows: the columns of the strides.
        good: the last one before each, of the same sequence, that ended well, or -1.
        begin: from which each step leads, or -1.
        inner: whether that is within one operation.
        overlaps: whether the one before ends behind the begin of this. One that overlaps any before
            it makes one overlap that stands next to it.
        odd: whether the step may be wrong. Between operations of producers others may write.
    """

    rows: Numbers
    good: Ints
    begin: Ints
    inner: Bools
    overlaps: Bools
    odd: Bools

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "_Links":
        rows: Numbers = {name: _numbers(batch[name]) for name in STRIDE.names}
        number = np.arange(len(batch))
        same = np.zeros(len(batch), np.bool_)
        same[1:] = np.logical_and.reduce([rows[name][1:] == rows[name][:-1] for name in PAIR])
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
        return cls(rows, good, begin, inner, same & behind, odd)

    def steps(self, at: Ints) -> pa.RecordBatch:
        """The steps to some strides, in ``LINKED``."""
        rows, begin = self.rows, self.begin[at]
        began = {f"from_{name}": rows[f"last_{name}"][begin] for name in ("op", "at", "place")}
        own = {name: rows[name][at] for name in (*PAIR, "op", "at", "place")}
        told = {"inner": self.inner[at], "overlaps": self.overlaps[at]}
        columns = {**own, **began, **told, "sought": rows["sought"][begin]}
        return pa.record_batch([columns[name] for name in LINKED.names], schema=LINKED)


def _numbers(column: pa.Array) -> Any:  # noqa: ANN401 - of any type
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False)
    return column.to_numpy()


def _odd(rows: Numbers, begin: Ints, inner: Bools) -> Bools:
    place, end, sought = rows["place"], rows["last_place"][begin], rows["sought"]
    back = place <= end
    far = np.where(rows["sent"] & ~inner, rows["ok"] & back, place != end + 1)
    odd: Bools = far & ~sought & ~(sought[begin] & (inner | back))
    return odd

"""Where an offset stands in the version order, and what stands between two of them.

Offsets are looked up among stretches (``View.extents``) by binary search, whatever lies between.
Spark has no such join: it sorts offsets and stretches together, twice as dear with 125,000 each.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from checkers.clients.numbers import Bools, Ints
from checkers.clients.strides import KNOWN, READS
from checkers.leaves import dataset, for_spark
from checkers.ordering import in_order

_SKIPPED_ROWS: Final = 1_000_000
"""So many places are made at once: a single step may leave out any number."""

_END: Final = np.iinfo(np.int64).max
_START: Final = np.iinfo(np.int64).min


EXTENT: Final = pa.schema([(name, pa.int64()) for name in ("slot", "low", "high", "base")])
"""A stretch of a log: ``checkers.clients.view.View.extents``."""

_TOGETHER: Final = 1_000_000  # stretches that are sorted at once
_PLACE: Final = ("slot", "place", "last_place")
_KNOWN: Final = pa.schema(
    [("what", pa.int32()), ("sure", pa.bool_()), *((name, pa.int64()) for name in _PLACE)]
)


class Extending:
    """A task of Spark's: stretches of offsets that are known, each offset once.

    Args:
        known: folders of Parquet files, in columns of ``checkers.clients.strides.SCHEMA``.
        scratch: an empty folder.
    """

    def __init__(self, known: Sequence[Path], scratch: Path) -> None:
        self._known = tuple(known)
        self._scratch = scratch

    def __call__(self, number: int, folder: Path) -> None:
        """Leave them, in ``EXTENT``, in a folder."""
        found = dataset(self._known, _KNOWN)
        what = ds.field("what")
        known = found.filter((what == KNOWN) | ((what == READS) & ds.field("sure")))
        tables = in_order(known, _PLACE, self._scratch, range_rows=_TOGETHER)
        with for_spark(folder, number, EXTENT) as writer:
            keep(_written(_extended(table for table in tables if len(table)), writer), folder)


def _written(tables: Iterable[pa.Table], writer: pq.ParquetWriter) -> Iterator[pa.Table]:
    for table in tables:
        writer.write_table(table)
        yield table


def keep(stretches: Iterable[pa.Table], folder: Path) -> None:
    """Leave stretches in order, in ``EXTENT``, where ``Order`` looks for them.

    One more stands last, of no slot, so that there always is one to look at. Files whose names
    begin like this are not read as Parquet.
    """
    end = pa.table([pa.array([_END])] * len(EXTENT), schema=EXTENT)
    with ExitStack() as stack:
        files = {name: stack.enter_context(_file(folder, name).open("wb")) for name in EXTENT.names}
        for table in chain(stretches, [end]):
            for name, file in files.items():
                file.write(memoryview(table[name].to_numpy()))


def _file(folder: Path, name: str) -> Path:
    return folder / f"_{name}.int64"


def _extended(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """What places in order add to those before, which end at a place and are so many."""
    last, reach, count = _END, _START, 0
    for table in tables:
        slot, low, high = (table[name].to_numpy() for name in _PLACE)
        new = np.concatenate(([slot[0] != last], slot[1:] != slot[:-1]))
        group = np.cumsum(new)
        before = _most_before(group, np.concatenate(([reach], high[:-1])), new)
        fresh = np.maximum(low, before + 1)
        size = np.maximum(high - fresh + 1, 0)
        end = np.cumsum(size)
        begun = np.concatenate(([-count], (end - size)[new]))[group]
        base = end - size - begun
        last, reach, count = slot[-1], max(before[-1], high[-1]), int(base[-1] + size[-1])
        told = pa.table([slot, fresh, high, base], schema=EXTENT)
        yield told.filter(pa.array(size > 0))


def _most_before(group: Ints, before: Ints, new: Bools) -> Ints:
    """The greatest number so far of each group, and one before any offset where it begins.

    Numbers are ranked, so that those of a later group are greater than all of an earlier one.
    """
    known, rank = np.unique(np.where(new, _START, before), return_inverse=True)
    most = np.maximum.accumulate(group * len(known) + rank) - group * len(known)
    found: Ints = known[most]
    return found


class Order:
    """The version order of all logs, which tasks share through a file.

    Args:
        folder: where ``keep`` left it.
    """

    def __init__(self, folder: Path) -> None:
        self._slot, self._low, self._high, self._base = (
            np.memmap(_file(folder, name), np.int64, "r").view(np.ndarray) for name in EXTENT.names
        )

    def before(self, slot: Ints, place: Ints) -> tuple[Ints, Bools]:
        """How many known offsets of its slot come before each, and whether it is known itself.

        That number is a known offset's own index.
        """
        at = _latest(self._slot, self._low, slot, place)
        here = (at >= 0) & (self._slot[at] == slot)
        low, high = self._low[at], self._high[at]
        inside = np.minimum(place - low, high - low + 1)
        return np.where(here, self._base[at] + inside, 0), here & (place <= high)

    def offset(self, slot: Ints, index: Ints) -> Ints:
        """The offset that has each index, which there must be."""
        at = _latest(self._slot, self._base, slot, index)
        offset: Ints = self._low[at] + index - self._base[at]
        return offset

    def left_out(self, steps: pa.RecordBatch, most: int | None) -> Iterator[tuple[Ints, Ints]]:
        """What steps to further than the next offset leave out: rows of steps, and offsets.

        Args:
            steps: with ``slot, from_place, delta``.
            most: of each step, the first ones alone.
        """
        slot, place, delta = (steps[name].to_numpy() for name in ("slot", "from_place", "delta"))
        before, known = self.before(slot, place)
        size = delta - 1 if most is None else np.minimum(delta - 1, most)
        end = np.cumsum(size)
        first = before + known - (end - size)
        for begin in range(0, int(size.sum()), _SKIPPED_ROWS):
            number = np.arange(begin, min(begin + _SKIPPED_ROWS, end[-1]))
            row = np.searchsorted(end, number, "right")
            yield row, self.offset(slot[row], first[row] + number)


def _latest(slots: Ints, starts: Ints, slot: Ints, by: Ints) -> Ints:
    """The last stretch, of all in order, that is of the slot and starts at or before a number.

    Where there is none, another slot's, or -1.
    """
    low, high = (np.searchsorted(slots, slot, side) - 1 for side in ("left", "right"))
    while (low < high).any():
        middle = (low + high + 1) // 2
        begun = starts[middle] <= by
        low, high = np.where(begun, middle, low), np.where(begun, high, middle - 1)
    return low

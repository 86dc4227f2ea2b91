"""Where an offset stands in the version order, and what stands between two of them.

Offsets are looked up among stretches (``View.extents``) by binary search, whatever lies between.
Spark has no such join: it sorts offsets and stretches together, twice as dear with 125,000 each.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from checkers.clients.numbers import Bools, Ints

_SKIPPED_ROWS: Final = 1_000_000
"""So many places are made at once: a single step may leave out any number."""

_FILE: Final = "order.npy"
_END: Final = np.iinfo(np.int64).max


class Order:
    """The version order of all logs, which tasks share through a file.

    Args:
        folder: where ``kept`` left it.
    """

    def __init__(self, folder: Path) -> None:
        self._slot, self._low, self._high, self._base = np.load(folder / _FILE, mmap_mode="r")

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


def kept(extents: Path) -> Path:
    """Leave ``View.extents``, which is in that folder, in it as an ``Order`` too.

    One stretch more stands last, of no slot, so that there always is one to look at.
    """
    found = ds.dataset(extents, format="parquet").to_table(["slot", "low", "high", "base"])
    columns = [column.to_numpy() for column in found.columns]
    order = np.lexsort((columns[1], columns[0]))
    np.save(extents / _FILE, np.stack([np.append(column[order], _END) for column in columns]))
    return extents

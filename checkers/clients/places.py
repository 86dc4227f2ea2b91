"""The version order: which offsets of each log are known, and what lies between two of them.

Offsets are looked up among stretches by binary search, whatever lies between.
"""

from typing import Final

import numpy as np

from checkers.clients.columns import Bools, Ints, groups

_START: Final = np.iinfo(np.int64).min
_END: Final = np.iinfo(np.int64).max


class Order:
    """The version order of some logs, as stretches of offsets that are known, each offset once.

    Args:
        slot: of stretches that may overlap, in any order.
        low: the first offset of each.
        high: the last one.
    """

    def __init__(self, slot: Ints, low: Ints, high: Ints) -> None:
        order = np.lexsort((high, low, slot))
        slot, low, high = slot[order], low[order], high[order]
        first = groups(slot)
        size = np.diff(np.append(first, len(slot)))
        before = np.concatenate(([_START], high[:-1]))
        before[first] = _START
        fresh = np.maximum(low, _most_so_far(before, first, size) + 1)
        length = np.maximum(high - fresh + 1, 0)
        end = np.cumsum(length)
        base = end - length - np.repeat((end - length)[first], size)
        kept = length > 0
        # One of no slot stands last, so that there always is one to look at.
        self._slot, self._low, self._high, self._base = (
            np.append(column[kept], _END) for column in (slot, fresh, high, base)
        )

    def before(self, slot: Ints, place: Ints) -> tuple[Ints, Bools]:
        """How many known offsets of its slot come before each, and whether it is known itself.

        That number is a known offset's own index.
        """
        at = latest(self._slot, self._low, slot, place)
        here = at >= 0
        low, high = self._low[at], self._high[at]
        inside = np.minimum(place - low, high - low + 1)
        return np.where(here, self._base[at] + inside, 0), here & (place <= high)

    def offset(self, slot: Ints, index: Ints) -> Ints:
        """The offset that has each index, which there must be."""
        at = latest(self._slot, self._base, slot, index)
        offset: Ints = self._low[at] + index - self._base[at]
        return offset

    def length(self, slot: Ints, begin: Ints, end: Ints) -> Ints:
        """How many known offsets a step from one place to another goes on; 1 is right."""
        before, known = self.before(slot, begin)
        size = self.before(slot, end)[0] - before
        found: Ints = np.where(end > begin, size + 1 - known, size)
        return found

    def left_out(self, slot: Ints, begin: Ints, length: Ints, most: int) -> tuple[Ints, Ints]:
        """What steps leave out: how many offsets each, at most so many, and these offsets."""
        before, known = self.before(slot, begin)
        size = np.clip(length - 1, 0, most)
        first = before + known - (np.cumsum(size) - size)
        row = np.repeat(np.arange(len(slot)), size)
        return size, self.offset(slot[row], first[row] + np.arange(len(row)))


def latest(slots: Ints, starts: Ints, slot: Ints, by: Ints) -> Ints:
    """The last stretch, of all in order, that is of the slot and starts at or before a number.

    Where there is none, -1.
    """
    begin, end = (np.searchsorted(slots, slot, side) - 1 for side in ("left", "right"))
    low, high = begin.copy(), end
    while (low < high).any():
        middle = (low + high + 1) // 2
        begun = starts[middle] <= by
        low, high = np.where(begun, middle, low), np.where(begun, high, middle - 1)
    return np.where(low > begin, low, -1)


def _most_so_far(column: Ints, first: Ints, size: Ints) -> Ints:
    """The greatest number so far of each group.

    Numbers are ranked, so that those of a later group are greater than all of an earlier one.
    """
    known, rank = np.unique(column, return_inverse=True)
    group = np.repeat(np.arange(len(first)), size) * len(known)
    found: Ints = known[np.maximum.accumulate(group + rank) - group]
    return found

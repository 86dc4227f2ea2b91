"""The version order of logs: the known offsets of each log, and the distance between them."""

import numpy as np

from highwater.checkers.history.columns import Bools, Ints, so_far


class Order:
    """The version order of some logs.

    All known offsets are numbered from 0, log by log. The number of an offset is its index.

    Args:
        slot: the partition of each range of known offsets. Ranges may overlap; their order is free.
        low: the first offset of each range.
        high: the last offset of each range.
    """

    def __init__(self, slot: Ints, low: Ints, high: Ints) -> None:
        self._slot, self._low, self._end = merge_offset_ranges(slot, low, high)
        self._until: Ints = np.cumsum(self._end - self._low)

    def before(self, slot: Ints, place: Ints) -> tuple[Ints, Bools]:
        """Return each offset's index, and whether the offset is known.

        An unknown offset has the index of the next known offset.
        """
        at = so_far((self._slot, self._low), (slot, place)) - 1
        # Before the first range ``at`` is -1: this is the index of the zero that ``append`` adds.
        slots, end, until = (
            np.append(column, 0) for column in (self._slot, self._end, self._until)
        )
        here = (at >= 0) & (slots[at] == slot)
        left = np.where(here, np.maximum(end[at] - place, 0), 0)
        return until[at] - left, left > 0

    def offset(self, index: Ints) -> Ints:
        """Return the known offset at each index."""
        at = np.searchsorted(self._until, index, "right")
        offsets: Ints = self._end[at] - (self._until[at] - index)
        return offsets

    def between(self, slot: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return each step's length, and the index of the first known offset after its ``begin``.

        The length counts known offsets. It is 1 for a step to the next known offset, and 0 or less
        for a step that does not go forward.
        """
        index, is_inside = self.before(slot, begin)
        size = self.before(slot, end)[0] - index
        return np.where(end > begin, size + 1 - is_inside, size), index + is_inside


def merge_offset_ranges(slot: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge offset ranges into sorted ranges that do not touch.

    Returns:
        The partition of each range, its first offset, and the offset after its last offset.
    """
    place, change = np.concatenate((low, high + 1)), np.repeat((1, -1), len(slot))
    order = np.lexsort((-change, place, np.tile(slot, 2)))
    last = np.flatnonzero(np.cumsum(change[order]) == 0)
    first = np.concatenate(([0], last + 1))[:-1]
    return np.tile(slot, 2)[order][first], place[order][first], place[order][last]

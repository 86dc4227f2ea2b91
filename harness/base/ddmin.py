"""Delta debugging: find the smallest subset of a list of items that still has a property.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on
Software Engineering 28(2), 2002, algorithm ddmin.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(whole: Sequence[T], does: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a 1-minimal subset that has the property: every single item in it is necessary.

    The items stay in order. If ``does`` depends on chance, the result may contain an unnecessary
    item. It may also lack an item that made the property more frequent. For n items, the worst case
    takes ``n² + 3n`` tests. If a single item is enough, ``2 log₂ n`` tests are enough.

    Args:
        whole: the items. The function does not test that the complete list has the property.
        does: tests whether a subset has the property. The subsets become smaller and smaller; the
            empty subset is tested too. No subset is tested twice.
    """
    answers: dict[tuple[int, ...], bool] = {}

    def still(part: Sequence[int]) -> bool:
        key = tuple(part)
        if key not in answers:
            answers[key] = does(tuple(whole[index] for index in key))
        return answers[key]

    left = list(range(len(whole)))
    if left and still([]):
        return ()
    pieces = 2
    while len(left) > 1:
        pieces = min(pieces, len(left))
        chunks = _split(left, pieces)
        rests = [[index for index in left if index not in set(chunk)] for chunk in chunks]
        if (smaller := _first(chunks, still)) is not None:
            left, pieces = smaller, 2
        elif pieces > 2 and (smaller := _first(rests, still)) is not None:  # noqa: PLR2004 - of two, rests are chunks
            left, pieces = smaller, pieces - 1
        elif pieces == len(left):
            break
        else:
            pieces *= 2
    return tuple(whole[index] for index in left)


def _split(items: Sequence[int], pieces: int) -> list[list[int]]:
    """Split items, in order, into pieces of about equal size."""
    bounds = [len(items) * number // pieces for number in range(pieces + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds)]


def _first(
    parts: Sequence[Sequence[int]], does: Callable[[Sequence[int]], bool]
) -> list[int] | None:
    return next((list(part) for part in parts if does(part)), None)

"""Delta debugging: the smallest part of a whole that still does it.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on
Software Engineering 28(2), 2002, algorithm ddmin.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(whole: Sequence[T], does: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a part of ``whole``, in order, that does it, and not without any one item.

    So it is 1-minimal. That is as good as ``does``: where this is a matter of chance, an item may
    stay that is not needed, and one may go without which it is done less often.

    Args:
        whole: of which it is known that it does it; nobody asks again.
        does: asked of smaller and smaller parts, also of none; of each part once.

    Returns:
        The part. In the worst case ``n² + 3n`` parts of n items were asked about, and where one
        item alone does it, ``2 log₂ n``.
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
    """As many pieces of as equal a size as can be, in order."""
    bounds = [len(items) * number // pieces for number in range(pieces + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds)]


def _first(
    parts: Sequence[Sequence[int]], does: Callable[[Sequence[int]], bool]
) -> list[int] | None:
    return next((list(part) for part in parts if does(part)), None)

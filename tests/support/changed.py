"""Something drawn is changed in one way, and what is found is exactly what the change says."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.support.seeds import FIRST, HISTORIES

_Made = TypeVar("_Made")
_Found = TypeVar("_Found")


def drawn(make: Callable[[random.Random], _Made]) -> Iterator[tuple[int, _Made]]:
    """Yield each seed, and what is made from it."""
    for seed in range(FIRST, FIRST + HISTORIES):
        yield seed, make(random.Random(seed))  # noqa: S311


def require_exact(
    make: Callable[[random.Random], _Made],
    changes: Sequence[Callable[[_Made], tuple[_Found, _Found] | None]],
) -> None:
    """Apply the changes in turn, each of which returns what is found, and what is to be found.

    A change returns None where it cannot be made; each must be made once at least.
    """
    applied = set()
    for seed, made in drawn(make):
        change = changes[seed % len(changes)]
        outcome = change(made)
        if outcome is not None:
            result, expected = outcome
            applied.add(change.__name__)
            assert result == expected, (seed, change.__name__)
    assert applied == {change.__name__ for change in changes}

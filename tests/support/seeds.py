"""Seeds of generated tests: the first few are for every day, all of them for the night.

``HIGHWATER_SEED`` is the first one, and hypothesis' too. Without it every run has the same
examples; each night has its own.
"""

import os
from typing import Any, Final

import pytest

FIRST: Final = int(os.environ.get("HIGHWATER_SEED") or "0")
"""The first seed."""


def histories(day: int, night: int) -> int:
    """Return how many histories a test draws: ``HIGHWATER_HISTORIES``, or what the time allows."""
    return int(os.environ.get("HIGHWATER_HISTORIES") or (night if FIRST else day))


HISTORIES: Final = histories(150, 600)
"""Small histories of a generated test; of new ones so many that no kind of change is missing."""

QUICK = 30
"""So many seeds are enough by day; each night has others."""


def seeds(count: int) -> list[Any]:
    """Return so many seeds as parameters; those beyond the first few are for the night."""
    more = [pytest.mark.drawn, pytest.mark.nightly]
    return [
        pytest.param(FIRST + place, marks=more if place >= QUICK else pytest.mark.drawn)
        for place in range(count)
    ]

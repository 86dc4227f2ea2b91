"""Seeds of generated tests: the first are quick tests, `make test` has the others too.

``HIGHWATER_SEED`` is the first one, and hypothesis' too. Without it every run has the same
examples; each night has its own.
"""

import os
from typing import Any, Final

import pytest

FIRST: Final = int(os.environ.get("HIGHWATER_SEED") or "0")
"""The first seed."""

HISTORIES: Final = int(os.environ.get("HIGHWATER_HISTORIES") or (600 if FIRST else 150))
"""Small histories of a generated test; of new ones so many that no kind of change is missing."""

QUICK = 30
"""So many seeds are enough while one works on the code."""


def seeds(count: int) -> list[Any]:
    """Return so many seeds as parameters; those beyond the first few are marked ``slow``."""
    slow = [pytest.mark.drawn, pytest.mark.slow]
    return [
        pytest.param(FIRST + place, marks=slow if place >= QUICK else pytest.mark.drawn)
        for place in range(count)
    ]

"""Seeds of generated tests: the first are quick tests, `make test` has the others too."""

from typing import Any

import pytest

QUICK = 30
"""So many seeds are enough while one works on the code."""


def seeds(count: int) -> list[Any]:
    """Return parameters 0 to ``count``; those beyond the first few are marked ``slow``."""
    return [
        pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow) for seed in range(count)
    ]

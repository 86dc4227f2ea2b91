"""Which rows are asked for, told by their numbers."""

import numpy as np
import pytest

from checkers.clients.picks import Among


@pytest.mark.parametrize("size", [0, 1, 50, 20_000])
def test_numbers_are_found_among_some_whatever_their_last_bits(size: int) -> None:
    draw = np.random.default_rng(size)
    some = np.unique(draw.integers(-(1 << 62), 1 << 62, size))
    near = some[:100] ^ (1 << 40)  # the same last bits
    numbers = draw.permutation(np.concatenate([some, near, draw.integers(-9, 9, 100)]))
    assert Among(some)(numbers).tolist() == np.isin(numbers, some).tolist()

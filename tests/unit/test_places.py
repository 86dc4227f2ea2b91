"""Where offsets stand in the version order, held against counting them one by one."""

import random

import numpy as np
import pytest

from checkers.clients.places import Order

STRETCHES = {-7: [(2, 4), (5, 5), (9, 12)], 3: [(0, 0)], 8: [(1, 1), (3, 9)]}
"""By slot, the stretches of offsets that are known."""


def _order(stretches: dict[int, list[tuple[int, int]]]) -> Order:
    rows = [(slot, *each) for slot, known in stretches.items() for each in known]
    return Order(*np.array(rows, np.int64).reshape(-1, 3).T)


@pytest.mark.parametrize("slot", [-9, -7, 0, 3, 8, 11])
def test_an_offset_stands_behind_all_known_ones_before_it(slot: int) -> None:
    order = _order(STRETCHES)
    known = [at for low, high in STRETCHES.get(slot, []) for at in range(low, high + 1)]
    asked = np.arange(15)
    before, there = order.before(np.full(15, slot), asked)
    assert before.tolist() == [sum(each < at for each in known) for at in asked]
    assert there.tolist() == [at in known for at in asked]
    index = np.arange(len(known))
    assert order.offset(np.full(len(known), slot), index).tolist() == known


def test_nothing_is_known_of_logs_in_which_nothing_stands() -> None:
    before, there = _order({}).before(np.array([4]), np.array([0]))
    assert (before.tolist(), there.tolist()) == ([0], [False])


@pytest.mark.parametrize(("most", "named"), [(100, [3, 4, 5, 9]), (2, [3, 4])])
def test_steps_leave_out_what_is_known_between_their_ends(most: int, named: list[int]) -> None:
    slot, begin, length = np.array([-7, 8, -7]), np.array([2, 0, 12]), np.array([5, 2, -3])
    size, offset = _order(STRETCHES).left_out(slot, begin, length, most)
    assert offset.tolist() == [*named, 1]
    assert size.tolist() == [len(named), 1, 0]


@pytest.mark.parametrize("seed", range(60))
def test_every_offset_that_is_known_is_counted_once(seed: int) -> None:
    """Whatever overlaps, in any order."""
    draw = random.Random(seed)  # noqa: S311
    rows, known = [], dict[int, set[int]]()
    for _ in range(draw.randrange(24)):
        low, slot = draw.randrange(30), draw.choice((-5, 2, 9))
        high = low + draw.randrange(6)
        rows.append((slot, low, high))
        known.setdefault(slot, set()).update(range(low, high + 1))
    order = Order(*np.array(rows, np.int64).reshape(-1, 3).T)
    for slot, offsets in known.items():
        at = np.array(sorted(offsets))
        same = np.full(len(at), slot)
        before, there = order.before(same, at)
        assert before.tolist() == [*range(len(at))]
        assert there.all()
        assert order.offset(same, before).tolist() == at.tolist()
        asked = np.arange(-1, 40)
        count, _ = order.before(np.full(len(asked), slot), asked)
        assert count.tolist() == [sum(one < place for one in offsets) for place in asked]
    begin, end = np.array(draw.sample(range(36), 8)), np.array(draw.sample(range(36), 8))
    for slot, offsets in known.items():
        length = order.length(np.full(8, slot), begin, end).tolist()
        assert length == [_length(offsets, *each) for each in zip(begin, end, strict=True)]


def _length(known: set[int], begin: int, end: int) -> int:
    """How many known offsets it is from one place to another."""
    if end > begin:
        return 1 + sum(begin < one < end for one in known)
    return -sum(end <= one < begin for one in known)

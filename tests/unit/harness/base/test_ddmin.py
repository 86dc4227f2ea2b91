"""ddmin finds a part that does it and of which every item is needed, and asks little."""

from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from highwater.harness.base.ddmin import ddmin

Part = tuple[int, ...]


def counted(does: Callable[[Part], bool]) -> tuple[Callable[[Part], bool], list[Part]]:
    asked: list[Part] = []

    def ask(part: Part) -> bool:
        asked.append(part)
        return does(part)

    return ask, asked


@given(st.integers(1, 40), st.data())
def test_the_needed_items_are_what_is_left(size: int, data: st.DataObject) -> None:
    whole = tuple(range(size))
    needed = data.draw(st.sets(st.sampled_from(whole)))
    ask, asked = counted(lambda part: needed <= set(part))
    assert ddmin(whole, ask) == tuple(sorted(needed))
    assert len(asked) == len(set(asked)) <= size**2 + 3 * size + 1


@given(st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=4), min_size=1, max_size=4))
def test_of_several_ways_one_is_left_and_nothing_can_be_left_out_of_it(
    ways: list[set[int]],
) -> None:
    def does(part: Part) -> bool:
        return any(way <= set(part) for way in ways)

    left = ddmin(range(16), does)
    assert does(left)
    assert not any(does(tuple(set(left) - {one})) for one in left)


@given(st.integers(1, 12), st.randoms(use_true_random=False), st.floats(0, 1))
def test_an_oracle_without_any_sense_is_1_minimal_by_its_own_answers(
    size: int, random: Random, often: float
) -> None:
    """The whole does it, and of the rest chance decides: what was asked of the end is all no."""
    ask, asked = counted(lambda _: random.random() < often)
    left = ddmin(range(size), ask)
    assert tuple(sorted(left)) == left
    assert left == tuple(range(size)) or left in asked
    if len(left) > 1:
        rests = {tuple(one for one in left if one != gone) for gone in left}
        assert rests <= set(asked)


def test_one_of_a_thousand_is_found_by_halves() -> None:
    ask, asked = counted(lambda part: 700 in part)
    assert ddmin(range(1000), ask) == (700,)
    assert len(asked) <= 1 + 2 * 10


def test_what_needs_nothing_comes_to_nothing() -> None:
    assert ddmin(range(5), lambda _: True) == ()
    assert ddmin((), lambda _: False) == ()

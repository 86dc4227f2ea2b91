"""Waiting for what has to hold for a while."""

from collections.abc import Iterator

from highwater.harness.base.waiting import SteadyCondition


def ticking() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 1.0


def test_a_condition_holds_steadily_after_that_long_without_a_break() -> None:
    clock = ticking()
    until = SteadyCondition[bool](bool, for_s=2.0, clock=lambda: next(clock))
    held = [until(seen) for seen in (True, True, False, True, True, True, True)]
    assert held == [False] * 5 + [True] * 2

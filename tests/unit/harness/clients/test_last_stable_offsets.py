"""A last stable offset stands when nothing moves for the limit and its leader confirms it."""

import pytest

from highwater.harness.clients.final_read import LastStableOffsets


class Watched:
    """A partition with a fence at 7, a clock, and a leader that tells its last stable offset."""

    def __init__(self, *, limit_s: float | None = 5.0, fence: int | None = 7) -> None:
        self.now_s = 0.0
        self.lso = 4
        self.asked = 0
        self.ends = LastStableOffsets({0: fence}, limit_s, self._ask, lambda: self.now_s)

    def _ask(self, partition: int) -> int:
        assert partition == 0
        self.asked += 1
        return self.lso

    def after(self, seconds: float) -> list[tuple[int, int, float]]:
        """Let time pass, and look: the offset, the fence and the seconds of what stands."""
        self.now_s += seconds
        self.ends.look()
        return [(end.lso, end.fence, end.seconds) for end in self.ends.standing.values()]


def test_it_stands_after_the_limit_and_not_before() -> None:
    one = Watched()
    assert one.after(60) == []
    one.ends.reached(0, 4)
    assert one.after(4.9) == []
    assert one.asked == 0
    assert one.after(0.2) == [(4, 7, 5.1)]
    assert one.after(60) == [(4, 7, 5.1)]
    assert one.asked == 1


def test_the_end_that_is_reached_again_is_the_same_end() -> None:
    one = Watched()
    one.ends.reached(0, 4)
    assert one.after(3) == []
    one.ends.reached(0, 4)
    assert one.after(3) == [(4, 7, 6.0)]


@pytest.mark.parametrize("moves", ["a record", "an end further on"])
def test_a_reader_that_moves_on_begins_anew(moves: str) -> None:
    one = Watched()
    one.ends.reached(0, 3)
    assert one.after(4) == []
    if moves == "a record":
        one.ends.moved(0)
        assert one.after(60) == []
    one.ends.reached(0, 4)
    assert one.after(4.9) == []
    assert one.after(0.1) == [(4, 7, 5.0)]


def test_what_the_leader_does_not_confirm_does_not_stand() -> None:
    """It has ended meanwhile, or the leader does not answer."""
    one = Watched()
    one.ends.reached(0, 4)
    for told in (8, -1):
        one.lso = told
        assert one.after(5) == []
    assert one.asked == 2
    one.lso = 4
    assert one.after(4.9) == []
    assert one.after(0.1) == [(4, 7, 5.0)]


def test_a_reader_before_a_gap_never_reaches_the_end() -> None:
    """Compaction removed the record at 3, so the reader waits there, and nothing tells it of 4."""
    one = Watched()
    one.ends.moved(0)
    for _ in range(3):
        one.ends.silent([0])
    assert one.asked == 1
    assert one.after(4.9) == []
    assert one.after(0.1) == [(4, 7, 5.0)]


def test_a_silent_reader_that_gets_a_record_begins_anew() -> None:
    one = Watched()
    one.ends.silent([0])
    assert one.after(4) == []
    one.ends.moved(0)
    assert one.after(60) == []
    for told in (-1, 8):
        one.lso = told
        one.ends.silent([0])
        assert one.after(60) == []


def test_the_end_behind_the_fence_is_that_of_the_log() -> None:
    one = Watched()
    one.lso = 8
    one.ends.reached(0, 8)
    assert one.after(60) == []


@pytest.mark.parametrize("one", [Watched(limit_s=None), Watched(fence=None)])
def test_without_a_limit_or_a_fence_nothing_stands(one: Watched) -> None:
    one.ends.silent([0])
    one.ends.reached(0, 4)
    assert one.after(600) == []
    assert one.asked == 0

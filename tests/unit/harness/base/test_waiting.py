"""Waiting for a condition, for an attempt to succeed, and for what has to hold for a while."""

import threading
from collections.abc import Callable, Iterator

import pytest

from highwater.clusters.core.interfaces import PartitionState
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, SteadyCondition, await_condition, place_of
from highwater.harness.clients.groups.final_offsets import GroupAnswer


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


def early() -> None:
    raise NotYetError("broker 2 is 3 records behind")


@pytest.mark.parametrize(
    ("look", "seen"),
    [
        (lambda: {1: 5, 2: 2}, "1 5, 2 2"),
        (lambda: {2: {"leo": 1, "hw": 0}, 3: {}}, r"2 \(leo 1, hw 0\), 3 \(\)"),
        (dict, "nothing"),
        (lambda: frozenset({3, 1}), r"\[1, 3\]"),
        (
            lambda: PartitionState(leader=2, leader_epoch=7, isr=(2, 3)),
            r"leader 2, leader epoch 7, isr \[2, 3\]",
        ),
        (
            lambda: GroupAnswer(begun_ns=5, end=None, offsets={0: 3}),
            r"begun ns 5, end nothing, offsets \(0 3\)",
        ),
        (early, "broker 2 is 3 records behind"),
        (lambda: None, "nothing"),
        (lambda: "", "nothing"),
    ],
)
def test_a_wait_that_fails_says_what_was_seen(look: Callable[[], object], seen: str) -> None:
    with pytest.raises(WaitTimeoutError, match=f"^waited 0 s for all alike; last seen: {seen}$"):
        await_condition(look, lambda _: False, what="all alike", limit_s=0)


@pytest.mark.parametrize("answer", [False, True])
def test_a_look_that_says_only_whether_is_refused_at_once(*, answer: bool) -> None:
    with pytest.raises(
        TypeError, match="waiting for all alike: look\\(\\) must return an observation"
    ):
        await_condition(lambda: answer, what="all alike", limit_s=60)


def test_without_a_condition_any_result_will_do() -> None:
    attempts = iter([NotYetError("early"), OSError("refused"), None])

    def attempt() -> str:
        error = next(attempts)
        if error is not None:
            raise error
        return ""

    assert await_condition(attempt, what="it", limit_s=60, every_s=0, passing=(OSError,)) == ""
    with pytest.raises(StopIteration):  # whatever is not said to pass, does not
        await_condition(attempt, what="it", limit_s=60)


def test_a_thread_that_does_not_end_is_told_with_its_place() -> None:
    begun, end = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=run, name="reader")
    assert place_of(thread) == "reader"
    thread.start()
    assert begun.wait(30)
    seen = place_of(thread)
    end.set()
    thread.join()
    assert seen.startswith("reader (")
    assert ".py, line " in seen

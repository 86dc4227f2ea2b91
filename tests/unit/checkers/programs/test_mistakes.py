"""Each mistake is told where disks and lives show it, and not where they do not."""

from dataclasses import replace

import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import InstanceEvent, Output, Position
from highwater.checkers.programs.mistakes import MISTAKES, InputEvidence, mistake_of
from highwater.checkers.programs.outcomes import DOUBLED, LOST
from highwater.checkers.programs.timeline import steps, witnesses

S = 1_000_000_000
NAMES = {mistake.name for mistake in MISTAKES}


def event(at_s: float, name: str, instance: int = 0) -> InstanceEvent:
    return InstanceEvent(int(at_s * S), instance, 1, name, None)


def committed(at_s: float, offset: int, *, transactional: bool = False) -> Position:
    return Position(int(at_s * S), offset, transactional)


def output(at_s: float) -> Output:
    return Output(int(at_s * S), 0, 3)


COMMITTED_FIRST = InputEvidence(
    name="p0-17",
    offset=17,
    outcome=LOST,
    guarantee="at-least-once",
    commits=[committed(3, 10), committed(4, 20), committed(9, 40)],
    events=[event(1, "started"), event(4.5, "killed"), event(6, "started")],
    later_ns=7 * S,
)
PASSED_OVER = replace(COMMITTED_FIRST, later_ns=int(3.5 * S), events=[event(1, "started")])
OUTSIDE = replace(PASSED_OVER, withdrawn=True, guarantee="exactly-once")
NOT_COMMITTED = InputEvidence(
    name="p0-17",
    offset=17,
    outcome=DOUBLED,
    guarantee="at-least-once",
    outputs=[output(4), output(8)],
    commits=[committed(3, 10), committed(9, 40)],
    events=[event(1, "started"), event(4.5, "killed"), event(6, "started")],
)
NO_TRANSACTION = replace(NOT_COMMITTED, guarantee="exactly-once", transactional=False)
ZOMBIE = replace(
    NOT_COMMITTED,
    outputs=[output(6), output(9)],
    events=[event(4, "paused"), event(8, "resumed")],
)

SHOWN = {
    "position committed before the output was acknowledged": COMMITTED_FIRST,
    "input passed without an output": PASSED_OVER,
    "position outside of the transaction": OUTSIDE,
    "output outside of a transaction": NO_TRANSACTION,
    "paused instance went on with what was no longer its own": ZOMBIE,
    "position not committed when an instance ended": NOT_COMMITTED,
}


def told(evidence: InputEvidence) -> str | None:
    mistake = mistake_of(evidence)
    return mistake and mistake[0].name


def test_outputs_behind_the_position_show_that_it_was_committed_first() -> None:
    """Outputs go to several partitions, so a later input may have had its output."""
    early = replace(COMMITTED_FIRST, later_ns=int(4.2 * S))
    asked: list[tuple[int, Position, int]] = []

    def overdue(before: int, passed: Position, until_ns: int) -> int:
        asked.append((before, passed, until_ns))
        return int(4.3 * S)

    assert told(early) is None
    assert told(replace(early, overdue_ns=overdue)) == told(COMMITTED_FIRST)
    assert asked == [(10, committed(4, 20), int(4.5 * S))]
    moved = [committed(3, 10), committed(4, 20), committed(4.4, 30)]
    assert told(replace(early, overdue_ns=overdue, commits=moved)) is None


def test_every_mistake_is_shown_here() -> None:
    assert set(SHOWN) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_mistake_is_told_by_its_evidence(name: str) -> None:
    assert told(SHOWN[name]) == name


@pytest.mark.parametrize(
    "evidence",
    [
        replace(COMMITTED_FIRST, commits=None),  # no disk has positions
        replace(COMMITTED_FIRST, commits=[committed(3, 10)]),  # only the coordinator told it
        replace(COMMITTED_FIRST, events=[], later_ns=FOREVER),  # no instance ended
        replace(COMMITTED_FIRST, later_ns=int(4.2 * S)),  # a later input had its output before
        replace(COMMITTED_FIRST, undisturbed_ns=4 * S),  # a broker may have lost the output
        replace(PASSED_OVER, undisturbed_ns=int(3.8 * S)),
        replace(PASSED_OVER, events=[event(3.2, "paused")]),
        replace(PASSED_OVER, events=[event(9, "killed")]),  # its output may have been in flight
        replace(OUTSIDE, commits=[committed(4, 20, transactional=True)], later_ns=5 * S, events=[
            event(4.5, "killed"), event(4.6, "started")], undisturbed_ns=0),
        replace(NOT_COMMITTED, commits=None),  # no disk has positions
        replace(NOT_COMMITTED, commits=[committed(4.2, 18)]),  # the position was safe
        replace(NOT_COMMITTED, events=[event(1, "started")]),  # nothing interrupted it
        replace(NOT_COMMITTED, events=[event(8.5, "killed")]),
        replace(NO_TRANSACTION, transactional=None, events=[]),  # no copy of the log
        replace(NO_TRANSACTION, transactional=True, events=[]),
        replace(ZOMBIE, events=[event(4, "paused"), event(5, "resumed")]),
    ],
)  # fmt: skip
def test_nothing_is_told_that_is_not_shown(evidence: InputEvidence) -> None:
    assert told(evidence) is None


def test_the_way_of_an_input_is_in_order_of_time_and_ends_with_the_mistake() -> None:
    mistake = mistake_of(COMMITTED_FIRST)
    assert mistake is not None
    row = {"steps": steps(COMMITTED_FIRST, 2 * S, mistake[0])}
    ways = witnesses(row)
    assert [way.time_ns for way in ways[:-1]] == [2 * S, 3 * S, 4 * S, int(4.5 * S), 6 * S]
    assert [way.what for way in ways] == [
        "acknowledged", "committed", "committed", "killed", "started", "mistake",
    ]  # fmt: skip
    assert "Instance 0 was killed at 4.500 s." in [way.says for way in ways]
    assert mistake[0].fix in ways[-1].says
    assert "instance 0 was killed at 4.500 s" in mistake[1]


def test_who_did_it_may_not_be_known() -> None:
    row = {"steps": steps(COMMITTED_FIRST, None, None)}
    assert witnesses(row)[-1].says == "Who did it is not known."

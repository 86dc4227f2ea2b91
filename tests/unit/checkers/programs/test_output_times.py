"""When inputs had their outputs, from the tables of a run."""

from pathlib import Path

import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import Position, ProgramFacts
from highwater.checkers.programs.output_times import OutputTimes
from tests.support.run_builder import MS
from tests.unit.checkers.programs.test_inputs import output, written


@pytest.fixture
def times(tmp_path: Path) -> OutputTimes:
    case = written(tmp_path, output(0, 300, "p0-0"), output(1, 200, "p0-2"), output(2, 900, "p0-2"))
    facts = ProgramFacts.of(case)
    assert facts is not None
    return OutputTimes(facts)


@pytest.mark.parametrize(("offset", "at_ms"), [(-1, 200), (0, 200), (1, 200)])
def test_the_first_output_of_a_later_input(times: OutputTimes, offset: int, at_ms: int) -> None:
    assert times.later(0, offset) == at_ms * MS


def test_there_may_be_no_later_output(times: OutputTimes) -> None:
    assert times.later(0, 2) == FOREVER
    assert times.later(7, 0) == FOREVER


@pytest.mark.parametrize(
    ("since", "offset", "until_ms", "late_ms"),
    [(0, 3, 1000, 900), (0, 3, 500, 300), (1, 3, 500, None), (0, 0, 1000, None), (2, 3, 950, 900)],
)
def test_outputs_behind_a_commit(
    times: OutputTimes, since: int, offset: int, until_ms: int, late_ms: int | None
) -> None:
    passed = Position(250 * MS, offset, transactional=False)
    expected = None if late_ms is None else late_ms * MS
    assert times.overdue(0, since, passed, until_ms * MS) == expected


@pytest.mark.parametrize(
    ("since", "offset", "at_ms", "around"),
    [
        (0, 3, 250, (True, True, True, 50)),
        (0, 3, 150, (False, True, False, 150)),
        (0, 3, 400, (True, False, True, 0)),
        (1, 2, 400, (False, False, False, 0)),  # it has no output
        (0, 2, 400, (True, False, False, 0)),
    ],
)
def test_first_outputs_around_a_commit(
    times: OutputTimes, since: int, offset: int, at_ms: int, around: tuple[bool, bool, bool, int]
) -> None:
    *sides, late_ms = around
    passed = Position(at_ms * MS, offset, transactional=False)
    assert times.around(0, since, passed) == (*sides, late_ms * MS)


@pytest.mark.parametrize(("since", "until", "at_ms"), [(0, 3, 300), (1, 3, 200), (1, 2, None)])
def test_when_all_of_some_inputs_had_outputs(
    times: OutputTimes, since: int, until: int, at_ms: int | None
) -> None:
    expected = FOREVER if at_ms is None else at_ms * MS
    assert times.whole_at(0, since, until) == expected

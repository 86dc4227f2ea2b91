"""A program has come to its end when positions are at the end and nothing moves any more."""

import pytest

from highwater.harness.clients.programs import positions
from highwater.harness.clients.programs.positions import FULL_S, STILL_S, Progress, StoodStill
from highwater.harness.runs.plan import Plan, ProgramPlan, Topic

LIMIT_S = 90.0


def test_a_program_that_is_behind_or_writes_has_not_ended() -> None:
    now = 0.0
    still = StoodStill(2, LIMIT_S, lambda: now)
    done = Progress({0: 5, 1: None}, {0: 5, 1: 0}, 5)
    assert not still(done)
    now += STILL_S / 2
    assert not still(done)
    now += STILL_S
    assert not still(done._replace(written=6))  # it wrote: it must stand still anew
    now += STILL_S
    assert still(done._replace(written=6))
    assert not still(Progress({0: 4}, {0: 5}, 6))
    now += 2 * STILL_S
    assert not still(Progress({0: 4}, {0: 5}, 6))


def test_a_program_with_all_its_outputs_need_not_stand_still_for_long() -> None:
    now = 0.0
    still = StoodStill(2, LIMIT_S, lambda: now)
    missing, full = (Progress({0: 5}, {0: 5}, written) for written in (9, 10))
    assert not still(missing)
    now += FULL_S
    assert not still(missing)
    assert not still(full)
    now += FULL_S
    assert still(full)
    assert not still(Progress({0: 4}, {0: 5}, 20))
    now += STILL_S
    assert not still(Progress({0: 4}, {0: 5}, 20))


def test_a_program_that_is_behind_is_waited_for_while_it_goes_on() -> None:
    now = 0.0
    still = StoodStill(1, LIMIT_S, lambda: now)
    for position in (1, 2, 3, 4):
        assert not still(Progress({0: position}, {0: 9}, 0))
        now += LIMIT_S - 1
    assert not still(Progress({0: 3}, {0: 9}, 50))  # neither a step back nor outputs are progress
    now += 1
    assert still(Progress({0: 4}, {0: 9}, 70))
    assert not still.at_end


def test_without_positions_outputs_are_the_progress() -> None:
    now = 0.0
    still = StoodStill(1, LIMIT_S, lambda: now)
    for written in (1, 2, 2):
        assert not still(Progress({0: None}, {0: 9}, written))
        now += LIMIT_S - 1
    assert still(Progress({0: None}, {0: 9}, 2))


def test_which_partitions_are_behind() -> None:
    progress = Progress({0: 5, 1: None, 2: 7}, {0: 5, 1: 3, 2: 9, 3: 0}, 0)
    assert progress.behind == {1: None, 2: 7}


def test_a_program_without_a_position_is_judged_if_all_outputs_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(positions, "_instead", lambda *_: "it reads nothing")
    program = ProgramPlan(command=("service",), out="payments", outputs=2)
    plan = Plan(kafka="4.4.0", topic=Topic(name="orders"), program=program)
    missing = Progress({0: None, 1: None}, {0: 5, 1: 0}, 9)
    [says] = positions._why(plan, program, {}, missing, 90.0)
    assert says.endswith("has committed no offset in orders: it reads nothing.")
    assert positions._why(plan, program, {}, missing._replace(written=10), 90.0) == []

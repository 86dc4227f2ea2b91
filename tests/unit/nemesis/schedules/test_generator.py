"""A random schedule follows from the plan alone, and stays within it."""

from itertools import groupby
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Plan, ProgramPlan, Topic
from highwater.harness.runs.steps import FaultStep, end_of
from highwater.nemesis.schedules.generator import CALM_S, LEAST_S, TROUBLE_S, draw, draw_lanes

TINY_S: Final = 1e-9
"""The rounding of a difference of seconds."""


def plan(
    *, seed: int = 1, duration_s: float = 60, faults: tuple[str, ...] = ("kill", "pause")
) -> Plan:
    return Plan(
        kafka="4.3.1", seed=seed, duration_s=duration_s, nemesis=faults, topic=Topic(partitions=3)
    )


def groups(of: Plan) -> list[tuple[float, float, list[FaultStep]]]:
    """The groups of a schedule: seconds before each and of each, and its faults, all alike."""
    found, end_s = [], 0.0
    for at_s, group in groupby(draw(of), key=lambda step: step.at_s):
        faults = list(group)
        [lasts_s] = {step.lasts_s for step in faults}
        found.append((at_s - end_s, lasts_s, faults))
        end_s = at_s + lasts_s
    return found


def unplaced(step: FaultStep) -> FaultStep:
    """A step without its time."""
    return msgspec.structs.replace(step, at_s=0, lasts_s=0)


def test_a_schedule_mixes_the_faults_that_were_named() -> None:
    assert {step.fault for step in draw(plan())} == {"kill", "pause"}


@given(st.integers(0, 10_000))
def test_the_same_seed_draws_the_same_steps(seed: int) -> None:
    assert draw(plan(seed=seed)) == draw(plan(seed=seed))


@given(st.integers(0, 1000))
def test_storms_and_pauses_alternate(seed: int) -> None:
    """They are the same for all sequences, and no fault is open in a pause."""
    of = msgspec.structs.replace(plan(seed=seed, duration_s=300), calm_s=40, overlap=3)
    steps = draw_lanes(of)
    assert steps == draw_lanes(of)
    ends, pauses = 0.0, 0
    for step in steps:
        if ends and step.at_s - ends >= 40 - TINY_S:
            pauses += 1
        ends = max(ends, step.ends_s)
    assert pauses >= 3
    assert ends <= 300 + TINY_S


def test_another_seed_draws_other_steps() -> None:
    assert draw(plan(seed=1)) != draw(plan(seed=2))


@given(st.integers(0, 1000), st.floats(0, 300))
def test_a_schedule_stays_within_its_duration_and_brokers(seed: int, duration_s: float) -> None:
    of = plan(seed=seed, duration_s=duration_s)
    assert end_of(draw(of)) <= duration_s + TINY_S
    for after_s, lasts_s, faults in groups(of):
        assert CALM_S[0] - TINY_S <= after_s <= CALM_S[1] + TINY_S
        assert TROUBLE_S[0] <= lasts_s <= TROUBLE_S[1]
        assert 1 <= len(faults) <= 3
        assert all(step.partition < 3 for step in faults)


@pytest.mark.parametrize("duration_s", [LEAST_S, 1.51, 2, 4.1, 5, 6, 7.77, 8, 12, 30])
def test_a_schedule_strikes_at_least_once_whatever_its_seed(duration_s: float) -> None:
    for seed in range(200):
        for brokers in (1, 3, 5, 9):
            of = msgspec.structs.replace(plan(seed=seed, duration_s=duration_s), brokers=brokers)
            after_s, lasts_s, faults = groups(of)[0]
            assert faults
            assert after_s + lasts_s <= duration_s
        steps = draw_lanes(msgspec.structs.replace(of, overlap=2))
        assert all(step.at_s < duration_s for step in steps)
        assert len(steps) >= 2


def test_a_schedule_too_short_for_any_fault_has_none() -> None:
    assert draw(plan(duration_s=LEAST_S - 0.01)) == ()


@pytest.mark.parametrize("seed", range(50))
def test_only_a_first_bout_that_does_not_fit_is_shortened(seed: int) -> None:
    short = groups(plan(seed=seed, duration_s=5))[0]
    long = groups(plan(seed=seed, duration_s=60))[0]
    assert [unplaced(step) for step in short[2]] == [unplaced(step) for step in long[2]]
    assert short[0] == min(long[0], 4.5)
    if long[0] + long[1] <= 5:
        assert short == long


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short, long = draw(plan(duration_s=40)), draw(plan(duration_s=120))
    assert short
    assert long[: len(short)] == short


def test_a_word_says_whom_it_strikes_and_how_often() -> None:
    drawn = draw(plan(faults=("kill@majority=9", "pause"), duration_s=2000))
    assert {step.target for step in drawn if step.fault == "kill"} == {"majority"}
    assert {step.target for step in drawn if step.fault == "pause"} > {"leader", "any"}
    share = sum(step.fault == "kill" for step in drawn) / len(drawn)
    assert 0.8 < share < 0.97


def test_a_target_changes_nothing_else_about_a_schedule() -> None:
    aimed, free = draw(plan(faults=("kill@2", "pause"))), draw(plan())
    assert [(step.at_s, step.lasts_s) for step in aimed] == [
        (step.at_s, step.lasts_s) for step in free
    ]


@given(st.integers(0, 1000))
def test_a_program_gets_one_fault_of_each_kind_at_first_in_their_order(seed: int) -> None:
    of = plan(seed=seed, duration_s=300, faults=("app-cut", "app-pause", "app-kill=3"))
    of = msgspec.structs.replace(of, program=ProgramPlan(command=("true",), out="out"))
    first = [[step.fault for step in faults] for _, _, faults in groups(of)[:3]]
    assert first == [["app-cut"], ["app-pause"], ["app-kill"]]


def test_no_faults_is_no_schedule() -> None:
    assert draw(plan(faults=())) == ()


def test_an_unknown_fault_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="kil") as refused:
        draw(plan(faults=("kil",)))
    assert "kill" in refused.value.hint

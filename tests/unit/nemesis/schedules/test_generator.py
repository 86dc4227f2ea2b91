"""A random schedule follows from the plan alone, and stays within it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Plan, Topic
from highwater.nemesis.schedules.generator import CALM_S, LEAST_S, TROUBLE_S, draw, draw_steps


def plan(
    *, seed: int = 1, duration_s: float = 60, faults: tuple[str, ...] = ("kill", "pause")
) -> Plan:
    return Plan(
        kafka="4.3.1", seed=seed, duration_s=duration_s, nemesis=faults, topic=Topic(partitions=3)
    )


def test_a_schedule_mixes_the_faults_that_were_named() -> None:
    assert {strike.fault for step in draw(plan()) for strike in step.strikes} == {
        "kill",
        "pause",
    }


@given(st.integers(0, 10_000))
def test_the_same_seed_draws_the_same_steps(seed: int) -> None:
    assert draw(plan(seed=seed)) == draw(plan(seed=seed))


def test_another_seed_draws_other_steps() -> None:
    assert draw(plan(seed=1)) != draw(plan(seed=2))


@given(st.integers(0, 1000), st.floats(0, 300))
def test_a_schedule_stays_within_its_duration_and_brokers(seed: int, duration_s: float) -> None:
    steps = draw(plan(seed=seed, duration_s=duration_s))
    assert sum(step.after_s + step.lasts_s for step in steps) <= duration_s
    for step in steps:
        assert CALM_S[0] <= step.after_s <= CALM_S[1]
        assert TROUBLE_S[0] <= step.lasts_s <= TROUBLE_S[1]
        assert 1 <= len(step.strikes) <= 3
        assert all(strike.partition < 3 for strike in step.strikes)


@pytest.mark.parametrize("duration_s", [LEAST_S, 1.51, 2, 4.1, 5, 6, 7.77, 8, 12, 30])
def test_a_schedule_strikes_at_least_once_whatever_its_seed(duration_s: float) -> None:
    for seed in range(200):
        for brokers in (1, 3, 5, 9):
            of = msgspec.structs.replace(plan(seed=seed, duration_s=duration_s), brokers=brokers)
            first = draw(of)[0]
            assert first.strikes
            assert first.after_s + first.lasts_s <= duration_s
        steps = draw_steps(msgspec.structs.replace(of, overlap=2))
        assert all(step.at_s < duration_s for step in steps)
        assert len(steps) >= 2


def test_a_schedule_too_short_for_any_fault_has_none() -> None:
    assert draw(plan(duration_s=LEAST_S - 0.01)) == []


@pytest.mark.parametrize("seed", range(50))
def test_only_a_first_bout_that_does_not_fit_is_shortened(seed: int) -> None:
    short, long = draw(plan(seed=seed, duration_s=5)), draw(plan(seed=seed, duration_s=60))
    assert short[0].strikes == long[0].strikes
    assert short[0].after_s == min(long[0].after_s, 4.5)
    if long[0].after_s + long[0].lasts_s <= 5:
        assert short[0] == long[0]


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short, long = draw(plan(duration_s=40)), draw(plan(duration_s=120))
    assert short
    assert long[: len(short)] == short


def test_a_word_says_whom_it_strikes_and_how_often() -> None:
    drawn = draw(plan(faults=("kill@majority=9", "pause"), duration_s=2000))
    strikes = [strike for step in drawn for strike in step.strikes]
    assert {strike.target for strike in strikes if strike.fault == "kill"} == {"majority"}
    assert {strike.target for strike in strikes if strike.fault == "pause"} > {"leader", "any"}
    share = sum(strike.fault == "kill" for strike in strikes) / len(strikes)
    assert 0.8 < share < 0.97


def test_a_target_changes_nothing_else_about_a_schedule() -> None:
    aimed, free = draw(plan(faults=("kill@2", "pause"))), draw(plan())
    assert [(step.after_s, step.lasts_s) for step in aimed] == [
        (step.after_s, step.lasts_s) for step in free
    ]


def test_no_faults_is_no_schedule() -> None:
    assert draw(plan(faults=())) == []


def test_an_unknown_fault_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="kil") as refused:
        draw(plan(faults=("kil",)))
    assert "kill" in refused.value.hint

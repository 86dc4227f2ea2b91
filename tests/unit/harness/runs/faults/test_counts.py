"""What happened is told from what was recorded; what was asked for stands beside it, as that."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from highwater.cli.app import app
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.faults.counts import FaultCounts, Happening, title
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import RESTARTED, ROLLING, FaultStep
from highwater.nemesis.schedules.generator import LEAST_S
from highwater.reports.sections.settings import facts
from highwater.testing.kafka_run import make
from highwater.testing.parametrize import Case
from highwater.testing.session import Laboratory

NS = 1_000_000_000
RANDOM = Plan(kafka="4.3.1", nemesis=("kill", "pause"), duration_s=30)
STORY = Plan(kafka="4.3.1", story="loss")
REPLAY = Plan(kafka="4.3.1", schedule={"name": "two moves"})
CALM = Plan(kafka="4.3.1")


def row(seconds: float, fault: str, phase: str = "inject", says: str = "") -> dict[str, object]:
    return {"time_ns": int(seconds * NS), "fault": fault, "phase": phase, "broker": 1, "says": says}


KILLS = [
    row(1, "step", "note", "every replica holds m0"),
    row(2, "kill"),
    row(4, "kill", "heal"),
    row(5, "kill"),
    row(6, "pause"),
    row(6.5, "kill"),
    row(14, "pause", "heal"),
    row(20, "step", "note", "the clients have stopped"),
]
MOVES = [row(at, "step", "note", f"step {at} of 3: move leadership") for at in (1, 2, 3)]


def test_faults_are_counted_and_timed_from_the_first_to_the_end_of_the_last() -> None:
    fault_counts = FaultCounts.of(KILLS)
    assert fault_counts.faults == {"kill": 3, "pause": 1}
    assert (fault_counts.count, fault_counts.seconds, fault_counts.nothing) == (4, 12.0, False)
    assert fault_counts.says == "kill 3 times, pause once, over 12 s"
    assert FaultCounts.of(KILLS[:4]).says == "kill twice, over 3.0 s"


def test_one_that_was_never_healed_has_no_length_and_notes_are_no_faults() -> None:
    assert FaultCounts.of([row(3, "reset")]).says == "reset once"
    assert FaultCounts.of([KILLS[0]]).nothing
    assert FaultCounts.of([]).says == "nothing"


ROLLS = [
    row(3, ROLLING, "note", "every replica is in sync: the brokers are restarted in order"),
    row(16, ROLLING, "note", f"broker 1, 1 of 3, {RESTARTED}"),
    row(17, ROLLING, "note", "broker 1 had ended by itself, and was started again"),
    row(30, ROLLING, "note", f"broker 2, 2 of 3, {RESTARTED}"),
    row(44, ROLLING, "note", f"broker 3, 3 of 3, {RESTARTED}"),
    row(48, ROLLING, "inject", "every broker was restarted, one after the other"),
    row(51, ROLLING, "heal"),
]


def test_a_rolling_restart_is_told_by_its_brokers_also_if_it_ended_early() -> None:
    whole = FaultCounts.of(ROLLS)
    assert whole.counted == "3 brokers restarted in order"
    assert whole.says == "3 brokers restarted in order, from 3 s to 48 s of the run"
    early = FaultCounts.of(ROLLS[:4])
    assert early.says == "2 brokers restarted in order, from 3 s to 30 s of the run"
    assert not early.nothing
    assert FaultCounts.of(ROLLS[:1]).nothing
    mixed = FaultCounts.of([*ROLLS, row(60, "kill"), row(61, "kill", "heal")])
    assert mixed.says == "3 brokers restarted in order, kill once, over 58 s"


def test_many_kinds_are_cut_short() -> None:
    assert FaultCounts.of([row(1, f"fault-{n}") for n in range(9)]).says.endswith(
        "fault-5 once, 3 faults of other kinds"
    )


def test_a_planned_move_of_a_replay_is_counted() -> None:
    assert FaultCounts.of(MOVES).says == "3 steps taken"
    assert not FaultCounts.of(MOVES).nothing


@pytest.mark.parametrize(
    ("plan", "rows", "value", "means", "named"),
    [
        (RANDOM, KILLS, "kill 3 times, pause once, over 12 s",
         "planned: kill, pause at random for 30 s", "kill 3 times, pause once"),
        (RANDOM, [], "nothing", "no fault was injected; planned: kill, pause at random for 30 s",
         "no fault was injected"),
        (RANDOM, None, "not known", "planned: kill, pause at random for 30 s", "kill, pause"),
        (STORY, KILLS[1:4], "loss", "a story: kill twice, over 3.0 s", "loss"),
        (STORY, [], "nothing", "no fault was injected; planned: the story loss",
         "no fault was injected"),
        (STORY, None, "loss", "a story", "loss"),
        (REPLAY, MOVES, "two moves", "a replay of the model's schedule: 3 steps taken",
         "two moves"),
        (replace(CALM, steps=(FaultStep(fault="kill", at_s=1),)), KILLS[1:3],
         "kill once, over 2.0 s", "planned: 1 step, one by one", "kill once"),
        (CALM, [], "nothing", "a calm run", "calm"),
        (CALM, None, "nothing", "a calm run", "calm"),
    ],
)  # fmt: skip
def test_the_fact_and_the_title_tell_what_was_done(
    plan: Plan, rows: list[dict[str, object]] | None, value: str, means: str, named: str
) -> None:
    fault_counts = None if rows is None else FaultCounts.of(rows)
    assert Happening.of(plan, fault_counts) == Happening(value=value, means=means)
    fact = facts(plan, None, fault_counts)[1]
    assert (fact.name, fact.value, fact.means) == ("What happened", value, means)
    assert title(plan, fault_counts) == named


def test_a_replay_is_not_called_calm() -> None:
    assert [plan.calm for plan in (RANDOM, STORY, REPLAY, CALM)] == [False, False, False, True]
    assert REPLAY.happens == "two moves"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--kafka", "4.3.1", "--nemesis", ",,,"], "',,,' names no fault"),
        (["run", "--kafka", "4.3.1", "--nemesis", "kill", "--for", "1s"], "at least 1.5 s"),
        (["matrix", "--kafka", "4.3.1", "--nemesis", "kill", "--for", "1s"], "at least 1.5 s"),
        (["soak", "--each", "1s", "--runs", "1"], "at least 1.5 s"),
    ],
)
def test_a_command_that_could_never_strike_is_refused_before_anything_starts(
    words: list[str], says: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    done = CliRunner().invoke(app, [*words, "--store", str(store)])
    assert isinstance(done.exception, UsageError)  # its exit code: test_exit_codes.py
    assert says in str(done.exception)
    assert not store.exists()


def test_the_fixture_of_a_test_refuses_the_same(tmp_path: Path) -> None:
    case = Case(kafka="4.3.1", driver="local", acks="all", min_isr=1, unclean=False, id="4.3.1")
    with pytest.raises(UsageError, match="names no fault"):
        make(case, nemesis=[" ", ""])
    with (
        Laboratory(tmp_path / "store", tmp_path) as laboratory,
        pytest.raises(UsageError, match=f"at least {LEAST_S:g} s"),
    ):
        laboratory.perform(make(case, nemesis="kill", duration="1s"))
    assert make(case, nemesis="none").calm
    assert not (tmp_path / "store").exists()

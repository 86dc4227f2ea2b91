"""Situations of a search, counted against those of recorded runs."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.campaigns import steering
from highwater.checkers.coverage import reachable as follows
from highwater.checkers.coverage.model_coverage import coverage, observed_in
from highwater.checkers.coverage.reachable import ReachableSituations, reachable_situations
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.search.breadth_first import Limits, SearchOutcome
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.paths import PathStep
from highwater.checkers.model.search.situations import (
    LeaderState,
    Replica,
    name_of,
    situation,
    situation_of,
)
from highwater.cli.app import app
from highwater.cli.options.model import show_coverage, show_paths, write_paths
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

KAFKA = "4.4.0"
TINY = Scope(records=1, failures=0, moves=0)
SCOPE = ["--records", "1", "--failures", "0", "--moves", "0"]


def a_run(path: Path, *, kafka: str = KAFKA, copied: bool = True, spare: bool = False) -> Run:
    """A leader that takes a record; ``copied`` tells whether its followers get it."""
    built = RunBuilder(path, kafka=kafka)
    if spare:
        built.observe(4, None)
    built.leader(1, 0, (1, 2, 3))
    built.observe_all(0)
    built.tick(2_000)
    for broker in (1, 2, 3):
        built.observe(broker, 1 if copied or broker == 1 else 0, 1 if copied else 0)
    built.tick(2_000)
    built.observe_all(2)
    return built.write()


def reachable(settings: ModelSettings) -> ReachableSituations:
    return reachable_situations(
        settings, limits=Limits(memory=1 << 28), jobs=1, watch=lambda _: None
    )


def nothing_searched(settings: ModelSettings) -> ReachableSituations:
    outcome = SearchOutcome(
        paths={},
        chains={},
        reason="stopped",
        exhausted=False,
        states=0,
        transitions=0,
        depth=0,
        seconds=0,
        compile_seconds=0,
        peak_bytes=0,
    )
    return ReachableSituations(settings=settings, outcome=outcome, depths={})


@pytest.mark.nightly
def test_what_no_run_was_seen_in_is_listed_nearest_first(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / name, copied=name == "b") for name in ("a", "b")]
    settings = ModelSettings(kafka=KAFKA, scope=TINY)
    counted = coverage(runs, reachable(settings))
    assert (counted.runs, counted.reason) == (2, None)
    seen = [row for row in counted.rows if row.runs]
    missed = [row for row in counted.rows if not row.runs]
    same = ("in the ISR, LEO =, HW =",) * 2
    behind = ("in the ISR, LEO <, HW =",) * 2
    assert {(row.leader, row.replicas, row.depth, row.runs, row.first) for row in seen} == {
        ("HW = LEO", same, 0, 2, "a"),
        ("HW < LEO", behind, 1, 1, "a"),
    }
    assert list(counted.rows[: len(missed)]) == missed
    assert [row.depth for row in missed] == sorted(row.depth or 0 for row in missed)
    assert counted.observed == 2 < counted.reached == len(counted.rows)


def test_a_broker_without_a_replica_does_not_matter(tmp_path: Path) -> None:
    """With ZooKeeper, the controller of a steered run is such a broker."""
    runs = [a_run(tmp_path / name, spare=name == "b") for name in ("a", "b")]
    without, with_spare = (observed_in(run).keys() for run in runs)
    assert without == with_spare
    assert without


@pytest.mark.parametrize(
    ("kafka", "brokers", "words"), [("3.9.2", 3, "is of Kafka"), (KAFKA, 2, "has 3 replicas")]
)
def test_a_run_that_the_model_is_not_of_is_refused(
    tmp_path: Path, kafka: str, brokers: int, words: str
) -> None:
    settings = ModelSettings(kafka=kafka, scope=replace(TINY, brokers=brokers))
    with pytest.raises(UsageError, match=words):
        coverage([a_run(tmp_path / "a")], nothing_searched(settings))


@pytest.mark.nightly
def test_the_command_counts_and_lists(tmp_path: Path) -> None:
    a_run(tmp_path / "a")
    words = ["model", "coverage", "a", "--store", str(tmp_path), *SCOPE]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "1 run observed in 1 of" in told.stdout
    assert "LEO <" in told.stdout
    listed = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert listed["kafka"] == KAFKA
    assert [row["first"] for row in listed["rows"] if row["runs"]] == ["a"]


@pytest.mark.nightly
@pytest.mark.parametrize("kafka", ["1.1.1", KAFKA])
def test_a_path_to_each_situation_ends_in_it_and_most_can_be_played(kafka: str) -> None:
    found = reachable(ModelSettings(kafka=kafka, scope=replace(TINY, failures=1, by="round")))
    playable = 0
    for number, depth in found.depths.items():
        path = found.counterexample(number)
        assert len(path.steps) == depth
        assert depth == 0 or path.replay() is not None
        with contextlib.suppress(UsageError):
            playable += bool(compile_for(path, kafka).steps) or depth == 0
    assert playable > 0.85 * len(found.depths)  # in some paths a broker would run ahead


def test_what_the_scope_does_not_have_is_listed_with_its_first_moment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [a_run(tmp_path / name, copied=name == "b") for name in ("a", "b")]
    equal, ahead = (
        situation(state, [Replica(in_isr=True, answers=True, leo=leo, hw=0)] * 2)
        for state, leo in ((LeaderState.COMMITTED, 0), (LeaderState.UNCOMMITTED, -1))
    )
    unsearched = nothing_searched(ModelSettings(kafka=KAFKA, scope=TINY))
    counted = coverage(runs, replace(unsearched, depths={equal: 0}))
    (row,) = counted.beyond
    assert (row.name, row.runs, row.first, row.partition) == (name_of(ahead), 1, "a", 0)
    assert row.time_ns
    show_coverage(counted)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Observed, and not in this scope" in shown
    assert "1 situation observed, and not in this scope: the search was not complete" in shown


def test_a_path_that_the_model_cannot_follow_again_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow_first_states_only(_: Machine, chain: Sequence[int]) -> tuple[PathStep, ...]:
        if len(chain) > 1:
            raise HarnessError("no move continues the path")
        return ()

    monkeypatch.setattr(follows, "follow", follow_first_states_only)
    first, other = (situation(leader, []) for leader in (LeaderState.NONE, LeaderState.SILENT))
    unsearched = nothing_searched(ModelSettings(kafka=KAFKA, scope=TINY))
    searched = replace(
        unsearched,
        outcome=replace(unsearched.outcome, chains={first: [0, 1], other: [0]}),
        depths={first: 1, other: 2},
    )
    written = write_paths(coverage([], searched), searched, tmp_path / "paths", 2)
    assert written == ([tmp_path / "paths" / f"{name_of(other)}.json"], 1)
    show_paths(*written)
    assert "1 path left out: the model cannot follow it again" in capsys.readouterr().out


@pytest.mark.nightly
def test_the_command_writes_the_nearest_paths(tmp_path: Path) -> None:
    a_run(tmp_path / "a")
    words = ["model", "coverage", "a", "--store", str(tmp_path), *SCOPE, "--by", "round"]
    told = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "paths"), "--paths", "2"])
    assert told.exit_code == 0, told.output
    written = sorted((tmp_path / "paths").iterdir())
    assert len(written) == told.stdout.count("path: ") == 2
    for path in written:
        content = Counterexample.load(path)
        assert content.invariant == path.stem
        assert content.replay() is not None


def test_a_soak_aims_first_where_most_new_situations_are_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BREACHES", "BREACHES_BY_MESSAGE"):
        monkeypatch.setattr(steering, name, ())
    monkeypatch.setattr(steering, "SCOPE", replace(TINY, by="round"))
    found = reachable(ModelSettings(kafka=KAFKA, scope=steering.SCOPE))
    aims = steering.Steering(paths=tmp_path / "paths")
    runs = list(aims.runs(KAFKA, (), driver="local", seed=7))
    names = [run.label.removeprefix(f"{KAFKA} ") for run in runs]
    numbers = [situation_of(name) or 0 for name in names]
    passed = [found.passed(number) for number in numbers]
    assert len(passed[0]) == max(map(len, map(found.passed, found.depths)))
    assert set().union(*passed) == {*found.depths}
    assert all(number not in set().union(*passed[:at]) for at, number in enumerate(numbers))
    assert [run.plan.seed for run in runs] == [*range(7, 7 + len(runs))]
    assert {path.stem for path in (tmp_path / "paths").iterdir()} == {
        f"{name}-{KAFKA}" for name in names
    }
    seen = [name_of(number) for number in passed[0]]
    again = [run.label for run in aims.runs(KAFKA, seen, driver="local", seed=7)]
    assert again == [run.label for run in runs[1:]]

"""Situations of a search, counted against those of recorded runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.checkers.coverage.model_coverage import coverage
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import Limits
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.cli.app import app
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

KAFKA = "4.4.0"
TINY = Scope(records=1, failures=0, moves=0)
SCOPE = ["--records", "1", "--failures", "0", "--moves", "0"]


def a_run(path: Path, *, kafka: str = KAFKA, copied: bool = True) -> Run:
    """A leader that takes a record; ``copied`` tells whether its followers get it."""
    built = RunBuilder(path, kafka=kafka)
    built.leader(1, 0, (1, 2, 3))
    built.observe_all(0)
    built.tick(2_000)
    for broker in (1, 2, 3):
        built.observe(broker, 1 if copied or broker == 1 else 0, 1 if copied else 0)
    built.tick(2_000)
    built.observe_all(2)
    return built.write()


@pytest.mark.nightly
def test_what_no_run_was_seen_in_is_listed_nearest_first(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / name, copied=name == "b") for name in ("a", "b")]
    settings = ModelSettings(kafka=KAFKA, scope=TINY)
    counted = coverage(runs, settings, limits=Limits(memory=1 << 28), jobs=1, watch=lambda _: None)
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


@pytest.mark.parametrize(
    ("kafka", "brokers", "words"), [("3.9.2", 3, "is of Kafka"), (KAFKA, 2, "has 3 replicas")]
)
def test_a_run_that_the_model_is_not_of_is_refused(
    tmp_path: Path, kafka: str, brokers: int, words: str
) -> None:
    settings = ModelSettings(kafka=kafka, scope=replace(TINY, brokers=brokers))
    with pytest.raises(UsageError, match=words):
        coverage(
            [a_run(tmp_path / "a")],
            settings,
            limits=Limits(memory=1 << 28),
            jobs=1,
            watch=lambda _: None,
        )


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

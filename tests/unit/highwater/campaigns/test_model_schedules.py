"""Replays on the command line: what can be replayed, what came of it, and the exit code."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from highwater.api import JudgedRun
from highwater.campaigns import model_schedules
from highwater.campaigns.model_schedules import Source, exit_code, tally
from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.checkers.model.report_types import Reconciliation
from highwater.checkers.model.schedules.schedule import Schedule, ScheduleStep
from highwater.cli.app import app
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.reports import model_text
from highwater.reports.pages.run import write
from tests.browser import predicted
from tests.browser.lineage import lost
from tests.browser.samples import SAMPLES

SCHEDULE = Schedule(kafka="4.3.1", steps=(ScheduleStep(action="send", record="m1"),))
REPRODUCED, KEPT = predicted.as_predicted("r"), predicted.kept("r")
MISSED, STRANGE = predicted.not_reproduced("r"), predicted.unexplained("r")


def judged(folder: Path, said: Sequence[Reconciliation]) -> list[JudgedRun]:
    """A run each: of the sample that loses m3, or of the one that keeps it."""
    found = []
    for number, one in enumerate(said):
        name = "valid" if one.kafka == "4.3.1" else "loss"
        sample = SAMPLES[name](name=f"run-{number}")  # type: ignore[call-arg]
        sample.model = one
        run = sample.write(folder)
        report = write(run)
        found.append(
            JudgedRun(run=run, verdict=run.verdict(), report=report, model=model_text.read(run))
        )
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lost.json"
    path.write_bytes(lost().to_json())
    return path


def test_a_counterexample_and_a_schedule_can_be_replayed(file: Path, tmp_path: Path) -> None:
    assert Source.load(file).content == lost()
    (tmp_path / "schedule.json").write_bytes(SCHEDULE.to_json())
    source = Source.load(tmp_path / "schedule.json")
    assert source.schedule("0.10.2.2") == SCHEDULE
    with pytest.raises(UsageError, match=r"schedule\.json is a schedule"):
        source.draw(tmp_path / "page.html", [])


def test_either_may_be_replayed_with_another_min_isr(file: Path, tmp_path: Path) -> None:
    rounds = Path(__file__).parents[4] / "docs" / "counterexamples" / "elected-again-4.3.1.json"
    assert Source.load(rounds).schedule("4.4.0").min_isr == 1
    changed = Source.load(rounds, min_isr=3).schedule("4.4.0")
    assert (changed.min_isr, changed.steps) == (3, Source.load(rounds).schedule("4.4.0").steps)
    (tmp_path / "schedule.json").write_bytes(SCHEDULE.to_json())
    assert Source.load(tmp_path / "schedule.json", min_isr=2).schedule("4.4.0").min_isr == 2
    for path in (file, tmp_path / "schedule.json"):
        with pytest.raises(UsageError) as refused:
            Source.load(path, min_isr=4)
        assert "3" in refused.value.hint


def test_transactions_are_not_replayed_with_another_min_isr() -> None:
    path = Path(__file__).parents[4] / "docs/counterexamples/transactions-zombie-4.0.1.json"
    assert Source.load(path).content.kafka == "4.0.1"
    with pytest.raises(UsageError, match="--min-isr has no effect on transactions"):
        Source.load(path, min_isr=2)


@pytest.mark.parametrize("text", ["", "[]", "{", '"text"', '{"format": 99, "invariant": "a"}'])
def test_what_is_neither_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        Source.load(tmp_path / "bad.json")
    assert refused.value.hint
    with pytest.raises(StoreError, match="cannot be read"):
        Source.load(tmp_path / "none.json")


def test_an_installed_counterexample_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for hazard in HAZARDS:
        if hazard.evidence == "replay":
            words = hazard.command.split()
            assert Source.load(Path(words[words.index("replay") + 1])).name == hazard.counterexample


def test_a_counterexample_found_message_by_message_needs_zookeeper(file: Path) -> None:
    assert Source.load(file).schedule("0.10.2.2").by == "message"
    with pytest.raises(UsageError, match="KRaft"):
        Source.load(file).schedule("4.3.1")


def test_runs_are_counted_by_release(file: Path, tmp_path: Path) -> None:
    found = judged(tmp_path / "store", [REPRODUCED, MISSED, REPRODUCED, KEPT])
    old, new = tally(Source.load(file), found)
    assert (old.kafka, old.runs, old.reproduced, old.kept) == ("0.10.2.2", 3, 2, 0)
    assert (new.kafka, new.runs, new.reproduced, new.kept) == ("4.3.1", 1, 0, 1)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ([REPRODUCED, KEPT], OK),
        ([REPRODUCED, MISSED], UNKNOWN),
        ([MISSED, STRANGE], BROKEN),
        ([replace(REPRODUCED, status="unknown")], UNKNOWN),
    ],
)
def test_the_code_says_whether_all_went_as_foretold(
    said: list[Reconciliation], code: int, tmp_path: Path
) -> None:
    assert exit_code(judged(tmp_path, said)) == code


@pytest.mark.slow
def test_the_command_tells_each_run_and_draws_the_page(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged(tmp_path / "store", [REPRODUCED, KEPT])
    asked: list[Sequence[str]] = []

    def perform(_: Source, kafkas: Sequence[str], *__: object, **___: object) -> list[JudgedRun]:
        asked.append(kafkas)
        return found

    monkeypatch.setattr(model_schedules, "perform", perform)
    page = tmp_path / "page.html"
    words = ["model", "replay", str(file), "--report", str(page)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == OK, done.output
    assert "Kafka 0.10.2.2: 1 of 1 runs lost or forked records as predicted" in done.stdout
    assert "Kafka 4.3.1: 0 of 1 runs lost or forked records as predicted, 1 kept all" in done.stdout
    assert "On real brokers" in page.read_text("utf-8")
    done = CliRunner().invoke(app, [*words, "--kafka", "0.10.2.2,4.3.1", "--json"])
    assert asked == [("0.10.2.2",), ("0.10.2.2", "4.3.1")]
    shown = json.loads(done.stdout)
    assert [one["counterexample"] for one in shown["replays"]] == ["lost.json"] * 2
    assert [one["model"]["status"] for one in shown["runs"]] == ["as-predicted"] * 2
    refused = CliRunner().invoke(app, [*words[:-1], "page.pdf"])
    assert "page.pdf is not a name for a page" in str(refused.exception)

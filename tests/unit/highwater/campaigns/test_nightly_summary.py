"""What a night came to: each colour for its own reason, and nothing that a broken file hides."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from highwater.campaigns.nightly_jobs import write
from highwater.cli.app import app
from highwater.harness.campaigns.nightly_cells import CellResult, Night, NightlyCell
from highwater.harness.campaigns.nightly_outcome import compare, outages
from highwater.harness.campaigns.nightly_trend import NIGHTS, extend
from highwater.harness.campaigns.nightly_trend import read as read_trend
from tests.support.nightly_data import Change, is_canary, matrix, night_of

TODAY = date(2026, 11, 21)


class Tonight:
    """A planned night whose matrices can be written at will and summarised by the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: Night = night_of(TODAY)
        write(self.plan, folder / "plan")

    def run(self, change: Change = lambda _: {}) -> None:
        for job in self.plan.jobs:
            matrix(self.folder / "results" / job.name / "1", job.cells, change)

    def summarize(self, *more: str, planned: bool = True) -> Result:
        words = ["nightly", "summarize", str(self.folder / "results"), "--date", "2026-11-21"]
        words += ["--out", str(self.folder / "out"), *more]
        if planned:
            words += ["--plan", str(self.folder / "plan" / "night.json")]
        return CliRunner().invoke(app, words, env={"GITHUB_STEP_SUMMARY": ""})

    @property
    def trend(self) -> list[CellResult]:
        return read_trend(self.folder / "out" / "trend.jsonl")[0]


@pytest.fixture
def tonight(tmp_path: Path) -> Tonight:
    return Tonight(tmp_path)


def first(tonight: Tonight, **wanted: object) -> NightlyCell:
    """A cell of the plan that is no canary's."""
    return next(
        cell
        for cell in tonight.plan.cells
        if not is_canary(cell) and all(getattr(cell, k) == v for k, v in wanted.items())
    )


def only(cell: NightlyCell, **changed: object) -> Change:
    def change(other: NightlyCell) -> Mapping[str, object]:
        return changed if other == cell else {}

    return change


def test_a_night_as_predicted_is_green(tonight: Tonight) -> None:
    tonight.run()
    done = tonight.summarize()
    assert (done.exit_code, done.stdout.splitlines()[0][-8:]) == (0, "is green")
    assert {mark.state for mark in tonight.trend} == {"good"}
    assert len(tonight.trend) == len(tonight.plan.cells)
    assert (tonight.folder / "out" / "trend.html").exists()


def test_a_story_that_is_not_as_predicted_makes_the_night_red(tonight: Tonight) -> None:
    cell = first(tonight, kafka="4.3.1", story="loss")
    tonight.run(only(cell, as_predicted=False, verdict="invalid", lost=1))
    done = tonight.summarize()
    assert done.exit_code == 1
    assert f"| {cell.key} | {cell.seed} | bad | 1 / 5 | 0 | not as predicted |" in done.stdout
    assert cell.command() in done.stdout


OLD, NEW = {"kafka": "0.10.2.2", "story": None}, {"kafka": "4.3.1", "story": None}
TROUBLE = "harness failed while booting: broker 2 did not start"
BY_ONE_CELL: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "a random schedule that breaks a promise": (
        NEW, {"verdict": "invalid", "lost": 3}, 1, "broke a promise",
    ),
    "a release without leader epochs may lose at random": (
        OLD, {"verdict": "invalid", "lost": 3}, 0, "is green",
    ),
    "though the model cannot explain it": (
        OLD, {"verdict": "invalid", "lost": 3, "model": "unexplained"}, 1,
        "the model cannot explain",
    ),
    "and it may not break other promises": (
        OLD, {"verdict": "invalid", "lost": 0}, 1, "broke a promise",
    ),
    "an unknown cell": ({}, {"verdict": "unknown", "as_predicted": None}, 3, "### Unknown: 1"),
    "an unknown cell of a harness that failed": (
        {}, {"verdict": "unknown", "as_predicted": False, "problem": TROUBLE}, 3, TROUBLE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "changed", "code", "says"), BY_ONE_CELL.values(), ids=BY_ONE_CELL)
def test_one_cell_makes_the_night_red_or_yellow(
    tonight: Tonight, cell: dict[str, Any], changed: dict[str, Any], code: int, says: str
) -> None:
    tonight.run(only(first(tonight, **cell), **changed))
    done = tonight.summarize()
    assert done.exit_code == code
    assert says in done.stdout


@pytest.mark.parametrize("changed", [{"lost": 0}, {"verdict": "unknown", "as_predicted": None}])
def test_a_canary_that_is_never_heard_makes_the_night_red(
    tonight: Tonight, changed: dict[str, object]
) -> None:
    tonight.run(lambda cell: changed if is_canary(cell) and cell.story == "loss" else {})
    done = tonight.summarize()
    assert done.exit_code == 1
    assert (
        "The canary old-kafka must lose records, but none of its cells lost a record."
        in done.stdout
    )


def test_a_canary_that_missed_one_of_its_two_windows_makes_it_yellow(tonight: Tonight) -> None:
    canary = next(cell for cell in tonight.plan.cells if is_canary(cell))
    tonight.run(only(canary, verdict="unknown", as_predicted=None, lost=0))
    assert tonight.summarize().exit_code == 3


def test_a_canary_without_a_plan_must_be_there_all_the_same(tonight: Tonight) -> None:
    tonight.run(lambda cell: None if is_canary(cell) else {})
    done = tonight.summarize(planned=False)
    assert done.exit_code == 1
    assert (
        "The canary unclean-election must lose records, but none of its cells lost a record."
        in done.stdout
    )


def test_a_cell_that_is_missing_makes_the_night_red(tonight: Tonight) -> None:
    gone = first(tonight)
    tonight.run(lambda cell: None if cell == gone else {})
    done = tonight.summarize()
    assert done.exit_code == 1
    assert "Missing: 1 planned, but has no result." in done.stdout
    assert [mark.key for mark in tonight.trend if mark.state == "missing"] == [gone.key]


def test_a_night_without_results_is_red(tonight: Tonight) -> None:
    (tonight.folder / "results").mkdir()
    done = tonight.summarize(planned=False)
    assert done.exit_code == 1
    assert "There are no results at all." in done.stdout
    assert "has no cells.json" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{", "is not a list of cells"),
        ('{"kafka":1}', "is not a list of cells"),
        ('[{"kafka":"4.3.1"}]', "cell 0 is broken"),
        (None, "is missing: the matrix did not run"),
    ],
)
def test_a_broken_file_is_named_and_the_rest_is_summarised(
    tonight: Tonight, text: str | None, words: str
) -> None:
    tonight.run()
    broken = tonight.folder / "results" / "job-1" / "1" / "cells.json"
    broken.unlink()
    if text is not None:
        broken.write_text(text)
    done = tonight.summarize()
    assert done.exit_code == 1
    assert f"- {broken}" in done.stdout
    assert words in done.stdout
    states = [mark.state for mark in tonight.trend]
    assert states.count("missing") == len(tonight.plan.jobs[0].cells)
    assert states.count("good") == len(tonight.plan.jobs[1].cells)


def test_of_a_cell_that_ran_twice_the_worst_counts(tonight: Tonight) -> None:
    tonight.run()
    cell = first(tonight, kafka="4.3.1", story="divergence")
    matrix(tonight.folder / "results" / "again", [cell], lambda _: {"as_predicted": False})
    assert tonight.summarize().exit_code == 1


@pytest.mark.slow
def test_what_a_night_leaves_is_kept_with_whole_runs_of_what_went_wrong(tonight: Tonight) -> None:
    bad = first(tonight, kafka="4.3.1", story="loss")
    tonight.run(only(bad, as_predicted=False))
    folders = [path.parent for path in tonight.folder.rglob("cells.json")]
    for folder in folders:
        for row in json.loads((folder / "cells.json").read_text()):
            run = folder / "runs" / row["run"]
            (run / "replicas").mkdir(parents=True)
            (run / "report.html").write_text("report")
            (run / "replicas" / "0.log").write_text("x" * 1000)
            (run / "replicas" / "0.index").write_text("x" * 9_000_000)
        (folder / "runs" / "latest").symlink_to(run.name)
    for most, logs in (("1", 1), ("0", 0)):
        out = tonight.folder / f"kept-{most}"
        words = ["nightly", "keep", str(tonight.folder / "results"), "--most", most]
        done = CliRunner().invoke(app, [*words, "--out", str(out)])
        assert done.exit_code == 0
        assert len(list(out.rglob("cells.json"))) == len(folders)
        assert len(list(out.rglob("report.html"))) == len(tonight.plan.cells)
        assert len(list(out.rglob("*.log"))) == logs
        assert not list(out.rglob("*.index"))
        assert ("was not copied" in done.stderr) == (logs == 0)


def test_the_summary_is_appended_for_github(tonight: Tonight) -> None:
    tonight.run()
    summary = tonight.folder / "summary.md"
    summary.write_text("before\n")
    done = tonight.summarize("--step-summary", str(summary))
    assert summary.read_text() == "before\n" + done.stdout


def test_markup_in_a_result_stays_text(tonight: Tonight) -> None:
    evil = "<script>|`"
    tonight.run(only(first(tonight, story=None), nemesis=evil, verdict="invalid"))
    done = tonight.summarize()
    assert r"\<script\>\|\`" in done.stdout
    assert "<script" not in (tonight.folder / "out" / "trend.html").read_text()


def mark(night: int | str, state: str = "good", **changes: object) -> CellResult:
    when = night if isinstance(night, str) else f"2026-11-{night:02}"
    words = {"kafka": "4.3.1", "story": "loss", "night": when, "state": state}
    return msgspec.convert({**words, **changes}, CellResult)


def test_new_ongoing_resolved_and_waiting_are_told_apart() -> None:
    before = [
        mark(19, "bad", kafka="ongoing"),
        mark(20, kafka="new"),
        mark(20, "unknown", kafka="resolved", seed=3),
        mark(20, "missing", kafka="waiting"),
        mark(20, kafka="calm"),
    ]
    now = [
        mark(21, "unknown", kafka="ongoing"),
        mark(21, "bad", kafka="new"),
        mark(21, kafka="new", seed=2),
        mark(21, kafka="resolved"),
        mark(21, "bad", kafka="unheard-of"),
        mark(21, kafka="calm"),
    ]
    found = compare([*before, *now], now, "2026-11-21")
    assert [one.kafka for one in found.new] == ["new", "unheard-of"]
    assert [one.kafka for one in found.ongoing] == ["ongoing"]
    assert [one.kafka for one in found.resolved] == ["resolved"]
    assert [one.kafka for one in found.waiting] == ["waiting"]


def test_the_history_is_bounded_and_a_night_replaces_itself() -> None:
    old = [mark(f"2026-{1 + n // 28:02}-{1 + n % 28:02}") for n in range(120)]
    found = extend(old, [mark(21)], "2026-11-21")
    assert len({one.night for one in found}) == NIGHTS
    again = extend(found, [mark(21, "bad")], "2026-11-21")
    assert [one.state for one in again if one.night == "2026-11-21"] == ["bad"]
    assert len(again) == len(found)


def test_a_history_with_scars_is_read_with_a_note_for_each(tonight: Tonight) -> None:
    good = msgspec.json.encode(mark(20, "bad")).decode()
    trend = tonight.folder / "trend.jsonl"
    trend.write_text(f'{{"cell":"old"}}\n{{"schema":7}}\n\n{good}\n{good[:40]}')
    tonight.run()
    done = tonight.summarize("--previous", str(trend))
    assert done.exit_code == 0
    assert "1 of 5 lines are ignored: schema 0, not 1" in done.stdout
    assert "1 of 5 lines are ignored: schema 7, not 1" in done.stdout
    assert "the last line is incomplete" in done.stdout
    assert {one.night for one in tonight.trend} == {"2026-11-20", "2026-11-21"}


def test_a_history_broken_in_its_midst_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "trend.jsonl"
    path.write_bytes(b"\xff\xfe\n" + msgspec.json.encode(mark(20)) + b"\n")
    marks, notes = read_trend(path)
    assert len(marks) == 1
    assert "1 lines are broken and are ignored; the first is 1" in notes[0]
    assert read_trend(tmp_path / "none.jsonl")[0] == []


def test_a_cell_whose_records_could_not_be_counted_has_no_numbers(tonight: Tonight) -> None:
    cell = first(tonight)
    tonight.run(only(cell, verdict="unknown", counted=False, lost=0, acknowledged=4))
    done = tonight.summarize()
    [mark] = [mark for mark in tonight.trend if mark.identity == cell.identity]
    assert mark.losses == "-"
    assert "0 / 4" not in done.output


def test_a_release_that_got_slower_is_seen_and_makes_no_night_red(tonight: Tonight) -> None:
    """Its cells are compared with the same cells of earlier nights, if there are enough."""
    kafka = first(tonight).kafka
    tonight.run(lambda cell: {"unsynced_s": 9.0 if cell.kafka == kafka else 3.0})
    assert tonight.summarize().exit_code == 0
    slow = tonight.trend
    earlier = [
        msgspec.structs.replace(mark, night="2026-11-20", unsynced_s=3.0, unacknowledged_s=None)
        for mark in slow
    ]
    rows = outages(earlier, slow, "2026-11-21")
    assert {row.measure for row in rows} == {"until all replicas are in sync"}
    assert [row.kafka for row in rows if row.slower] == [kafka]
    assert not any(row.slower for row in outages([], slow, "2026-11-21"))
    assert not any(row.slower for row in outages(earlier[:2], slow[:2], "2026-11-21"))
    trend = tonight.folder / "before.jsonl"
    trend.write_bytes(b"".join(msgspec.json.encode(mark) + b"\n" for mark in earlier))
    done = tonight.summarize("--previous", str(trend))
    assert done.exit_code == 0
    assert f"| {kafka} | until all replicas are in sync | 9.0 | 3.0 |" in done.stdout
    assert "slower" in (tonight.folder / "out" / "trend.html").read_text()

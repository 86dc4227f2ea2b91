"""A night's plan: the same for a date, another each night, failures and canaries in every one."""

import json
import re
import shlex
from collections import Counter
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import msgspec
import pytest
import typer.core
import typer.main
from typer.testing import CliRunner

from highwater.campaigns.matrix_plan import plan_of
from highwater.campaigns.nightly_jobs import LONGEST, github_matrix, read, write
from highwater.campaigns.nightly_plan import (
    BASELINE,
    CellDurations,
    can_be_had,
    find_drivers,
    find_releases,
    newest,
    plan_night,
    seed,
    settings,
)
from highwater.cli.app import app
from highwater.cli.nightly import app as nightly_app
from highwater.harness.base.errors import HighwaterError, StoreError, UsageError
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.campaigns.nightly_cells import (
    CellResult,
    Night,
    NightlyCell,
    canaries,
    fields,
)
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.runtime.preflight import check_plan
from tests.support.nightly_data import night_of

TODAY = date(2026, 11, 21)


@cache
def whole(day: date = TODAY, marks: tuple[CellResult, ...] = (), jobs: int = 8) -> Night:
    return plan_night(
        day,
        releases=find_releases(("all",)),
        drivers=find_drivers(("local", "docker")),
        marks=marks,
        jobs=jobs,
    )


def mark(state: str = "bad", **changes: object) -> CellResult:
    words = {"kafka": "2.8.2", "nemesis": "kill", "seed": 77, "night": "2026-11-20", "state": state}
    return msgspec.convert({**words, **changes}, CellResult)


def test_the_same_date_and_history_give_the_same_night() -> None:
    assert whole() == whole.__wrapped__()


def test_every_night_has_other_seeds_and_draws_other_cells() -> None:
    one, other = whole(), whole(TODAY + timedelta(days=1))
    assert {cell.seed for cell in one.cells} & {cell.seed for cell in other.cells} == set()
    drawn = [{cell.key for cell in night.cells if cell.why == "drawn"} for night in (one, other)]
    assert drawn[0] - drawn[1]
    assert drawn[1] - drawn[0]


def test_a_seed_reads_as_its_date() -> None:
    assert seed(TODAY, 1) == 2026112101


def test_no_two_cells_of_a_night_are_the_same() -> None:
    assert Counter(cell.identity for cell in whole().cells).most_common(1)[0][1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kafka", CATALOGUE)
def test_every_release_has_the_baseline_and_more(kafka: str) -> None:
    cells = [cell for cell in whole().cells if cell.kafka == kafka]
    assert {"loss", "divergence"} <= {cell.story for cell in cells if cell.acks == "all"}
    assert len(cells) > len(BASELINE)
    assert {cell.driver for cell in cells} <= set(CATALOGUE[kafka].drivers)


def test_every_canary_is_in_even_the_shortest_night_with_two_seeds() -> None:
    cells = night_of(TODAY, minutes=1, jobs=1).cells
    for canary in canaries(newest()):
        assert len({cell.seed for cell in cells if canary.claims(cell)}) == 2


@pytest.mark.slow
def test_within_a_week_every_setting_of_every_release_runs_on_every_driver() -> None:
    marks: tuple[CellResult, ...] = ()
    for day in (TODAY + timedelta(days=n) for n in range(7)):
        night = whole(day, marks)
        marks += tuple(
            CellResult(**fields(cell), night=night.night, state="good") for cell in night.cells
        )
    all_settings = tuple(settings())
    assert {mark.key for mark in marks} >= {
        msgspec.structs.replace(setting, kafka=one.name, driver=driver).key
        for one in CATALOGUE.values()
        for driver in one.drivers
        for setting in all_settings
        if can_be_had(setting, one, driver)
    }


def test_what_failed_comes_first_with_its_seed() -> None:
    marks = (
        mark(),
        mark("unknown", seed=78),
        mark("missing", nemesis="", story="loss", seed=79),
        mark("good", nemesis="pause", seed=80),
    )
    night = whole(marks=marks)
    failed = [cell for cell in night.cells if cell.why == "failed"]
    assert sorted(cell.seed for cell in failed) == [77, 78, 79]
    for job in night.jobs:
        whys = [cell.why == "failed" for cell in job.cells]
        assert whys == sorted(whys, reverse=True)


def test_what_was_good_the_last_time_it_ran_has_not_failed() -> None:
    marks = (mark(night="2026-11-18"), mark("good", night="2026-11-19"))
    assert not [cell for cell in whole(marks=marks).cells if cell.why == "failed"]


def test_what_failed_days_ago_and_did_not_run_since_is_not_forgotten() -> None:
    marks = (mark(night="2026-11-10"), mark("good", kafka="4.3.1", night="2026-11-20"))
    assert [cell.seed for cell in whole(marks=marks).cells if cell.why == "failed"] == [77]


def test_what_failed_on_something_that_is_no_more_is_left_out() -> None:
    marks = (mark(kafka="9.9.9"), mark(nemesis="", story="gone"), mark(nemesis="flood"))
    assert not [cell for cell in whole(marks=marks).cells if cell.why == "failed"]


def test_one_bad_night_does_not_crowd_out_the_next() -> None:
    marks = tuple(mark(seed=number) for number in range(10_000))
    night = whole(marks=marks)
    failed = sum(cell.seconds for cell in night.cells if cell.why == "failed")
    assert 0.4 * 8 * 70 * 60 < failed <= 0.5 * 8 * 70 * 60
    assert {cell.why for cell in night.cells} >= {"failed", "canary", "baseline"}


def test_jobs_take_about_the_same_time_and_as_long_as_they_may() -> None:
    night = whole()
    assert len(night.jobs) == 8
    seconds = [job.seconds for job in night.jobs]
    assert max(seconds) < 1.25 * min(seconds)
    assert 0.8 * 70 * 60 < sum(seconds) / 8 < 1.05 * 70 * 60


def test_a_cell_takes_as_long_as_it_took_or_one_like_it_or_a_guess() -> None:
    times = (10.0, 30.0, 500.0)
    ran = [mark("good", kafka="4.3.1", seconds=each, night="2026-11-19") for each in times]
    clock = CellDurations([*ran, mark("good", nemesis="pause", seconds=100.0)])
    this = NightlyCell(kafka="4.3.1", nemesis="kill")
    assert clock.seconds(this) == 30
    assert clock.seconds(msgspec.structs.replace(this, kafka="2.8.2", acks="1")) == 30
    assert clock.seconds(msgspec.structs.replace(this, nemesis="pause")) == 100
    assert clock.seconds(msgspec.structs.replace(this, driver="docker")) == 55


def test_every_planned_cell_can_be_done() -> None:
    """By the harness's own judgement."""
    for cell in whole().cells:
        try:
            check_plan(plan_of(cell, duration_s=30))
        except HighwaterError as error:
            pytest.fail(f"{cell.key}: {error}")


def test_the_matrices_of_a_job_have_its_cells_and_no_others(tmp_path: Path) -> None:
    night = whole()
    write(night, tmp_path)
    for job in night.jobs:
        folders = sorted((tmp_path / job.name).iterdir(), key=lambda path: int(path.name))
        found = [cell for folder in folders for cell in MatrixFolder(folder).matrix().cells]
        assert [fields(cell) for cell in found] == [fields(cell) for cell in job.cells]
        assert len({cell.run for cell in found}) == len(found)


def test_a_plan_is_written_and_read_back(tmp_path: Path) -> None:
    night = night_of(TODAY)
    write(night, tmp_path / "plan")
    assert read(tmp_path / "plan" / "night.json") == night
    assert sorted(path.name for path in (tmp_path / "plan").glob("*.sh")) == [
        "job-1.sh",
        "job-2.sh",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("[", "no plan"),
        ('{"night":"x","jobs":[],"schema":9}', "schema 9"),
    ],
)
def test_a_plan_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "night.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StoreError, match=words) as caught:
        read(path)
    assert str(path) in caught.value.message


def test_the_command_prints_a_github_matrix_on_one_line(tmp_path: Path) -> None:
    words = ["nightly", "plan", "--json", "--date", "2026-11-21", "--kafka", "0.10.2.2,4.3.1"]
    words += ["--jobs", "2", "--minutes", "3", "--out", str(tmp_path), "--driver", "local"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout.count("\n") == 1
    include = json.loads(done.stdout)["include"]
    assert [one["job"] for one in include] == ["job-1", "job-2"]
    for one in include:
        script = (tmp_path / f"{one['job']}.sh").read_text()
        assert [f"run {command}" for command in one["commands"]] == script.splitlines()[
            -len(one["commands"]) :
        ]
        for command in one["commands"]:
            *words, folder = shlex.split(command)
            assert words == ["highwater", "matrix", "--expect", "--resume"]
            assert MatrixFolder(tmp_path / folder).exists()


def test_a_night_can_be_named_by_its_number() -> None:
    plan = ["nightly", "plan", "--json", "--kafka", "4.3.1"]
    named = [
        CliRunner().invoke(app, [*plan, *words]).stdout
        for words in (["--night", "324"], ["--date", "2026-11-21"])
    ]
    assert named[0] == named[1]
    assert json.loads(named[0])["include"]


@pytest.mark.parametrize(
    "words",
    [
        ["--date", "yesterday"],
        ["--date", "2026-11-21", "--night", "3"],
        ["--kafka", "9.9"],
        ["--kafka", "none"],
        ["--driver", "cloud"],
    ],
)
def test_what_cannot_be_planned_is_refused(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["nightly", "plan", *words])
    assert isinstance(done.exception, UsageError)
    assert done.exception.hint


def test_the_workflow_speaks_the_command_s_language() -> None:
    """What it reads from the matrix is there, and each option that it passes is known."""
    workflow = (Path(__file__).parents[4] / ".github/workflows/nightly.yml").read_text()
    (first, *_) = github_matrix(night_of(TODAY))["include"]
    used = set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", workflow))
    assert used == {"job", "limit"}
    assert used <= set(first)
    group = typer.main.get_command(nightly_app)
    assert isinstance(group, typer.core.TyperGroup)
    steps = workflow.replace("\\\n", " ").split("- ")
    calls = [re.findall(r"highwater nightly (\w+)([^`]*)", step) for step in steps]
    found = [call for each in calls for call in each if call[0] in group.commands]
    assert {name for name, _ in found} == set(group.commands)
    for name, words in found:
        known = {option for one in group.commands[name].params for option in one.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= known


def test_a_job_is_given_more_time_than_it_should_take_and_less_than_a_workflow_has() -> None:
    for one in github_matrix(whole())["include"]:
        assert one["minutes"] < one["limit"] <= LONGEST  # type: ignore[operator]

"""What cannot be shown whole is refused, or says what it lacks; no report is half true."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.app import app
from highwater.harness.base.errors import StoreError
from highwater.harness.campaigns.matrix_cells import Axes, Matrix, MatrixFolder
from highwater.harness.runs.history import TABLES, StreamWriter
from highwater.harness.runs.store import Run
from highwater.reports.pages import comparison, store_index
from highwater.reports.pages.run import write
from highwater.reports.run_summary import RunSummary
from tests.browser.samples import SAMPLES

Spoil = Callable[[Run], object]


def not_judged(run: Run) -> None:
    (run.analysis / "verdict.json").unlink()


def still_running(run: Run) -> None:
    not_judged(run)
    run.write("status.json", b'{"phase": "running"}')


def change(name: str, **fields: object) -> Spoil:
    def spoil(run: Run) -> None:
        found = json.loads((run.path / name).read_bytes())
        run.write(name, json.dumps({**found, **fields}).encode())

    return spoil


REFUSED = {
    "not judged": (not_judged, "has no analysis/verdict.json"),
    "still running": (
        still_running,
        "was not judged: it is running, or was interrupted while running",
    ),
    "later verdict": (change("analysis/verdict.json", schema=2), "verdict.json has schema 2"),
    "later plan": (change("plan.json", schema=99), "schema"),
    "foreign plan": (lambda run: run.write("plan.json", b'{"name": "other"}'), "plan.json"),
    "cut verdict": (lambda run: run.write("analysis/verdict.json", b'{"run'), "is broken"),
}


@pytest.fixture(params=REFUSED)
def refused(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Run, str]:
    spoil, says = REFUSED[request.param]
    run = SAMPLES["loss"]().write(tmp_path)
    spoil(run)
    return run, says


def test_what_has_no_verdict_of_this_schema_has_no_report(refused: tuple[Run, str]) -> None:
    run, says = refused
    for show in (write, RunSummary.of):
        with pytest.raises(StoreError, match=says):
            show(run)
    assert not run.report.exists()


def test_it_is_compared_with_nothing(refused: tuple[Run, str], tmp_path: Path) -> None:
    run, says = refused
    whole = SAMPLES["valid"]().write(tmp_path)
    for pair in ((run, whole), (whole, run)):
        with pytest.raises(StoreError, match=says):
            comparison.write(*pair, tmp_path / "both.html")
    assert not (tmp_path / "both.html").exists()


def test_the_shelf_lists_it_and_says_why(refused: tuple[Run, str], tmp_path: Path) -> None:
    run, says = refused
    page = store_index.page(tmp_path)
    assert run.name in page
    shown = {
        "has no analysis/verdict.json": "not judged yet",
        "was not judged: it is running, or was interrupted while running": (
            "running, or ended early in this phase"
        ),
    }
    assert shown.get(says, says) in page
    assert SAMPLES["loss"]().verdict.headline not in page


@pytest.mark.parametrize("command", [["report", "RUN"], ["compare", "RUN", "RUN"]])
def test_the_command_line_says_it_without_a_traceback(
    command: list[str], refused: tuple[Run, str], tmp_path: Path
) -> None:
    words = [str(refused[0].path) if word == "RUN" else word for word in command]
    result = CliRunner().invoke(app, [*words, "--store", str(tmp_path)])
    assert isinstance(result.exception, StoreError)


def test_a_directory_of_something_else_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for command in (["report", "photos"], ["compare", "photos", "photos"]):
        result = CliRunner().invoke(app, [*command, "--store", str(tmp_path)])
        assert isinstance(result.exception, StoreError)
        assert "is not a run directory" in result.exception.message
    result = CliRunner().invoke(app, ["serve", "--store", str(tmp_path / "none")])
    assert isinstance(result.exception, StoreError)


def test_what_is_being_written_says_how_much_is_shown(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    run.parquet("events/replicas").unlink()
    with StreamWriter(run.stream("events/replicas"), TABLES["events/replicas"]):
        html = write(run).read_text("utf-8")
    assert "The run had not finished these tables: events/replicas (0 rows shown)" in html


def test_a_later_matrix_is_refused(tmp_path: Path) -> None:
    folder = MatrixFolder(tmp_path / "night")
    folder.write(Matrix(axes=Axes(kafkas=("4.3.1",)), cells=(), skipped=(), schema=2))
    with pytest.raises(StoreError, match=r"matrix\.json has schema 2"):
        folder.matrix()


def test_a_later_answer_of_the_model_is_said_and_not_shown(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    change("analysis/model.json", format=2)(run)
    html = write(run).read_text("utf-8")
    assert "model.json has format 2" in html
    assert "The model: as predicted" not in html
    with pytest.raises(StoreError, match="format 2"):
        comparison.write(run, run, tmp_path / "both.html")

"""A small matrix on real brokers: interrupted, resumed, judged, and the same in every form."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from highwater.harness.base.waiting import await_condition
from highwater.harness.campaigns.matrix_cells import MatrixCell, MatrixFolder
from highwater.harness.runs.store import Run
from tests.kafka.test_command import await_gone
from tests.support.commands import finish, perform, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
WORDS = ("matrix", "--kafka", "0.10.2.2", "--story", "loss", "--acks", "0,1,all", "--name", "m")


def phase_of(run: Run | None) -> str:
    return run.status().phase if run else "none"


def await_second_cell(folder: MatrixFolder, cells: tuple[MatrixCell, ...]) -> None:
    await_condition(
        lambda: [phase_of(folder.run_of(cell)) for cell in cells[:2]],
        lambda phases: phases[0] == "frozen" and phases[1] in {"running", "healing"},
        what="the second cell to be under way",
        limit_s=120,
        every_s=0.02,
    )


@pytest.mark.nightly
def test_an_interrupted_matrix_goes_on_where_it_was_and_every_form_agrees(tmp_path: Path) -> None:
    process = start(*WORDS, "--store", tmp_path)
    folder = MatrixFolder(tmp_path / "m")
    await_condition(
        lambda: [*tmp_path.rglob("*")],
        lambda _: folder.exists(),
        what="the matrix to be planned",
        limit_s=60,
    )
    cells = folder.matrix().cells
    assert len(cells) == 3  # one is to be whole, one cut short, and one not begun
    await_second_cell(folder, cells)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert f"highwater matrix --resume {folder.path}" in err
    await_gone(family)
    whole = [cell for cell in cells if phase_of(folder.run_of(cell)) == "frozen"]
    assert len(whole) == 1
    first = folder.run_of(whole[0])
    assert first is not None
    untouched = first.path.stat().st_ino
    assert not (folder.path / "clusters").exists()

    words = ("matrix", "--resume", folder.path, "--expect", "--json", "--store", tmp_path)
    code, out = perform(*words)
    assert code == 0, out
    assert first.path.stat().st_ino == untouched
    assert [path.name for path in (folder.path / "aside").iterdir()] == [f"{cells[1].run}.1"]
    assert not (folder.path / "clusters").exists()
    rows: list[dict[str, Any]] = json.loads(out)
    assert [row["run"] for row in rows] == [cell.run for cell in cells]
    for row in rows:
        assert (row["verdict"], row["lost"]) == ("invalid" if row["acks"] == "all" else "valid", 1)
        assert not row["divergent"]
        assert (row["as_predicted"], row["model"]) == (True, "as-predicted")
        assert (folder.path / row["report"]).is_file()
        assert 0 < row["seconds"] < 120
    assert json.loads((folder.path / "cells.json").read_bytes()) == rows
    assert pq.read_table(folder.path / "cells.parquet").to_pylist() == rows
    html = folder.page.read_text("utf-8")
    assert "3 stories ended as predicted" in html
    assert html.count(">predicted</small>") == 3
    assert all(f'href="{row["report"]}"' in html for row in rows)
    assert "not run" not in html.partition("What was not run")[0]

    assert_rewritten(folder, tmp_path)
    assert_a_killed_cell_is_unknown_not_lost(folder, cells[0], rows, tmp_path)


def assert_rewritten(folder: MatrixFolder, store: Path) -> None:
    page = folder.page.read_bytes()
    folder.page.unlink()
    code, out = perform("report", "m", "--store", store)
    assert (code, Path(out.strip())) == (0, folder.page)
    assert folder.page.read_bytes() == page


def assert_a_killed_cell_is_unknown_not_lost(
    folder: MatrixFolder, cell: MatrixCell, rows: list[dict[str, Any]], store: Path
) -> None:
    """What kill -9 leaves of a run on a warm cluster: its history, and no replicas."""
    run = folder.run_of(cell)
    assert run is not None
    shutil.rmtree(run.replicas)
    run.write("status.json", b'{"phase": "running"}')
    code, out = perform("check", folder.path, "--json", "--store", store)
    again = json.loads(out)
    assert again[0]["verdict"] == "unknown"
    assert again[0]["problem"] == "harness failed while running"
    assert again[1:] == rows[1:]
    assert code == 1  # the others still broke their promises
    assert any("cut short" in reason for reason in run.verdict().reasons)

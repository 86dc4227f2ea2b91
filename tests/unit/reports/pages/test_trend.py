"""Pages of many nights, of a matrix and of the demo are in the order of versions."""

import dataclasses
import io
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from highwater.api import JudgedRun
from highwater.campaigns.matrix_run import row_of
from highwater.cli.demo import demo_table
from highwater.harness.campaigns.nightly_cells import CellResult
from highwater.harness.releases.release import version_order
from highwater.reports.pages import matrix
from highwater.reports.pages.trend import Sparklines
from tests.browser.samples import SAMPLES
from tests.support.html_pages import words

KAFKAS = ["0.9.0.1", "0.10.2.2", "1.0.2", "2.8.0", "3.9.2", "3.9.2-zk", "4.0.0-rc1", "4.0.0"]


def test_settings_are_listed_by_version() -> None:
    results = [
        CellResult(kafka=kafka, story="loss", night="2026-11-21", state="good")
        for kafka in sorted(KAFKAS)
    ]
    keys = Sparklines(results).keys
    assert [key.partition(" ")[0] for key in keys] == KAFKAS


def test_a_matrix_and_the_demo_are_in_the_order_of_versions(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    row, verdict = row_of(run, tmp_path), run.verdict()
    page = matrix.write([replace(row, kafka=kafka) for kafka in sorted(KAFKAS)], tmp_path / "m")
    assert " ".join(["Schedule", *KAFKAS]) in words(page)
    one = JudgedRun(run=run, verdict=verdict, report=page)
    judged = [dataclasses.replace(one, verdict=replace(verdict, kafka=k)) for k in sorted(KAFKAS)]
    printed = io.StringIO()
    Console(file=printed, width=200).print(demo_table(judged))
    told = [line.split()[1] for line in printed.getvalue().splitlines() if " loss " in line]
    assert told == KAFKAS


def test_a_candidate_comes_before_its_release() -> None:
    assert sorted(sorted(KAFKAS), key=version_order) == KAFKAS

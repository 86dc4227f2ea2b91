"""Perform a matrix: execute its runs on reused clusters, judge them, and write the results page."""

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from highwater.api import Progress, judge_all
from highwater.campaigns.matrix_plan import grouped, plan_of
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.campaigns.matrix_cells import Matrix, MatrixCell, MatrixFolder, MatrixRow
from highwater.harness.runs.store import Run
from highwater.reports import model_text
from highwater.reports.pages.matrix import write as write_page
from highwater.runtime.campaign import Campaign, PlannedRun
from highwater.runtime.prediction_check import as_predicted

OVERALL: Final = "matrix"
"""The label of the progress line about all cells."""


def unfinished(folder: MatrixFolder, matrix: Matrix) -> list[MatrixCell]:
    """Return the cells that have no complete run yet."""
    runs = ((cell, folder.run_of(cell)) for cell in matrix.cells)
    return [cell for cell, run in runs if run is None or run.status().phase != "frozen"]


def perform(
    folder: MatrixFolder,
    *,
    spark: SparkOptions,
    jobs: int = 1,
    progress: Progress = lambda *_: None,
) -> list[MatrixRow]:
    """Run every cell that has no complete run yet, judge the runs, and write the page.

    If the harness fails in a cell, the cell's row contains the problem, and other cells continue.
    """
    matrix = folder.matrix()
    cells, duration_s = unfinished(folder, matrix), matrix.axes.duration_s
    done = _CellsDone(len(matrix.cells), len(cells), progress)
    campaign = Campaign(
        store=folder.store,
        clusters=folder.path / "clusters",
        jobs=jobs,
        progress=progress,
        failed=done.failed,
        done=done.count,
    )
    starter = SparkStarter(spark)
    done.tell()
    try:
        with campaign:
            for cell in cells:
                _put_aside(folder, cell)
            groups = grouped(cells, duration_s=duration_s)
            for _ in campaign.perform(
                [_planned(cell, duration_s) for cell in group] for group in groups
            ):
                pass
    finally:
        folder.write(msgspec.structs.replace(matrix, seconds=matrix.seconds + done.seconds))
    progress(OVERALL, "judging in Spark")
    return judge_cells(folder, starter.session())


def judge_cells(
    folder: MatrixFolder, session: SparkSession, *, afresh: bool = False
) -> list[MatrixRow]:
    """Judge all runs of a matrix, or (not ``afresh``) those without a verdict; write its page."""
    runs = folder.runs()
    judged = () if afresh else [run for run in runs if (run.analysis / "verdict.json").is_file()]
    judge_all([run for run in runs if run not in judged], session)
    rows = [row_of(run, folder.path) for run in runs]
    folder.write_rows(rows)
    write_matrix_page(folder)
    return rows


def recheck(folder: MatrixFolder, *, spark: SparkOptions) -> list[MatrixRow]:
    """Judge every run of a matrix again, and write the results page."""
    return judge_cells(folder, SparkStarter(spark).session(), afresh=True)


def write_matrix_page(folder: MatrixFolder) -> Path:
    """Write a matrix's page again, from the stored rows."""
    return write_page(folder.rows(), folder.page, matrix=folder.matrix(), earlier=folder.earlier())


def row_of(run: Run, home: Path) -> MatrixRow:
    """Return a judged run's row; its link to the report is relative to the folder ``home``."""
    verdict, model = run.verdict(), model_text.read(run)
    return MatrixRow.of(
        run,
        verdict,
        as_predicted=as_predicted(run, verdict),
        home=home,
        model=model.status if model else None,
    )


class _CellsDone:
    """Reports the number of finished cells of a matrix, and estimates the remaining time."""

    def __init__(self, total: int, left: int, progress: Progress) -> None:
        self._total = total
        self._todo = left
        self._progress = progress
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._done = 0

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def count(self, _: PlannedRun) -> None:
        with self._lock:
            self._done += 1
        self.tell()

    def failed(self, planned: PlannedRun, error: HarnessError) -> None:
        self._progress(OVERALL, f"{planned.label}: harness failed: {error.message}")

    def tell(self) -> None:
        left = self._todo - self._done
        words = f"{self._total - left} of {self._total} cells done"
        if self._done and left:
            seconds = round(self.seconds / self._done * left)
            words += f", about {timedelta(seconds=seconds)} left"
        self._progress(OVERALL, words)


def _planned(cell: MatrixCell, duration_s: float) -> PlannedRun:
    label = f"{cell.kafka} {cell.happened} acks={cell.acks}"
    return PlannedRun(plan=plan_of(cell, duration_s=duration_s), label=label, name=cell.run)


def _put_aside(folder: MatrixFolder, cell: MatrixCell) -> None:
    """Move a cell's unfinished run of an earlier invocation to the folder ``aside``."""
    run = folder.run_of(cell)
    if run is None:
        return
    aside = folder.path / "aside"
    aside.mkdir(exist_ok=True)
    number = sum(1 for _ in aside.glob(f"{cell.run}.*"))
    run.path.rename(aside / f"{cell.run}.{number + 1}")

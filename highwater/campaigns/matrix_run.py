"""Runs a matrix: cells on warm clusters, then their verdicts, rows and page."""

import queue
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
from highwater.harness.runs.matrix_cells import Matrix, MatrixCell, MatrixFolder, MatrixRow
from highwater.harness.runs.store import Run
from highwater.reports import model_text
from highwater.reports.pages.matrix import write as write_page
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.prediction_check import as_predicted

OVERALL: Final = "matrix"
"""The label of progress about all cells."""


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

    A cell in which the harness fails keeps its problem, and the other cells go on.

    Args:
        folder: has a ``matrix.json``.
        jobs: number of clusters side by side.
        progress: called with the step that begins; from several threads.

    Raises:
        StoreError: the matrix cannot be read or written.
    """
    matrix = folder.matrix()
    with SparkStarter(spark) as starter:
        sitting = _Sitting(folder, matrix, progress)
        try:
            sitting.work(jobs)
        finally:
            folder.write(msgspec.structs.replace(matrix, seconds=matrix.seconds + sitting.seconds))
        progress(OVERALL, "judging in Spark")
        return judge_cells(folder, starter.session())


def judge_cells(
    folder: MatrixFolder, session: SparkSession, *, afresh: bool = False
) -> list[MatrixRow]:
    """Judge the runs of a matrix that have no verdict yet (or all), and write rows and page.

    Raises:
        StoreError: the matrix or a run's plan cannot be read.
    """
    runs = folder.runs()
    judge_all([run for run in runs if afresh or not _is_judged(run)], session)
    rows = [row_of(run, folder.path) for run in runs]
    folder.write_rows(rows)
    write_matrix_page(folder)
    return rows


def recheck(folder: MatrixFolder, *, spark: SparkOptions) -> list[MatrixRow]:
    """Judge every run of a matrix again, and write rows and page.

    Raises:
        StoreError: the matrix or a run's plan cannot be read.
    """
    with SparkStarter(spark) as starter:
        return judge_cells(folder, starter.session(), afresh=True)


def write_matrix_page(folder: MatrixFolder) -> Path:
    """Write a matrix's page again from the rows that are stored.

    Raises:
        StoreError: it was not judged yet.
    """
    return write_page(folder.rows(), folder.page, matrix=folder.matrix(), earlier=folder.earlier())


def row_of(run: Run, home: Path) -> MatrixRow:
    """Return the row of a judged run, for a page in the folder ``home``.

    Raises:
        StoreError: it was not judged, or cannot be read.
    """
    verdict, model = run.verdict(), model_text.read(run)
    return MatrixRow.of(
        run,
        verdict,
        as_predicted=as_predicted(run, verdict),
        home=home,
        model=model.status if model else None,
    )


def _is_judged(run: Run) -> bool:
    return (run.analysis / "verdict.json").is_file()


class _Sitting:
    """Runs the remaining cells in one invocation, and reports the progress."""

    def __init__(self, folder: MatrixFolder, matrix: Matrix, progress: Progress) -> None:
        self._folder = folder
        self._duration_s = matrix.axes.duration_s
        self._progress = progress
        self._todo = unfinished(folder, matrix)
        self._groups: queue.SimpleQueue[list[MatrixCell]] = queue.SimpleQueue()
        for group in grouped(self._todo, duration_s=self._duration_s):
            self._groups.put(group)
        self._total = len(matrix.cells)
        self._stop = threading.Event()
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._done = 0

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def work(self, jobs: int) -> None:
        """Run every cell, with ``jobs`` clusters at a time."""
        clusters = self._folder.path / "clusters"
        shutil.rmtree(clusters, ignore_errors=True)  # of a sitting that was killed
        self._tell()
        try:
            if jobs == 1:
                self._work(clusters / "1")
            else:
                self._share([clusters / str(number + 1) for number in range(jobs)])
        finally:
            shutil.rmtree(clusters, ignore_errors=True)

    def _share(self, clusters: Sequence[Path]) -> None:
        pool = ThreadPoolExecutor(len(clusters), thread_name_prefix="matrix")
        futures = [pool.submit(self._work, cluster) for cluster in clusters]
        try:
            for future in futures:
                future.result()
        finally:
            # If one was interrupted, the others end at their next wait and close their clusters.
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _work(self, clusters: Path) -> None:
        """Run one group after the other, with clusters below the folder ``clusters``."""
        with ClusterPool(clusters) as fleet:
            while not self._stop.is_set():
                try:
                    group = self._groups.get_nowait()
                except queue.Empty:
                    return
                for cell in group:
                    self._run(cell, fleet)

    def _run(self, cell: MatrixCell, fleet: ClusterPool) -> None:
        label = f"{cell.kafka} {cell.happened} acks={cell.acks}"
        self._put_aside(cell)
        try:
            fleet.execute(
                plan_of(cell, duration_s=self._duration_s),
                self._folder.store,
                stop=self._stop,
                progress=lambda step: self._progress(label, step),
                name=cell.run,
            )
        except HarnessError as error:
            if self._stop.is_set():
                raise
            self._progress(OVERALL, f"{label}: harness failed: {error.message}")
        self._progress(label, "frozen")
        with self._lock:
            self._done += 1
        self._tell()

    def _put_aside(self, cell: MatrixCell) -> None:
        """Move the unfinished run of an earlier invocation out of the way."""
        run = self._folder.run_of(cell)
        if run is None:
            return
        aside = self._folder.path / "aside"
        aside.mkdir(exist_ok=True)
        number = sum(1 for _ in aside.glob(f"{cell.run}.*"))
        run.path.rename(aside / f"{cell.run}.{number + 1}")

    def _tell(self) -> None:
        left = len(self._todo) - self._done
        words = f"{self._total - left} of {self._total} cells done"
        if self._done and left:
            seconds = round(self.seconds / self._done * left)
            words += f", about {timedelta(seconds=seconds)} left"
        self._progress(OVERALL, words)

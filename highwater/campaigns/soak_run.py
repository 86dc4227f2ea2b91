"""Runs a soak: portions of runs on warm clusters, each portion judged as soon as it has ended."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from highwater.api import Progress, judge_all
from highwater.campaigns.soak_plan import SHARED
from highwater.campaigns.soak_results import Soak, SoakFolder, SoakRow
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs.store import Run
from highwater.runtime.cluster_pool import ClusterPool

OVERALL: Final = "soak"
"""The label of progress about all runs."""

_Portion = list[tuple[int, Run]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of an invocation.

    Attributes:
        seconds: no run begins after so many seconds.
        first: number of the first run.
        runs: maximum runs, including those of earlier invocations; None: until the time is up.
        jobs: clusters side by side.
        keep_all: keep also runs in which nothing was wrong.
    """

    seconds: float
    first: int = 0
    runs: int | None = None
    jobs: int = 1
    keep_all: bool = False


def perform(
    folder: SoakFolder,
    soak: Soak,
    bounds: Bounds,
    *,
    spark: SparkOptions,
    progress: Progress = lambda *_: None,
    on_rows: Callable[[list[SoakRow]], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[SoakRow]:
    """Perform and judge the remaining runs, and return all rows, also those of earlier invocations.

    Runs that an earlier invocation left unjudged are judged first. A run in which the harness fails
    gets a row too.

    Args:
        on_rows: called with all rows so far whenever there are more, so that an interruption loses
            nothing.

    Raises:
        UsageError: the folder belongs to another soak.
        StoreError: it cannot be read or written.
    """
    folder.begin(soak)
    shutil.rmtree(folder.clusters, ignore_errors=True)  # of a sitting that was killed
    with SparkStarter(spark) as starter:
        sitting = _Sitting(
            folder, soak, bounds, progress, on_rows, deadline=clock() + bounds.seconds
        )
        if left := folder.unjudged():
            sitting.judge(left, starter.session())
        sitting.work(starter.session, clock)
    return folder.rows()


@dataclass(slots=True)
class _Sitting:
    folder: SoakFolder
    soak: Soak
    bounds: Bounds
    progress: Progress
    on_rows: Callable[[list[SoakRow]], None]
    deadline: float
    _stop: threading.Event = field(default_factory=threading.Event)

    def work(self, session: Callable[[], SparkSession], clock: Callable[[], float]) -> None:
        """Start portions until the time is up, and judge each when it has ended."""
        portions = self._portions()

        def late() -> bool:
            return clock() > self.deadline

        with self._pool() as pool:
            going: set[Future[_Portion]] = set()
            while True:
                while len(going) < self.bounds.jobs and not late():
                    portion = next(portions, None)
                    if portion is None:
                        break
                    going.add(pool.submit(self._run, portion, late))
                if not going:
                    return
                over, going = wait(going, return_when=FIRST_COMPLETED)
                for future in over:
                    self.judge(future.result(), session())

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(self.bounds.jobs, thread_name_prefix="soak")
        try:
            yield pool
        finally:
            # If one was interrupted, the others end at their next wait and close their clusters.
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            shutil.rmtree(self.folder.clusters, ignore_errors=True)

    def _portions(self) -> Iterator[list[int]]:
        """Yield, for each cluster, the numbers of its runs that are not done."""
        done = {row.number for row in self.folder.rows()}
        end = None if self.bounds.runs is None else self.bounds.first + self.bounds.runs
        number = self.bounds.first
        while end is None or number < end:
            after = (number // SHARED + 1) * SHARED
            last = after if end is None else min(after, end)
            if todo := [following for following in range(number, last) if following not in done]:
                yield todo
            number = last

    def _run(self, numbers: list[int], late: Callable[[], bool]) -> _Portion:
        """Perform a portion's runs one after the other, as long as there is time."""
        done: _Portion = []
        with ClusterPool(self.folder.clusters / str(numbers[0])) as fleet:
            for number in numbers:
                if late() or self._stop.is_set():
                    break
                done.append((number, self._execute(number, fleet)))
        return done

    def _execute(self, number: int, fleet: ClusterPool) -> Run:
        name, plan = self.soak.name(number), self.soak.plan(number)
        label = f"{name} {','.join(plan.nemesis)}"
        try:
            fleet.execute(
                plan,
                self.folder.runs,
                stop=self._stop,
                progress=lambda step: self.progress(label, step),
                name=name,
            )
        except HarnessError as error:
            if self._stop.is_set():
                raise
            self.progress(OVERALL, f"{name}: harness failed: {error.message}")
        self.progress(label, "frozen")
        return self.folder.runs.open(name)

    def judge(self, runs: _Portion, session: SparkSession) -> None:
        """Judge runs, write their rows, and delete the runs in which nothing was wrong."""
        if not runs:
            return
        for (number, run), judged in zip(
            runs, judge_all([run for _, run in runs], session), strict=True
        ):
            row = SoakRow.of(self.soak, number, judged)
            self.folder.write(row)
            if row.state == "kept" and not self.bounds.keep_all:
                shutil.rmtree(run.path)
            problems = "".join(
                f"; {problem}" for problem in (*row.unexplained[:1], *row.problems[:1])
            )
            self.progress(
                OVERALL,
                f"{row.run}: {row.state}, {row.lost} of {row.acknowledged} lost{problems}",
            )
        self.on_rows(self.folder.rows())

"""Perform a soak: execute groups of runs on reused clusters, and judge each group when it ends."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.api import Progress, judge_all
from highwater.campaigns.soak_plan import SHARED
from highwater.campaigns.soak_results import PATHS, Soak, SoakFolder, SoakRow, number_of
from highwater.campaigns.steering import Steering
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs.store import Run
from highwater.runtime.campaign import Campaign, PlannedRun

OVERALL: Final = "soak"
"""The label of the progress line about all runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one invocation of a soak.

    Attributes:
        seconds: number of seconds after which no run begins.
        runs: maximum number of runs, including those of earlier invocations; None for no maximum.
        jobs: number of parallel clusters.
        keep_all: whether to keep runs without anomalies, which are otherwise deleted.
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
    """Perform and judge the remaining runs; return all rows, even of earlier invocations.

    Runs of earlier invocations that have no verdict are judged first. If the harness fails in a
    run, the run also gets a row.

    Args:
        on_rows: called with all rows after every new row, so that an interruption loses no row.
    """
    folder.begin(soak)
    deadline = clock() + bounds.seconds
    campaign = Campaign(
        store=folder.runs,
        clusters=folder.clusters,
        jobs=bounds.jobs,
        progress=progress,
        failed=lambda planned, error: progress(
            OVERALL, f"{planned.name}: harness failed: {error.message}"
        ),
        is_over=lambda: clock() > deadline,
    )

    def judge(runs: Sequence[Run]) -> None:
        """Judge runs and write their rows; delete runs without anomalies."""
        if not runs:
            return
        for judged in judge_all(runs, starter.session()):
            row = SoakRow.of(soak, number_of(judged.run), judged)
            _write_row(folder, row, progress)
            if row.state == "kept" and not bounds.keep_all:
                shutil.rmtree(judged.run.path)
        on_rows(folder.rows())

    starter = SparkStarter(spark)
    steering = Steering(
        paths=folder.path / PATHS,
        progress=lambda text: progress(OVERALL, text),
    )
    with campaign:
        judge(folder.unjudged())
        for performed in campaign.perform(_portions(folder, soak, bounds, steering)):
            judge([run for _, run in performed if run is not None])
    return folder.rows()


def _portions(
    folder: SoakFolder, soak: Soak, bounds: Bounds, steering: Steering
) -> Iterator[list[PlannedRun]]:
    """Yield groups of runs that are not done yet; the runs of a group share a cluster."""
    done = {row.number for row in folder.rows()}
    end = None if bounds.runs is None else bounds.first + bounds.runs
    number = bounds.first
    while end is None or number < end:
        after = (number // SHARED + 1) * SHARED
        last = after if end is None else min(after, end)
        if todo := [following for following in range(number, last) if following not in done]:
            steered = soak.steer and number // SHARED % 2
            aimed = _steered(folder, soak, todo, steering) if steered else []
            yield aimed or [_planned(soak, following) for following in todo]
        number = last


def _planned(soak: Soak, number: int) -> PlannedRun:
    name, plan = soak.name(number), soak.plan(number)
    return PlannedRun(plan=plan, label=f"{name} {','.join(plan.nemesis)}", name=name)


def _steered(
    folder: SoakFolder, soak: Soak, numbers: Sequence[int], steering: Steering
) -> list[PlannedRun]:
    """Return runs that lead to new situations (model states): at most one for each number."""
    kafka = soak.plan(numbers[0]).kafka
    rows = [row for row in folder.rows() if row.kafka == kafka]
    seen = {name for row in rows for name in (row.aim, *row.situations)}
    runs = steering.runs(kafka, seen, driver=soak.driver, seed=numbers[0])
    return [
        replace(planned, name=soak.name(number), label=f"{soak.name(number)} {planned.label}")
        for number, planned in zip(numbers, runs, strict=False)
    ]


def _write_row(folder: SoakFolder, row: SoakRow, progress: Progress) -> None:
    folder.write(row)
    problems = "".join(f"; {problem}" for problem in (*row.unexplained[:1], *row.problems[:1]))
    lost = f"{row.lost} of {row.acknowledged} lost" if row.counted else "losses not counted"
    progress(OVERALL, f"{row.run}: {row.state}, {lost}{problems}")

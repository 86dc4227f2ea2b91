"""The Python API: functions that perform plans, judge runs and load runs."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from highwater.checkers.judge import judge
from highwater.checkers.kafka_files.reader import SCHEMA, read_segment
from highwater.checkers.kafka_files.segment_files import segments
from highwater.checkers.model.report_types import Reconciliation
from highwater.checkers.remote_runs import RemoteRun, fetch, send_back
from highwater.checkers.spark.session import HEAVY_BYTES, SparkStarter
from highwater.harness.base.errors import StoreError
from highwater.harness.base.files import is_file
from highwater.harness.base.scratch import scratch
from highwater.harness.base.spark_options import HERE, SparkOptions
from highwater.harness.base.wording import count
from highwater.harness.runs.history import OPTIONAL, TABLES
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import INVALID, Verdict
from highwater.reports.pages.run import write as write_report
from highwater.runtime.campaign import Campaign, LabelledProgress, PlannedRun
from highwater.runtime.prediction_check import reconcile
from highwater.runtime.preflight import check_plan

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

Progress = LabelledProgress
VERDICTS: Final = "verdict"
"""The label of progress lines that show a run's verdict before the campaign ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run with its verdict, the model's explanation of the run, and the path of its report.

    Attributes:
        report: path of the run's HTML report. The file does not exist if the run's plan cannot be
            read.
        report_uri: URI of a remote run's report; empty for a local run, or if the run has no
            report.
        model: the model's explanation of the run; None if the run was not compared with the model.
    """

    run: Run
    verdict: Verdict
    report: Path
    model: Reconciliation | None = None
    report_uri: str = ""

    @property
    def page(self) -> str | None:
        """The path or URI of the run's report; None if the run has no report."""
        return str(self.report) if is_file(self.report) else self.report_uri or None

    def summary(self) -> dict[str, object]:
        """Return the verdict and the model's explanation: the object that ``--json`` prints."""
        return self.verdict.summary(self.page) | {"model": msgspec.to_builtins(self.model)}


def perform(
    plans: Sequence[Plan],
    store: Store,
    *,
    jobs: int = 1,
    until_failure: bool = False,
    spark: SparkOptions = HERE,
    progress: Progress = lambda *_: None,
) -> list[JudgedRun]:
    """Run every plan on real brokers, judge all runs in one Spark session, and write their reports.

    Spark starts while the brokers boot.

    Args:
        jobs: the number of parallel runs, each with its own cluster.
        until_failure: judge each run when it ends, and stop after the first invalid run.
        progress: callback for progress; several threads call it with a run's label and the step
            that begins.

    Raises:
        UsageError: a plan cannot be executed; no run was started.
        HarnessError: a run could not continue; earlier runs are in the store.
    """
    for plan in plans:
        check_plan(plan)
    names = [f"{plan.kafka} {plan.happens}" for plan in plans]
    labels = [f"{name} #{n + 1}" if names.count(name) > 1 else name for n, name in enumerate(names)]
    groups = [
        [PlannedRun(plan=plan, label=label)] for plan, label in zip(plans, labels, strict=True)
    ]
    campaign = Campaign(store=store, jobs=jobs, own_cluster=True, progress=progress)
    if until_failure:
        return _until_failure(groups, campaign, spark)
    return perform_groups(groups, campaign, spark)


def _until_failure(
    groups: Sequence[Sequence[PlannedRun]], campaign: Campaign, spark: SparkOptions
) -> list[JudgedRun]:
    starter, judged = SparkStarter(spark), list[JudgedRun]()
    with campaign:
        for [(planned, run)] in campaign.perform(groups):
            assert run is not None  # after a failed run the campaign starts no more runs
            judged += judge_all([run], starter.session())
            verdict = judged[-1].verdict
            line = f"seed {planned.plan.seed}: {verdict.word.upper()} {verdict.headline}"
            campaign.progress(VERDICTS, line)
            if verdict.verdict == INVALID:
                break
    return judged


def perform_groups(
    groups: Sequence[Sequence[PlannedRun]], campaign: Campaign, spark: SparkOptions
) -> list[JudgedRun]:
    """Perform groups of plans, each on one cluster, and judge all runs in one Spark session."""
    starter = SparkStarter(spark)
    with campaign:
        runs = campaign.perform_all(groups)
    campaign.progress("judge", f"judging {count(len(runs), 'run')} in Spark")
    return judge_all(runs, starter.session())


def judge_all(runs: Sequence[Run], session: "SparkSession") -> list[JudgedRun]:
    """Judge stored runs, compare them with the model, and write their reports; needs no broker."""
    verdicts = judge(runs, session)
    answers = [reconcile(run, verdict) for run, verdict in zip(runs, verdicts, strict=True)]
    return [
        JudgedRun(run=run, verdict=verdict, report=_report(run), model=answer)
        for run, verdict, answer in zip(runs, verdicts, answers, strict=True)
    ]


def _report(run: Run) -> Path:
    """Write a judged run's report; if the run's plan cannot be read, remove its older report."""
    try:
        return write_report(run)
    except StoreError:
        with contextlib.suppress(OSError):
            run.report.unlink(missing_ok=True)
        return run.report


def check(runs: Sequence[Run | str], *, spark: SparkOptions = HERE) -> list[JudgedRun]:
    """Judge stored runs again in a new Spark session.

    Args:
        runs: local runs, and URIs of remote runs that Spark can read and write.
        spark: the session's options.

    Raises:
        StoreError: the only run has no readable plan, or a URI is no run.
        HarnessError: Spark cannot read a URI (then no run was judged), or cannot write to it.
    """
    here = [run for run in runs if isinstance(run, Run)]
    if (
        len(here) == len(runs) == 1
    ):  # with several runs, an unreadable run gets a line in the results
        here[0].plan()
    heavy = sum(run.judged_bytes() for run in here) > HEAVY_BYTES
    session = SparkStarter(spark, heavy=heavy).session()
    with contextlib.ExitStack() as stack:
        folder = scratch("runs")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        opened = [
            run if isinstance(run, Run) else fetch(session, run, folder / str(number))
            for number, run in enumerate(runs)
        ]
        return [_sent_back(judged, session) for judged in judge_all(opened, session)]


def _sent_back(judged: JudgedRun, session: "SparkSession") -> JudgedRun:
    """Write the results of a run on remote storage to the run's URI."""
    run = judged.run
    if not isinstance(run, RemoteRun):
        return judged
    send_back(session, run)
    return replace(judged, report_uri=run.uri_of(run.report) if is_file(run.report) else "")


class StoredRun:
    """A stored run for notebooks and tests: its plan, its verdict, and its tables.

    ``table(name)`` returns a pandas table, for tables that fit in memory. ``frame(name, spark)``
    returns a Spark DataFrame. The names are ``ops``, ``partitions``, ``replicas``, ``faults``,
    ``steps``, ``log_lines`` and others (``harness.runs.history``), and ``log`` for the records on
    the brokers' disks.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.plan = run.plan()
        self.status = run.status()

    @property
    def verdict(self) -> Verdict:
        """The run's stored verdict. Raises StoreError if the run was not judged."""
        return self.run.verdict()

    def table(self, name: str) -> "pd.DataFrame":
        """Return a table as pandas; raise KeyError if unknown, StoreError if the run lacks it."""
        if name == "log":
            log_segments = segments(self.run.replicas)
            batches = (batch for segment in log_segments for batch in read_segment(segment))
            return pa.Table.from_batches(batches, schema=SCHEMA).to_pandas()
        return self.run.table(_TABLE_PATHS[name]).to_pandas()

    def frame(self, name: str, spark: "SparkSession") -> "DataFrame":
        """Return a table as a Spark DataFrame, for runs of any size."""
        from highwater.checkers.run_tables import Tables  # noqa: PLC0415 - imports Spark

        frame: DataFrame = getattr(Tables.load([self.run], spark), name)
        return frame


_TABLE_PATHS = {path.partition("/")[2]: path for path in (*TABLES, *OPTIONAL)}


def load(run: str | os.PathLike[str]) -> StoredRun:
    """Open a run directory.

    Raises:
        StoreError: the directory is no run directory, or the run has another schema version.
    """
    path = Path(run)
    return StoredRun(Store(path.parent).open(path))

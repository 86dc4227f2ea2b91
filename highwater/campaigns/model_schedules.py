"""Replay the model's counterexamples on real brokers, and count the runs that reproduce them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
from rich.table import Table

from highwater import console
from highwater.api import JudgedRun, Progress, perform_groups
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.checkers.model.search.situations import situation_of
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Store
from highwater.harness.runs.verdict import UNKNOWN as UNKNOWN_VERDICT
from highwater.nemesis.model_replay.schedule_replay import plan
from highwater.nemesis.model_replay.transaction_replay import (
    is_transaction_replay,
    records_reproduced,
    transaction_plan,
)
from highwater.reports.drawings.transaction_svg import whole_transactions
from highwater.reports.html import drawing_css, save
from highwater.reports.model_text import GOOD
from highwater.reports.pages.counterexample import write
from highwater.runtime.campaign import Campaign, PlannedRun
from highwater.runtime.preflight import check_plan

if TYPE_CHECKING:
    from rich.text import Text


Content = Counterexample | Schedule | TransactionCounterexample

_INSTALLED: Final = Path(console.__file__).parent / "counterexamples"
"""The folder of the counterexamples that docs/ and the catalogue of hazards use as evidence."""


def _located(path: Path) -> Path:
    """Return ``path``; if no such file exists, return the installed counterexample of this name."""
    installed = _INSTALLED / path.name
    return path if path.exists() or not installed.exists() else installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that can be replayed: a counterexample or a schedule.

    Attributes:
        client: library of the producers. None means the library of the search for a transaction
            counterexample, and librdkafka for other files.
    """

    name: str
    content: Content
    client: str | None = None

    @classmethod
    def load(cls, path: Path, *, min_isr: int | None = None, client: str | None = None) -> Self:
        """Read a counterexample or a schedule; replace min.insync.replicas if ``min_isr`` is given.

        Args:
            path: path of a file, or the name of a counterexample that is installed with Highwater.

        Raises:
            StoreError: the file cannot be read.
            UsageError: the file is no counterexample or schedule. Or ``min_isr`` is given, but the
                replicas are too few, or the counterexample is of the transaction model.
        """
        path = _located(path)
        try:
            fields = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"{path} is neither a counterexample nor a schedule: {error}",
                hint="highwater model explore --out FILE writes a counterexample.",
            ) from error
        kind: type[Content] = Counterexample if "invariant" in fields else Schedule
        loaded = (TransactionCounterexample if "model" in fields else kind).load(path)
        loaded = loaded if min_isr is None else _with(loaded, min_isr)
        return cls(name=path.name, content=loaded, client=client)

    def schedule(self, kafka: str) -> Schedule:
        """Return the file's schedule for a run on a release."""
        assert not isinstance(self.content, TransactionCounterexample)
        if isinstance(self.content, Schedule):
            return self.content
        return compile_for(self.content, kafka)

    def planned(self, kafka: str, *, label: str, seed: int, driver: str) -> PlannedRun:
        """Return the planned replay of the file on a release."""
        if isinstance(self.content, TransactionCounterexample):
            made = transaction_plan(
                self.content, kafka, seed=seed, driver=driver, client=self.client
            )
            files = {"schedule.json": self.content.to_json()}
            return PlannedRun(plan=made, label=label, files=files)
        schedule = self.schedule(kafka)
        planned = planned_replay(schedule, kafka, label=label, seed=seed, driver=driver)
        client = self.client or LIBRDKAFKA
        return replace(planned, plan=msgspec.structs.replace(planned.plan, client=client))

    def draw(self, path: Path, judged: Sequence[JudgedRun]) -> Path:
        """Write a page that shows the counterexample and its runs on real brokers."""
        if isinstance(self.content, TransactionCounterexample):
            return save(path, whole_transactions(self.content, drawing_css()))
        if isinstance(self.content, Schedule):
            raise UsageError(
                f"{self.name} is a schedule, not a counterexample",
                hint="Only a counterexample can be drawn.",
            )
        return write(self.content, path, [judged_run.run for judged_run in judged])


def check_finding(source: Source) -> Counterexample:
    """Return the counterexample of a file, for the page about this counterexample.

    Raises:
        UsageError: the file is no counterexample of the replication model.
    """
    content = source.content
    if not isinstance(content, Counterexample) or situation_of(content.invariant):
        raise UsageError(
            f"{source.name} is no counterexample of the replication model, which the page of a "
            "finding needs",
            hint="Give --report a FILE.html or FILE.svg.",
        )
    return content


def _with(content: Content, min_isr: int) -> Content:
    """Return a counterexample or schedule with the same steps and another min.insync.replicas."""
    if isinstance(content, TransactionCounterexample):
        raise UsageError(
            "--min-isr has no effect on transactions",
            hint="Leave --min-isr out.",
        )
    if isinstance(content, Counterexample):
        return msgspec.structs.replace(content, scope=replace(content.scope, min_isr=min_isr))
    if not 1 <= min_isr <= content.replicas:
        raise UsageError(
            f"min.insync.replicas cannot be {min_isr}",
            hint=f"The schedule has {content.replicas} replicas.",
        )
    return msgspec.structs.replace(content, min_isr=min_isr)


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a counterexample's replays on one release.

    Attributes:
        reproduced: runs that ended as predicted and lost or forked records.
        kept: runs that ended as predicted without lost or forked records.
    """

    counterexample: str
    kafka: str
    runs: int
    reproduced: int
    kept: int


def perform(
    source: Source,
    kafkas: Sequence[str],
    store: Store,
    *,
    runs: int = 1,
    seed: int = 0,
    driver: str = "local",
    spark: SparkOptions,
    progress: Progress = lambda *_: None,
) -> list[JudgedRun]:
    """Replay a counterexample on real brokers of each release ``runs`` times, and judge all runs.

    Args:
        kafkas: releases; the counterexample may have been found for another release.
    """
    groups = [
        [
            source.planned(
                kafka,
                label=f"{kafka} replay {number + 1} of {runs}",
                seed=seed + number,
                driver=driver,
            )
            for number in range(runs)
        ]
        for kafka in kafkas
    ]
    for group in groups:
        check_plan(group[0].plan)
    return perform_groups(groups, Campaign(store=store, progress=progress), spark)


def planned_replay(
    schedule: Schedule, kafka: str, *, label: str = "", seed: int = 0, driver: str = "local"
) -> PlannedRun:
    """Return the planned replay of a schedule on a release; its search may have used another one.

    If a step fails or has an unexpected effect, ``status.json`` names the step, and the verdict is
    ``unknown``. The run directory contains the schedule as ``schedule.json``.
    """
    return PlannedRun(
        plan=plan(schedule, kafka, seed=seed, driver=driver),
        label=label,
        files={"schedule.json": schedule.to_json()},
    )


def tally(source: Source, judged: Sequence[JudgedRun]) -> list[Tally]:
    """Count the runs of each release; the releases are in the order of the runs."""
    groups: dict[str, list[JudgedRun]] = {}
    for judged_run in judged:
        groups.setdefault(judged_run.verdict.kafka, []).append(judged_run)
    return [
        Tally(
            counterexample=source.name,
            kafka=kafka,
            runs=len(group),
            reproduced=sum(is_reproduced(judged_run) is True for judged_run in group),
            kept=sum(is_reproduced(judged_run) is False for judged_run in group),
        )
        for kafka, group in groups.items()
    ]


def is_reproduced(run: JudgedRun) -> bool | None:
    """Return whether a run lost or forked records; None if the run did not end as predicted.

    The result does not depend on the model's explanation of the run.
    """
    plan = run.run.plan()
    if is_transaction_replay(plan):
        return _records_reproduced(run, plan)
    model = run.model
    if model is None or model.predicted is None or model.status in {"not-reproduced", "unknown"}:
        return None
    lost, forked = model.observed.lost, model.observed.forked
    if model.differences or (lost, forked) != (model.predicted.lost, model.predicted.forked):
        return None
    return bool(lost or forked)


def _records_reproduced(run: JudgedRun, plan: Plan) -> bool | None:
    if run.verdict.verdict == UNKNOWN_VERDICT:
        return None
    anomalies = {
        (anomaly.kind, anomaly.value or "") for anomaly in run.verdict.anomalies if anomaly.breaks
    }
    return records_reproduced(plan, anomalies)


def exit_code(judged: Sequence[JudgedRun]) -> int:
    """Return 0 if all runs ended as predicted, 1 if a run is unexplained, else 3."""
    transactional = [run for run in judged if is_transaction_replay(run.run.plan())]
    if transactional:
        return UNKNOWN if any(is_reproduced(run) is None for run in transactional) else OK
    statuses = {judged_run.model.status if judged_run.model else "unknown" for judged_run in judged}
    if "unexplained" in statuses:
        return BROKEN
    return OK if statuses <= GOOD else UNKNOWN


def table(judged: Sequence[JudgedRun]) -> Table:
    """Return a table with one row per run."""
    rows: list[list[str | Text]] = [
        [
            judged_run.verdict.kafka,
            *console.outcome(judged_run),
            " ".join(judged_run.run.status().problems) or judged_run.run.name,
        ]
        for judged_run in judged
    ]
    return console.table("On real brokers", ["Kafka", *console.OUTCOME, "run"], rows)

"""Shrink a run: find the smallest plan with the same anomaly, and report the reduction."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.spark_options import HERE, SparkOptions
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import end_of
from highwater.harness.runs.store import Run, Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.executed_steps import By
from highwater.runtime.preflight import check_plan
from highwater.shrinking.exported_test import module_of
from highwater.shrinking.replay import as_taken, refuse_external
from highwater.shrinking.search import Ended, Search
from highwater.shrinking.trials import Attempt, Goal, HitThreshold, Trials

_LOOKED_AT: Final = 100
_NAMED: Final = 3


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a plan: its number of faults, their seconds, and the records of one run."""

    faults: int
    seconds: float
    partitions: int
    clients: int
    records: int

    @classmethod
    def of(cls, plan: Plan, records: int) -> "Size":
        """Return the size of a plan."""
        work = plan.workload
        return cls(
            faults=len(plan.steps),
            seconds=max(plan.duration_s, end_of(plan.steps)),
            partitions=plan.topic.partitions,
            clients=work.producers + work.consumers + work.members,
            records=records,
        )


class ShrinkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of shrinking, stored as ``shrunk.json``.

    Attributes:
        ended: ``smallest``: no part can be removed; ``time`` and ``interrupted``: the plan is the
            best so far; ``not-reproduced``: the anomaly did not happen again, even with the
            complete plan.
        hits: number of the additional runs that had the anomaly.
        runs: number of additional runs of the plan, after the search.
        ran: number of all runs of this invocation.
    """

    schema: int = 1
    plan: Plan
    goal: Goal
    ended: Ended
    before: Size
    after: Size
    hits: int
    runs: int
    attempts: int
    ran: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The limits of shrinking.

    Attributes:
        rule: the threshold for accepting a plan.
        counts: number of additional runs of the smallest plan, to measure how often it has the
            anomaly.
    """

    rule: HitThreshold = field(default_factory=HitThreshold)
    counts: int = 5
    limit_s: float = float("inf")


_EFFORT: Final = Effort()
Tell = Callable[[Attempt], None]
Progress = Callable[[str], None]


def shrink_run(
    run: Run,
    *,
    folder: Path | None = None,
    by: By = "broker",
    kinds: Sequence[str] = (),
    effort: Effort = _EFFORT,
    spark: SparkOptions = HERE,
    tell: Tell = lambda _: None,
    progress: Progress = lambda _: None,
) -> ShrinkResult:
    """Find the smallest plan with the same anomaly as a judged run; see ``shrink``."""
    verdict = run.verdict()
    plan = as_taken(run, by=by)
    _require_steps(plan, Store(run.path.parent))
    return shrink(
        plan,
        Goal.of(verdict, kinds),
        folder or run.path / "shrunk",
        sent=verdict.ledger.sent,
        effort=effort,
        spark=spark,
        tell=tell,
        progress=progress,
    )


def shrink(
    plan: Plan,
    goal: Goal,
    folder: Path,
    *,
    sent: int = 0,
    effort: Effort = _EFFORT,
    spark: SparkOptions = HERE,
    tell: Tell = lambda _: None,
    progress: Progress = lambda _: None,
) -> ShrinkResult:
    """Reduce a plan: find the smallest plan that still has the anomaly of ``goal``.

    All runs use the same brokers and the same Spark session. When the search has found a smaller
    plan, it writes ``plan.json`` to ``folder``; at the end it also writes ``shrunk.json`` and a
    test. A later call continues from ``attempts.jsonl``. After Ctrl-C the search ends with the best
    plan so far.
    """
    _require_steps(plan)
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    starter = SparkStarter(spark)
    with (
        tempfile.TemporaryDirectory(prefix="highwater-") as clusters,
        ClusterPool(Path(clusters) / "clusters") as fleet,
    ):
        trials = Trials(
            goal=goal,
            rule=effort.rule,
            folder=folder,
            fleet=fleet,
            session=starter.session,
            deadline=began + effort.limit_s,
            tell=tell,
            progress=progress,
        )
        work = Search(trials=trials, best=plan, sent=sent)
        ended = work.until_ended()
        hits, runs = work.counted
        if ended == "smallest" and effort.counts:
            hits, runs = work.confirm(effort.counts)
    result = ShrinkResult(
        plan=work.best,
        goal=goal,
        ended=ended,
        before=Size.of(plan, sent),
        after=Size.of(work.best, work.sent),
        hits=hits,
        runs=runs,
        attempts=len(trials.attempts),
        ran=trials.ran,
        seconds=round(time.monotonic() - began, 1),
    )
    Run(folder).write_struct("shrunk.json", result)
    if ended != "not-reproduced":
        work.save()
        Run(folder).write("test_shrunk.py", module_of(result.plan, goal, hits, runs).encode())
    return result


def _require_steps(plan: Plan, store: Store | None = None) -> None:
    if plan.story is not None or plan.schedule is not None:
        names = _random_runs(store) if store else []
        made = "which highwater run --nemesis kill,pause makes"
        hint = f"such as {' or '.join(names)}" if names else made
        raise UsageError(
            "a story is one script, from which no part can be removed",
            hint=f"Name a run of random faults, {hint}.",
        )
    refuse_external(plan)
    check_plan(plan)


def _random_runs(store: Store) -> list[str]:
    sizes = []
    for name in reversed(store.names()[-_LOOKED_AT:]):
        with suppress(StoreError):
            plan = store.open(store.root / name).plan()
            if plan.nemesis or plan.steps:
                sizes.append(str(store.root / name))
    return sizes[:_NAMED]

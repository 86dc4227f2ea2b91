"""Test whether a plan has the anomaly: run the plan a few times, and judge the runs.

``attempts.jsonl`` has a line for each plan that was tried. After an interruption, the search tries
the same plans in the same order, and reads known results from this file.
"""

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import msgspec
from pyspark.sql import SparkSession

from highwater.checkers.catalogue import all_kinds, kind
from highwater.checkers.core.anomaly_kinds import Severity
from highwater.checkers.judge import judge
from highwater.harness.base.errors import HarnessError, StoreError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.base.wording import count
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import INVALID, UNKNOWN, Verdict
from highwater.runtime.cluster_pool import ClusterPool

_GRAVITY: Final = {severity: rank for rank, severity in enumerate(Severity)}
_FAILURES_MOST: Final = 3
"""The number of consecutive harness failures after which the machine is assumed to be the cause."""


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict and the anomalies that a run must have to count as a hit.

    Attributes:
        kinds: anomaly kinds; a run needs at least one anomaly of each.
    """

    verdict: str
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict, kinds: Sequence[str] = ()) -> Self:
        """Return a goal: a run's verdict and ``kinds``, by default its worst kind of anomaly.

        Anomalies that break a guarantee are worst; among them, the order of ``checkers.catalogue``
        decides. A run that is invalid only because it exceeded a limit has no such anomaly.
        """
        all_names = all_kinds()
        for name in kinds:
            if name not in all_names:
                raise UsageError(f"no anomaly is called {name!r}", hint=nearest(name, all_names))
        names = [name for name in all_names if verdict.counts.get(name)]
        limit = verdict.verdict == INVALID and not any(a.breaks for a in verdict.anomalies)
        if verdict.verdict == UNKNOWN or limit or not names:
            raise UsageError(
                f"{verdict.run} has no anomaly to keep: {verdict.headline}",
                hint="Shrink a run that has an anomaly.",
            )
        if missing := [name for name in kinds if name not in names]:
            raise UsageError(
                f"{verdict.run} has no {' and no '.join(missing)}",
                hint=f"It has {', '.join(names)}.",
            )
        return cls(verdict=verdict.verdict, kinds=tuple(kinds) or (_worst(verdict, names),))

    def reached_by(self, verdict: Verdict) -> bool:
        """Return whether a run has the same verdict, and anomalies of all kinds."""
        return verdict.verdict == self.verdict and all(map(verdict.counts.get, self.kinds))


def _worst(verdict: Verdict, kinds: Sequence[str]) -> str:
    breaking = {anomaly.kind for anomaly in verdict.anomalies if anomaly.breaks}
    candidates = [name for name in kinds if name in breaking] or list(kinds)
    return min(candidates, key=lambda name: _GRAVITY[kind(name).severity])


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was tried.

    Attributes:
        key: hash of the plan, the goal and the threshold.
        holds: whether enough runs had the anomaly, so that the plan is accepted.
        sent: number of records that the last run with the anomaly sent; 0 without such a run.
    """

    number: int
    says: str
    key: str
    runs: int
    hits: int
    holds: bool
    seconds: float
    partitions: tuple[int, ...] = ()
    sent: int = 0


class TimeIsUpError(Exception):
    """The time limit was reached. ``Search`` handles this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HitThreshold:
    """The threshold for a plan: at least ``hits`` of at most ``tries`` runs have the anomaly."""

    tries: int = 3
    hits: int = 1

    def decided(self, runs: int, hits: int) -> bool:
        """Return whether the result is certain: more runs could not change it."""
        return hits >= self.hits or runs - hits > self.tries - self.hits

    @property
    def stricter(self) -> "HitThreshold":
        """Return the threshold with one more hit, but at most ``tries``."""
        return replace(self, hits=min(self.tries, self.hits + 1))


@dataclass(slots=True, kw_only=True)
class Trials:
    """Tests plans by runs. The class is not thread-safe.

    Attributes:
        folder: the directory with ``attempts.jsonl``, and in ``runs`` the runs of the last accepted
            plan.
        deadline: value of ``time.monotonic`` after which no run begins.
        attempts: all plans that this search has tried, oldest first, also those whose result it
            read from ``attempts.jsonl``.
    """

    goal: Goal
    rule: HitThreshold
    folder: Path
    fleet: ClusterPool
    session: Callable[[], SparkSession]
    deadline: float
    tell: Callable[[Attempt], None]
    progress: Callable[[str], None]
    attempts: list[Attempt] = field(default_factory=list)
    ran: int = 0
    _answers: dict[str, Attempt] = field(default_factory=dict)
    _failures: int = 0

    def __post_init__(self) -> None:
        self._answers = {attempt.key: attempt for attempt in read_attempts(self._file)}

    @property
    def _file(self) -> Path:
        return self.folder / "attempts.jsonl"

    def holds(self, plan: Plan, says: str, *, rule: HitThreshold | None = None) -> Attempt:
        """Run a plan until the plan is accepted or rejected.

        Raises:
            TimeIsUpError: the time limit was reached before the result was certain.
            HarnessError: several runs in a row could not be performed.
        """
        rule = rule or self.rule
        key = self._key(plan, rule)
        attempt = self._answers.get(key)
        if attempt is None:
            attempt = self._try(plan, says, key, rule)
            self._answers[key] = attempt
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(attempt) + b"\n")
        attempt = msgspec.structs.replace(attempt, number=len(self.attempts) + 1)
        self.attempts.append(attempt)
        self.tell(attempt)
        return attempt

    def _key(self, plan: Plan, rule: HitThreshold) -> str:
        question = plan.to_json() + msgspec.json.encode((self.goal, rule.tries, rule.hits))
        return hashlib.sha256(question).hexdigest()[:16]

    def _try(self, plan: Plan, says: str, key: str, rule: HitThreshold) -> Attempt:
        """Run a plan ``hits`` times; if this does not decide, run it up to ``tries`` times."""
        began = time.monotonic()
        judged: list[tuple[Run, Verdict]] = []
        runs, batch = 0, rule.hits
        while not rule.decided(runs, len(judged)):
            self.progress(f"{says}: {len(judged):,} of {count(runs, 'run')} had the anomaly so far")
            judged += self.run(plan, batch)
            runs, batch = runs + batch, rule.tries - runs - batch
        holds = len(judged) >= rule.hits
        if holds:  # runs of earlier accepted plans are no longer needed
            self._remove({*Store(self.folder / "runs").names()} - {run.name for run, _ in judged})
        return Attempt(
            number=0,
            says=says,
            key=key,
            runs=runs,
            hits=len(judged),
            holds=holds,
            seconds=round(time.monotonic() - began, 1),
            partitions=_partitions(judged[-1][1], self.goal) if judged else (),
            sent=judged[-1][1].ledger.sent if judged else 0,
        )

    def run(self, plan: Plan, times: int) -> list[tuple[Run, Verdict]]:
        """Run a plan ``times`` times; return the hits and their verdicts; delete other runs."""
        store = Store(self.folder / "runs")
        before = set(store.names())
        try:
            done = [run for _ in range(times) if (run := self._perform(plan, store)) is not None]
            verdicts = judge(done, self.session(), stories=False)
        except BaseException:
            self._remove(set(store.names()) - before)
            raise
        runs = [
            (run, verdict)
            for run, verdict in zip(done, verdicts, strict=True)
            if self.goal.reached_by(verdict)
        ]
        self._remove(set(store.names()) - before - {run.name for run, _ in runs})
        return runs

    def _perform(self, plan: Plan, store: Store) -> Run | None:
        if time.monotonic() > self.deadline:
            raise TimeIsUpError
        self.ran += 1
        try:
            run = self.fleet.execute(plan, store, stop=threading.Event())
        except HarnessError:
            self._failures += 1
            if self._failures >= _FAILURES_MOST:
                raise
            return None
        self._failures = 0
        return run

    def _remove(self, names: set[str]) -> None:
        for name in names:
            shutil.rmtree(self.folder / "runs" / name, ignore_errors=True)


def _partitions(verdict: Verdict, goal: Goal) -> tuple[int, ...]:
    partitions = {anomaly.partition for anomaly in verdict.anomalies if anomaly.kind in goal.kinds}
    return tuple(sorted(partitions))


def read_attempts(path: Path) -> list[Attempt]:
    """Return the attempts in a file. An incomplete last line is ignored."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    attempts = []
    for line in lines:
        try:
            attempts.append(msgspec.json.decode(line, type=Attempt))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return attempts

"""Compares the situations that a model search reaches with those in recorded runs."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from highwater.checkers.coverage.observed_situations import observed_situations
from highwater.checkers.coverage.situations import situations, texts
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import Limits, Reason, Watch, explore
from highwater.checkers.model.search.fingerprints import Words
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.store import Run


class SituationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A situation of the model's search, of recorded runs, or of both.

    Attributes:
        leader: the state of the leader in words.
        replicas: the state of each other replica in words.
        depth: the least number of moves that lead to it; null if the search did not reach it.
        runs: the number of runs in which it was observed.
        first: the name of the first such run; empty if there is none.
    """

    leader: str
    replicas: tuple[str, ...]
    depth: int | None
    runs: int
    first: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The situations of a model search of one release, and those of recorded runs.

    Attributes:
        scope: the limits of the model search.
        runs: the number of runs that were read.
        states: the number of states that the search reached.
        reason: why the search ended before it reached every state; null if it reached all.
        rows: first the situations that no run was in, in order of depth. Then the situations that
            search and runs have in common, and last those that only runs have.
    """

    kafka: str
    scope: Scope
    runs: int
    states: int
    reason: Reason | None
    rows: tuple[SituationRow, ...]

    @property
    def reached(self) -> int:
        """The number of situations that the search reached."""
        return sum(row.depth is not None for row in self.rows)

    @property
    def observed(self) -> int:
        """The number of situations that the search reached and a run was in, too."""
        return sum(row.depth is not None and row.runs > 0 for row in self.rows)


def coverage(
    runs: Sequence[Run], settings: ModelSettings, *, limits: Limits, jobs: int, watch: Watch
) -> Coverage:
    """Compare the situations that a model search reaches with those that runs were in.

    Raises:
        UsageError: a run is of another release, or has another number of replicas than the model.
        StoreError: a table of a run is missing or broken.
    """
    brokers = settings.scope.brokers
    seen: Counter[int] = Counter()
    first: dict[int, str] = {}
    for run in runs:
        for number in _of_run(run, settings.kafka, brokers):
            seen[number] += 1
            first.setdefault(number, run.path.name)
    depths: dict[int, int] = {}

    def visit(states: Words, level: int) -> None:
        for number in situations(states.view(np.int8).reshape(len(states), -1), brokers):
            depths.setdefault(number, level)

    outcome = explore(settings.machine(), (), limits=limits, jobs=jobs, watch=watch, visit=visit)
    rows = []
    for number in sorted(depths.keys() | seen.keys()):
        leader, *replicas = texts(number)
        row = SituationRow(
            leader=leader,
            replicas=tuple(replicas),
            depth=depths.get(number),
            runs=seen[number],
            first=first.get(number, ""),
        )
        rows.append(row)
    rows.sort(key=lambda row: (row.depth is None, row.runs > 0, row.depth or 0))
    return Coverage(
        kafka=settings.kafka,
        scope=settings.scope,
        runs=len(runs),
        states=outcome.states,
        reason=outcome.reason,
        rows=tuple(rows),
    )


def _of_run(run: Run, kafka: str, brokers: int) -> set[int]:
    plan = run.plan()
    if plan.kafka != kafka:
        raise UsageError(
            f"{run.path.name} is of Kafka {plan.kafka}, not {kafka}",
            hint="Name runs of one release, or choose it with --kafka.",
        )
    if plan.topic.replication_factor != brokers:
        raise UsageError(
            f"{run.path.name} has {plan.topic.replication_factor} replicas, the model {brokers}",
            hint=f"Search with --brokers {plan.topic.replication_factor}.",
        )
    numbers: set[int] = set()
    for trace in observe(run).traces.values():
        replicas = frozenset(trace.tracks)
        if len(replicas) == brokers:
            numbers |= observed_situations(trace, replicas).keys()
    return numbers

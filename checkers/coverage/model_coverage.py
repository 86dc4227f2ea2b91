"""Compares the situations that a model search reaches with those in recorded runs."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from highwater.checkers.coverage.observed_situations import observed_situations
from highwater.checkers.coverage.reachable import ReachableSituations
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import Reason
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.situations import name_of, texts
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.store import Run


class SituationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A situation of the model's search, of recorded runs, or of both.

    Attributes:
        name: the name of the situation in files.
        leader: the state of the leader in words.
        replicas: the state of each other replica in words.
        depth: the least number of moves to the situation; null if the search did not reach it.
        runs: the number of runs in which the situation was observed.
        first: the first run in which the situation was observed; empty without such a run.
        partition: the partition of the first observation in that run; null without such a run.
        time_ns: the time of this observation after the run's start; null without such a run.
    """

    name: str
    leader: str
    replicas: tuple[str, ...]
    depth: int | None
    runs: int
    first: str
    partition: int | None
    time_ns: int | None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The situations of a model search of one release, and those of recorded runs.

    Attributes:
        scope: the limits of the model search.
        runs: the number of runs that were read.
        states: the number of states that the search reached.
        reason: why the search ended before it reached every state; null if it reached all.
        rows: first the situations that only the search reached, by depth; then those that were also
            observed in runs; last those that only runs have.
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
        """The number of situations that both the search and the runs have."""
        return sum(row.depth is not None and row.runs > 0 for row in self.rows)

    @property
    def beyond(self) -> list[SituationRow]:
        """The situations that only the runs have."""
        return [row for row in self.rows if row.depth is None]


def coverage(runs: Sequence[Run], reachable: ReachableSituations) -> Coverage:
    """Compare the situations that a search reaches with the situations observed in runs.

    Raises:
        UsageError: a run is of another release, or has another number of replicas than the model.
        StoreError: a table of a run is missing or broken.
    """
    settings, depths = reachable.settings, reachable.depths
    seen: Counter[int] = Counter()
    first: dict[int, tuple[str, int, int]] = {}
    for run in runs:
        for number, (partition, time_ns) in _of_release(run, settings).items():
            seen[number] += 1
            first.setdefault(number, (run.path.name, partition, time_ns))
    rows = []
    for number in sorted(depths.keys() | seen.keys()):
        leader, *replicas = texts(number)
        name, where, when = first.get(number, ("", None, None))
        row = SituationRow(
            name=name_of(number),
            leader=leader,
            replicas=tuple(replicas),
            depth=depths.get(number),
            runs=seen[number],
            first=name,
            partition=where,
            time_ns=when,
        )
        rows.append(row)
    rows.sort(key=lambda row: (row.depth is None, row.runs > 0, row.depth or 0))
    return Coverage(
        kafka=settings.kafka,
        scope=settings.scope,
        runs=len(runs),
        states=reachable.outcome.states,
        reason=reachable.outcome.reason,
        rows=tuple(rows),
    )


def _of_release(run: Run, settings: ModelSettings) -> dict[int, tuple[int, int]]:
    """Return ``observed_in(run)`` if the run has the release and the replicas of the model.

    Raises the same errors as ``coverage``.
    """
    plan, kafka, brokers = run.plan(), settings.kafka, settings.scope.brokers
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
    return observed_in(run)


def observed_in(run: Run) -> dict[int, tuple[int, int]]:
    """Return the partition and the time (ns) of the first observation of each situation of a run.

    Raises:
        StoreError: a table of the run is missing or broken.
    """
    brokers = run.plan().topic.replication_factor
    moments: dict[int, tuple[int, int]] = {}
    for partition, trace in observe(run).traces.items():
        replicas = trace.replicas
        if len(replicas) != brokers:
            continue
        for number, time_ns in observed_situations(trace, replicas).items():
            if number not in moments or time_ns < moments[number][1]:
                moments[number] = (partition, time_ns)
    return moments

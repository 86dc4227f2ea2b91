"""Measures the availability of runs from the clients' histories and the observed metadata."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.history.columns import Groups, Ints
from highwater.checkers.history.send_waits import SHORT_NS
from highwater.checkers.history.view import client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.availability import Availability, FaultOutages, Outage, longest
from highwater.harness.runs.faults.intervals import NEVER, FaultInterval, fault_intervals
from highwater.harness.runs.faults.times import strikes
from highwater.harness.runs.history import OPERATIONS_TABLE
from highwater.harness.runs.verdict import ACKNOWLEDGED as OF_CLIENTS

_NS: Final = 1_000_000_000
_PARTITIONS: Final = "events/partitions"
_REPLICAS: Final = "events/replicas"
_Answers: TypeAlias = dict[tuple[int, int], list[tuple[int, int]]]
"""For each replica (partition, broker): the times in which its broker answered the observer."""

_NO_TIMES: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A range of time for one partition; ``until_ns`` is None if no end was observed."""

    where: str
    since_ns: int
    until_ns: int | None


class _Clock:
    """Measures the part of a range of time that is inside some sorted, disjoint ranges."""

    def __init__(self, since: Ints, until: Ints) -> None:
        self.since, self.until = since, until
        lengths = until - since
        after = np.cumsum(lengths)
        self._times = np.stack([since, until], axis=1).ravel()
        self._sums = np.stack([after - lengths, after], axis=1).ravel()

    def lengths(self, since: Ints, until: Ints) -> Ints:
        """Return the nanoseconds between each pair of times that are inside the ranges."""
        if not len(self._times):
            return np.zeros(len(since), np.int64)
        begin, end = (np.interp(times, self._times, self._sums) for times in (since, until))
        lengths: Ints = np.maximum(end - begin, 0).astype(np.int64)
        return lengths

    def within(self, since_ns: int, until_ns: int) -> int:
        """Return the nanoseconds between two times that are inside the ranges."""
        return int(self.lengths(np.array([since_ns]), np.array([until_ns]))[0])

    def first(self, since_ns: int) -> int:
        """Return the first time inside the ranges from ``since_ns`` on; else ``since_ns``."""
        place = int(np.searchsorted(self.until, since_ns, side="right"))
        return max(since_ns, int(self.since[place])) if place < len(self.since) else since_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sends:
    """The sends to one partition: when they waited for responses, and the outages."""

    where: str
    waited: _Clock
    pauses: Sequence[tuple[int, int | None]]

    @classmethod
    def of(cls, where: str, waits: tuple[Ints, Ints], done: tuple[Ints, Ints]) -> Self:
        """Return the sends to a partition; ``history.send_waits`` makes the two ranges."""
        waited, (since, until) = _Clock(*waits), done
        begins, ends = np.append(0, until), np.append(since, int(waits[1][-1]))
        long = np.flatnonzero(waited.lengths(begins, ends) > SHORT_NS).tolist()
        pauses = [(int(begins[i]), int(ends[i]) if i < len(since) else None) for i in long]
        return cls(where=where, waited=waited, pauses=pauses)

    def outages(self, since_ns: int, until_ns: int) -> Iterator[Outage]:
        """Yield the outages in a range of time.

        An outage that began before the range counts from ``since_ns`` on.
        """
        end_ns = int(self.waited.until[-1])
        for begin, end in self.pauses:
            if begin >= until_ns or (end is not None and end <= since_ns):
                continue
            begun = self.waited.first(max(begin, since_ns))
            length = self.waited.within(begun, end_ns if end is None else end)
            if length > SHORT_NS and begun < until_ns:
                yield _outage(self.where, begun, length, least=end is None)


def _outage(where: str, since_ns: int, length_ns: int, *, least: bool) -> Outage:
    return Outage(
        seconds=round(length_ns / _NS, 3),
        where=where,
        since_s=round(since_ns / _NS, 3),
        least=least,
    )


@dataclass(frozen=True, kw_only=True)
class _Observations:
    """The observations of one run.

    Attributes:
        sends: the sends to each partition; empty if acknowledgements were not recorded.
        first_ns: the time from which the metadata of every partition was observed; ``NEVER`` if a
            partition was never observed.
        leaderless: the times in which a partition had no leader that answered the observer.
        partial: the times in which a partition's ISR lacked a replica.
    """

    sends: Sequence[_Sends]
    first_ns: int
    end_ns: int
    leaderless: Sequence[_Span]
    partial: Sequence[_Span]

    def unacknowledged(self, since_ns: int, until_ns: int) -> Outage | None:
        """Return the longest outage in a range of time; None if no send waited in this range."""
        outages = [o for sends in self.sends for o in sends.outages(since_ns, until_ns)]
        if outages or any(sends.waited.within(since_ns, until_ns) for sends in self.sends):
            return longest([Outage(seconds=0.0), *outages])
        return None

    def without_leader(self, since_ns: int, until_ns: int) -> Outage | None:
        """Return the longest time without a leader; None if ``since_ns`` was not observed."""
        if self.first_ns > since_ns or since_ns >= self.end_ns:
            return None
        outages = [Outage(seconds=0.0)]
        for span in self.leaderless:
            begin, end = max(span.since_ns, since_ns), span.until_ns or self.end_ns
            if begin < min(until_ns, end):
                outages.append(_outage(span.where, begin, end - begin, least=not span.until_ns))
        return longest(outages)

    def unsynced(self, healing_ns: int, next_ns: int) -> Outage | None:
        """Return the longest time from the end of a fault until a partition's replicas are in sync.

        If the next fault begins earlier, the time ends at ``next_ns``.
        """
        if self.first_ns > healing_ns:
            return None
        outages = [Outage(seconds=0.0)]
        for span in self.partial:
            if span.since_ns < next_ns and (span.until_ns or NEVER) > healing_ns:
                end = min(span.until_ns or self.end_ns, next_ns)
                least = span.until_ns is None or span.until_ns > next_ns
                outages.append(_outage(span.where, healing_ns, end - healing_ns, least=least))
        return longest(outages)


def availability(tables: Tables) -> dict[str, Availability]:
    """Return the availability of each run, by the run's key."""
    sends = _sends(tables)
    return {case.key: _of_run(case, sends.get(case.key, ())) for case in tables.cases}


def _of_run(case: RunFiles, sends: Sequence[_Sends]) -> Availability:
    unread = [unused.path for unused in case.unread]
    rows = case.rows("events/faults")
    faults, _ = fault_intervals(rows, strikes(case.run, without=unread) if rows else {})
    silent = case.plan.workload.acks in OF_CLIENTS or case.lacks(OPERATIONS_TABLE)
    seen = _observed(case, () if silent else sends)
    ordered = sorted(faults, key=lambda fault: fault.start_ns)
    measured = [_of_fault(fault, ordered, seen) for fault in ordered]
    return Availability(
        unacknowledged=seen.unacknowledged(0, NEVER),
        leaderless=seen.without_leader(min(seen.first_ns, seen.end_ns), NEVER),
        unsynced=longest(fault.unsynced for fault in measured),
        faults=tuple(measured),
    )


def _of_fault(
    fault: FaultInterval, faults: Sequence[FaultInterval], seen: _Observations
) -> FaultOutages:
    healing_ns = fault.healing_ns or fault.end_ns
    next_ns = min(
        (other.start_ns for other in faults if other.start_ns > (healing_ns or NEVER)),
        default=NEVER,
    )
    unsynced = None if healing_ns is None else seen.unsynced(healing_ns, next_ns)
    whole_ns = (healing_ns or NEVER) + round((unsynced.seconds if unsynced else 0.0) * _NS)
    until_ns = max(fault.until_ns, min(whole_ns, next_ns))
    return FaultOutages(
        fault=fault.name,
        broker=fault.broker,
        at_s=round(fault.start_ns / _NS, 3),
        healed_s=None if fault.end_ns is None else round(fault.end_ns / _NS, 3),
        unacknowledged=seen.unacknowledged(fault.start_ns, until_ns),
        leaderless=seen.without_leader(fault.start_ns, until_ns),
        unsynced=unsynced,
    )


def _sends(tables: Tables) -> dict[str, list[_Sends]]:
    view = client_view(tables)
    topics = {case.key: case.plan.topic.name for case in tables.cases}
    waits, done = (_by_slot(spans) for spans in (view.waits, view.acknowledged))
    sends: dict[str, list[_Sends]] = defaultdict(list)
    for name in view.names.to_pylist():
        run, slot = name["run"], name["slot"]
        if slot in waits and name["partition"] is not None and name["topic"] == topics[run]:
            where = f"{name['topic']}-{name['partition']}"
            acknowledged = done.get(slot, (_NO_TIMES, _NO_TIMES))
            sends[run].append(_Sends.of(where, waits[slot], acknowledged))
    return sends


def _by_slot(spans: pa.Table) -> dict[int, tuple[Ints, Ints]]:
    if not len(spans):
        return {}
    slots, since, until = (spans[name].to_numpy() for name in ("slot", "since", "until"))
    numbers, first = np.unique(slots, return_index=True)
    order = np.argsort(first)
    parts = (np.split(column, np.sort(first)[1:]) for column in (since, until))
    return dict(zip(numbers[order].tolist(), zip(*parts, strict=True), strict=True))


def _observed(case: RunFiles, sends: Sequence[_Sends]) -> _Observations:
    topic, answers, end_ns = case.plan.topic, *_answers(case)
    changes: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for row in case.rows(_PARTITIONS):
        if row["topic"] == topic.name:
            full = len(row["isr"]) >= topic.replication_factor
            changes[row["partition"]].append((row["time_ns"], row["leader"], full))
    end_ns = max([end_ns, *(rows[-1][0] for rows in changes.values())])
    whole = len(changes) >= topic.partitions
    leaderless: list[_Span] = []
    partial: list[_Span] = []
    for number, rows in changes.items():
        where = f"{topic.name}-{number}"
        ends = [*(at for at, _, _ in rows[1:]), end_ns]
        answering = [
            span
            for (since, leader, _), until in zip(rows, ends, strict=True)
            for span in _answering(answers, (number, leader), since, until)
        ]
        leaderless += _between(where, rows[0][0], sorted(answering), end_ns)
        in_sync = [(at, end) for (at, _, full), end in zip(rows, ends, strict=True) if full]
        partial += _between(where, rows[0][0], in_sync, end_ns)
    return _Observations(
        sends=sends,
        first_ns=max(rows[0][0] for rows in changes.values()) if whole else NEVER,
        end_ns=end_ns,
        leaderless=[
            span for span in leaderless if (span.until_ns or end_ns) - span.since_ns > SHORT_NS
        ],
        partial=partial,
    )


def _answering(
    answers: _Answers, replica: tuple[int, int], since_ns: int, until_ns: int
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range of time in which a leader answered the observer.

    A leader that the observer never queried counts as answering.
    """
    if replica[1] >= 0:
        for begin, end in answers.get(replica, [(since_ns, until_ns)]):
            if max(begin, since_ns) < min(end, until_ns):
                yield max(begin, since_ns), min(end, until_ns)


def _between(
    where: str, first_ns: int, good: Iterable[tuple[int, int]], end_ns: int
) -> Iterator[_Span]:
    """Yield the ranges of time between ``first_ns`` and ``end_ns`` outside the ``good`` ranges.

    The ``good`` ranges are in order. A range that lasts to ``end_ns`` has no end.
    """
    since_ns = first_ns
    for begin, end in good:
        if begin > since_ns:
            yield _Span(where=where, since_ns=since_ns, until_ns=begin)
        since_ns = max(since_ns, end)
    if since_ns < end_ns:
        yield _Span(where=where, since_ns=since_ns, until_ns=None)


def _answers(case: RunFiles) -> tuple[_Answers, int]:
    """Return the times in which each replica answered the observer, and the last observed time."""
    answers: _Answers = defaultdict(list)
    if _REPLICAS not in case.tables:
        return answers, 0
    rows = pq.read_table(case.tables[_REPLICAS], columns=["time_ns", "broker", "partition", "leo"])
    columns = [rows[name].to_numpy() for name in ("partition", "broker", "time_ns")]
    order = np.lexsort(columns[::-1])
    partition, broker, time_ns = (column[order] for column in columns)
    answered = rows["leo"].is_valid().to_numpy()[order]
    end_ns = int(time_ns.max()) if len(time_ns) else 0
    runs = Groups.of(partition, broker, answered)
    replicas = list(zip(*(c[runs.first].tolist() for c in (partition, broker)), strict=True))
    begins, follows = time_ns[runs.first].tolist(), [*replicas[1:], None]
    for place, replica in enumerate(replicas):
        spans = answers[replica]
        if answered[runs.first[place]]:
            until = begins[place + 1] if follows[place] == replica else end_ns
            repeated = place and replicas[place - 1] == replica
            # A replica's first range begins at 0.
            spans.append((begins[place] if repeated else 0, until))
    return answers, end_ns

"""Measures the availability of runs from the clients' history and the observed metadata."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.history.columns import Ints
from highwater.checkers.history.send_waits import SHORT_NS, merged
from highwater.checkers.history.view import client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.runs.availability import Availability, FaultOutages, Outage, longest
from highwater.harness.runs.faults.intervals import NEVER, FaultInterval, fault_intervals
from highwater.harness.runs.faults.times import strikes
from highwater.harness.runs.history import OPERATIONS_TABLE
from highwater.harness.runs.verdict import ACKNOWLEDGED as OF_CLIENTS

_NS: Final = 1_000_000_000
_PARTITIONS: Final = "events/partitions"
_REPLICAS: Final = "events/replicas"
_NO_TIMES: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A range of time of one partition; ``until_ns`` is None if its end was not observed."""

    where: str
    since_ns: int
    until_ns: int | None


class _Clock:
    """Measures how much of a range of time is inside some sorted, disjoint ranges."""

    def __init__(self, since: Ints, until: Ints) -> None:
        self.since, self.until = since, until
        lengths = until - since
        after = np.cumsum(lengths)
        self._times = np.stack([since, until], axis=1).ravel()
        self._sums = np.stack([after - lengths, after], axis=1).ravel()

    def lengths(self, since: Ints, until: Ints) -> Ints:
        """Return the ns between each two times that are inside the ranges."""
        if not len(self._times):
            return np.zeros(len(since), np.int64)
        begin, end = (np.interp(times, self._times, self._sums) for times in (since, until))
        lengths: Ints = np.maximum(end - begin, 0).astype(np.int64)
        return lengths

    def within(self, since_ns: int, until_ns: int) -> int:
        """Return the ns between two times that are inside the ranges."""
        return int(self.lengths(np.array([since_ns]), np.array([until_ns]))[0])

    def first(self, since_ns: int) -> int:
        """Return the first time from ``since_ns`` on that is inside the ranges."""
        place = int(np.searchsorted(self.until, since_ns, side="right"))
        return max(since_ns, int(self.since[place])) if place < len(self.since) else since_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sends:
    """The sends to one partition: when any waited, and the outages between acknowledgements."""

    where: str
    waited: _Clock
    pauses: Sequence[tuple[int, int | None]]

    @classmethod
    def of(cls, where: str, waits: tuple[Ints, Ints], done: tuple[Ints, Ints]) -> Self:
        """Return the sends to a partition from ranges of ``checkers.history.send_waits``."""
        waited, (since, until) = _Clock(*waits), done
        begins, ends = np.append(0, until), np.append(since, int(waits[1][-1]))
        long = np.flatnonzero(waited.lengths(begins, ends) > SHORT_NS).tolist()
        pauses = [(int(begins[i]), int(ends[i]) if i < len(since) else None) for i in long]
        return cls(where=where, waited=waited, pauses=pauses)

    def outages(self, since_ns: int, until_ns: int) -> Iterator[Outage]:
        """Yield the outages that go on or begin in a range of time, from its begin on."""
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
        sends: the sends to each partition; empty if no broker acknowledges.
        seen: the times in which the metadata was observed; None: always, from ``first_ns`` on.
        first_ns: when every partition's metadata was first observed; ``NEVER`` without any.
        leaderless: when partitions had no leader.
        partial: when partitions had replicas that were not in their ISRs.
    """

    sends: Sequence[_Sends]
    seen: _Clock | None
    first_ns: int
    end_ns: int
    leaderless: Sequence[_Span]
    partial: Sequence[_Span]

    def unacknowledged(self, since_ns: int, until_ns: int) -> Outage | None:
        """Return the longest outage of a range of time; None if no send waited in it."""
        outages = [o for sends in self.sends for o in sends.outages(since_ns, until_ns)]
        if outages or any(sends.waited.within(since_ns, until_ns) for sends in self.sends):
            return longest([Outage(seconds=0.0), *outages])
        return None

    def without_leader(self, since_ns: int, until_ns: int) -> Outage | None:
        """Return the longest time without a leader; None if nothing was observed."""
        if self.first_ns > since_ns or not self._observed(since_ns, min(until_ns, self.end_ns)):
            return None
        outages = [Outage(seconds=0.0)]
        for span in self.leaderless:
            begin, end = max(span.since_ns, since_ns), span.until_ns or self.end_ns
            if span.since_ns < until_ns and end > since_ns:
                length = self._observed(begin, end)
                least = span.until_ns is None or length < end - begin
                outages.append(_outage(span.where, begin, length, least=least))
        return longest(outages)

    def _observed(self, since_ns: int, until_ns: int) -> int:
        """Return the ns of a range of time in which the metadata was observed."""
        if self.seen is None:
            return max(0, until_ns - since_ns)
        return self.seen.within(since_ns, until_ns)

    def unsynced(self, healing_ns: int, next_ns: int) -> Outage | None:
        """Return the time from a healing until all replicas are in sync, or the next fault."""
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
    """Return the sends to every partition of each run's topic."""
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
    slots, since, until = (spans[name].to_numpy() for name in ("slot", "since", "until"))
    numbers, first = np.unique(slots, return_index=True)
    order = np.argsort(first)
    parts = (np.split(column, np.sort(first)[1:]) for column in (since, until))
    return dict(zip(numbers[order].tolist(), zip(*parts, strict=True), strict=True))


def _observed(case: RunFiles, sends: Sequence[_Sends]) -> _Observations:
    """Return what was observed of a run; its tables of events may be missing."""
    topic = case.plan.topic
    changes: dict[int, list[tuple[int, bool, bool]]] = defaultdict(list)
    for row in case.rows(_PARTITIONS):
        if row["topic"] == topic.name:
            full = len(row["isr"]) >= topic.replication_factor
            changes[row["partition"]].append((row["time_ns"], row["leader"] >= 0, full))
    answered, end_ns = _answered(case)
    end_ns = max([end_ns, *(rows[-1][0] for rows in changes.values())])
    whole = len(changes) >= topic.partitions
    names = {number: f"{topic.name}-{number}" for number in changes}
    return _Observations(
        sends=sends,
        seen=None if _in_zookeeper(case) else answered,
        first_ns=max(rows[0][0] for rows in changes.values()) if whole else NEVER,
        end_ns=end_ns,
        leaderless=[
            span
            for number, rows in changes.items()
            for span in _without(names[number], ((at, leads) for at, leads, _ in rows))
        ],
        partial=[
            span
            for number, rows in changes.items()
            for span in _without(names[number], ((at, full) for at, _, full in rows))
        ],
    )


def _in_zookeeper(case: RunFiles) -> bool:
    """Return whether ZooKeeper has the metadata: it does not change while ZooKeeper is down."""
    kafka = CATALOGUE.get(case.plan.kafka)
    return case.plan.external is None and kafka is not None and kafka.coordination == "zookeeper"


def _without(where: str, rows: Iterable[tuple[int, bool]]) -> Iterator[_Span]:
    """Yield the ranges of time in which a state was false, from rows in order of time."""
    since = None
    for time_ns, good in rows:
        if good and since is not None:
            yield _Span(where=where, since_ns=since, until_ns=time_ns)
        since = None if good else since if since is not None else time_ns
    if since is not None:
        yield _Span(where=where, since_ns=since, until_ns=None)


def _answered(case: RunFiles) -> tuple[_Clock, int]:
    """Return when any broker answered the observer, and the time of the last observation."""
    if _REPLICAS not in case.tables:
        return _Clock(_NO_TIMES, _NO_TIMES), 0
    rows = pq.read_table(case.tables[_REPLICAS], columns=["time_ns", "broker", "partition", "leo"])
    time_ns, broker, partition = (rows[n].to_numpy() for n in ("time_ns", "broker", "partition"))
    order = np.lexsort([time_ns, partition, broker])
    time_ns, broker, partition = time_ns[order], broker[order], partition[order]
    end_ns = int(time_ns.max()) if len(time_ns) else 0
    until = np.append(time_ns[1:], end_ns)
    last = (broker[1:] != broker[:-1]) | (partition[1:] != partition[:-1])
    until = np.where(np.append(last, True), end_ns, until)
    replied = rows["leo"].is_valid().to_numpy()[order]
    spans = merged(np.zeros(replied.sum(), np.int64), time_ns[replied], until[replied])
    return _Clock(*(spans[name].to_numpy() for name in ("since", "until"))), end_ns

"""Read the evidence of a run for its pages: observations, faults and acknowledgements.

A run that ended early may lack tables. ``RunObservations.missing`` has sentences about tables that
cannot be read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.harness.base.errors import StoreError
from highwater.harness.runs import history
from highwater.harness.runs.faults.counts import FaultCounts
from highwater.harness.runs.faults.intervals import FaultInterval, fault_intervals
from highwater.harness.runs.faults.message_spans import MessageSpan, message_spans
from highwater.harness.runs.faults.times import strikes
from highwater.harness.runs.history import MESSAGES_TABLE, OK, TABLES
from highwater.harness.runs.partition_trace import (
    Ints,
    Partition,
    PartitionTrace,
    Track,
    ints,
    partition_traces,
)
from highwater.harness.runs.store import Run, is_table_among
from highwater.harness.runs.verdict import ACKNOWLEDGED

Place: TypeAlias = tuple[str, int, int]
"""A topic, a partition number and an offset."""

_NEAR_NS = 1_000_000_000
"""The longest time between a broker's log line about a truncation and the observation of the
truncation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationEvent:
    """A replica's truncation of its log: the offsets from ``offset`` on are removed."""

    time_ns: int
    broker: int
    offset: int
    line: str = ""


@dataclass(frozen=True, kw_only=True)
class PartitionObservations(PartitionTrace):
    """All observations of one partition."""

    partition: Partition
    cuts: tuple[TruncationEvent, ...]

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers in the observations of this partition, ascending."""
        brokers = {*self.tracks, *(cut.broker for cut in self.cuts)}
        for leadership in self.leaderships:
            brokers |= {*leadership.isr} | ({leadership.leader} - {-1})
        return sorted(brokers)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTimes:
    """The times, in ns, of the workload's sends.

    Attributes:
        ended_ns: times of acknowledgement, ascending.
        took_ns: latencies of the acknowledged sends, in the same order.
        failed_ns: times at which the sends without an acknowledgement began.
    """

    ended_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    took_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    failed_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObservations:
    """The observations of a run, which do not depend on its verdict.

    Attributes:
        messages: messages that a rule of the relay affected, in order of arrival.
        fault_counts: counts of the faults; None if the table of faults cannot be read.
        acks: per partition, the times in ns at which sends were acknowledged, ascending. If the run
            only reads: the times of its readers' reads, as in ``acked_at``.
        done: the words for a successful send: ``acknowledged``, or ``left the client`` with acks=0;
            ``read`` if the run only reads.
        acked_at: for the requested record ids, the time in ns of the acknowledgement.
        sends: for each requested offset, (time of the send, record id) in order of time.
        log_lines: the table ``events/log_lines``.
        missing: a sentence for each file that could not be read.
    """

    partitions: dict[Partition, PartitionObservations] = field(default_factory=dict)
    faults: tuple[FaultInterval, ...] = ()
    steps: tuple[FaultInterval, ...] = ()
    messages: tuple[MessageSpan, ...] = ()
    fault_counts: FaultCounts | None = None
    acks: dict[Partition, Ints] = field(default_factory=dict)
    done: str = "acknowledged"
    acked_at: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[Place, Sequence[tuple[int, str]]] = field(default_factory=dict)
    pace: SendTimes = field(default_factory=SendTimes)
    log_lines: pa.Table = field(default_factory=history.LOG_LINES.empty_table)
    end_ns: int = 0
    missing: tuple[str, ...] = ()


def gather(
    run: Run,
    *,
    values: Iterable[str] = (),
    places: Iterable[Place] = (),
    without: Collection[str] = (),
) -> RunObservations:
    """Read the observations of a run for its page.

    Args:
        run: a run, judged or not.
        values: ids of the records whose acknowledgement times are read.
        places: offsets whose sends are read.
        without: paths of files that must not be read.
    """
    missing: list[str] = []
    tables = {name: _table(run, name, missing, without) for name in TABLES}
    open_ = [
        f"{name} ({tables[name].num_rows:,} rows shown)" for name in TABLES if run.unsealed(name)
    ]
    if open_:
        missing.append(f"The run had not finished these tables: {', '.join(open_)}.")
    operations = tables["history/ops"]
    sends, only_reads = _of_kind(operations, history.SEND), bool(run.plan().read_only)
    acknowledged = sends.filter(pc.equal(sends["outcome"], OK))
    if only_reads:
        reads = _of_kind(operations, history.READ)
        acknowledged = reads.filter(pc.equal(reads["phase"], history.RUN))
    placed = _at(sends, set(places))
    traces = partition_traces(tables["events/partitions"], tables["events/replicas"])
    cuts = _cuts(tables["events/log_lines"])
    partitions = {
        key: _silenced(
            PartitionObservations(
                partition=key,
                tracks=trace.tracks,
                leaderships=trace.leaderships,
                cuts=_merged(cuts.get(key, []), trace.tracks),
            ),
            [row for row in placed if (row["topic"], row["partition"]) == key],
        )
        for key, trace in traces.items()
    }
    schedule = strikes(run, without=without)
    faults, steps = fault_intervals(tables["events/faults"].to_pylist(), schedule)
    ends = [int(pc.max(operations["complete_ns"]).as_py() or 0)]
    ends += [fault.end_ns or fault.start_ns for fault in (*faults, *steps)]
    ends += [int(t.time_ns[-1]) for s in partitions.values() for t in s.tracks.values()]
    ends += [leadership.time_ns for s in partitions.values() for leadership in s.leaderships]
    return RunObservations(
        partitions=partitions,
        faults=tuple(faults),
        steps=tuple(steps),
        messages=_messages(run, without),
        fault_counts=_fault_counts(run, without),
        acks=_acks(acknowledged),
        done="read" if only_reads else ACKNOWLEDGED.get(run.plan().workload.acks, "acknowledged"),
        acked_at=_acked_at(acknowledged, set(values)),
        sends=_by_place(placed),
        pace=_pace(sends),
        log_lines=tables["events/log_lines"],
        end_ns=max(ends),
        missing=tuple(missing),
    )


def _table(run: Run, name: str, missing: list[str], without: Collection[str]) -> pa.Table:
    """Read a table of the run; if that fails, add to ``missing`` and return an empty table."""
    schema = TABLES[name]
    if wrong := {f"{name}.parquet", f"{name}.arrows"}.intersection(without):
        missing.append(f"{wrong.pop()} is not evidence, so nothing from this file is shown.")
        return schema.empty_table()
    try:
        if run.parquet(name).exists():
            return history.completed(pq.read_table(run.parquet(name)), schema)
        if run.stream(name).exists():
            rows = pa.Table.from_batches(history.read_stream(run.stream(name)))
            return history.completed(rows, schema)
        missing.append(f"{name} is missing.")
    except (pa.ArrowException, OSError, KeyError) as error:
        missing.append(f"{name} cannot be read: {error}")
    return schema.empty_table()


def _messages(run: Run, without: Collection[str]) -> tuple[MessageSpan, ...]:
    """Return the messages to which the relay applied a rule; empty for a run without the relay."""
    if is_table_among(MESSAGES_TABLE, without):
        return ()
    try:
        return message_spans(run.table(MESSAGES_TABLE).to_pylist())
    except (StoreError, KeyError):
        return ()


def _fault_counts(run: Run, without: Collection[str]) -> FaultCounts | None:
    if is_table_among("events/faults", without):
        return None
    try:
        return FaultCounts.of(run.table("events/faults").to_pylist())
    except (StoreError, KeyError):
        return None


def _cuts(table: pa.Table) -> dict[Partition, list[TruncationEvent]]:
    """Return the truncations that the brokers logged."""
    events: dict[Partition, list[TruncationEvent]] = {}
    for row in table.filter(pc.equal(table["kind"], "truncation")).to_pylist():
        if None not in (row["time_ns"], row["offset"], row["topic"]):
            event = TruncationEvent(
                **{name: row[name] for name in ("time_ns", "broker", "offset", "line")}
            )
            events.setdefault((row["topic"], row["partition"] or 0), []).append(event)
    return events


def _merged(
    logged: Sequence[TruncationEvent], tracks: Mapping[int, Track]
) -> tuple[TruncationEvent, ...]:
    """Return logged truncations and those observed only as a falling LEO, in order of time."""
    cuts = list(logged)
    for broker, track in tracks.items():
        for drop in track.drops():
            first, last = drop.since_ns - _NEAR_NS, drop.time_ns + _NEAR_NS
            if not any(cut.broker == broker and first <= cut.time_ns <= last for cut in logged):
                cuts.append(TruncationEvent(time_ns=drop.time_ns, broker=broker, offset=drop.after))
    return tuple(sorted(cuts, key=lambda cut: cut.time_ns))


def _silenced(
    observed: PartitionObservations, sends: Iterable[Mapping[str, Any]]
) -> PartitionObservations:
    """Increase the last observed LEO of brokers that must have had an acknowledged record.

    A broker may append a record and crash before the observer polls it again.
    """
    tracks = dict(observed.tracks)
    for row in sends:
        if (row["outcome"], row["acks"]) != (OK, "all"):
            continue
        acked_ns = row["complete_ns"]
        ruled = [observed.leadership(at_ns) for at_ns in (row["invoke_ns"], acked_ns)]
        members = set.intersection(
            *({*leadership.isr} if leadership else set[int]() for leadership in ruled)
        )
        for broker in members & {*tracks}:
            since_ns = tracks[broker].observed_at(acked_ns)
            cut = any(
                c.broker == broker and since_ns <= c.time_ns <= acked_ns for c in observed.cuts
            )
            if not cut:
                tracks[broker] = tracks[broker].with_leo(row["offset"] + 1, acked_ns)
    return replace(observed, tracks=tracks)


def _of_kind(operations: pa.Table, kind: str) -> pa.Table:
    """Return the operations of a kind, with strings decoded."""
    rows = operations.filter(pc.equal(operations["kind"].cast(pa.string()), kind))
    words = ("topic", "outcome", "acks", "phase")
    numbers = ("partition", "offset", "invoke_ns", "complete_ns", "value")
    columns = {name: rows[name].cast(pa.string()) for name in words}
    return pa.table(columns | {name: rows[name] for name in numbers})


def _at(sends: pa.Table, places: set[Place]) -> list[dict[str, Any]]:
    """Return the sends to the given places, in order of time."""
    offsets = pa.array(sorted({offset for _, _, offset in places}), pa.int64())
    rows = sends.filter(pc.is_in(sends["offset"], offsets)).sort_by("invoke_ns").to_pylist()
    return [row for row in rows if (row["topic"], row["partition"], row["offset"]) in places]


def _by_place(rows: Iterable[Mapping[str, Any]]) -> dict[Place, list[tuple[int, str]]]:
    by_place: dict[Place, list[tuple[int, str]]] = {}
    for row in rows:
        place = (row["topic"], row["partition"], row["offset"])
        by_place.setdefault(place, []).append((row["invoke_ns"], row["value"]))
    return by_place


def _acks(acknowledged: pa.Table) -> dict[Partition, Ints]:
    names = ["topic", "partition"]
    groups = acknowledged.group_by(names).aggregate([("complete_ns", "list")])
    columns = (groups[name] for name in (*names, "complete_ns_list"))
    return {
        (topic.as_py(), partition.as_py()): np.sort(ints(times.values))
        for topic, partition, times in zip(*columns, strict=True)
        if topic.is_valid and partition.is_valid
    }


def _acked_at(acknowledged: pa.Table, values: set[str]) -> dict[str, int]:
    """Return the times in ns at which these records were acknowledged."""
    rows = acknowledged.filter(
        pc.is_in(acknowledged["value"], pa.array(sorted(values), pa.string()))
    )
    times = zip(rows["value"].to_pylist(), rows["complete_ns"].to_pylist(), strict=True)
    return {value: time for value, time in times if time is not None}


def _pace(sends: pa.Table) -> SendTimes:
    sends = sends.filter(pc.equal(sends["phase"], history.RUN))
    good = pc.equal(sends["outcome"], OK)
    answered = sends.filter(pc.and_(good, pc.is_valid(sends["complete_ns"]))).sort_by("complete_ns")
    ended = ints(answered["complete_ns"])
    return SendTimes(
        ended_ns=ended,
        took_ns=ended - ints(answered["invoke_ns"]),
        failed_ns=ints(sends.filter(pc.invert(good))["invoke_ns"]),
    )

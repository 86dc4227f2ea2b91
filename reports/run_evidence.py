"""Read a judged run for its page: observations, faults, truncations and acknowledgements.

A run that was cut short lacks tables, or has them as unfinished streams. Sentences about tables
that cannot be read go to ``RunObservations.missing``; the rest is shown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.faults.counts import FaultCounts
from highwater.harness.runs.faults.intervals import fault_intervals
from highwater.harness.runs.faults.message_spans import MessageSpan, message_spans
from highwater.harness.runs.faults.times import strikes
from highwater.harness.runs.history import (
    MESSAGES_TABLE,
    OK,
    RUN,
    SEND,
    STEPS_TABLE,
    TABLES,
    completed,
    read_stream,
)
from highwater.harness.runs.partition_trace import Ints, Partition, Track, ints, partition_traces
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import ACKNOWLEDGED
from highwater.reports.observations import (
    PartitionObservations,
    Place,
    RunObservations,
    SendTimes,
    TruncationEvent,
)


def gather(
    run: Run,
    *,
    values: Iterable[str] = (),
    places: Iterable[Place] = (),
    without: Collection[str] = (),
) -> RunObservations:
    """Read everything about a run that its page shows.

    Args:
        run: a run that was judged, or at least started.
        values: ids of the records whose acknowledgement times to read.
        places: offsets whose acknowledged sends to read.
        without: paths of files that are not evidence; they are not read.
    """
    missing: list[str] = []
    tables = {name: _table(run, name, missing, without) for name in TABLES}
    open_ = [
        f"{name} ({tables[name].num_rows:,} rows shown)" for name in TABLES if run.unsealed(name)
    ]
    if open_:
        missing.append(f"Written while the run went on and never finished: {', '.join(open_)}.")
    traces = partition_traces(tables["events/partitions"], tables["events/replicas"])
    cuts = _cuts(tables["events/log_lines"])
    wanted_places = set(places)
    scenes = {
        key: _silenced(
            PartitionObservations(
                partition=key,
                tracks=trace.tracks,
                leaderships=trace.leaderships,
                cuts=_merged(cuts.get(key, []), trace.tracks),
            ),
            _in_sync(tables["history/ops"], key, wanted_places),
        )
        for key, trace in traces.items()
    }
    schedule = {} if f"{STEPS_TABLE}.parquet" in without else strikes(run)
    faults, steps = fault_intervals(tables["events/faults"].to_pylist(), schedule)
    acks, acked_at, last = _acks(tables["history/ops"], set(values))
    ends = [last, *(fault.end_ns or fault.start_ns for fault in (*faults, *steps))]
    ends += [int(t.time_ns[-1]) for s in scenes.values() for t in s.tracks.values()]
    ends += [leadership.time_ns for s in scenes.values() for leadership in s.leaderships]
    return RunObservations(
        scenes=scenes,
        faults=tuple(faults),
        steps=tuple(steps),
        messages=_messages(run, without),
        deeds=_deeds(run, without),
        acks=acks,
        done=ACKNOWLEDGED.get(run.plan().workload.acks, "acknowledged"),
        acked_at=acked_at,
        sends=_sends(tables["history/ops"], wanted_places),
        pace=_pace(tables["history/ops"]),
        log_lines=tables["events/log_lines"],
        end_ns=max(ends, default=0),
        missing=tuple(missing),
    )


def _table(run: Run, name: str, missing: list[str], without: Collection[str]) -> pa.Table:
    """Read a table of the run; return an empty one and add to ``missing`` if that fails."""
    schema = TABLES[name]
    if wrong := {f"{name}.parquet", f"{name}.arrows"}.intersection(without):
        missing.append(f"{wrong.pop()} is no evidence, and nothing of it is shown.")
        return schema.empty_table()
    try:
        if run.parquet(name).exists():
            return completed(pq.read_table(run.parquet(name)), schema)
        if run.stream(name).exists():
            return completed(pa.Table.from_batches(read_stream(run.stream(name))), schema)
        missing.append(f"{name} is missing.")
    except (pa.ArrowException, OSError, KeyError) as error:
        missing.append(f"{name} cannot be read: {error}")
    return schema.empty_table()


def _messages(run: Run, without: Collection[str]) -> tuple[MessageSpan, ...]:
    """Return the single messages that the wire acted on; only runs with the wire have any."""
    if any(path.startswith(f"{MESSAGES_TABLE}.") for path in without):
        return ()
    try:
        return message_spans(run.table(MESSAGES_TABLE).to_pylist())
    except (StoreError, KeyError):
        return ()


def _deeds(run: Run, without: Collection[str]) -> FaultCounts | None:
    if any(path.startswith("events/faults.") for path in without):
        return None
    try:
        return FaultCounts.of(run.table("events/faults").to_pylist())
    except (StoreError, KeyError):
        return None


def _cuts(table: pa.Table) -> dict[Partition, list[TruncationEvent]]:
    """Return the truncations that the brokers logged themselves."""
    rows = table.filter(pc.equal(table["kind"], "truncation"))
    events: dict[Partition, list[TruncationEvent]] = {}
    for row in rows.to_pylist():
        if row["time_ns"] is None or row["offset"] is None or row["topic"] is None:
            continue
        events.setdefault((row["topic"], row["partition"] or 0), []).append(
            TruncationEvent(
                time_ns=row["time_ns"],
                broker=row["broker"],
                offset=row["offset"],
                line=row["line"],
            )
        )
    return events


def _merged(
    logged: Sequence[TruncationEvent], tracks: Mapping[int, Track]
) -> tuple[TruncationEvent, ...]:
    """Add truncations observed only as a falling LEO to the logged ones, in order of time."""
    second = 1_000_000_000
    cuts = list(logged)
    for broker, track in tracks.items():
        for drop in track.drops():
            first, last = drop.since_ns - second, drop.time_ns + second
            if not any(cut.broker == broker and first <= cut.time_ns <= last for cut in logged):
                cuts.append(TruncationEvent(time_ns=drop.time_ns, broker=broker, offset=drop.after))
    return tuple(sorted(cuts, key=lambda cut: cut.time_ns))


def _in_sync(table: pa.Table, key: Partition, places: set[Place]) -> list[tuple[int, int, int]]:
    """Return (sent at, acknowledged at, offset) of the acks=all sends to the places."""
    offsets = pa.array(sorted(o for t, p, o in places if (t, p) == key), pa.int64())
    here = pc.and_(
        pc.equal(table["topic"].cast(pa.string()), key[0]), pc.equal(table["partition"], key[1])
    )
    sent = pc.and_(
        pc.equal(table["kind"].cast(pa.string()), SEND),
        pc.equal(table["outcome"].cast(pa.string()), OK),
    )
    everywhere = pc.equal(table["acks"].cast(pa.string()), "all")
    chosen = pc.and_(pc.and_(here, sent), pc.and_(everywhere, pc.is_in(table["offset"], offsets)))
    rows = table.filter(chosen).select(["invoke_ns", "complete_ns", "offset"])
    return [(row["invoke_ns"], row["complete_ns"], row["offset"]) for row in rows.to_pylist()]


def _silenced(
    scene: PartitionObservations, acknowledged: Sequence[tuple[int, int, int]]
) -> PartitionObservations:
    """Raise the last LEO of brokers that fell silent to what acks=all proves they had.

    A broker may append a record and die before the observer asks it again.
    """
    tracks = dict(scene.tracks)
    for began_ns, acked_ns, offset in acknowledged:
        ruled = [scene.leadership(at_ns) for at_ns in (began_ns, acked_ns)]
        members = set.intersection(
            *({*leadership.isr} if leadership else set[int]() for leadership in ruled)
        )
        for broker in members & {*tracks}:
            since_ns = tracks[broker].observed_at(acked_ns)
            cut = any(c.broker == broker and since_ns <= c.time_ns <= acked_ns for c in scene.cuts)
            if not cut:
                tracks[broker] = tracks[broker].with_leo(offset + 1, acked_ns)
    return replace(scene, tracks=tracks)


def _acks(table: pa.Table, values: set[str]) -> tuple[dict[Partition, Ints], dict[str, int], int]:
    """Return ack times by partition and by id, and the last time of the history; in ns."""
    times = pc.fill_null(table["complete_ns"], 0)
    last = pc.max(times).as_py() or 0
    table = table.filter(
        pc.and_(
            pc.equal(table["kind"].cast(pa.string()), SEND),
            pc.equal(table["outcome"].cast(pa.string()), OK),
        )
    )
    acks: dict[Partition, Ints] = {}
    keys = table.select(["topic", "partition"]).drop_null()
    for key in keys.group_by(keys.column_names).aggregate([]).to_pylist():
        mask = pc.and_(
            pc.equal(table["topic"].cast(pa.string()), key["topic"]),
            pc.equal(table["partition"], key["partition"]),
        )
        acks[key["topic"], key["partition"]] = np.sort(ints(table.filter(mask)["complete_ns"]))
    rows = table.filter(pc.is_in(table["value"], pa.array(sorted(values), pa.string())))
    at = zip(rows["value"].to_pylist(), rows["complete_ns"].to_pylist(), strict=True)
    return acks, {value: time for value, time in at if time is not None}, int(last)


def _pace(table: pa.Table) -> SendTimes:
    sent = pc.equal(table["kind"].cast(pa.string()), SEND)
    table = table.filter(pc.and_(sent, pc.equal(table["phase"].cast(pa.string()), RUN)))
    good = pc.equal(table["outcome"].cast(pa.string()), OK)
    failed = table.filter(pc.invert(good))
    answered = table.filter(pc.and_(good, pc.is_valid(table["complete_ns"])))
    answered = answered.sort_by("complete_ns")
    ended = ints(answered["complete_ns"])
    return SendTimes(
        ended_ns=ended,
        took_ns=ended - ints(answered["invoke_ns"]),
        failed_ns=ints(failed["invoke_ns"]),
    )


def _sends(table: pa.Table, places: set[Place]) -> dict[Place, tuple[tuple[int, str], ...]]:
    """Return the acknowledged sends at the given places, in order of time."""
    offsets = pa.array(sorted({offset for _, _, offset in places}), pa.int64())
    sent = pc.equal(table["kind"].cast(pa.string()), SEND)
    rows = table.filter(pc.and_(sent, pc.is_in(table["offset"], offsets))).sort_by("invoke_ns")
    assignments: dict[Place, tuple[tuple[int, str], ...]] = {}
    for row in rows.to_pylist():
        place = (row["topic"], row["partition"], row["offset"])
        if place in places:
            assignments[place] = (*assignments.get(place, ()), (row["invoke_ns"], row["value"]))
    return assignments

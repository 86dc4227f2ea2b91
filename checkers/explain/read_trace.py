"""Reads a run into traces, and finds the time and offset at which each broker began to lead."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.software import software_history
from highwater.checkers.explain.tolerances import SECOND, WITHIN
from highwater.checkers.explain.trace import (
    BrokerLogLine,
    ClientLogLine,
    FrozenReplica,
    LeadershipStart,
    RunTraces,
    Trace,
)
from highwater.checkers.kafka_files.reader import read_segment
from highwater.checkers.kafka_files.segment_files import segments
from highwater.checkers.run_files import plain
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval, fault_intervals
from highwater.harness.runs.faults.times import Strikes, strikes
from highwater.harness.runs.history import GROUPS_TABLE, MESSAGES_TABLE, READ, SEND
from highwater.harness.runs.partition_trace import (
    UNKNOWN,
    Leadership,
    PartitionTrace,
    partition_traces,
)
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run

_IGNORED: Final = frozenset({"error", "election", "kept"})
_NUMBER: Final = ["producer_id", "producer_epoch", "sequence"]
_DAY: Final = 86_400 * SECOND
_UNANSWERED: Final = re.compile(
    r"(?:\d{4}-\d\d-\d\dT)?(?P<time>\d\d:\d\d:\d\d\.\d{3})Z? (?:REQTMOUT|FAIL)"
    r" \[(?P<client>[\w.-]+)#"
)
"""A log line of librdkafka: a request timed out, or its connection broke."""

_UNANSWERED_IN_JAVA: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?P<time>\d\d:\d\d:\d\d\.\d{3})Z [A-Z]+"
    r" \[Producer clientId=(?P<client>[\w.-]+)[^\]]*\]"
    r" (?:Disconnecting from node|Node -?\d+ disconnected|Cancelled in-flight)"
)
"""A log line of Java's clients since 1.0: a request timed out, or its connection broke."""

_JAVA_LOG: Final = "java-clients.log"

_DIVIDED: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?P<time>\d\d:\d\d:\d\d\.\d{3})Z WARN"
    r" \[Producer clientId=(?P<client>[\w.-]+)[^\]]*\].* splitting and retrying"
)
"""A log line of Java's clients since 1.0: a broker refused a batch as too large."""

_Tail: TypeAlias = tuple[FaultInterval, range]
"""A fault, and a range of offsets that the fault removed from its broker's log."""


def observe(run: Run) -> RunTraces:
    """Read all evidence of a run that is compared with the rules.

    Raises:
        StoreError: a table is missing or broken.
        UsageError: the model does not know the run's release.
    """
    plan = run.plan()
    begins, log_rows = strikes(run), _rows(run, "events/log_lines")
    fault_rows = _rows(run, "events/faults")
    software = software_history(plan, fault_rows, begins, log_rows)
    disks = _disks(run, plan)
    partitions = partition_traces(run.table("events/partitions"), run.table("events/replicas"))
    lines = _lines(log_rows, plan)
    faults = _faults(fault_rows, begins, lines[0])
    ops = _plain(run.table("history/ops"))
    epochs = _epoch_starts(disks, ops) if software.may_have("epochs", None) else {}
    missing = _missing(run, plan, log_rows, disks)
    unseen = plan.topic.unclean_leader_election and Observation.BROKER_LOGS in missing
    traces = {}
    for partition in range(plan.topic.partitions):
        seen = partitions.get((plan.topic.name, partition), PartitionTrace())
        trace = Trace(
            partition=partition,
            leaderships=tuple(_current(seen.leaderships) if software.kraft else seen.leaderships),
            tracks=seen.tracks,
            lines=lines[partition],
            disks={b: disk for (b, p), disk in disks.items() if p == partition},
            epoch_starts=epochs.get(partition, {}),
        )
        removed = ((f, f.removed_from(plan.topic.name, partition)) for f in faults)
        tails = [(fault, offsets) for fault, ranges in removed for offsets in ranges]
        trace.starts.extend(_starts(trace, tails, faults, unseen=unseen))
        traces[partition] = trace
    return RunTraces(
        plan=plan,
        status=run.status(),
        software=software,
        faults=faults,
        traces=traces,
        ops=ops,
        clients=_unanswered(run),
        divided=_divided(run),
        left_ns=_left(ops),
        messages=_messages(run, "sent", "repeated", side="request"),
        refusals=_messages(run, "refused"),
        late_answers=_messages(run, "sent", "repeated", side="answer"),
        journal=_journal(run),
        missing=missing,
    )


def _epoch_starts(
    disks: dict[tuple[int, int], FrozenReplica], ops: pa.Table
) -> dict[int, dict[int, int]]:
    """Return ``{partition: {leader epoch: first offset}}``, from disks and reads.

    The first record of an epoch (KIP-101) shows where the new leader's log ended.
    """
    starts: dict[int, dict[int, int]] = defaultdict(dict)
    seen = [(partition, disk.epoch_starts) for (_, partition), disk in disks.items()]
    with_epoch = pc.and_(pc.equal(ops["kind"], READ), pc.is_valid(ops["leader_epoch"]))
    keys = ["partition", "leader_epoch"]
    reads = ops.filter(with_epoch).group_by(keys).aggregate([("offset", "min")]).to_pylist()
    seen += [(row["partition"], {row["leader_epoch"]: row["offset_min"]}) for row in reads]
    for partition, firsts in seen:
        for epoch, first in firsts.items():
            starts[partition][epoch] = min(first, starts[partition].get(epoch, first))
    return starts


def _missing(
    run: Run,
    plan: Plan,
    log_rows: list[dict[str, Any]],
    disks: dict[tuple[int, int], FrozenReplica],
) -> frozenset[Observation]:
    """Return the observations that the run's cluster does not provide, or whose table is empty."""
    given = {
        Observation.LEADERSHIPS: run.table("events/partitions").num_rows > 0,
        Observation.REPLICAS: run.table("events/replicas").num_rows > 0,
        Observation.BROKER_LOGS: plan.external is None and bool(log_rows),
        Observation.DISKS: bool(disks),
        Observation.WIRE: run.parquet(MESSAGES_TABLE).exists(),
        Observation.MACHINES: plan.external is None,
    }
    return frozenset(name for name, is_given in given.items() if not is_given)


def _plain(table: pa.Table) -> pa.Table:
    """Return a table in which plain columns replace dictionary-encoded columns."""
    return table.cast(pa.schema([field.with_type(plain(field.type)) for field in table.schema]))


def _current(leaderships: Sequence[Leadership]) -> Iterator[Leadership]:
    """Yield the leaderships whose epoch is not below the epoch of an earlier leadership.

    On KRaft the brokers report the leader, and some reports are older than others.
    """
    highest = UNKNOWN
    for leadership in leaderships:
        if leadership.epoch >= highest:
            highest = leadership.epoch
            yield leadership


def _lines(rows: list[dict[str, Any]], plan: Plan) -> dict[int, dict[int, list[BrokerLogLine]]]:
    """Return log lines by partition and broker; a line without partition is in every partition."""
    lines: dict[int, dict[int, list[BrokerLogLine]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["kind"] in _IGNORED:
            continue
        line = BrokerLogLine(
            time_ns=row["time_ns"],
            broker=row["broker"],
            kind=row["kind"],
            offset=-1 if row["offset"] is None else row["offset"],
            text=row["line"],
        )
        number = row["partition"]
        for partition in range(plan.topic.partitions) if number is None else (number,):
            lines[partition][row["broker"]].append(line)
    return lines


def _rows(run: Run, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.table(name).to_pylist()
    return sorted((row for row in rows if row["time_ns"] is not None), key=lambda r: r["time_ns"])


def _journal(run: Run) -> list[dict[str, Any]]:
    """Return the actions of group members, with their responses; empty if the run has no table."""
    rows: list[dict[str, Any]] = []
    return run.table(GROUPS_TABLE).to_pylist() if run.parquet(GROUPS_TABLE).exists() else rows


def _messages(run: Run, *events: str, side: str = "") -> list[dict[str, Any]]:
    """Return the rows of ``events/messages`` with one of these events; ``side`` may limit them.

    A message with the event ``sent`` or ``repeated`` is late, because the relay delayed it.
    """
    if not run.parquet(MESSAGES_TABLE).exists():
        return []
    rows = _rows(run, MESSAGES_TABLE)
    return [row for row in rows if row["event"] in events and side in {"", row["side"]}]


def _faults(
    rows: list[dict[str, Any]], begins: Strikes, lines: dict[int, list[BrokerLogLine]]
) -> list[FaultInterval]:
    """Return faults in order of time.

    In a scripted scenario, a ``stop`` begins when the broker logs its shutdown.
    """
    faults, _ = fault_intervals(rows, begins)
    if not begins:
        faults = [
            replace(fault, start_ns=_began_to_stop(lines.get(fault.broker, []), fault.start_ns))
            if fault.name == "stop" and fault.broker is not None
            else fault
            for fault in faults
        ]
    return sorted(faults, key=lambda fault: fault.start_ns)


def _began_to_stop(lines: list[BrokerLogLine], time_ns: int) -> int:
    """Return the time at which a broker logged that it stops; ``time_ns`` without such a line."""
    began = None
    for line in lines:
        if line.time_ns <= time_ns and line.kind in {"start", "stop"}:
            began = None if line.kind == "start" else began or line.time_ns
    return began or time_ns


def _disks(run: Run, plan: Plan) -> dict[tuple[int, int], FrozenReplica]:
    """Return the frozen replicas of the topic under test."""
    parts: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
    names = ["offset", "leader_epoch", "record_id", "magic", "last_offset", "damage", "crc_ok"]
    names += _NUMBER
    for segment in segments(Path(run.replicas)) if run.replicas.is_dir() else ():
        if segment.topic == plan.topic.name:
            batches = parts[segment.broker, segment.partition]
            named = replace(segment, named_by_keys=plan.named_by_keys)
            batches.extend(batch.select(names) for batch in read_segment(named))
    return {key: _disk(batches) for key, batches in parts.items()}


def _disk(batches: list[pa.RecordBatch]) -> FrozenReplica:
    if not batches:
        empty = np.empty(0, np.int64)
        return FrozenReplica(offsets=empty, epochs=empty, ids=[])
    table = pa.Table.from_batches(batches)
    flawed = table.filter(pc.and_(table["crc_ok"], pc.equal(table["damage"], "corrupt")))
    old = flawed.filter(pc.less(flawed["magic"], 2))
    table = table.filter(pc.is_valid(table["offset"]))
    return FrozenReplica(
        overlapping=frozenset(old["last_offset"].to_pylist()),
        offsets=table["offset"].to_numpy(),
        epochs=pc.fill_null(table["leader_epoch"], -1).to_numpy().astype(np.int64),
        ids=table["record_id"].to_pylist(),
        numbers=[*zip(*(table[name].to_pylist() for name in _NUMBER), strict=True)],
    )


def _starts(
    trace: Trace, tails: list[_Tail], faults: Sequence[FaultInterval], *, unseen: bool
) -> list[LeadershipStart]:
    """Return the start of every leadership, with its logged offset, or its observed LEO.

    Args:
        trace: the trace of the partition.
        tails: the faults that removed records, with the offsets.
        unseen: True if unclean elections are allowed and brokers' logs are missing. Then a leader
            from outside the last observed ISR counts as elected uncleanly.
    """
    lines = [line for b in trace.lines for line in trace.of_kind(b, "leader")]
    by_epoch = {(line.broker, line.epoch): line for line in reversed(lines)}
    again = [line for line in lines if line.offset < by_epoch[line.broker, line.epoch].offset]
    starts: list[LeadershipStart] = []
    before: Leadership | None = None
    for row in trace.leaderships:
        if row.leader >= 0 and (before is None or row.epoch != before.epoch):
            inside = before is None or (
                row.leader in before.isr if unseen else trace.was_eligible(before, row)
            )
            offline = trace.offline(row.epoch - 1)
            outside = None if inside else offline.text if offline else row.event
            line = by_epoch.pop((row.leader, row.epoch), None)
            begun_ns = row.time_ns if before is None else _followed_ns(trace, before, row)
            if line is None:
                begun_ns = max(begun_ns, _resumed_ns(trace, row, faults))
            start = _start(trace, row, line, outside, tails, begun_ns)
            if before and row.leader not in before.isr and not trace.knows_isr(before, row):
                start = replace(start, isr_known=False)
            starts.append(start)
        before = row
    # A broker that led only between two observations is known only by its own log line. So is a
    # broker that lost its log, and led again in its epoch.
    for line in (*by_epoch.values(), *again):
        row = Leadership(time_ns=line.time_ns, leader=line.broker, epoch=line.epoch, isr=())
        starts.append(_start(trace, row, line, None, tails, line.time_ns))
    return sorted(starts, key=lambda start: (start.epoch, start.time_ns))


def _followed_ns(trace: Trace, before: Leadership, now: Leadership) -> int:
    """Return the time of the first log line about following the new leader.

    Without such a line, return the time of the leader's observation. Until this observation the
    leader may have appended records.
    """
    fetchers = (line for broker in trace.lines for line in trace.of_kind(broker, "fetcher"))
    followed = [line.time_ns for line in fetchers if line.leader == now.leader != before.leader]
    return min((at for at in followed if before.time_ns < at < now.time_ns), default=now.time_ns)


def _resumed_ns(trace: Trace, now: Leadership, faults: Sequence[FaultInterval]) -> int:
    """Return the time from which a leader led that was frozen at its election; 0 for any other.

    Until then it may follow earlier leaders, and truncate its log.
    """
    ends = [
        fault.until_ns
        for fault in faults
        if facts_of(fault.name).frozen
        and fault.broker == now.leader
        and fault.start_ns <= now.time_ns <= fault.until_ns
    ]
    followed = [
        line.time_ns
        for line in trace.of_kind(now.leader, "fetcher")
        if any(0 <= line.time_ns - end <= WITHIN.log for end in ends)
    ]
    return max((*ends, *followed), default=0)


def _start(
    trace: Trace,
    row: Leadership,
    line: BrokerLogLine | None,
    outside: str | None,
    tails: list[_Tail],
    begun_ns: int,
) -> LeadershipStart:
    leo, was_struck = _leo_at(trace, row.leader, begun_ns, tails)
    first = trace.epoch_starts.get(row.epoch)
    if line is None and first is not None and not was_struck:
        # The observation of its log may be later than its election.
        leo, was_struck = first, True
    said_unclean = _said_unclean(trace, row)
    outside = said_unclean or outside
    # KRaft also logs an unclean election when it elects the last known leader.
    again = outside is not None and f"lastKnownElr: [{row.leader}] ->" in outside
    return LeadershipStart(
        time_ns=row.time_ns,
        broker=row.leader,
        epoch=row.epoch,
        offset=line.offset if line else leo,
        isr=row.isr,
        unclean=None if again else outside,
        last_leader=outside if again else None,
        logged=line is not None or was_struck,
        unlogged_election=line is None and said_unclean is None,
        event=line.text if line else f"{row.event}; LEO {leo} of broker {row.leader}",
        led_ns=line.time_ns if line else max(row.time_ns, begun_ns),
    )


def _leo_at(trace: Trace, broker: int, time_ns: int, tails: list[_Tail]) -> tuple[int, bool]:
    """Return the last known end of a log, and True if a fault removed records at this end.

    The end is known from an observed LEO, or from a log line about the broker's fetcher.
    """
    sample = trace.sample(broker, time_ns)
    cuts = [line for line in trace.of_kind(broker, "fetcher") if line.time_ns <= time_ns]
    leo, since_ns = (sample.leo, sample.time_ns) if sample else (-1, 0)
    if cuts and (sample is None or since_ns < cuts[-1].time_ns):
        leo, since_ns = cuts[-1].offset, cuts[-1].time_ns
    left = [
        gone.start
        for removed, gone in tails
        if removed.broker == broker and since_ns <= removed.start_ns <= time_ns and gone.stop >= leo
    ]
    return min(leo, *left, leo), bool(left)


def _said_unclean(trace: Trace, start: Leadership) -> str | None:
    epochs = f"leaderEpoch: {start.epoch - 1} -> {start.epoch}"
    for broker in trace.lines:
        for line in trace.of_kind(broker, "unclean"):
            now = f"-> {start.leader}," in line.text and epochs in line.text
            then = f"Elect leader {start.leader} " in line.text
            if now or (then and abs(line.time_ns - start.time_ns) < WITHIN.log):
                return line.text
    return None


def _unanswered(run: Run) -> dict[str, list[ClientLogLine]]:
    """Return the clients' log lines about unanswered requests; empty without a client log."""
    log_lines: dict[str, list[ClientLogLine]] = defaultdict(list)
    _read_client_log(run, "clients.log", _UNANSWERED, log_lines)
    _read_client_log(run, _JAVA_LOG, _UNANSWERED_IN_JAVA, log_lines)
    return log_lines


def _divided(run: Run) -> dict[str, list[ClientLogLine]]:
    """Return the clients' log lines about batches that were too large; empty without such a log."""
    log_lines: dict[str, list[ClientLogLine]] = defaultdict(list)
    _read_client_log(run, _JAVA_LOG, _DIVIDED, log_lines)
    return log_lines


def _read_client_log(
    run: Run, name: str, pattern: re.Pattern[str], log_lines: dict[str, list[ClientLogLine]]
) -> None:
    path = run.logs / name
    if not path.exists():
        return
    started_at_ns = run.environment().started_at_ns
    midnight_ns = started_at_ns - started_at_ns % _DAY
    with path.open(encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            if match := pattern.match(line):
                hours, minutes, seconds = match["time"].split(":")
                time_ns = int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * SECOND)
                since_ns = (midnight_ns + time_ns - started_at_ns) % _DAY
                log_lines[match["client"]].append(ClientLogLine(since_ns, line.strip()))


def _left(ops: pa.Table) -> dict[str, int]:
    """Return the time of the last response to each replaced producer (``p.1`` replaces ``p``)."""
    sends = ops.filter(pc.equal(ops["kind"], SEND)).select(["process", "complete_ns"])
    rows = sends.group_by("process").aggregate([("complete_ns", "max")]).to_pylist()
    last = {row["process"]: row["complete_ns_max"] or 0 for row in rows}
    stayed: dict[str, int] = {}
    for process, at_ns in last.items():
        client = process.partition(".")[0]
        stayed[client] = max(stayed.get(client, 0), at_ns)
    return {client: at for client, at in last.items() if at < stayed[client.partition(".")[0]]}

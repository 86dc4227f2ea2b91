"""Anomalies that only the disks of a run's replicas show.

``divergence`` and ``corrupt`` compare records and bytes; these compare what brokers had written
down beside them: in-sync replicas, checkpoint files, leader epochs, producers' sequence numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA, anomalies
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import always, if_idempotent, never
from highwater.checkers.disks.log_ends import log_ends, log_spans
from highwater.checkers.history.partition_ledgers import partition_ledgers
from highwater.checkers.inspection.log_dirs import LogDir
from highwater.checkers.inspection.log_tables import Row
from highwater.checkers.inspection.producers import repeats
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.inspection.replica_files import ReplicaFolder, replicas
from highwater.checkers.inspection.replica_findings import Facts, beyond, contradicted, disordered
from highwater.checkers.inspection.report_types import LogFinding
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

_PARTITIONS: Final = "events/partitions"
_REPLICAS: Final = "events/replicas"
_LOG_LINES: Final = "events/log_lines"
_ISR: Final = ["time_ns", "topic", "partition", "isr"]

Key = tuple[str, int, str, int]
"""Run, broker, topic and partition."""


def _says(row: Row) -> str:
    copy = row["copies"][0]
    return f"Broker {copy['broker']}, {row['topic']}-{row['partition']}: {copy['note']}"


@checker(
    Kind(
        "missing",
        guarantee="Every in-sync replica holds every record that was committed.",
        singular="in-sync replica lacks committed records",
        plural="in-sync replicas lack committed records",
        severity=Severity.CRITICAL,
        promise="replication: an in-sync replica has all that was committed (KIP-106, KIP-966)",
        breaks=always,
        says=_says,
    ),
    idle=without_disks,
)
def missing(tables: Tables) -> pa.Table:
    """In-sync replicas that end before a record which the final reader was given, so committed.

    Only of runs that quiesced, where nothing fails any more when the last ISR is observed, and of
    replicas that could be read. Without a list of the run's files, and without the brokers' answers
    either, a log may end early because its last segment was not copied. A consumer gets nothing
    above the leader's high watermark, which every member of the ISR has reached
    (Partition.maybeIncrementLeaderHW).
    """
    ends = {(end.run, end.broker, end.topic, end.partition): end for end in log_ends(tables)}
    compared = {case.key: _compared(case) for case in tables.cases}
    begins = _last_begins(tables.cases)
    rows = []
    for isr, read_to in _in_sync(tables):
        for broker in isr["isr"]:
            key: Key = (isr["run"], broker, isr["topic"], isr["partition"])
            end = ends.get(key)
            leo = 0 if end is None or end.last is None else end.last + 1
            leo = max(leo, begins.get(key, 0))
            name = f"{isr['topic']}-{isr['partition']}"
            read = name in compared[isr["run"]].get(broker, ())
            if read and leo <= read_to and not (end and end.damaged):
                says = f"in the ISR, and its log ends at {leo}; the final read came to {read_to}"
                rows.append(_row("missing", key, leo, says))
    return _table(rows)


def _last_begins(cases: Iterable[RunFiles]) -> dict[Key, int]:
    """Return the base offset of each replica's last segment, where the log ends if it is empty.

    All before it may be in the remote tier (KIP-405).
    """
    begins: dict[Key, int] = {}
    for case in cases:
        for segment in case.segments:
            key: Key = (case.key, segment.broker, segment.topic, segment.partition)
            begins[key] = max(segment.base_offset, begins.get(key, 0))
    return begins


def _in_sync(tables: Tables) -> Iterator[tuple[Row, int]]:
    """Yield the last ISR observed of each partition, and the last offset of the final read."""
    quiesced = {
        case.key: case.tables[_PARTITIONS]
        for case in tables.cases
        if case.status.quiesced and _PARTITIONS in case.tables
        if case.listed or _REPLICAS in case.tables
    }
    reach = {
        (book.run, book.topic, book.partition): book.last
        for book in partition_ledgers(tables)
        if book.run in quiesced and book.complete and book.last is not None
    }
    for run in sorted(quiesced):
        rows = pq.read_table(quiesced[run], columns=_ISR).sort_by("time_ns").to_pylist()
        latest = {(row["topic"], row["partition"]): row["isr"] for row in rows}
        for (topic, partition), isr in latest.items():
            last = reach.get((run, topic, partition))
            if last is not None:
                yield {"run": run, "topic": topic, "partition": partition, "isr": isr}, last


@checker(
    Kind(
        "epochs",
        guarantee="Leader epochs only grow along a log, and its list of them says the same.",
        singular="replica's epoch list contradicts its log",
        plural="replicas' epoch lists contradict their logs",
        severity=Severity.EXPECTED,
        promise="none: since 3.7 a broker writes its list behind its log (KAFKA-15046)",
        breaks=never,
        says=_says,
    ),
    idle=without_disks,
)
def epochs(tables: Tables) -> pa.Table:
    """Replicas whose records and leader-epoch-checkpoint (KIP-101) have different epochs."""
    facts = _facts(tables)
    for epoch_span in log_spans(tables):
        key: Key = (epoch_span.run, epoch_span.broker, epoch_span.topic, epoch_span.partition)
        if epoch_span.epoch is not None and key in facts:
            copy = {"epoch": epoch_span.epoch, "first": epoch_span.first, "last": epoch_span.last}
            span = {"segment": 0, "covered": None, **copy}
            facts[key].spans = [*facts[key].spans, span]
    return _finding_rows("epochs", facts, lambda facts: [*disordered(facts), *contradicted(facts)])


@checker(
    Kind(
        "checkpoint",
        guarantee="No checkpoint of a replica lies beyond the end of its log.",
        singular="checkpoint lies beyond its log's end",
        plural="checkpoints lie beyond their logs' ends",
        severity=Severity.EXPECTED,
        promise="none: only what was flushed outlives a machine",
        breaks=never,
        says=_says,
    ),
    idle=without_disks,
)
def checkpoint(tables: Tables) -> pa.Table:
    """High watermarks, recovery points and log start offsets that a log does not reach.

    Damaged logs are left out: they are findings of ``corrupt``.
    """
    damaged = {
        (end.run, end.broker, end.topic, end.partition) for end in log_ends(tables) if end.damaged
    }
    facts = {key: fact for key, fact in _facts(tables).items() if key not in damaged}
    return _finding_rows("checkpoint", facts, beyond)


@checker(
    Kind(
        "repeated-sequence",
        guarantee="No sequence number of a producer is in a log twice.",
        singular="sequence number is in a log twice",
        plural="sequence numbers are in a log twice",
        severity=Severity.SERIOUS,
        promise="exactly once: a broker drops what it has appended before (KIP-98)",
        breaks=if_idempotent,
        says=_says,
    ),
    idle=without_disks,
)
def repeated_sequence(tables: Tables) -> DataFrame | pa.Table:
    """Return records of one producer id, epoch and sequence number at two offsets (KIP-98)."""
    if not any(span.numbered for span in log_spans(tables)):
        return SCHEMA.empty_table()
    note = F.format_string(
        "sequence number %d of producer %d is at offset %d and again at %d.",
        *("sequence", "producer_id", "first", "again"),
    )
    nothing = F.lit(None).cast("string")
    first = [F.min_by(name, "offset").alias(name) for name in ("record_id", "leader_epoch")]
    place = F.struct(
        *("broker", "partition", F.col("first").alias("offset"), "leader_epoch", nothing, note)
    )
    rows = (
        repeats(tables.log, ["run", "topic", "partition", "broker"], *first)
        .withColumn("copy", place)
        .groupBy(
            *("run", "topic", "partition"),
            F.col("first").alias("offset"),
            F.col("record_id").alias("value"),
        )
        .agg(F.array_sort(F.collect_list("copy")).alias("copies"))
    )
    return anomalies(rows, "repeated-sequence")


def _facts(tables: Tables) -> dict[Key, Facts]:
    """Every replica of the runs' own topics, with where its log ends."""
    ends = {(end.run, end.broker, end.topic, end.partition): end for end in log_ends(tables)}
    facts = {}
    for case in tables.cases:
        moved = _moved_starts(case)
        for replica in _replicas(case):
            key: Key = (case.key, replica.broker, replica.topic, replica.partition)
            if start := moved.get((replica.broker, replica.partition)):
                replica = replace(replica, log_start=max(start, replica.log_start or 0))  # noqa: PLW2901
            end = ends.get(key)
            spans = [] if end is None else [_span(end)]
            facts[key] = Facts(replica=replica, spans=spans)
    return facts


def _moved_starts(case: RunFiles) -> dict[tuple[int, int], int]:
    """Return where logs begin by what brokers logged; they write it down every minute alone.

    Only retention in a remote tier moves it (KIP-405).
    """
    if not case.plan.tiered or _LOG_LINES not in case.tables:
        return {}
    lines = pq.read_table(
        case.tables[_LOG_LINES], columns=["broker", "kind", "partition", "offset"]
    )
    starts: dict[tuple[int, int], int] = {}
    for line in lines.to_pylist():
        if line["kind"] == "log-start":
            place = line["broker"], line["partition"]
            starts[place] = max(line["offset"], starts.get(place, 0))
    return starts


def _span(end: LogExtent) -> Row:
    return {
        "segment": end.segment,
        "epoch": None,
        "first": end.first,
        "last": end.last,
        "covered": end.last,
    }


def _compared(case: RunFiles) -> dict[int, set[str]]:
    """Return the replicas to compare: broker to the names of their folders."""
    folders: dict[int, set[str]] = {}
    for folder in case.replicas:
        if folder.parent.name.isdecimal():
            folders.setdefault(int(folder.parent.name), set()).add(folder.name)
    return folders


def _replicas(case: RunFiles) -> list[ReplicaFolder]:
    dirs = [
        LogDir(
            path=case.log_directories / str(broker),
            broker=broker,
            name=str(broker),
            only=frozenset(names),
            without=case.broken,
        )
        for broker, names in _compared(case).items()
    ]
    return replicas(dirs, internal=False)


def _finding_rows(
    kind: str,
    facts: Mapping[Key, Facts],
    look: Callable[[Facts], Iterable[LogFinding]],
) -> pa.Table:
    """Return a row for each finding about a replica."""
    rows = [
        _row(kind, key, finding.offset, finding.says)
        for key, fact in facts.items()
        for finding in look(fact)
    ]
    return _table(rows)


def _row(kind: str, key: Key, offset: int | None, says: str) -> Row:
    run, broker, topic, partition = key
    copy = {"broker": broker, "partition": partition, "offset": offset, "note": says}
    names = ("run", "kind", "topic", "partition", "offset")
    return {
        **dict(zip(names, (run, kind, topic, partition, offset), strict=True)),
        "copies": [copy],
    }


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)

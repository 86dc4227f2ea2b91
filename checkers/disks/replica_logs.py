"""Anomalies in one replica's log: a missing end, and repeated sequence numbers of producers."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA, anomalies
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import always, if_idempotent
from highwater.checkers.disks.log_ends import log_ends, log_spans
from highwater.checkers.history.partition_ledgers import partition_ledgers
from highwater.checkers.inspection.log_tables import Row
from highwater.checkers.inspection.producers import repeats
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

_PARTITIONS: Final = "events/partitions"
_REPLICAS: Final = "events/replicas"
_ISR: Final = ["time_ns", "topic", "partition", "isr"]

Key = tuple[str, int, str, int]
"""A replica in a run: the run's key, the broker, the topic and the partition."""


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
        promise="replication: an in-sync replica has every committed record (KIP-106, KIP-966)",
        breaks=always,
        says=_says,
    ),
    idle=without_disks,
)
def missing(tables: Tables) -> pa.Table:
    """Return in-sync replicas whose logs end before a record that the final reader received.

    Such a record is committed: a consumer gets only records below the leader's high watermark, and
    every member of the ISR has reached it (Partition.maybeIncrementLeaderHW).

    A replica is judged if it is readable, and if its run ended without a fault and with all
    replicas in sync. The run must also have a list of its files, or the brokers' responses.
    Otherwise a log may end early because its last segment was not copied.
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
                says = (
                    f"it is in the ISR, but its log ends at offset {leo}. The final read reached"
                    f" offset {read_to}."
                )
                place = {"partition": isr["partition"], "offset": leo}
                copy = {**place, "broker": broker, "note": says}
                anomaly = {"run": isr["run"], "kind": "missing", "topic": isr["topic"], **place}
                rows.append({**anomaly, "copies": [copy]})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _last_begins(cases: Iterable[RunFiles]) -> dict[Key, int]:
    """Return the base offset of each replica's last segment.

    A log whose last segment is empty ends at this offset. All earlier segments may be in the remote
    tier (KIP-405).
    """
    begins: dict[Key, int] = {}
    for case in cases:
        for segment in case.segments:
            key: Key = (case.key, segment.broker, segment.topic, segment.partition)
            begins[key] = max(segment.base_offset, begins.get(key, 0))
    return begins


def _in_sync(tables: Tables) -> Iterator[tuple[Row, int]]:
    """Yield the last observed ISR of each partition, and the last offset of its final read."""
    quiesced = {
        case.key: case
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
        rows = quiesced[run].rows(_PARTITIONS, _ISR)
        latest = {(row["topic"], row["partition"]): row["isr"] for row in rows}
        for (topic, partition), isr in latest.items():
            last = reach.get((run, topic, partition))
            if last is not None:
                yield {"run": run, "topic": topic, "partition": partition, "isr": isr}, last


@checker(
    Kind(
        "repeated-sequence",
        guarantee="No sequence number of a producer is in a log twice.",
        singular="sequence number is in a log twice",
        plural="sequence numbers are in a log twice",
        severity=Severity.SERIOUS,
        promise="exactly once: a broker does not append a batch twice (KIP-98)",
        breaks=if_idempotent,
        says=_says,
    ),
    idle=without_disks,
)
def repeated_sequence(tables: Tables) -> DataFrame | pa.Table:
    """Return records whose producer id, epoch and sequence number are at two offsets (KIP-98)."""
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


def _compared(case: RunFiles) -> dict[int, set[str]]:
    folders: dict[int, set[str]] = {}
    for folder in case.replicas:
        if folder.parent.name.isdecimal():
            folders.setdefault(int(folder.parent.name), set()).add(folder.name)
    return folders

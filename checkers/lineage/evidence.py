"""Read all rows about a few anomalies of one run, as plain Python values."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.history.partition_ledgers import PartitionLedger, partition_ledgers
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.run_files import RunFiles, plain
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.faults.times import strike_of, strikes
from highwater.harness.runs.history import OPERATIONS_TABLE, TABLES
from highwater.harness.runs.partition_trace import PartitionTrace, partition_traces

Row = dict[str, Any]
Place = tuple[int, int]
"""A partition and an offset in it."""

_Copies = dict[tuple[str, int, int], list[Row]]
"""Copies of records on disks, by run, partition and offset."""

_ROWS_MAX: Final = 200_000
"""The greatest number of rows that are read from one table of a run."""
_TELLING: Final = pc.field("kind").isin(
    pa.array(["truncation", "expired", "retention", "log-start"])
)


@dataclass(slots=True, kw_only=True)
class RecordEvidence:
    """The evidence about some records in one run's tables.

    Attributes:
        topic: the topic under test.
        operations: sends and reads of these records, and of other records at their offsets, in
            order of time.
        traces: leaders and replicas over time, for each partition.
        faults: rows of ``events/faults`` in order of time; an injection has the time of its begin.
        log_lines: rows of ``events/log_lines`` about truncations and retention, in order of time.
        disk: the copies on the brokers' disks at these offsets: (broker, leader epoch, record id).
        remote: the records at these offsets in the remote tier; None without a remote tier.
        ends: the first and the last offset of every replica.
        reach: the record counts of each partition, if the final read returned records of it.
    """

    topic: str
    operations: list[Row] = field(default_factory=list)
    traces: dict[int, PartitionTrace] = field(default_factory=dict)
    faults: list[Row] = field(default_factory=list)
    log_lines: list[Row] = field(default_factory=list)
    disk: dict[Place, list[tuple[int, int | None, str | None]]] = field(default_factory=dict)
    remote: dict[Place, list[str | None]] | None = None
    ends: list[LogExtent] = field(default_factory=list)
    reach: dict[int, PartitionLedger] = field(default_factory=dict)


def gather(tables: Tables, suspects: dict[str, list[Row]]) -> dict[str, RecordEvidence]:
    """Return the evidence about some anomalies, by the key of each run.

    Args:
        tables: the tables of all runs.
        suspects: the anomalies of each run (rows of ``anomaly.ANOMALY``), by the run's key.
    """
    disk = _copies(tables, tables.log, suspects)
    far = {} if tables.remote_log is None else _copies(tables, tables.remote_log, suspects)
    return {
        case.key: _of_run(tables, case, suspects[case.key], disk, far)
        for case in tables.cases
        if suspects.get(case.key)
    }


def places(rows: Iterable[Row]) -> set[Place]:
    """Return every partition and offset that these anomalies name."""
    place_set = {(row["partition"], row["offset"]) for row in rows}
    for row in rows:
        place_set |= {(copy["partition"], copy["offset"]) for copy in row["copies"] or ()}
    return {(p, o) for p, o in place_set if p is not None and o is not None}


def _of_run(
    tables: Tables, case: RunFiles, rows: Sequence[Row], disk: _Copies, far: _Copies
) -> RecordEvidence:
    place_set = places(rows)
    partitions = {partition for partition, _ in place_set} or set(range(case.plan.topic.partitions))
    values = {row["value"] for row in rows} | {
        copy["value"] for row in rows for copy in row["copies"] or ()
    }
    here = pc.field("partition").isin(pa.array(sorted(partitions), pa.int32()))

    seen = (_read(case, name, here) for name in ("events/partitions", "events/replicas"))
    return RecordEvidence(
        topic=case.plan.topic.name,
        operations=_operations(case, place_set, {value for value in values if value}),
        traces={
            partition: trace
            for (topic, partition), trace in partition_traces(*seen).items()
            if topic == case.plan.topic.name
        },
        faults=_faults(case),
        log_lines=_rows(_read(case, "events/log_lines", here & _TELLING)),
        disk={
            place: [
                (row["broker"], row["leader_epoch"], row["record_id"])
                for row in disk.get((case.key, *place), [])
            ]
            for place in place_set
        },
        remote={
            place: [row["record_id"] for row in far.get((case.key, *place), [])]
            for place in place_set
        }
        if case.plan.tiered
        else None,
        ends=[end for end in log_ends(tables) if end.run == case.key],
        reach={
            book.partition: book
            for book in partition_ledgers(tables)
            if book.run == case.key and book.partition is not None and book.last is not None
        },
    )


def _operations(case: RunFiles, place_set: set[Place], values: set[str]) -> list[Row]:
    offsets = sorted({offset for _, offset in place_set})
    where = pc.field("value").isin(pa.array(sorted(values), pa.string())) | pc.field("offset").isin(
        pa.array(offsets, pa.int64())
    )
    rows = _rows(_read(case, OPERATIONS_TABLE, where), time="invoke_ns")
    return [
        row
        for row in rows
        if row["value"] in values or (row["partition"], row["offset"]) in place_set
    ]


def _faults(case: RunFiles) -> list[Row]:
    """Return the rows of faults. An injection gets the time of its begin, if this time is known.

    The table has the time when the fault had taken effect. Its consequences may be earlier.
    """
    schedule = strikes(case.run, without=[file.path for file in case.unread])
    rows = _rows(_read(case, "events/faults"))
    for row in rows:
        if row["phase"] == "inject":
            row["time_ns"] = strike_of(
                schedule, row["fault"], row["broker"], row["time_ns"]
            ).begun_ns
    return sorted(rows, key=itemgetter("time_ns"))


def _read(case: RunFiles, name: str, where: pc.Expression | None = None) -> pa.Table:
    """Return at most ``_ROWS_MAX`` rows of one table; no rows if the run lacks the table."""
    part = case.tables.get(name)
    if part is None:
        return TABLES[name].empty_table()
    # A filter does not work on dictionary columns, so their values become plain strings.
    columns = pa.schema([field.with_type(plain(field.type)) for field in ds.dataset(part).schema])
    batches: list[pa.RecordBatch] = []
    for group in _groups(part):
        # First read only the filter's columns, and find the row groups with such rows: this is
        # faster.
        if where is None or group.scanner(columns, filter=where, columns=[]).count_rows():
            batches += group.scanner(columns, filter=where, batch_readahead=1).to_batches()
    return pa.Table.from_batches(batches, columns).slice(0, _ROWS_MAX)


def _rows(table: pa.Table, *, time: str = "time_ns") -> list[Row]:
    return sorted(table.to_pylist(), key=lambda row: (row[time] is None, row[time]))


def _groups(part: Path) -> Iterator[ds.ParquetFileFragment]:
    for file in ds.dataset(part).get_fragments():
        yield from file.split_by_row_group()


def _copies(tables: Tables, log: DataFrame, suspects: dict[str, list[Row]]) -> _Copies:
    """Return the log's records at the offsets of all these anomalies. This is one Spark job."""
    asked_places = [
        {"run": run, "partition": partition, "offset": offset}
        for run, rows in suspects.items()
        for partition, offset in places(rows)
    ]
    if not asked_places:
        return {}
    schema = pa.schema([("run", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    where = tables.local(pa.Table.from_pylist(asked_places, schema=schema))
    names = ["run", "partition", "offset"]
    copies = log.join(where.hint("broadcast"), names, "left_semi")
    by_place: _Copies = {}
    for row in copies.select(*names, "broker", "leader_epoch", "record_id").collect():
        by_place.setdefault((row["run"], row["partition"], row["offset"]), []).append(row.asDict())
    for rows in by_place.values():
        rows.sort(key=lambda row: row["broker"])
    return by_place

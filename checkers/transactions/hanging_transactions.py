"""``hanging-transaction``: a partition has an open transaction that its coordinator has ended.

A coordinator writes a marker into every partition of a transaction that it ends, and then completes
the transaction (KIP-98). If a record of the transaction arrives after the marker, the record opens
the transaction again, and no client will end it. So the last stable offset does not move any more,
and read_committed readers get no later record (KAFKA-14402, KIP-890). Two logs on the disks show
this: the partition's log, and the coordinator's log, ``__transaction_state``.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.coordinator_logs import coordinator_records
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import HANGING, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_committed_is_kept
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.kafka_files.coordinator_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    TransactionRecord,
    transaction_record,
)
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.transactions.coordinated import TOPIC

_ENDED: Final = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
"""The states of TransactionState in which no transaction is open or about to end."""

_PLACE: Final = ("run", "topic", "partition", "producer_id")

Row = dict[str, Any]


class _Coordinated(NamedTuple):
    """The last state that a coordinator wrote about a producer id, and the transactional id."""

    name: str
    state: str


def _says(row: Row) -> str:
    copies = row["copies"]
    brokers = ", ".join(str(copy["broker"]) for copy in copies)
    where = f"{row['topic']}-{row['partition']} at offset {row['offset']}"
    begins_with = f" that begins with {row['value']}" if row["value"] else ""
    return (
        f"A transaction{begins_with} is open in {where} on the disks of broker {brokers}, although"
        f" its coordinator has ended it: {copies[0]['note']}. No read_committed reader"
        " passes this offset."
    )


@checker(
    Kind(
        HANGING,
        guarantee="If a coordinator has ended a transaction, no partition has it open.",
        singular="transaction has ended but is still open in a partition, and hides later records",
        plural="transactions have ended but are still open in partitions, and hide later records",
        severity=Severity.SERIOUS,
        promise="progress: every transaction ends, at the latest by its timeout (KIP-98)",
        breaks=if_committed_is_kept,
        says=_says,
        absence=True,
    )
)
def hanging_transaction(tables: Tables) -> pa.Table:
    """Return the transactions that are open in a log although their coordinator has ended them.

    A producer's transaction is open if no replica of the partition has a marker of that producer
    after the transaction's records. The coordinator has ended it if its last state for the producer
    id is Empty, CompleteCommit or CompleteAbort, with any epoch, or was removed. Otherwise the
    transaction may still end. (A coordinator writes Ongoing before a record may be appended, so the
    time of the state does not matter.)

    A partition is not judged if one of its replicas is missing or damaged, because that replica
    might have the marker. In a compacted topic each replica is judged separately: its cleaner keeps
    a marker as long as it keeps a record of the transaction. Such a replica is not judged if its
    log is shorter than another's, or if its cleaner was replacing segments.
    """
    cases = {case.key: case for case in tables.cases if _tells(case)}
    if not cases:
        return SCHEMA.empty_table()
    unsound = {(end.run, end.topic, end.partition) for end in log_ends(tables) if end.damaged}
    log = _without_late(tables, [case for case in cases.values() if case.compacted])
    opened = [
        row
        for row in (row.asDict(recursive=True) for row in _open(log, cases.values()).collect())
        if (row["run"], row["topic"], row["partition"]) not in unsound
    ]
    if not opened:
        return SCHEMA.empty_table()
    states = {run: _states(cases[run]) for run in {row["run"] for row in opened}}
    rows = [
        _row(row, state)
        for row in opened
        if (state := states[row["run"]].get(row["producer_id"])) and state.state
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _tells(case: RunFiles) -> bool:
    """Return whether a run has transactions, and the disks of all replicas and coordinators."""
    topic, folder = case.plan.topic, case.run.coordinators
    unread = any(unused.path.startswith(f"{folder.name}/") for unused in case.unread)
    whole = len(case.replicas) >= topic.partitions * topic.replication_factor
    return case.plan.workload.transactions and whole and not unread


def _without_late(tables: Tables, compacted: Iterable[RunFiles]) -> DataFrame:
    """Return the log without the replicas of compacted topics that are not judged."""
    log = tables.log
    for case in compacted:
        ends = [end for end in log_ends(tables) if end.run == case.key]
        last = {
            partition: max(end.last or 0 for end in ends if end.partition == partition)
            for partition in {end.partition for end in ends}
        }
        for end in ends:
            replica = f"{end.topic}-{end.partition}"
            swapped = any((case.log_directories / str(end.broker) / replica).glob("*.swap"))
            if swapped or end.last != last[end.partition]:
                same = (F.col("run") == end.run) & (F.col("broker") == end.broker)
                log = log.where(~(same & (F.col("partition") == end.partition)))
    return log


def _open(log: DataFrame, cases: Iterable[RunFiles]) -> DataFrame:
    """Return each producer's open transaction in each partition, with its first record.

    Rows have ``_PLACE``, ``offset``, ``epoch`` (the producer's), ``value`` and ``copies``.
    """
    marker = F.max(F.when(F.col("control"), F.col("offset")))
    runs = {case.key: case.compacted for case in cases}
    alone = F.col("run").isin([run for run, compacted in runs.items() if compacted])
    judged: list[str | Column] = [*_PLACE, F.when(alone, F.col("broker"))]
    first = F.min("offset").alias("first")
    of_first = [
        F.min_by(name, "offset").alias(name)
        for name in ("record_id", "leader_epoch", "producer_epoch")
    ]
    copy = F.struct("broker", "partition", F.col("first").alias("offset"), "leader_epoch")
    return (
        log.where(
            F.col("run").isin(list(runs)) & F.col("transactional") & F.col("offset").isNotNull()
        )
        .withColumn("marker", marker.over(Window.partitionBy(*judged)))
        .where(~F.col("control") & (F.col("offset") > F.coalesce("marker", F.lit(-1))))
        .groupBy(*_PLACE, "broker")
        .agg(first, *of_first)
        .groupBy(*_PLACE)
        .agg(
            F.min("first").alias("offset"),
            F.min_by("producer_epoch", "first").alias("epoch"),
            F.min_by("record_id", "first").alias("value"),
            F.array_sort(F.collect_list(copy)).alias("copies"),
        )
    )


def _states(case: RunFiles) -> dict[int, _Coordinated]:
    """Return the coordinators' last state for each producer id, with its transactional id.

    ``state`` is empty if a transaction may be open.
    """
    last: dict[str, tuple[TransactionRecord, str]] = {}
    for record in filter(None, map(transaction_record, coordinator_records(case, TOPIC) or ())):
        if record.status is not None:
            state = record.state if record.status in _ENDED else ""
            last[record.name] = record, state
        elif record.name in last:
            last[record.name] = last[record.name][0], record.state
    states: dict[int, _Coordinated] = {}
    for record, state in last.values():
        before = states.get(record.producer_id)
        if (
            before is None or before.state
        ):  # if any state allows an open transaction, the result is empty
            states[record.producer_id] = _Coordinated(record.name, state)
    return states


def _row(opened: Row, coordinated: _Coordinated) -> Row:
    producer = f"producer id {opened['producer_id']}, epoch {opened['epoch']}"
    note = f"transactional id {coordinated.name} ({producer}) has the state {coordinated.state}"
    copies = [
        {**copy, "value": opened["value"], "note": note}
        for copy in opened["copies"]
        if copy["offset"] == opened["offset"]
    ]
    names = ("run", "topic", "partition", "offset", "value")
    return {"kind": HANGING, **{name: opened[name] for name in names}, "copies": copies}

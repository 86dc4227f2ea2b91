"""``divergence``: replicas of one partition hold different records at one offset.

Followers append batches byte for byte (ReplicaFetcherThread), so what must agree is the record:
key, value, whether it is a control record, and the leader epoch it was written in, if its format
has one: a leader answers a follower of an older protocol in an older format. Not compared is what
    may differ: where a log begins (DeleteRecords), where it ends (lag), timestamps, segments, and
    batches that compaction has rewritten.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import anomalies
from highwater.checkers.core.anomaly_kinds import ABOVE, BELOW, DIVERGENCE, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import AGREED, always
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.kafka_files.checkpoints import CheckpointError, read_offsets
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

_PLACE = ("run", "topic", "partition", "offset")
_REPLICA = ("run", "broker", "topic", "partition")
_NO_EPOCH = -1  # message formats before v2 have none, nor has a record that was converted to one
_EVERYTHING = (1 << 63) - 1

_REPLICAS = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slot", pa.int32()),  # a number for the partition
        ("bound", pa.int64()),  # only offsets below it are compared
        ("whole", pa.int32()),  # 1 where the replica must have no holes, else 0
        ("hw", pa.int64()),  # null: its broker has written none down
    ]
)
_PARTITIONS = pa.schema(
    [
        ("slot", pa.int32()),
        ("run", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("extents", pa.list_(pa.list_(pa.int64()))),  # first and last offset of every whole replica
    ]
)


@checker(
    Kind(
        DIVERGENCE,
        guarantee="Replicas hold the same record at every offset that they both hold.",
        singular="offset differs between replicas",
        plural="offsets differ between replicas",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=always,
    )
)
def divergence(tables: Tables) -> DataFrame:
    """Return offsets at which replicas differ, or that one skips, with their records.

    Where the cluster did not quiesce, only offsets below every replica's checkpointed HW are
    compared, because above it a follower may still hold records that it is about to truncate. Each
    copy says whether it lies below its replica's HW: replication does not repair a difference that
    is committed on both sides.
    """
    partitions = _partitions(tables)
    replicas = F.broadcast(tables.local(_replica_table(tables, partitions)))
    replicas_most = max((len(ends) for ends in partitions.values()), default=0)
    compared = (
        tables.log.where(F.col("offset").isNotNull())
        .join(replicas, list(_REPLICA))
        .where(F.col("offset") < F.col("bound"))
    )
    differing = (
        compared.groupBy("slot", "offset")
        .agg(
            _differs(F.col("fingerprint")).alias("other_record"),
            # One that has none was converted for a broker that still spoke an old protocol.
            _differs(F.nullif("leader_epoch", F.lit(_NO_EPOCH))).alias("other_epoch"),
            F.sum("whole").alias("held"),
        )
        .join(F.broadcast(tables.local(_partition_table(tables, partitions))), "slot")
        .where(
            F.col("other_record")
            | F.col("other_epoch")
            | (F.col("held") < _expected(replicas_most))
        )
        .select(*_PLACE)
    )
    copies = (
        tables.log.join(differing, list(_PLACE), "left_semi")
        .join(replicas.select(*_REPLICA, "hw"), list(_REPLICA))
        .groupBy(*_PLACE)
        .agg(F.array_sort(F.collect_list(_copy())).alias("copies"))
    )
    return anomalies(copies, DIVERGENCE, value=F.element_at("copies", 1)["value"])


def _differs(column: Column) -> Column:
    return F.min(column) != F.max(column)


def _expected(replicas_most: int) -> Column:
    """Return how many whole replicas must hold a record at the offset, by their extents."""
    covered = F.lit(0)
    for index in range(replicas_most):
        extent = F.get("extents", F.lit(index))
        inside = F.col("offset").between(extent[0], extent[1])
        covered = covered + F.when(inside, 1).otherwise(0)
    return covered


def _copy() -> Column:
    side = F.when(F.col("offset") < F.col("hw"), BELOW).otherwise(ABOVE)
    return F.struct(
        "broker",
        "partition",
        "offset",
        "leader_epoch",
        F.col("record_id").alias("value"),
        F.concat(side, F.col("hw")).alias("note"),
    )


Partitions = dict[tuple[str, str, int], list[LogExtent]]
"""The replicas of every partition, by run, topic and partition."""


def _partitions(tables: Tables) -> Partitions:
    partitions: Partitions = {}
    for end in tables.ends:
        partitions.setdefault((end.run, end.topic, end.partition), []).append(end)
    return partitions


def _replica_table(tables: Tables, partitions: Partitions) -> pa.Table:
    cases = {case.key: case for case in tables.cases}
    rows = []
    for slot, ((run, topic, partition), ends) in enumerate(partitions.items()):
        case = cases[run]
        marks = [_watermark(case, end) for end in ends]
        bounds = [_EVERYTHING if case.status.quiesced else mark or 0 for mark in marks]
        rows += [
            {
                "run": run,
                "broker": end.broker,
                "topic": topic,
                "partition": partition,
                "slot": slot,
                "bound": min(bounds),
                "whole": int(_whole(case, end)),
                "hw": mark,
            }
            for end, mark in zip(ends, marks, strict=True)
        ]
    return pa.Table.from_pylist(rows, schema=_REPLICAS)


def _partition_table(tables: Tables, partitions: Partitions) -> pa.Table:
    cases = {case.key: case for case in tables.cases}
    rows = [
        {
            "slot": slot,
            "run": run,
            "topic": topic,
            "partition": partition,
            "extents": [[end.first, end.last] for end in ends if _whole(cases[run], end)],
        }
        for slot, ((run, topic, partition), ends) in enumerate(partitions.items())
    ]
    return pa.Table.from_pylist(rows, schema=_PARTITIONS)


def _whole(case: RunFiles, end: LogExtent) -> bool:
    """Return whether a replica must have no holes; damage and compaction make some."""
    return not end.damaged and not case.compacted


def _watermark(case: RunFiles, end: LogExtent) -> int | None:
    """Return a replica's last checkpointed high watermark; None when there is none."""
    path = case.run.replicas / str(end.broker) / "replication-offset-checkpoint"
    if path in case.broken:
        return None
    try:
        return read_offsets(path).get((end.topic, end.partition))
    except CheckpointError:
        return None

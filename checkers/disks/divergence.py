"""``divergence``: at one offset, replicas hold different records, or one replica holds no record.

``checkers.inspection.compare``, which ``highwater inspect`` also uses, describes the comparison.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA, anomalies
from highwater.checkers.core.anomaly_kinds import ABOVE, BELOW, DIVERGENCE, Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import AGREED, always
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.inspection.compare import EVERYTHING, Extent, ReplicaLogs, compare
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.kafka_files.checkpoints import CheckpointError, read_offsets
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

REPLICA: Final = ("run", "broker", "topic", "partition")
_PLACE: Final = ("run", "topic", "partition", "offset")

REPLICA_ROWS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replica", pa.int32()),  # the replica's number among all compared replicas
        ("part", pa.int32()),  # the partition's number among all compared partitions
        ("hw", pa.int64()),  # the replica's high watermark; null if the broker has no checkpoint
        ("bound", pa.int64()),  # only offsets below this one are compared
        ("trusted", pa.bool_()),  # true if the replica's leader epochs can be used
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedReplica:
    """One replica of a partition.

    Attributes:
        case: the replica's run.
        end: the first and last offset of the replica's log.
        number: the replica's number among all compared replicas.
        part: the partition's number among all compared partitions.
        hw: the replica's last checkpointed high watermark; None without a checkpoint.
        bound: only offsets below this one are compared.
    """

    case: RunFiles
    end: LogExtent
    number: int
    part: int
    hw: int | None
    bound: int

    @property
    def row(self) -> dict[str, object]:
        """The replica's values, as a row of ``REPLICA_ROWS``."""
        place = {name: getattr(self.end, name) for name in REPLICA}
        numbers = {"replica": self.number, "part": self.part, "hw": self.hw, "bound": self.bound}
        return place | numbers | {"trusted": True}

    @property
    def extent(self) -> Extent:
        """The compared part of the log.

        In a compacted or damaged log, any offset may be missing.
        """
        assert self.end.first is not None
        assert self.end.last is not None
        return Extent(
            part=self.part,
            first=self.end.first,
            leo=min(self.end.last + 1, self.bound),
            gaps_till=EVERYTHING if self.case.compacted or self.end.damaged else 0,
        )


@checker(
    Kind(
        DIVERGENCE,
        guarantee="Replicas hold the same record at every offset that both replicas hold.",
        singular="offset differs between replicas",
        plural="offsets differ between replicas",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=always,
    ),
    idle=without_disks,
)
def divergence(tables: Tables) -> DataFrame | pa.Table:
    """Return the offsets at which replicas differ or one lacks a record, with the records there.

    If the replicas were not in sync at the end, only offsets below every replica's checkpointed HW
    are compared. Above the HW a follower may have records that it will truncate. Each copy states
    whether the offset is below its replica's HW. Replication does not repair a difference below
    both HWs.
    """
    replicas = compared_replicas(tables)
    if len({replica.part for replica in replicas}) == len(replicas):
        return SCHEMA.empty_table()  # no partition has a second replica
    rows = pa.Table.from_pylist([replica.row for replica in replicas], schema=REPLICA_ROWS)
    log = tables.log.join(F.broadcast(tables.local(rows)), list(REPLICA))
    differences = compare(replica_logs(tables, replicas, log))
    differing = differences.offsets.where(F.col("other_record") | F.col("other_epoch"))
    places = differing.select("part", "offset").union(differences.lacking.select("part", "offset"))
    copies = (
        differences.rows.join(places, ["part", "offset"], "left_semi")
        .groupBy(*_PLACE)
        .agg(F.array_sort(F.collect_list(_copy())).alias("copies"))
    )
    return anomalies(copies, DIVERGENCE, value=F.element_at("copies", 1)["value"])


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


def compared_replicas(tables: Tables) -> list[ComparedReplica]:
    """Return every replica that has a log on a disk."""
    cases = {case.key: case for case in tables.cases}
    partitions: dict[tuple[str, str, int], list[LogExtent]] = {}
    for end in log_ends(tables):
        partitions.setdefault((end.run, end.topic, end.partition), []).append(end)
    replicas: list[ComparedReplica] = []
    for part, ((run, *_), ends) in enumerate(partitions.items()):
        case = cases[run]
        marks = [_watermark(case, end) for end in ends]
        bound = EVERYTHING if case.status.quiesced else min(mark or 0 for mark in marks)
        replicas += [
            ComparedReplica(case=case, end=end, number=number, part=part, hw=mark, bound=bound)
            for number, (end, mark) in enumerate(zip(ends, marks, strict=True), len(replicas))
        ]
    return replicas


def replica_logs(tables: Tables, replicas: list[ComparedReplica], log: DataFrame) -> ReplicaLogs:
    """Return the input of ``compare``. ``log`` also has the columns of ``REPLICA_ROWS``."""
    number_of = {
        tuple(replica.row[name] for name in REPLICA): replica.number for replica in replicas
    }
    return ReplicaLogs(
        engine=tables.engine,
        records=log.where(F.col("offset").isNull() | (F.col("offset") < F.col("bound"))),
        extents={
            replica.number: replica.extent for replica in replicas if replica.end.first is not None
        },
        segments=[
            (number_of[place], segment.base_offset, segment.end)
            for case in tables.cases
            for segment in (*case.segments, *case.remote_segments)
            for place in [(case.key, segment.broker, segment.topic, segment.partition)]
            if place in number_of
        ],
        damaged=any(replica.end.damaged for replica in replicas),
        keyed=False,
        doubted=False,
        carried=(*REPLICA, "record_id"),
    )


def _watermark(case: RunFiles, end: LogExtent) -> int | None:
    path = case.log_directories / str(end.broker) / "replication-offset-checkpoint"
    if path in case.broken:
        return None
    try:
        return read_offsets(path).get((end.topic, end.partition))
    except CheckpointError:
        return None

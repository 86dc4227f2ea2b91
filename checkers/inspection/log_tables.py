"""The records of many replicas, as one table with few columns, and small tables made from it.

The value of a record is read once, and replaced by a hash. Replicas (``ReplicaFolder.number``) and
partitions have numbers instead of names. Each analysis begins with an aggregation, which excludes
most of a log.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.replica_extents import ORDINARY
from highwater.checkers.inspection.replica_files import ReplicaFolder
from highwater.checkers.spark.engine import Engine
from highwater.checkers.spark.kafka_log import read_segments

SOURCE: Final = (
    *("broker", "segment", "position", "base_offset", "last_offset", "offset", "magic"),
    *("leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp_ms"),
    *("transactional", "control", "control_type", "key", "value", "crc_ok", "damage", "error"),
)
"""The columns that are read from the source ``kafka-log``."""

COLUMNS: Final = (
    "replica",  # ReplicaFolder.number
    "part",  # replicas with the same number are compared with each other
    *("segment", "position", "base_offset", "last_offset"),
    "offset",  # null in a range without records, see damage
    *("magic", "leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp_ms"),
    *("transactional", "control", "control_type", "crc_ok", "damage", "error"),
    "print",  # a hash of key, value and whether it is a control record
    "key_print",  # null if the record has no key
    "removable",  # a tombstone or marker: compaction removes it although no record replaces it
)

DAMAGE_MAX: Final = 20
"""The greatest number of damaged ranges of a replica that a report lists one by one."""

Row = dict[str, Any]


class LogTables:
    """The records of some replicas.

    Args:
        engine: the engine of the Spark session.
        replicas: the replicas whose segments are read.
        part_of: a number for each replica. Replicas with the same number are compared with each
            other.
    """

    def __init__(
        self, engine: Engine, replicas: Sequence[ReplicaFolder], part_of: Mapping[int, int]
    ) -> None:
        self.engine = engine
        self.spark = engine.spark
        self.replicas = tuple(replicas)
        self.part_of = part_of

    @cached_property
    def records(self) -> DataFrame:
        """Every record and every damaged range, in ``COLUMNS``; persisted."""
        segments = [segment for replica in self.replicas for segment in replica.segments]
        log = read_segments(self.spark, segments, SOURCE)
        narrow = log.select(
            F.col("broker").alias("replica"),
            *(name for name in COLUMNS if name in SOURCE),
            F.xxhash64("key", "value", "control").alias("print"),
            F.when(F.col("key").isNotNull(), F.xxhash64("key")).alias("key_print"),
            (F.col("value").isNull() | F.col("control")).alias("removable"),
        )
        return self.engine.keep(self._with_parts(narrow))

    def regrouped(self, part_of: Mapping[int, int]) -> "LogTables":
        """Return the same records for another assignment of replicas to partitions."""
        tables = LogTables(self.engine, self.replicas, part_of)
        tables.records = tables._with_parts(self.records.drop("part"))
        return tables

    def _with_parts(self, records: DataFrame) -> DataFrame:
        parts = self.local(
            [{"replica": number, "part": part} for number, part in self.part_of.items()],
            [("replica", pa.int32()), ("part", pa.int32())],
        )
        return records.join(F.broadcast(parts), "replica").select(*COLUMNS)

    @cached_property
    def spans(self) -> dict[int, list[Row]]:
        """A small table: each replica's first and last offsets in each segment and leader epoch.

        ``first`` and ``last`` are offsets of records. ``covered`` is the greatest offset of a valid
        batch; compaction may have removed the record at this offset.
        """
        damaged = F.col("damage").isNotNull() & ~F.col("damage").isin(*ORDINARY)
        covered = F.when(~F.coalesce(damaged, F.lit(False)), F.coalesce("last_offset", "offset"))
        rows = self.records.groupBy("replica", "segment", F.col("leader_epoch").alias("epoch")).agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.max(covered).alias("covered"),
            F.count("offset").alias("records"),
            F.max("timestamp_ms").alias("time"),
            F.collect_set(F.when(F.col("offset").isNotNull(), F.col("magic"))).alias("formats"),
            F.count("sequence").alias("sequences"),
            F.count(F.when(F.col("transactional"), 1)).alias("transactional"),
            F.count(F.when(F.col("damage") == "empty", 1)).alias("emptied"),
        )
        return self.by_replica(rows)

    @cached_property
    def damage(self) -> dict[int, list[Row]]:
        """Each replica's first damaged ranges; ``all`` is the number of all its damaged ranges."""
        window = Window.partitionBy("replica")
        rows = (
            self.records.where(F.col("damage").isNotNull() & (F.col("damage") != "empty"))
            .withColumn("place", F.row_number().over(window.orderBy("segment", "position")))
            .withColumn("all", F.count("*").over(window))
            .where(F.col("place") <= DAMAGE_MAX)
            .select("replica", "segment", "position", "base_offset", "damage", "error", "all")
        )
        return self.by_replica(rows.orderBy("segment", "position"))

    def by_replica(self, rows: DataFrame) -> dict[int, list[Row]]:
        """Return the rows of a small table by replica; the order of rows stays the same."""
        grouped: dict[int, list[Row]] = {}
        for row in rows.collect():
            grouped.setdefault(row["replica"], []).append(row.asDict())
        return grouped

    def local(self, rows: list[Row], columns: list[tuple[str, pa.DataType]]) -> DataFrame:
        """Return a small table as a DataFrame, for a join in Spark."""
        return self.engine.given(pa.Table.from_pylist(rows, schema=pa.schema(columns)))

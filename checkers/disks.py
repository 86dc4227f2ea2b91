"""What the replicas' disks hold, reduced to what checkers compare."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

COLUMNS: Final = (
    "run", "broker", "topic", "partition", "segment", "position",
    "base_offset",  # of the batch
    "offset",  # null: a damaged stretch, see damage and error
    "leader_epoch", "producer_id", "producer_epoch", "sequence", "record_id", "damage", "error",
    "fingerprint",  # equal where two records' keys, values and kinds are
)  # fmt: skip

SOURCE: Final = (
    *(name for name in COLUMNS if name != "fingerprint"),
    *("key", "value", "control"),
)
"""The columns of ``kafka-log`` that ``records`` reads."""

TORN: Final = "torn"
UNREADABLE: Final = "unreadable"
ORDINARY: Final = ("torn", "zeros", "empty")
"""What a kill leaves at a log's end, preallocation, compaction: no evidence of anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where one replica's log begins and ends on disk.

    Attributes:
        first: offset of its first record; None when it holds none.
        last: offset of its last record.
        segment: base offset of its last segment.
        damaged: whether some stretch of it is no sound batch.
        unread: whether the system did not give some of it back, which is no evidence of anything.
    """

    run: str
    broker: int
    topic: str
    partition: int
    first: int | None
    last: int | None
    segment: int
    damaged: bool
    unread: bool = False


def records(log: DataFrame) -> DataFrame:
    """The ``kafka-log`` source, of which ``SOURCE`` will do, reduced to ``COLUMNS``."""
    fingerprint = F.xxhash64("key", "value", "control")
    return log.withColumn("fingerprint", fingerprint).select(*COLUMNS)


def ends(log: DataFrame) -> list[End]:
    """The extent of every replica that has a segment with anything in it."""
    damaged = F.col("damage").isNotNull() & ~F.col("damage").isin(*ORDINARY)
    found = log.groupBy("run", "broker", "topic", "partition").agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.max("segment").alias("segment"),
        F.bool_or(damaged).alias("damaged"),
        F.bool_or(F.col("damage").eqNullSafe(UNREADABLE)).alias("unread"),
    )
    return [End(**row.asDict()) for row in found.collect()]

"""The first and last offsets of replicas' logs on disk, for comparisons."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

COLUMNS: Final = (
    "run", "broker", "topic", "partition", "segment", "position",
    "base_offset", "last_offset", "crc_ok",  # these describe the batch
    "offset",  # null in a damaged range, see damage and error
    "leader_epoch", "producer_id", "producer_epoch", "sequence", "record_id", "damage", "error",
    "transactional", "control", "control_type",
    "print",  # equal for two records if their keys, values and kinds are equal
)  # fmt: skip

REPLICA: Final = ("run", "broker", "topic", "partition")

SOURCE: Final = (
    *(name for name in COLUMNS if name != "print"),
    *("key", "value"),
)
"""The columns that ``records`` reads from the source ``kafka-log``."""

TORN: Final = "torn"
UNREADABLE: Final = "unreadable"
ORDINARY: Final = ("torn", "zeros", "empty")
"""The kinds of damage that are normal: a log's torn end after a kill, preallocated zeros, and
batches without records after compaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The records of one leader epoch in one replica's log.

    Attributes:
        epoch: the leader epoch; None for records without an epoch, and for damaged ranges.
        first: the offset of the first record; None if the span has only damaged ranges.
        last: the offset of the last record.
        segment: the base offset of the last segment with these records or ranges.
        damaged: whether any range is damaged, except for ``ORDINARY`` damage.
        unread: whether the operating system failed to read some range.
        marked: whether any range is damaged, even with ``ORDINARY`` damage.
        numbered: whether any record has a sequence number from its producer.
    """

    run: str
    broker: int
    topic: str
    partition: int
    epoch: int | None
    first: int | None
    last: int | None
    segment: int
    damaged: bool
    unread: bool
    marked: bool
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """The beginning and the end of one replica's log on disk.

    Attributes:
        first: the offset of the log's first record; None if the log holds no record.
        last: the offset of the log's last record.
        segment: the base offset of the log's last segment.
        damaged: whether any range of the log is not a valid batch.
        unread: whether the operating system failed to read some range.
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
    """Return the rows of the ``kafka-log`` source with only the columns in ``COLUMNS``."""
    return log.withColumn("print", F.xxhash64("key", "value", "control")).select(*COLUMNS)


def spans(log: DataFrame) -> list[Span]:
    """Return a span for each leader epoch in each replica's log, ordered by first offset."""
    damaged = F.col("damage").isNotNull() & ~F.col("damage").isin(*ORDINARY)
    spans = log.groupBy(*REPLICA, F.col("leader_epoch").alias("epoch")).agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.max("segment").alias("segment"),
        F.bool_or(damaged).alias("damaged"),
        F.bool_or(F.col("damage").eqNullSafe(UNREADABLE)).alias("unread"),
        F.bool_or(F.col("damage").isNotNull()).alias("marked"),
        F.bool_or(F.col("sequence").isNotNull()).alias("numbered"),
    )
    ordered = [Span(**row.asDict()) for row in spans.collect()]
    return sorted(ordered, key=lambda span: (span.first is None, span.first))


def ends(spans: Iterable[Span]) -> list[LogExtent]:
    """Return the extent of every replica that has a non-empty segment."""
    replicas: dict[tuple[str, int, str, int], list[Span]] = {}
    for span in spans:
        replicas.setdefault((span.run, span.broker, span.topic, span.partition), []).append(span)
    return [
        LogExtent(
            run=run,
            broker=broker,
            topic=topic,
            partition=partition,
            first=min((span.first for span in replica if span.first is not None), default=None),
            last=max((span.last for span in replica if span.last is not None), default=None),
            segment=max(span.segment for span in replica),
            damaged=any(span.damaged for span in replica),
            unread=any(span.unread for span in replica),
        )
        for (run, broker, topic, partition), replica in replicas.items()
    ]

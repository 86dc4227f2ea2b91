"""The extents of replicas' logs on disk, reduced to what checkers compare."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

COLUMNS: Final = (
    "run", "broker", "topic", "partition", "segment", "position",
    "base_offset", "last_offset", "crc_ok",  # of the batch
    "offset",  # null: a damaged range, see damage and error
    "leader_epoch", "producer_id", "producer_epoch", "sequence", "record_id", "damage", "error",
    "transactional", "control",
    "print",  # equal where two records' keys, values and kinds are
)  # fmt: skip

REPLICA: Final = ("run", "broker", "topic", "partition")

SOURCE: Final = (
    *(name for name in COLUMNS if name != "print"),
    *("key", "value"),
)
"""The columns of ``kafka-log`` that ``records`` reads."""

TORN: Final = "torn"
UNREADABLE: Final = "unreadable"
ORDINARY: Final = ("torn", "zeros", "empty")
"""Damage that shows nothing: what a kill leaves at a log's end, preallocation, compaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The records of one leader epoch in one replica's log.

    Attributes:
        epoch: None for records without one, and for damaged ranges.
        first: offset of the first such record; None when there are damaged ranges alone.
        last: offset of the last one.
        segment: base offset of the last segment with any.
        damaged: whether some range is no sound batch.
        unread: whether the system could not read some of it.
        marked: whether there is any range that is no batch, even an ordinary one.
        numbered: whether any record has its producer's sequence number.
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
        first: offset of its first record; None when it holds none.
        last: offset of its last record.
        segment: base offset of its last segment.
        damaged: whether some range of it is no sound batch.
        unread: whether the system could not read some of it, which shows nothing.
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
    """Return rows of the ``kafka-log`` source (``SOURCE`` suffices), reduced to ``COLUMNS``."""
    return log.withColumn("print", F.xxhash64("key", "value", "control")).select(*COLUMNS)


def spans(log: DataFrame) -> list[Span]:
    """Return every replica's records of every epoch, summed up, in the order of their offsets."""
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
    """Return the extent of every replica that has a segment which is not empty."""
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

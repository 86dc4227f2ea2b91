"""What became of every record that was sent, from the clients' side alone.

One pass over the operations: a record's sends and its final reads meet in one group, so that no
record is joined with anything larger than the list of partitions.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from harness.history import FAIL, FINAL, INFO, OK, READ, SEND

if TYPE_CHECKING:
    from checkers.tables import Tables

FENCE: Final = "fence"
"""The process that writes the last record of each partition; its records are never judged."""

READ_BACK: Final = "read"
LOST: Final = "lost"
UNSEEN: Final = "unseen"
UNPROMISED: Final = "unpromised"
"""Fates: acknowledged records are read back, lost or unseen; of others nothing was promised."""

COLUMNS: Final = (
    "run", "topic", "value",  # the record
    "sent", "acknowledged", "failed", "unknown",  # operations; a value is sent once
    "partition", "offset", "acks",  # as its producer was told; null where it was not
    "first", "last",  # least and greatest place of the final read, see place()
    "fate",
)  # fmt: skip

_OFFSET_BITS: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far the final read came in one partition.

    Attributes:
        last: the greatest offset that it read.
        complete: whether it read the partition's fence, and so everything before it.
    """

    run: str
    topic: str
    partition: int
    last: int
    complete: bool


def place(partition: Column, offset: Column) -> Column:
    """A partition and an offset as one number, in the order of both."""
    return F.shiftleft(partition.cast("long"), _OFFSET_BITS) + offset


def partition_of(place: Column) -> Column:
    """The partition in a ``place``."""
    return F.shiftright(place, _OFFSET_BITS).cast("int")


def offset_of(place: Column) -> Column:
    """The offset in a ``place``."""
    return place.bitwiseAND(F.lit((1 << _OFFSET_BITS) - 1))


def reach(operations: DataFrame) -> list[Reach]:
    """How far the final read came, for each partition of which it read anything."""
    fences = (
        operations.where((F.col("kind") == SEND) & (F.col("process") == FENCE))
        .select("run", "topic", "value", F.lit(1).alias("fence"))
        .distinct()
    )
    found = (
        operations.where(_is_final_read())
        .join(F.broadcast(fences), ["run", "topic", "value"], "left")
        .groupBy("run", "topic", "partition")
        .agg(F.max("offset").alias("last"), F.max("fence").isNotNull().alias("complete"))
    )
    return [Reach(**row.asDict()) for row in found.collect()]


def fates(tables: "Tables") -> DataFrame:
    """One row for every record that a producer sent, in ``COLUMNS``."""
    records = _records(tables.operations)
    limits = _limits(tables)
    acknowledged = F.col("acknowledged") > 0
    read_back = F.col("first").isNotNull()
    # A log that was cut may end, fence and all, before the offset that was acknowledged once.
    passed = F.col("reach_complete") | (F.col("offset") <= F.col("reach_last"))
    fate = (
        F.when(~acknowledged, UNPROMISED)
        .when(read_back, READ_BACK)
        .when(passed, LOST)
        .otherwise(UNSEEN)
    )
    known = F.coalesce(F.col("partition"), F.lit(-1))
    return (
        records.withColumn("known", known)
        .join(F.broadcast(limits), ["run", "topic", "known"], "left")
        .withColumn("fate", fate)
        .select(*COLUMNS)
    )


def ledger(found: DataFrame) -> DataFrame:
    """The books, one row a run: the fields of ``harness.verdict.Ledger``."""

    def fate(name: str) -> Column:
        return F.count_if(F.col("fate") == name)

    return found.groupBy("run").agg(
        *(F.sum(name).alias(name) for name in ("sent", "acknowledged", "failed", "unknown")),
        fate(READ_BACK).alias("read"),
        fate(LOST).alias("lost"),
        fate(UNSEEN).alias("unseen"),
    )


def _is_final_read() -> Column:
    return (F.col("kind") == READ) & (F.col("phase") == FINAL) & (F.col("outcome") == OK)


def _records(operations: DataFrame) -> DataFrame:
    """Each record's sends and final reads. Only numbers are aggregated, so that it spills well."""
    is_send = (F.col("kind") == SEND) & (F.col("process") != FENCE)

    def sends(outcome: str) -> Column:
        return F.sum((is_send & (F.col("outcome") == outcome)).cast("int"))

    told = F.when(is_send & (F.col("offset") >= 0), F.col("offset"))
    where = F.when(is_send & (F.col("partition") >= 0), F.col("partition"))
    met = F.when(_is_final_read(), place(F.col("partition"), F.col("offset")))
    acks = F.when(is_send, F.when(F.col("acks") == "all", -1).otherwise(F.col("acks").cast("int")))
    grouped = operations.where(is_send | _is_final_read()).groupBy("run", "topic", "value")
    counted = grouped.agg(
        F.sum(is_send.cast("int")).alias("sent"),
        sends(OK).alias("acknowledged"),
        sends(FAIL).alias("failed"),
        sends(INFO).alias("unknown"),
        F.max(where).alias("partition"),
        F.max(told).alias("offset"),
        F.max(acks).alias("acks_number"),
        F.min(met).alias("first"),
        F.max(met).alias("last"),
    )
    number = F.col("acks_number")
    spelled = F.when(number == -1, "all").otherwise(number.cast("string"))
    return counted.where(F.col("sent") > 0).withColumn("acks", spelled)


def _limits(tables: "Tables") -> DataFrame:
    """How far readers came, by ``known`` partition; -1 is that of records whose own is not."""
    rows = [
        (each.run, each.topic, each.partition, each.last, each.complete) for each in tables.reach
    ]
    for case in tables.cases:
        topic = case.plan.topic
        done = [each for each in tables.reach if each.run == case.key and each.complete]
        rows.append((case.key, topic.name, -1, -1, len(done) >= topic.partitions))
    names = ("run", "topic", "known", "reach_last", "reach_complete")
    types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.bool_())
    columns = [list(column) for column in zip(*rows, strict=True)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return tables.local(pa.table(arrays, names=list(names)))

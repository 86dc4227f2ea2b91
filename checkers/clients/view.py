"""What clients saw, as one shape that every checker of their view reads.

Histories of our runs and of others, one or ten thousand of them, are one DataFrame: the columns of
``harness.history.OPERATIONS``, ``run``, and ``at``, the number of the row within its run. The terms
are those of Jepsen's Kafka workload (``jepsen.tests.kafka``); where a rule differs from Jepsen's on
purpose, the checker says so.

Names are long and rows are many, so everything is grouped by 64-bit hashes: ``slot`` is a topic's
partition in a run, ``client`` a process in a run, ``key`` a record (a slot and a value). Two of
100 million records share a key once in 3,700 such histories; what is found is found again by its
own name before it is reported, so that this never makes an anomaly.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from harness.history import FAIL, INFO, OK, READ, READ_UNCOMMITTED, SEND

Keep = Callable[[str, DataFrame], DataFrame]
"""Computes a frame once, under a name, and gives it back to be read often."""

SENT_OK: Final = 1
SENT_INFO: Final = 2
SENT_FAIL: Final = 4
READ_OK: Final = 8
READ_OTHER: Final = 16
PEEK_OK: Final = 32
PEEK_OTHER: Final = 64
"""``fact``: what a row says of its record, one bit each, so that a record's are their sum. A peek
is a read under ``read_uncommitted``, which proves nothing about what is committed; the others of
OTHER were made in operations that failed or whose end nobody knows."""

SENT: Final = SENT_OK | SENT_INFO | SENT_FAIL
SEEN_OK: Final = READ_OK | PEEK_OK
SEEN: Final = READ_OK | READ_OTHER | PEEK_OK | PEEK_OTHER


def keeper(spark: SparkSession, folder: Path) -> Keep:
    """Keeps frames as Parquet files in a folder that outlives their use."""

    def keep(name: str, frame: DataFrame) -> DataFrame:
        path = str(folder / name)
        frame.write.parquet(path, mode="overwrite")
        return spark.read.schema(frame.schema).parquet(path)

    return keep


def in_order(operations: DataFrame) -> DataFrame:
    """Operations as just read from Parquet, one file a run, with the order of their rows."""
    return operations.withColumn("at", F.col("_metadata.row_index"))


def has(facts: str | Column, bits: int) -> Column:
    """Whether any of these bits is among a record's facts."""
    column = F.col(facts) if isinstance(facts, str) else facts
    return column.bitwiseAND(F.lit(bits)) != 0


class View:
    """The clients' view of one history or many. Frames are made when first asked for.

    Args:
        operations: columns of ``harness.history.OPERATIONS``, and ``run`` and ``at``.
        keep: where to keep what is read more than once; see ``keeper``.
    """

    def __init__(self, operations: DataFrame, keep: Keep) -> None:
        self.operations = operations
        self.keep = keep

    @cached_property
    def rows(self) -> DataFrame:
        """Every row, with the numbers by which it is grouped; nothing is computed until used.

        ``run, topic, partition, process, kind, outcome, isolation, offset, value, invoke_ns,
        complete_ns, acks`` as recorded; ``at``; ``op``, the row's own number where it stands alone;
        ``client, slot, key`` and ``deed``, hashes of (run, process), (run, topic, partition),
        (run, topic, partition, value) and of the operation (run, process, op), ``history`` that of
        the run; and ``fact``.
        """
        op = F.coalesce("op", "at")
        return self.operations.select(
            *("run", "topic", "partition", "process", "kind", "outcome", "isolation", "offset"),
            *("value", "invoke_ns", "complete_ns", "acks", "at"),
            op.alias("op"),
            F.xxhash64("run").alias("history"),
            F.xxhash64("run", "process").alias("client"),
            F.xxhash64("run", "topic", "partition").alias("slot"),
            F.xxhash64("run", "topic", "partition", "value").alias("key"),
            F.xxhash64("run", "process", op).alias("deed"),
            _fact().alias("fact"),
        )

    @cached_property
    def records(self) -> DataFrame:
        """One row a record. Kept.

        ``key, slot, history, facts, first, last, writer, begun, ended, readers``. ``first`` and
        ``last`` are the least and greatest offset that anybody named for it, failed sends apart.
        ``writer`` is the ``deed`` that sent it, between ``begun`` and ``ended`` (null: it is not
        known to have succeeded). ``readers`` has bit ``deed % 64`` for every deed that read it: no
        bit, no reader.
        """
        sent, seen = has("fact", SENT), has("fact", SEEN)
        place = F.when(F.col("fact") != SENT_FAIL, F.col("offset"))
        bit = F.expr("shiftleft(1L, int(pmod(deed, 64)))")
        grouped = self.rows.where(sent | seen).groupBy("key")
        return self.keep(
            "records",
            grouped.agg(
                F.max("slot").alias("slot"),
                F.max("history").alias("history"),
                F.bit_or("fact").alias("facts"),
                F.min(place).alias("first"),
                F.max(place).alias("last"),
                F.max(F.when(sent, F.col("deed"))).alias("writer"),
                F.min(F.when(sent, F.col("invoke_ns"))).alias("begun"),
                F.max(F.when(has("fact", SENT_OK), F.col("complete_ns"))).alias("ended"),
                F.coalesce(F.bit_or(F.when(seen, bit)), F.lit(0)).alias("readers"),
            ),
        )

    @cached_property
    def proven(self) -> DataFrame:
        """The deeds, in a column ``deed``, of which nobody knows the end, and which committed.

        Somebody has read one of their records in an operation that ended well (Jepsen's
        ``must-have-committed?``). A reader of uncommitted records proves nothing.
        """
        read = has("facts", SENT_INFO) & has("facts", READ_OK)
        return self.records.where(read).select(F.col("writer").alias("deed")).distinct()

    @cached_property
    def committed(self) -> DataFrame:
        """``rows`` of sends that took effect: acknowledged ones, and those of ``proven`` deeds."""
        info = self.rows.where(F.col("fact") == SENT_INFO).join(self.proven, "deed", "left_semi")
        return self.rows.where(F.col("fact") == SENT_OK).unionByName(info)

    @cached_property
    def placed(self) -> DataFrame:
        """``rows`` that tell where a record stands in the log; what the version order is made of.

        Sends that took effect and know their offset; and reads, those of failed operations too,
        because a poll never gives what is not committed (Jepsen's ``version-orders``). Under
        ``read_uncommitted`` it does: such a read tells a place only if the send took effect.
        """
        told = self.rows.where(F.col("offset").isNotNull())
        sure = told.where(has("fact", SENT_OK | READ_OK | READ_OTHER))
        info = told.where(F.col("fact") == SENT_INFO).join(self.proven, "deed", "left_semi")
        landed = self.records.where(has("facts", SENT_OK)).select("key")
        landed = landed.unionByName(
            self.records.join(self.proven, F.col("writer") == F.col("deed"), "left_semi")
            .where(has("facts", SENT_INFO))
            .select("key")
        )
        peeks = told.where(has("fact", PEEK_OK | PEEK_OTHER)).join(landed, "key", "left_semi")
        return sure.unionByName(info).unionByName(peeks)

    @cached_property
    def order(self) -> DataFrame:
        """The version order: ``slot, offset, index, key``, one row a known offset. Kept.

        ``index`` counts a slot's known offsets from 0 without gaps, so that control markers and
        what compaction removed are no places. Where an offset holds several records (see
        inconsistent-offsets), ``key`` is the least of theirs; Jepsen takes any.
        """
        known = self.placed.groupBy("slot", "offset").agg(F.min("key").alias("key"))
        rank = F.row_number().over(Window.partitionBy("slot").orderBy("offset"))
        index = (rank - 1).cast("long").alias("index")
        return self.keep("order", known.select("slot", "offset", index, "key"))

    @cached_property
    def writers(self) -> DataFrame:
        """Who sent what: ``key, slot, client, op, deed, at, outcome, offset``, one row a send."""
        return self.rows.where(has("fact", SENT)).select(
            "key", "slot", "client", "op", "deed", "at", "outcome", "offset"
        )


def _fact() -> Column:
    """What a row says of its record: one of the bits above, or 0."""
    kind, outcome = F.col("kind"), F.col("outcome")
    good = outcome == OK
    peek = F.col("isolation").eqNullSafe(READ_UNCOMMITTED)
    sent = F.when(good, SENT_OK).when(outcome == INFO, SENT_INFO).when(outcome == FAIL, SENT_FAIL)
    read = F.when(peek, F.when(good, PEEK_OK).otherwise(PEEK_OTHER)).otherwise(
        F.when(good, READ_OK).otherwise(READ_OTHER)
    )
    return F.when(kind == SEND, sent).when(kind == READ, read).otherwise(0)

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

import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import (
    ADRIFT,
    BLIND,
    MOVES,
    PEEK,
    READ_BY_ANY,
    READ_OK,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
    fact,
    has,
)
from checkers.clients.strides import COLUMNS, INPUT, KNOWN, READS, SENDS, shortened
from harness.history import FENCE, FINAL

Keep = Callable[[str, DataFrame], DataFrame]
"""Computes a frame once, under a name, and gives it back to be read often."""


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


def in_a_place() -> Column:
    """Whether a row of ``View.rows`` says for itself where its record stands, or stood."""
    told = has("fact", SENT_OK | SEEN) & ~has("fact", BLIND | ADRIFT)
    return told & F.col("offset").isNotNull()


FEW: Final = 100_000
"""So many rows of a few numbers each may be sent to every task."""


def slot() -> Column:
    """The number of a partition, from ``run``, ``topic`` and ``partition``."""
    return F.xxhash64("run", "topic", "partition")


def final() -> Column:
    """Whether a row of ``View.rows`` is what the final reader read."""
    return has("fact", SEEN_OK) & (F.col("phase") == FINAL)


class View:
    """The clients' view of one history or many. Frames are made when first asked for.

    Args:
        operations: columns of ``harness.history.OPERATIONS``, and ``run`` and ``at``.
        keep: where to keep what is read more than once; see ``keeper``.
    """

    def __init__(self, operations: DataFrame, keep: Keep) -> None:
        self.operations = operations
        self._keep = keep
        self._kept: dict[str, DataFrame] = {}

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute a frame, the first time that its name is asked for; the same again later."""
        if name not in self._kept:
            self._kept[name] = self._keep(name, frame)
        return self._kept[name]

    @cached_property
    def rows(self) -> DataFrame:
        """Every row, with the numbers by which it is grouped; nothing is computed until used.

        ``run, topic, partition, process, kind, outcome, isolation, offset, value, invoke_ns,
        complete_ns, acks`` as recorded; ``at``; ``op``, the row's own number where it stands alone;
        ``client, slot, key`` and ``deed``, hashes of (run, process), (run, topic, partition),
        (run, topic, partition, value) and of the operation (run, process, op), ``history`` that of
        the run; and ``fact``.
        """
        named = self.operations.withColumns(
            {
                "op": F.coalesce("op", "at"),
                "history": F.xxhash64("run"),
                "client": F.xxhash64("run", "process"),
                "slot": slot(),
                "fact": fact(),
            }
        )
        return named.select(
            *("run", "topic", "partition", "process", "kind", "outcome", "isolation", "offset"),
            *("value", "invoke_ns", "complete_ns", "acks", "phase", "at", "op"),
            *("history", "client", "slot"),
            F.xxhash64("slot", "value").alias("key"),
            F.xxhash64("client", "op").alias("deed"),
            "fact",
        )

    @cached_property
    def records(self) -> DataFrame:
        """One row a record. Kept.

        ``key, slot, history, facts, first, last, writer, begun, ended, readers``. ``first`` and
        ``last`` are the least and greatest offset that anybody named for it, failed sends apart.
        ``writer`` is the ``deed`` that sent it, between ``begun`` and ``ended`` (null: it is not
        known to have succeeded). ``readers`` has bit ``deed % 64`` for every deed that read it: no
        bit, no reader. ``told`` is the offset that its producer was told, ``met_first`` and
        ``met_last`` are the least and greatest at which the final reader met it, and ``fence`` says
        that it is the record by which that reader knows that it has read everything. ``met_by`` is
        when the first operation that read it had ended.
        """
        sent, seen = has("fact", SENT), has("fact", SEEN)
        place = F.when(~has("fact", SENT_FAIL), F.col("offset"))
        bit = F.expr("shiftleft(1L, int(pmod(deed, 64)))")
        told = self.rows.where(sent | seen).select(
            *("key", "slot", "history", "deed", "fact", "offset", "invoke_ns", "complete_ns"),
            final().alias("final"),
            (sent & (F.col("process") == FENCE)).alias("fence"),
        )
        # Records are sent and read far apart in a file: to sum them up before they are brought
        # together only makes them wider (10 million rows: 22 CPU seconds, and 16 like this).
        grouped = told.repartition("key").groupBy("key")
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
                F.max(F.when(sent, F.col("offset"))).alias("told"),
                F.min(F.when(F.col("final"), F.col("offset"))).alias("met_first"),
                F.max(F.when(F.col("final"), F.col("offset"))).alias("met_last"),
                F.bool_or("fence").alias("fence"),
                F.min(F.when(has("fact", READ_BY_ANY), F.col("complete_ns"))).alias("met_by"),
            ),
        )

    @cached_property
    def slots(self) -> DataFrame:
        """One row a slot: its records counted by what may be wrong with them. Kept.

        ``bound`` is the greatest offset that readers are known to have come to. The others count
        the records of which each of ``doubts`` is true.
        """
        return self.keep(
            "slots",
            self.records.groupBy("slot").agg(
                F.max(F.when(has("facts", SEEN_OK), F.col("first"))).alias("bound"),
                *(F.count_if(wrong).alias(name) for name, wrong in doubts().items()),
            ),
        )

    @cached_property
    def suspects(self) -> dict[str, int]:
        """The counts of ``slots``, of all of them together: mostly, nothing is to be looked at."""
        if self._counted["own"] and not self.two_faced:
            return self._counted | {"own": 0}  # only who sends, too, can read what it has sent
        return self._counted

    @cached_property
    def _counted(self) -> dict[str, int]:
        names = [name for name in self.slots.columns if name not in ("slot", "bound")]
        row = self.slots.agg(*(F.sum(name).alias(name) for name in names)).first()
        return {name: int((row and row[name]) or 0) for name in names}

    @property
    def entangled(self) -> bool:
        """Whether operations may be in a cycle of reads and of time, write-write edges left aside.

        Where each client only sends or only reads, and nobody has read a record before its writer
        began, such edges never lead back: let a writer's time be its begin, and a reader's its end.
        """
        return bool(self._counted["foreseen"]) or self.two_faced

    @cached_property
    def two_faced(self) -> bool:
        """Whether any client both sends and reads."""
        reads, sends = F.col("what") == READS, F.col("what") == SENDS
        sides = self.strides.select("client", reads.alias("reads"), sends.alias("sends"))
        if self._counted["stray"]:
            strays = self.rows.where(has("fact", STRAY))
            sent = has("fact", SENT)
            sides = sides.unionByName(
                strays.select("client", (~sent).alias("reads"), sent.alias("sends"))
            )
        what = sides.groupBy("client").agg(
            F.bool_or("reads").alias("reads"), F.bool_or("sends").alias("sends")
        )
        return not what.where(F.col("reads") & F.col("sends")).isEmpty()

    @cached_property
    def strides(self) -> DataFrame:
        """All rows in their order, shortened; see ``checkers.clients.strides``. Kept."""
        rows = self.rows.where(in_a_place() | has("fact", MOVES)).select(*INPUT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
            found = rows.mapInArrow(shortened, COLUMNS)
        return self.keep("strides", found)

    @cached_property
    def extents(self) -> DataFrame:
        """The version order in short: ``slot, low, high, base``, one row a stretch. Kept.

        Every offset from ``low`` to ``high`` is known; ``base`` counts those before. Stretches of a
        slot do not overlap, and may touch.
        """
        known = (F.col("what") == KNOWN) | ((F.col("what") == READS) & F.col("sure"))
        place = (F.col("place").alias("low"), F.col("last_place").alias("high"))
        found = self.strides.where(known).select("slot", *place)
        if self._late:
            late, at = self._placed_late(self.rows), F.col("offset")
            found = found.unionByName(late.select("slot", at.alias("low"), at.alias("high")))
        in_order = Window.partitionBy("slot").orderBy("low", "high")
        before = in_order.rowsBetween(Window.unboundedPreceding, -1)
        fresh = F.greatest(F.col("low"), F.max("high").over(before) + 1)
        size = F.col("high") - F.col("low") + 1
        return self.keep(
            "extents",
            found.withColumn("low", fresh)
            .where(F.col("low") <= F.col("high"))
            .withColumn("base", F.sum(size).over(in_order) - size),
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
    def placed(self) -> DataFrame:
        """``rows`` that tell where a record stands in the log; what the version order is made of.

        Sends that took effect and know their offset; and reads, those of failed operations too,
        because a poll never gives what is not committed (Jepsen's ``version-orders``). Under
        ``read_uncommitted`` it does: such a read tells a place only if the send took effect.
        """
        return self.placed_among(self.rows)

    def placed_among(self, rows: DataFrame) -> DataFrame:
        """``placed``, of some rows only."""
        told = rows.where(F.col("offset").isNotNull())
        sure = told.where(has("fact", SENT_OK | READ_BY_ANY))
        return sure.unionByName(self._placed_late(rows)) if self._late else sure

    @property
    def _late(self) -> bool:
        """Whether there may be rows of ``placed`` that do not say for themselves that they are."""
        return bool(self.suspects["stray"] or self.suspects["peeked"])

    def _placed_late(self, rows: DataFrame) -> DataFrame:
        told = rows.where(F.col("offset").isNotNull())
        info = told.where(has("fact", SENT_INFO)).join(self.proven, "deed", "left_semi")
        took_effect = self.records.join(self.proven, F.col("writer") == F.col("deed"), "left_semi")
        landed = took_effect.unionByName(self.records.where(has("facts", SENT_OK)))
        peeks = told.where(has("fact", PEEK)).join(landed, "key", "left_semi")
        return info.unionByName(peeks)


def doubts() -> dict[str, Column]:
    """What may be wrong with a row of ``records``, or makes it hard to judge."""
    told, own = F.col("first").isNotNull(), F.expr("getbit(readers, int(pmod(writer, 64))) = 1")
    sure = has("facts", SENT_OK | READ_BY_ANY)
    maybe, refused = has("facts", SENT_OK | SENT_INFO), has("facts", SENT_FAIL)
    return {
        "known": sure & told,
        "maybe": ~sure & has("facts", SENT_INFO) & told,
        "twice": F.col("first") != F.col("last"),
        "aborted": refused & ~maybe & has("facts", READ_OK),
        "phantom": ~has("facts", SENT),
        "own": has("facts", SENT) & has("facts", READ_BY_ANY) & own,
        "foreseen": F.col("met_by") < F.col("begun"),
        "unread": maybe & ~has("facts", SEEN_OK),
        "stray": has("facts", STRAY),
        "adrift": has("facts", ADRIFT),
        "peeked": has("facts", PEEK) & ~has("facts", READ_BY_ANY),
    }

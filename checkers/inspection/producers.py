"""Findings about idempotent and transactional producers, from a log's records (KIP-98)."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.log_tables import LogTables, Row

LISTED_MAX: Final = 20
"""The greatest number of transactions of a replica that a report lists for each outcome, such as
open or aborted."""

_SEQUENCES: Final = 1 << 31


def repeats(records: DataFrame, log: Sequence[str], *more: Column) -> DataFrame:
    """Return one row for each sequence number that a producer epoch has twice in a log.

    A broker drops a batch that it has appended before (ProducerStateManager), so a valid log has no
    such row. Sequence numbers wrap around after 2^31. So equal numbers with such a distance are no
    repetition.

    Args:
        records: the records of any logs.
        log: the columns that identify a log. The rows have these columns, the producer's columns,
            and two offsets, ``first`` and ``again``.
        more: additional aggregates over the records with the same sequence number.
    """
    return (
        records.where(F.col("sequence").isNotNull())
        .groupBy(*log, "producer_id", "producer_epoch", "sequence")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("again"), *more)
        .where(F.col("again").between(F.col("first") + 1, F.col("first") + _SEQUENCES - 1))
    )


def repeated(evidence: LogTables) -> dict[int, list[Row]]:
    """Return how many sequence numbers each replica has twice, and the first of them."""
    rows = (
        repeats(evidence.records, ["replica"])
        .groupBy("replica")
        .agg(F.count("*").alias("count"), F.min_by(F.struct("*"), "again").alias("one"))
        .select("replica", "count", "one.producer_id", "one.sequence", "one.first", "one.again")
    )
    return evidence.by_replica(rows)


def transactions(evidence: LogTables) -> dict[int, list[Row]]:
    """Return the number of each replica's transactions by outcome, and the first transactions.

    A transaction consists of a producer's transactional records up to its next marker. Their epochs
    may differ, because a coordinator that fences a producer writes the abort marker with a later
    epoch. There is a row for each ``ending``: commit, abort, open (records without a marker) or
    bare (a marker without records). It has a ``count``, and ``some``: the first transactions, with
    ``producer_id``, ``first``, ``marker`` and ``time``.
    """
    markers = F.when(F.col("control"), F.col("offset"))
    types = F.when(F.col("control"), F.col("control_type"))
    backwards = (
        Window.partitionBy("replica", "producer_id")
        .orderBy(F.col("offset").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ended = evidence.records.where(F.col("transactional") | F.col("control")).select(
        *("replica", "producer_id", "offset", "control", "timestamp_ms"),
        F.last(markers, ignorenulls=True).over(backwards).alias("marker"),
        F.last(types, ignorenulls=True).over(backwards).alias("type"),
    )
    per_marker = ended.groupBy("replica", "producer_id", "marker").agg(
        F.min(F.when(~F.col("control"), F.col("offset"))).alias("first"),
        F.first("type").alias("type"),
        F.min("timestamp_ms").alias("time"),
    )
    ending = (
        F.when(F.col("marker").isNull(), "open")
        .when(F.col("first").isNull(), "bare")
        .otherwise(F.col("type"))
    )
    return evidence.by_replica(_listed(per_marker.withColumn("ending", ending)))


def _listed(rows: DataFrame) -> DataFrame:
    """Return a row for each replica and outcome, with the first few transactions."""
    place = F.coalesce("first", "marker")
    window = Window.partitionBy("replica", "ending")
    unfinished = F.when(
        F.col("place") <= LISTED_MAX,
        F.struct(place.alias("at"), "producer_id", "first", "marker", "time"),
    )
    return (
        rows.withColumn("place", F.row_number().over(window.orderBy(place)))
        .groupBy("replica", "ending")
        .agg(F.count("*").alias("count"), F.sort_array(F.collect_list(unfinished)).alias("some"))
    )

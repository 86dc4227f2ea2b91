"""What became of every record that was sent, from the clients' side alone.

The clients' view sums up what was said of every record, partition by partition: these sums make the
books and say how far the final read came. Only records that it did not return, or returned at two
offsets, are looked at by name.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import ADRIFT, SENT, SENT_OK, has
from checkers.clients.tally import doubt
from checkers.clients.view import FEW, final

if TYPE_CHECKING:
    from checkers.tables import Tables

READ_BACK: Final = "read"
LOST: Final = "lost"
UNSEEN: Final = "unseen"
"""Fates of acknowledged records; of others nothing was promised."""

COLUMNS: Final = (
    "run", "topic", "value",  # the record
    "partition", "offset", "acks",  # as its producer was told; null where it was not
    "first", "last",  # least and greatest offset at which the final read met it
    "place",  # the least offset that anybody named for it
    "fate",  # null: it was not acknowledged
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The books of one partition, and how far the final read came in it.

    Attributes:
        partition: None has the records whose partition their producer was never told.
        read: acknowledged records that the final read returned.
        missing: acknowledged records that it did not return.
        again: records that it returned at several offsets.
        last: the greatest offset that it read; None when it read nothing.
        complete: whether it read the partition's fence, and so everything before it.
    """

    run: str
    topic: str
    partition: int | None
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    missing: int = 0
    again: int = 0
    last: int | None = None
    complete: bool = False


def books(tables: "Tables") -> list[Book]:
    """The books of every partition of every run in which anything was sent or read."""
    view = tables.view
    topics = {case.key: case.plan.topic for case in tables.cases}
    names = ("sent", "acknowledged", "failed", "unknown", "read", "missing", "again", "complete")
    found = view.names.join(view.sums, "slot", join_type="inner").to_pylist()
    return [
        Book(
            **{name: row[name] for name in ("run", "topic", "partition", *names)}, last=row["reach"]
        )
        for row in found
        if (topic := topics[row["run"]]).name == row["topic"]
        and (row["partition"] is None or row["partition"] < topic.partitions)
    ]


def fates(tables: "Tables") -> DataFrame:
    """One row, in ``COLUMNS``, for every record that is lost, unseen, or there several times."""
    doubtful = sum(each.missing + each.again for each in tables.books)
    records = tables.view.doubtful.where(doubt("missing", "again")).select(
        *("key", "told", F.col("first").alias("place")),
        *(F.col("met_first").alias("first"), F.col("met_last").alias("last")),
    )
    if doubtful <= FEW:
        records = F.broadcast(records)
    by = F.when(has("fact", SENT_OK), F.col("acks"))
    rows = tables.view.rows_in_doubt("fates", "missing", "again")
    named = (
        rows.where(has("fact", SENT))
        .join(records, "key")
        .groupBy("run", "topic", "partition", "value")
        .agg(
            F.bool_or(has("fact", SENT_OK)).alias("acknowledged"),
            F.coalesce(F.max(by), F.max("acks")).alias("acks"),
            F.max("told").alias("offset"),
            F.max("first").alias("first"),
            F.max("last").alias("last"),
            F.max("place").alias("place"),
        )
    )
    return _decided(tables, _found_elsewhere(tables, named)).select(*COLUMNS)


def ledger(tables: "Tables") -> dict[str, dict[str, int]]:
    """The books of every run: the fields of ``harness.verdict.Ledger``."""
    found: dict[str, dict[str, int]] = {}
    for each in tables.books:
        book = found.setdefault(each.run, {LOST: 0, UNSEEN: 0})
        for name in ("sent", "acknowledged", "failed", "unknown", READ_BACK):
            book[name] = book.get(name, 0) + getattr(each, name)
    for row in tables.fates.groupBy("run", "fate").count().collect():
        book = found[row["run"]]
        if row["fate"] in (LOST, UNSEEN):
            book[row["fate"]] += row["count"]
    for book in found.values():  # those without a partition may be found in any
        book[READ_BACK] = book["acknowledged"] - book[LOST] - book[UNSEEN]
    return found


def _found_elsewhere(tables: "Tables", named: DataFrame) -> DataFrame:
    """The same, with the places of records whose partition their producer was never told."""
    if not any(each.partition is None for each in tables.books):
        return named
    names = ["run", "topic", "value"]
    read = tables.view.rows.where(final())
    adrift = tables.view.rows.where(has("fact", ADRIFT)).select(*names).distinct()
    places = (
        read.join(F.broadcast(adrift), names, "left_semi")
        .groupBy(*names)
        .agg(F.min("offset").alias("there"))
    )
    return (
        named.join(places, names, "left")
        .withColumn("first", F.coalesce("first", "there"))
        .withColumn("last", F.coalesce("last", "there"))
    )


def _decided(tables: "Tables", named: DataFrame) -> DataFrame:
    """What became of records: read, lost or unseen. Neither was promised of unacknowledged ones."""
    # A log that was cut may end, fence and all, before the offset that was acknowledged once.
    passed = F.col("complete") | (F.col("offset") <= F.col("reach"))
    fate = (
        F.when(F.col("first").isNotNull(), READ_BACK)
        .when(F.coalesce(passed, F.lit(False)), LOST)
        .otherwise(UNSEEN)
    )
    limits = _limits(tables).withColumnRenamed("partition", "known")
    same = (
        (named["run"] == limits["run"])
        & (named["topic"] == limits["topic"])
        & named["partition"].eqNullSafe(limits["known"])
    )
    found = named.join(F.broadcast(limits), same, "left").drop(limits["run"], limits["topic"])
    return found.withColumn("fate", F.when(F.col("acknowledged"), fate))


def _limits(tables: "Tables") -> DataFrame:
    """How far the final read came: ``run, topic, partition, reach, complete``.

    A null partition is that of records whose own is not known: everything is to be read for those.
    """
    rows: list[tuple[str, str, int | None, int | None, bool]] = [
        (each.run, each.topic, each.partition, each.last, each.complete)
        for each in tables.books
        if each.partition is not None
    ]
    for case in tables.cases:
        topic = case.plan.topic
        done = [row for row in rows if row[0] == case.key and row[4]]
        rows.append((case.key, topic.name, None, None, len(done) >= topic.partitions))
    names = ("run", "topic", "partition", "reach", "complete")
    types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.bool_())
    columns = [list(column) for column in zip(*rows, strict=True)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return tables.local(pa.table(arrays, names=list(names)))

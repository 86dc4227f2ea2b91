"""Differences between the replicas of a partition: offsets at which records differ, and holes.

Followers append batches as they fetch them (ReplicaFetcherThread). So the record at an offset must
agree on all replicas: its key, its value, whether it is a control record, and its leader epoch. The
epoch is compared only if the record's format has one: a leader converts records to an older format
for a follower with an older protocol. Logs may differ in their first offset (retention,
DeleteRecords), their end (lag), their batches, segments and timestamps.

First, Spark computes the number of records and a hash (an exclusive or) of each range of offsets,
for each replica. Only ranges in which these sums differ are compared by record. Two different
ranges have equal sums with a probability of 2^-64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.replica_extents import ORDINARY, TORN
from highwater.checkers.spark.engine import Engine

EVERYTHING: Final = (1 << 63) - 1
"""A number that is greater than every offset in a log."""

_BUCKET_BITS: Final = 8
_NONE: Final = -1  # a record that was converted to an older format has this epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The first and last offsets of a replica's log, read before the comparison.

    Attributes:
        part: the number of the replica's partition.
        first: the offset of the replica's first record.
        leo: the replica's log end offset.
        gaps_till: the offset below which compaction may have removed records.
    """

    part: int
    first: int
    leo: int
    gaps_till: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogs:
    """The logs of replicas that are compared with each other.

    Attributes:
        records: columns ``replica, part, segment, position, base_offset, last_offset, offset,
            print, leader_epoch, crc_ok, damage``; if ``keyed``, also ``key_print`` and
            ``removable``; the replica's ``hw``; and ``trusted``: whether the replica's leader
            epochs are reliable.
        extents: the extents by replica number; a replica without records may be missing.
        segments: replica, base offset and next segment's base offset of each segment.
        damaged: whether any range is not a valid batch.
        keyed: whether compaction may have removed a record because a later record has its key.
        doubted: whether to ignore records after a hole in a log. No checksum covers offsets, so the
            offsets may be wrong after a change to the file.
        gaps: replica, first and last offset of each range of offsets between two segments.
        doubled: the same for each range of offsets that is in two segments of a replica. These
            offsets are not compared.
        carried: additional columns of ``Differences.rows``.
    """

    engine: Engine
    records: DataFrame
    extents: Mapping[int, Extent]
    segments: Sequence[tuple[int, int, int]]
    damaged: bool
    keyed: bool
    doubted: bool
    gaps: Sequence[tuple[int, int, int]] = ()
    doubled: Sequence[tuple[int, int, int]] = ()
    carried: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences between replicas.

    Attributes:
        rows: the records in the ranges of offsets in which replicas are not equal.
        lacking: rows ``part, replica, offset, between``: a record that the replica lacks between
            its first and last offset. ``between``: the offset is in one of the replica's ``gaps``.
            If ``keyed``, rows also have ``key_print`` and ``removable``.
        offsets: rows ``part, offset, other_record, other_epoch, any_epoch, untold, below_hw``, one
            for each offset in these ranges. ``untold``: the replicas whose epochs are not reliable.
            ``below_hw``: the offset is below the HW of every replica that has a record there.
    """

    rows: DataFrame
    lacking: DataFrame
    offsets: DataFrame


def compare(logs: ReplicaLogs) -> Differences:
    """Compare the replicas of every partition."""
    columns = ["replica", "part", "segment", "position", "offset", "print", "leader_epoch"]
    columns += ["hw", "trusted", *_keys(logs), *logs.carried]
    rows = logs.engine.keep(
        logs.records.where(F.col("offset").isNotNull())
        .select(*columns, _bucket().alias("bucket"))
        .join(_suspicious(logs), ["part", "bucket"])
    )
    lacking = _lacking(logs, rows)
    return Differences(rows=rows, lacking=lacking, offsets=_offsets(logs, rows, lacking))


def _extents(logs: ReplicaLogs) -> DataFrame:
    """Return the extents of each partition's replicas: ``replica, first, leo, gaps_till``."""
    extents: dict[int, list[dict[str, int]]] = {}
    for number, extent in logs.extents.items():
        row = {"replica": number, "first": extent.first, "leo": extent.leo}
        extents.setdefault(extent.part, []).append(row | {"gaps_till": extent.gaps_till})
    offsets = [(name, pa.int64()) for name in ("first", "leo", "gaps_till")]
    rows = {
        "part": pa.array(extents, pa.int32()),
        "extents": pa.array(
            extents.values(), pa.list_(pa.struct([("replica", pa.int32()), *offsets]))
        ),
    }
    return logs.engine.given(pa.table(rows))


def _bucket() -> Column:
    return F.shiftright("offset", _BUCKET_BITS)


def _suspicious(logs: ReplicaLogs) -> DataFrame:
    """Return the ranges of offsets in which replicas are not equal: ``part, bucket, extents``."""
    sums = (
        logs.records.where(F.col("offset").isNotNull())
        .groupBy("part", "replica", _bucket().alias("bucket"))
        .agg(
            F.count("*").alias("count"),
            F.bit_xor(F.xxhash64("offset", "print", "leader_epoch")).alias("sum"),
        )
    )
    begins = F.shiftleft("bucket", _BUCKET_BITS)
    ends = F.shiftleft(F.col("bucket") + 1, _BUCKET_BITS)
    expected = F.size(
        F.filter("extents", lambda extent: (extent["first"] < ends) & (extent["leo"] > begins))
    )
    return (
        sums.groupBy("part", "bucket")
        .agg(
            F.count("*").alias("replicas"),
            (F.min("count") != F.max("count")).alias("other_count"),
            (F.min("sum") != F.max("sum")).alias("other_sum"),
        )
        .join(F.broadcast(_extents(logs)), "part")
        .where(F.col("other_count") | F.col("other_sum") | (F.col("replicas") < expected))
        .select("part", "bucket", "extents")
    )


def _keys(logs: ReplicaLogs) -> list[str]:
    return ["key_print", "removable"] if logs.keyed else []


def _lacking(logs: ReplicaLogs, rows: DataFrame) -> DataFrame:
    """Return ``Differences.lacking``: records that a replica lacks and another replica has.

    Gaps from damage are left out, because they are a separate finding. Records that compaction may
    have removed are left out, too: below ``gaps_till``, and, if ``keyed``, records that a later
    record with the same key has replaced.
    """
    keys = _keys(logs)
    copies = rows.groupBy("part", "offset").agg(
        F.collect_set("replica").alias("holders"),
        *(F.first(name).alias(name) for name in ("extents", *keys)),
    )
    lacking = (
        copies.select("part", "offset", "holders", *keys, F.inline("extents"))
        .where(F.col("offset").between(F.greatest("first", "gaps_till"), F.col("leo") - 1))
        .where(~F.array_contains("holders", F.col("replica")))
        .select("part", "replica", "offset", *keys)
    )
    if logs.damaged:
        lacking = lacking.join(_damaged(logs), _inside(), "left_anti")
    if logs.keyed:
        lacking = logs.engine.keep(lacking)
        last = (
            logs.records.where(F.col("key_print").isNotNull())
            .select("part", "key_print", F.col("offset").alias("later"))
            .join(lacking.select("part", "key_print").distinct(), ["part", "key_print"])
            .groupBy("part", "key_print")
            .agg(F.max("later").alias("later"))
        )
        replaced = F.coalesce(F.col("later") > F.col("offset"), F.lit(False))
        lacking = lacking.join(last, ["part", "key_print"], "left").where(~replaced)
    if not logs.gaps:
        return lacking.select("part", "replica", "offset", *keys, F.lit(False).alias("between"))
    return lacking.join(_ranges(logs, logs.gaps), _inside(), "left").select(
        "part", "replica", "offset", *keys, F.col("begins").isNotNull().alias("between")
    )


def _ranges(logs: ReplicaLogs, ranges: Sequence[tuple[int, int, int]]) -> DataFrame:
    """Return offset ranges of replicas, as a table to join by ``_inside``."""
    rows = [{"broken": replica, "begins": first, "ends": last} for replica, first, last in ranges]
    schema = pa.schema([("broken", pa.int32()), ("begins", pa.int64()), ("ends", pa.int64())])
    return F.broadcast(logs.engine.given(pa.Table.from_pylist(rows, schema=schema)))


def _inside() -> Column:
    return (F.col("replica") == F.col("broken")) & F.col("offset").between(
        F.col("begins"), F.col("ends")
    )


def _damaged(logs: ReplicaLogs) -> DataFrame:
    """Return the offsets of each damaged range, as a table to join by ``_inside``.

    A range whose end is unknown lasts to the end of its segment.
    """
    limits = [
        {"replica": replica, "segment": base, "limit": following - 1}
        for replica, base, following in logs.segments
    ]
    schema = pa.schema([("replica", pa.int32()), ("segment", pa.int64()), ("limit", pa.int64())])
    table = logs.engine.given(pa.Table.from_pylist(limits, schema=schema))
    rows = logs.records.where(F.col("damage").isNotNull() & F.col("base_offset").isNotNull())
    limited = rows.join(F.broadcast(table), ["replica", "segment"])
    return _claims(limited, F.coalesce("last_offset", "limit"))


def _claimed(logs: ReplicaLogs) -> DataFrame:
    """Return the offsets of complete batches with a valid checksum that are out of order."""
    whole = F.col("crc_ok") & F.col("last_offset").isNotNull()
    rows = logs.records.where(F.col("damage").isNotNull() & whole)
    return _claims(rows, F.col("last_offset"))


def _claims(rows: DataFrame, ends: Column) -> DataFrame:
    """Return rows as ranges of offsets, to join by ``_inside``."""
    return rows.select(
        F.col("replica").alias("broken"), F.col("base_offset").alias("begins"), ends.alias("ends")
    )


def _offsets(logs: ReplicaLogs, rows: DataFrame, lacking: DataFrame) -> DataFrame:
    """Return ``Differences.offsets``: for each offset, whether records or epochs differ.

    The function ignores these records:

    - records in offsets that two segments of a replica contain;
    - on a damaged replica, batches without two neighbours, because only neighbours confirm a
      batch's offset;
    - records at an offset that another complete batch of the replica claims: one of the two batches
      is misplaced;
    - if ``doubted``, records after a hole within a segment, and the batch before the hole. This
      batch may have an old offset and the body of a later batch.
    """
    if logs.doubled:
        rows = rows.join(_ranges(logs, logs.doubled), _inside(), "left_anti")
    if logs.damaged:
        rows = rows.join(_unvouched(logs), ["replica", "segment", "position"], "left_anti")
        rows = rows.join(F.broadcast(_claimed(logs)), _inside(), "left_anti")
    if logs.doubted:
        holes = (
            lacking.where(~F.col("between")).groupBy("replica").agg(F.min("offset").alias("hole"))
        )
        rows = rows.join(F.broadcast(holes), "replica", "left")
        edges = rows.where(F.col("offset") == F.col("hole") - 1)
        batch = ["replica", "segment", "position"]
        rows = rows.join(F.broadcast(edges.select(*batch)), batch, "left_anti").where(
            F.col("hole").isNull() | (F.col("offset") < F.col("hole"))
        )
    numbered = F.nullif("leader_epoch", F.lit(_NONE))
    epoch = F.coalesce(numbered, F.lit(_NONE))
    trusted_epoch = F.when(F.col("trusted"), numbered)  # a missing epoch contradicts no epoch
    return rows.groupBy("part", "offset").agg(
        (F.min("print") != F.max("print")).alias("other_record"),
        F.coalesce(F.min(trusted_epoch) != F.max(trusted_epoch), F.lit(False)).alias("other_epoch"),
        (F.min(epoch) != F.max(epoch)).alias("any_epoch"),
        F.collect_set(F.when(~F.col("trusted"), F.col("replica"))).alias("untold"),
        (F.min(F.coalesce("hw", F.lit(_NONE))) > F.col("offset")).alias("below_hw"),
    )


def _unvouched(logs: ReplicaLogs) -> DataFrame:
    """Return ``replica, segment, position`` of batches whose offset no neighbour confirms.

    Only damaged logs are checked. The previous batch must end where this batch begins. For the
    first batch, the segment's name must be its offset. The next batch must begin where this batch
    ends. A torn batch at a log's end with the right offset is no damage.
    """
    damage = F.coalesce("damage", F.lit(""))
    ranges = logs.records.groupBy("replica", "segment", "position").agg(
        F.bool_or((damage != "") & ~damage.isin(*ORDINARY)).alias("bad"),
        F.bool_or(damage == TORN).alias("torn"),
        F.min("base_offset").alias("base"),
        (F.max("last_offset") + 1).alias("next"),
    )
    order = Window.partitionBy("replica").orderBy("segment", "position")
    begin, end = F.when(~F.col("bad"), F.col("base")), F.when(~F.col("bad"), F.col("next"))
    named = F.when(F.row_number().over(order) == 1, F.col("segment"))
    placed = ranges.select(
        "*",
        F.coalesce(F.lag(end).over(order), named).alias("due"),
        F.lead(begin).over(order).alias("then"),
    )
    elsewhere = F.col("torn") & (F.col("base") != F.col("due"))
    broken = placed.where(F.col("bad") | elsewhere).select("replica").distinct()
    vouched = (F.col("due") == F.col("base")) & (F.col("then") == F.col("next"))
    placed_broken = placed.join(F.broadcast(broken), "replica", "left_semi")
    return placed_broken.where(~F.coalesce(vouched, F.lit(False))).select(
        "replica", "segment", "position"
    )

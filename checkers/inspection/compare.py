"""Differences between the replicas of a partition: offsets at which records differ, and holes.

Followers append batches as they were fetched (ReplicaFetcherThread), so what must agree is the
record at an offset: key, value, whether it is a control record, and the leader epoch that it was
written in, if its format has one: a leader answers a follower of an older protocol in an older
format. Not compared is where a log begins (retention, DeleteRecords), where it ends (lag), and its
batches, segments and timestamps: these may differ.

First, every replica's ranges of offsets are reduced to a count and an exclusive or of hashes. Where
these agree no record differs (except with a chance of 1 in 2^64); that is nearly everywhere.
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
"""An offset beyond all others."""

_BUCKET_BITS: Final = 8
_NONE: Final = -1  # a record that was converted to an older format has this epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a replica before it is compared.

    Attributes:
        part: the number of its partition.
        first: offset of its first record.
        leo: its log end offset.
        gaps_till: offsets below it may lack a record because of compaction.
    """

    part: int
    first: int
    leo: int
    gaps_till: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogs:
    """The logs of replicas, to be compared with each other.

    Attributes:
        records: columns ``replica, part, segment, position, base_offset, last_offset, offset,
            print, leader_epoch, crc_ok, damage``; ``key_print`` and ``removable`` too, if
            ``keyed``; of its replica ``hw``, and ``trusted``: whether the leader epochs of its
            records can be believed.
        extents: by number of the replica; one without records need not be in it.
        segments: each segment's replica, base offset, and the base offset of the next one.
        damaged: whether any range is no sound batch.
        keyed: whether a record may be missing because a later one has its key, as by compaction.
        doubted: whether the records of a log behind a hole are left out: no checksum covers
            offsets, so that a change to a file may have moved them.
        gaps: ranges of offsets between segments: a replica, the first offset, the last one.
        doubled: the same, of ranges that two segments of a replica have: they are not compared.
        carried: columns that ``Differences.rows`` are to have as well.
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
        rows: the records of those ranges of offsets in which replicas are not simply equal.
        lacking: ``part, replica, offset, between`` of the records that a replica lacks within its
            extent; ``between``: they lie in one of its ``gaps``; if ``keyed``, also ``key_print``
            and ``removable``.
        offsets: ``part, offset, other_record, other_epoch, any_epoch, untold, below_hw`` of offsets
            at which they may differ; ``below_hw``: below the HW of all replicas that hold it.
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
    """Return ranges of offsets in which replicas are not equal: ``part, bucket, extents``."""
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
    """Return the records that a replica lacks within its extent and another one has.

    Gaps left by damage are a finding of their own. Gaps left by compaction are right only below the
    log cleaner's offset or, where that is unknown, for records that a later one of the same key has
    replaced.
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
    """Return ranges of replicas' offsets for ``_inside``."""
    rows = [{"broken": replica, "begins": first, "ends": last} for replica, first, last in ranges]
    schema = pa.schema([("broken", pa.int32()), ("begins", pa.int64()), ("ends", pa.int64())])
    return F.broadcast(logs.engine.given(pa.Table.from_pylist(rows, schema=schema)))


def _inside() -> Column:
    return (F.col("replica") == F.col("broken")) & F.col("offset").between(
        F.col("begins"), F.col("ends")
    )


def _damaged(logs: ReplicaLogs) -> DataFrame:
    """Return the offsets that each damaged range claims, up to its segment's end if unknown."""
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
    """Return the same for batches that are broken only in their order."""
    whole = F.col("crc_ok") & F.col("last_offset").isNotNull()
    rows = logs.records.where(F.col("damage").isNotNull() & whole)
    return _claims(rows, F.col("last_offset"))


def _claims(rows: DataFrame, ends: Column) -> DataFrame:
    """Return the conditions on ranges ``broken``, ``begins`` and ``ends`` for ``_inside``."""
    return rows.select(
        F.col("replica").alias("broken"), F.col("base_offset").alias("begins"), ends.alias("ends")
    )


def _offsets(logs: ReplicaLogs, rows: DataFrame, lacking: DataFrame) -> DataFrame:
    """Return for each offset whether replicas hold different records there, or epochs.

    Left out are: what two segments of a replica have; on a damaged replica, batches that do not lie
    between two neighbours, because only neighbours confirm a batch's offset; offsets that another
    whole batch of the replica claims, because one of the two is misplaced; and if ``doubted``,
    records behind a hole within a segment, and the batch before it (it may be an old offset in
    front of a later batch's body).
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
    trusted_epoch = F.when(F.col("trusted"), numbered)  # none at all contradicts none
    return rows.groupBy("part", "offset").agg(
        (F.min("print") != F.max("print")).alias("other_record"),
        F.coalesce(F.min(trusted_epoch) != F.max(trusted_epoch), F.lit(False)).alias("other_epoch"),
        (F.min(epoch) != F.max(epoch)).alias("any_epoch"),
        F.collect_set(F.when(~F.col("trusted"), F.col("replica"))).alias("untold"),
        (F.min(F.coalesce("hw", F.lit(_NONE))) > F.col("offset")).alias("below_hw"),
    )


def _unvouched(logs: ReplicaLogs) -> DataFrame:
    """``replica, segment, position`` of batches in damaged logs whose offset no neighbour confirms.

    The batch before must end where it begins (for the first batch: the segment's name), and the
    next one must begin where it ends. A torn tail is no damage, if it begins where it should.
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

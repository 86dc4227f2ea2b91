"""Replicas compared: offsets at which they differ, and records that one skips.

Followers append batches as they were fetched (ReplicaFetcherThread), so what must agree is the
record at an offset: key, value, whether it is a control record, and the leader epoch that it was
written in. Not compared is where a log begins (retention, DeleteRecords), where it ends (lag), and
its batches, segments and timestamps: these may differ.

First, every replica's ranges of offsets are reduced to a count and an exclusive or of hashes. Where
these agree no record differs (except with a chance of 1 in 2^64); that is nearly everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.log_tables import LogTables, Row
from highwater.checkers.inspection.replica_extents import ORDINARY, TORN

LISTED_MAX: Final = 10_000
"""Divergent offsets of a partition that are listed; all are counted."""

_BUCKET_BITS: Final = 8
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a replica before it is compared.

    Attributes:
        first: offset of its first record.
        leo: its log end offset.
        hw: its high watermark; None: not known.
        epochs_told: whether the leader epochs of its records can be believed.
        gaps_till: offsets below it may lack a record because of compaction.
    """

    first: int
    leo: int
    hw: int | None
    epochs_told: bool
    gaps_till: int


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The result of comparing one partition.

    Attributes:
        divergent: how many offsets; the first of them are ``offsets``, each with whether it lies
            below the HW of all replicas that hold it.
        holes: by replica, how many records it skips that another has, and the first one.
        epochs: by replica whose epochs cannot be trusted, at how many offsets it alone has another
            epoch, and the first one.
    """

    divergent: int = 0
    below_hw: int = 0
    offsets: list[tuple[int, bool]] = field(default_factory=list)
    holes: dict[int, tuple[int, int]] = field(default_factory=dict)
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)


def compare(evidence: LogTables, extents: Mapping[int, Extent]) -> dict[int, Comparison]:
    """Compare the replicas of every partition; the result has only partitions with a finding.

    Args:
        evidence: the records.
        extents: by number of the replica; one without records need not be in it.
    """
    sides = _sides(evidence, extents)
    columns = ["replica", "part", "segment", "position"]
    columns += ["offset", "print", "key_print", "control", "leader_epoch"]
    rows = evidence.engine.keep(
        evidence.records.where(F.col("offset").isNotNull())
        .select(*columns, _bucket().alias("bucket"))
        .join(_suspicious(evidence, sides), ["part", "bucket"], "left_semi")
        .join(F.broadcast(sides), ["replica", "part"]),
    )
    if rows.isEmpty():
        return {}
    comparisons: dict[int, Comparison] = {}
    for hole in _holes(evidence, rows, extents):
        comparison = comparisons.setdefault(hole["part"], Comparison())
        comparison.holes[hole["replica"]] = (hole["count"], hole["first"])
    extents_rows = _rows_held(evidence, rows, comparisons)
    for fork in _forks(extents_rows):
        comparison = comparisons.setdefault(fork["part"], Comparison())
        comparison.divergent, comparison.below_hw = fork["all"], fork["below"]
        comparison.offsets.append((fork["offset"], fork["below_hw"]))
    if not all(extent.epochs_told for extent in extents.values()):
        for odd in _odd_epochs(extents_rows):
            comparison = comparisons.setdefault(odd["part"], Comparison())
            comparison.epochs[odd["replica"]] = (odd["count"], odd["first"])
    return comparisons


def _sides(evidence: LogTables, extents: Mapping[int, Extent]) -> DataFrame:
    rows = [
        {
            "replica": number,
            "part": evidence.part_of[number],
            "first": extent.first,
            "leo": extent.leo,
            "hw": _NONE if extent.hw is None else extent.hw,
            "told": extent.epochs_told,
            "gaps_till": extent.gaps_till,
        }
        for number, extent in extents.items()
    ]
    numbers = [("replica", pa.int32()), ("part", pa.int32())]
    offsets = [(name, pa.int64()) for name in ("first", "leo", "hw", "gaps_till")]
    return evidence.local(rows, [*numbers, *offsets, ("told", pa.bool_())])


def _bucket() -> Column:
    return F.shiftright("offset", _BUCKET_BITS)


def _suspicious(evidence: LogTables, sides: DataFrame) -> DataFrame:
    """Return ranges of offsets in which replicas are not simply equal: ``part`` and ``bucket``."""
    sums = (
        evidence.records.where(F.col("offset").isNotNull())
        .groupBy("part", "replica", _bucket().alias("bucket"))
        .agg(
            F.count("*").alias("count"),
            F.bit_xor(F.xxhash64("offset", "print", "leader_epoch")).alias("sum"),
        )
    )
    extents = sides.groupBy("part").agg(F.collect_list(F.struct("first", "leo")).alias("extents"))
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
        .join(F.broadcast(extents), "part")
        .where(F.col("other_count") | F.col("other_sum") | (F.col("replicas") < expected))
        .select("part", "bucket")
    )


def _holes(evidence: LogTables, rows: DataFrame, extents: Mapping[int, Extent]) -> list[Row]:
    """Return, by replica, records that it lacks within its extent and another one has.

    Gaps left by damage are a finding of their own. Gaps left by compaction are right only below the
    log cleaner's offset or, where that is unknown, for records that a later one of the same key has
    replaced.
    """
    copies = rows.groupBy("part", "offset").agg(
        F.collect_set("replica").alias("holders"), F.first("key_print").alias("key_print")
    )
    lacking = (
        copies.join(F.broadcast(_sides(evidence, extents)), "part")
        .where(F.col("offset").between(F.greatest("first", "gaps_till"), F.col("leo") - 1))
        .where(~F.array_contains("holders", F.col("replica")))
        .select("part", "offset", "replica", "key_print")
    )
    lacking = evidence.engine.keep(lacking)
    if lacking.isEmpty():
        return []
    keyed = evidence.records.where(F.col("key_print").isNotNull()).select(
        "part", "key_print", F.col("offset").alias("later")
    )
    last = (
        keyed.join(lacking.select("part", "key_print").distinct(), ["part", "key_print"])
        .groupBy("part", "key_print")
        .agg(F.max("later").alias("later"))
    )
    unexplained = (
        lacking.join(_damaged(evidence), _inside(), "left_anti")
        .join(last, ["part", "key_print"], "left")
        .where(F.col("later").isNull() | (F.col("later") <= F.col("offset")))
        .groupBy("part", "replica")
        .agg(F.count("*").alias("count"), F.min("offset").alias("first"))
    )
    return [row.asDict() for row in unexplained.collect()]


def _inside() -> Column:
    return (F.col("replica") == F.col("broken")) & F.col("offset").between(
        F.col("begins"), F.col("ends")
    )


def _damaged(evidence: LogTables) -> DataFrame:
    """Return the offsets that each damaged range claims, up to its segment's end if unknown."""
    limits = [
        {"replica": replica.number, "segment": segment.base_offset, "limit": segment.end - 1}
        for replica in evidence.replicas
        for segment in replica.segments
    ]
    columns = [("replica", pa.int32()), ("segment", pa.int64()), ("limit", pa.int64())]
    rows = evidence.records.where(F.col("damage").isNotNull() & F.col("base_offset").isNotNull())
    limited = rows.join(F.broadcast(evidence.local(limits, columns)), ["replica", "segment"])
    return _claims(limited, F.coalesce("last_offset", "limit"))


def _claimed(evidence: LogTables) -> DataFrame:
    """Return the same for batches that are broken only in their order."""
    whole = F.col("crc_ok") & F.col("last_offset").isNotNull()
    rows = evidence.records.where(F.col("damage").isNotNull() & whole)
    return _claims(rows, F.col("last_offset"))


def _claims(rows: DataFrame, ends: Column) -> DataFrame:
    """Return the conditions on ranges ``broken``, ``begins`` and ``ends`` for ``_inside``."""
    return rows.select(
        F.col("replica").alias("broken"), F.col("base_offset").alias("begins"), ends.alias("ends")
    )


def _rows_held(
    evidence: LogTables, rows: DataFrame, comparisons: Mapping[int, Comparison]
) -> DataFrame:
    """Return for each offset whether replicas hold different records there, or epochs.

    Left out are: records behind a hole (no checksum covers offsets, so a log that skips records may
    also have wrong ones); the batch before the hole (it may be an old offset in front of a later
    batch's body); on a damaged replica, batches that do not lie between two neighbours, because
    only neighbours confirm a batch's offset; and offsets that another whole batch of the replica
    claims, because one of the two is misplaced.
    """
    if evidence.damage:
        rows = rows.join(_unvouched(evidence), ["replica", "segment", "position"], "left_anti")
        rows = rows.join(F.broadcast(_claimed(evidence)), _inside(), "left_anti")
    holes = [
        {"replica": number, "hole": first}
        for comparison in comparisons.values()
        for number, (_, first) in comparison.holes.items()
    ]
    if holes:
        table = evidence.local(holes, [("replica", pa.int32()), ("hole", pa.int64())])
        rows = rows.join(F.broadcast(table), "replica", "left")
        edges = rows.where(F.col("offset") == F.col("hole") - 1)
        batch = ["replica", "segment", "position"]
        rows = rows.join(F.broadcast(edges.select(*batch)), batch, "left_anti").where(
            F.col("hole").isNull() | (F.col("offset") < F.col("hole"))
        )
    epoch = F.coalesce("leader_epoch", F.lit(_NONE))
    known_epoch = F.when(F.col("told"), F.col("leader_epoch"))  # none at all contradicts none
    return rows.groupBy("part", "offset").agg(
        (F.min("print") != F.max("print")).alias("other_record"),
        F.coalesce(F.min(known_epoch) != F.max(known_epoch), F.lit(False)).alias("other_epoch"),
        (F.min(epoch) != F.max(epoch)).alias("any_epoch"),
        F.collect_set(F.when(~F.col("told"), F.col("replica"))).alias("untold"),
        (F.min("hw") > F.col("offset")).alias("below_hw"),
    )


def _unvouched(evidence: LogTables) -> DataFrame:
    """``replica, segment, position`` of batches in damaged logs whose offset no neighbour confirms.

    The batch before must end where it begins (for the first batch: the segment's name), and the
    next one must begin where it ends. A torn tail is no damage, if it begins where it should.
    """
    damage = F.coalesce("damage", F.lit(""))
    stretches = evidence.records.groupBy("replica", "segment", "position").agg(
        F.bool_or((damage != "") & ~damage.isin(*ORDINARY)).alias("bad"),
        F.bool_or(damage == TORN).alias("torn"),
        F.min("base_offset").alias("base"),
        (F.max("last_offset") + 1).alias("next"),
    )
    order = Window.partitionBy("replica").orderBy("segment", "position")
    begin, end = F.when(~F.col("bad"), F.col("base")), F.when(~F.col("bad"), F.col("next"))
    named = F.when(F.row_number().over(order) == 1, F.col("segment"))
    placed = stretches.select(
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


def _forks(rows: DataFrame) -> list[Row]:
    """Return offsets at which records differ: the first of each partition, and their number."""
    window = Window.partitionBy("part")
    listed = (
        rows.where(F.col("other_record") | F.col("other_epoch"))
        .withColumn("all", F.count("*").over(window))
        .withColumn("below", F.count(F.when(F.col("below_hw"), 1)).over(window))
        .withColumn("place", F.row_number().over(window.orderBy("offset")))
        .where(F.col("place") <= LISTED_MAX)
        .select("part", "offset", "below_hw", "all", "below")
    )
    return [row.asDict() for row in listed.orderBy("part", "offset").collect()]


def _odd_epochs(rows: DataFrame) -> list[Row]:
    """Return epochs in which a replica that is not trusted differs alone, with equal records."""
    odd = rows.where(F.col("any_epoch") & ~F.col("other_epoch") & ~F.col("other_record"))
    counted = (
        odd.select("part", "offset", F.explode("untold").alias("replica"))
        .groupBy("part", "replica")
        .agg(F.count("*").alias("count"), F.min("offset").alias("first"))
    )
    return [row.asDict() for row in counted.collect()]

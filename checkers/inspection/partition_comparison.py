"""The number of differences between a partition's replicas, and the first differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.compare import EVERYTHING, Extent, ReplicaLogs, compare
from highwater.checkers.inspection.log_tables import LogTables, Row
from highwater.checkers.inspection.replica_findings import Facts

LISTED_MAX: Final = 10_000
"""The greatest number of divergent offsets of a partition that a report lists."""


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The differences between the replicas of one partition.

    The last four attributes have, by replica number, a number of offsets and the first offset.

    Attributes:
        divergent: the number of divergent offsets.
        below_hw: the number of divergent offsets below the HW of all replicas that have a record
            there.
        offsets: the first divergent offsets; true if the offset is below that HW.
        hole: offsets that other replicas have, and the replica lacks within its segments.
        between: offsets that other replicas have, and the replica lacks between its segments.
        uncleaned: missing offsets that compaction may have removed.
        odd_epochs: offsets at which only the epoch differs; the replica's epochs may be damaged.
    """

    divergent: int = 0
    below_hw: int = 0
    offsets: list[tuple[int, bool]] = field(default_factory=list)
    hole: dict[int, tuple[int, int]] = field(default_factory=dict)
    between: dict[int, tuple[int, int]] = field(default_factory=dict)
    uncleaned: dict[int, tuple[int, int]] = field(default_factory=dict)
    odd_epochs: dict[int, tuple[int, int]] = field(default_factory=dict)


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Combine the comparisons of a partition's unrelated sets of replicas into one comparison."""
    if len(parts) == 1:
        return parts[0]
    return Comparison(
        divergent=sum(part.divergent for part in parts),
        below_hw=sum(part.below_hw for part in parts),
        offsets=sorted({offset for part in parts for offset in part.offsets}),
    )


def comparisons(evidence: LogTables, parts: Mapping[int, Sequence[Facts]]) -> dict[int, Comparison]:
    """Compare the replicas of every partition; return only partitions with differences."""
    replicas = {
        side.replica.number: (part, side)
        for part, sides in parts.items()
        for side in sides
        if side.sum("records")
    }
    trusted = {number: side.epochs_told for number, (_, side) in replicas.items()}
    rows = [
        {"replica": number, "hw": side.replica.hw, "trusted": trusted[number]}
        for number, (_, side) in replicas.items()
    ]
    columns = [("replica", pa.int32()), ("hw", pa.int64()), ("trusted", pa.bool_())]
    differences = compare(
        ReplicaLogs(
            engine=evidence.engine,
            records=evidence.records.join(
                F.broadcast(evidence.local(rows, columns)), "replica", "left"
            ),
            extents={
                number: Extent(part=part, first=side.first, leo=side.leo, gaps_till=side.gaps_till)
                for number, (part, side) in replicas.items()
            },
            segments=[
                (replica.number, segment.base_offset, segment.end)
                for replica in evidence.replicas
                for segment in replica.segments
            ],
            damaged=bool(evidence.damage),
            keyed=True,
            doubted=True,
            gaps=[
                (number, first, last)
                for number, (_, side) in replicas.items()
                for _, first, last in side.gaps
            ],
            doubled=[
                (number, following, last)
                for number, (_, side) in replicas.items()
                for _, last, following in side.overlaps
            ],
        )
    )
    compared: dict[int, Comparison] = {}
    if differences.rows.isEmpty():
        return compared
    for hole in _holes(differences.lacking):
        comparison = compared.setdefault(hole["part"], Comparison())
        _, side = replicas[hole["replica"]]
        inside = comparison.uncleaned if _compacted(side, hole) else comparison.hole
        holes = comparison.between if hole["between"] else inside
        holes[hole["replica"]] = (hole["count"], hole["first"])
    for fork in _forks(differences.offsets):
        comparison = compared.setdefault(fork["part"], Comparison())
        comparison.divergent, comparison.below_hw = fork["all"], fork["below"]
        comparison.offsets.append((fork["offset"], fork["below_hw"]))
    if not all(trusted.values()):
        for odd in _odd_epochs(differences.offsets):
            comparison = compared.setdefault(odd["part"], Comparison())
            comparison.odd_epochs[odd["replica"]] = (odd["count"], odd["first"])
    return compared


def gaps_till(sides: Sequence[Facts]) -> int:
    """Return the offset below which compaction may have removed records on any replica."""
    if any(side.sum("emptied") for side in sides):
        return EVERYTHING
    return max((side.replica.cleaned or 0 for side in sides), default=0)


def _holes(lacking: DataFrame) -> list[Row]:
    """Return the number and the first offset of the records that each replica lacks."""
    counted = lacking.groupBy("part", "replica", "between").agg(
        F.count("*").alias("count"),
        F.min("offset").alias("first"),
        F.count(F.when(F.col("removable"), 1)).alias("removable"),
        F.count(F.when(F.col("key_print").isNull(), 1)).alias("keyless"),
    )
    return [row.asDict() for row in counted.collect()]


def _compacted(side: Facts, hole: Row) -> bool:
    """Return whether compaction may explain a hole above the checkpointed offset of the cleaner.

    Compaction never removes a record without a key. It removes a tombstone some time after the
    records that it replaced. If the cleaner has a checkpoint, compaction explains only missing
    tombstones and markers.
    """
    if hole["keyless"]:
        return False
    removable = bool(hole["removable"] == hole["count"])
    more_missing = side.leo - side.first - side.sum("records") > hole["count"]
    if side.replica.cleaner_told:
        return removable and (more_missing or side.replica.cleaned is not None)
    return removable or more_missing


def _counted(rows: DataFrame) -> list[Row]:
    """Return the number of rows of each replica, and the first offset."""
    counted = rows.groupBy("part", "replica").agg(
        F.count("*").alias("count"), F.min("offset").alias("first")
    )
    return [row.asDict() for row in counted.collect()]


def _forks(rows: DataFrame) -> list[Row]:
    """Return the first divergent offsets of each partition, and the number of all (``all``)."""
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
    """Return, for each replica, at how many offsets only its unreliable epoch differs."""
    odd = rows.where(F.col("any_epoch") & ~F.col("other_epoch") & ~F.col("other_record"))
    return _counted(odd.select("part", "offset", F.explode("untold").alias("replica")))

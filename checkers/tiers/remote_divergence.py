"""``remote-divergence``: the remote tier and the replicas have different records (KIP-405).

A leader copies whole segments of its log to the remote tier. The checker compares each remote
segment with the replicas as if it were one more replica (``checkers.inspection.compare``), offset
by offset, up to the segment's end. An offset that is only in one tier is no anomaly:
local.retention.bytes and local.retention.ms delete the oldest local records, and the last segment
is copied later.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import REMOTE_DIVERGENCE, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import AGREED, always
from highwater.checkers.disks.divergence import (
    REPLICA,
    REPLICA_ROWS,
    ComparedReplica,
    compared_replicas,
    replica_logs,
)
from highwater.checkers.inspection.compare import EVERYTHING, compare
from highwater.checkers.inspection.replica_extents import ORDINARY, ends, spans
from highwater.checkers.kafka_files.segment_files import Segment
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

Row = dict[str, Any]
_PLACE: Final = ("run", "topic", "partition", "offset")


def _says(row: Row) -> str:
    copies = "; ".join(_copy_says(copy) for copy in row["copies"])
    return f"{row['topic']}-{row['partition']} at offset {row['offset']}: {copies}."


def _copy_says(copy: Row) -> str:
    holder = "the remote tier" if copy["broker"] is None else f"broker {copy['broker']}"
    if copy["leader_epoch"] is None:
        return f"{holder} holds {copy['value'] or copy['note']}"
    return f"{holder} holds {copy['value']} of leader epoch {copy['leader_epoch']}"


def _not_tiered(_tables: Tables, case: RunFiles) -> str:
    return "" if case.plan.tiered else "there was no remote tier"


@checker(
    Kind(
        REMOTE_DIVERGENCE,
        guarantee="The remote tier holds the same record as the replicas at every offset.",
        singular="offset differs in the remote tier",
        plural="offsets differ in the remote tier",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=always,
        says=_says,
    ),
    idle=_not_tiered,
)
def remote_divergence(tables: Tables) -> pa.Table:
    """Return offsets at which a segment in the remote tier differs from a replica, or is damaged.

    The result also has offsets that a segment skips, and offsets at which two segments differ.
    """
    remote = tables.remote_log
    if remote is None:
        return SCHEMA.empty_table()
    segments = {
        (case.key, segment.broker): segment
        for case in tables.cases
        for segment in case.remote_segments
    }
    rows = [*_differing(tables, remote, segments), *_damaged(remote, segments)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _differing(
    tables: Tables, remote: DataFrame, segments: dict[tuple[str, int], Segment]
) -> list[Row]:
    replicas = _with_segments(tables, remote)
    table = pa.Table.from_pylist([replica.row for replica in replicas], schema=REPLICA_ROWS)
    log = tables.log.unionByName(remote).join(F.broadcast(tables.local(table)), list(REPLICA))
    differences = compare(replica_logs(tables, replicas, log))
    differing = differences.offsets.where(F.col("other_record") | F.col("other_epoch"))
    number_of = [replica.number for replica in replicas if replica.end.broker < 0]
    skipped = differences.lacking.where(F.col("replica").isin(number_of))
    places = differing.select("part", "offset").union(skipped.select("part", "offset"))
    copies = differences.rows.join(places.distinct(), ["part", "offset"], "left_semi")
    by_place: dict[tuple[Any, ...], list[Row]] = {}
    for row in copies.select(*REPLICA, "offset", "leader_epoch", "record_id").collect():
        by_place.setdefault(tuple(row[name] for name in _PLACE), []).append(row.asDict())
    lacking = {(row["part"], row["offset"]) for row in skipped.collect()}
    part_of: dict[tuple[Any, ...], int] = {
        (r.end.run, r.end.topic, r.end.partition): r.part for r in replicas
    }
    return [
        _anomaly(place, [_copy(row, segments) for row in same_place])
        for place, same_place in sorted(by_place.items(), key=str)
        if any(row["broker"] < 0 for row in same_place) or (part_of[place[:3]], place[3]) in lacking
    ]


def _with_segments(tables: Tables, remote: DataFrame) -> list[ComparedReplica]:
    cases = {case.key: case for case in tables.cases}
    replicas = compared_replicas(tables)
    numbers = {(r.end.run, r.end.topic, r.end.partition): (r.part, r.bound) for r in replicas}
    parts = len(numbers)
    for number, end in enumerate(ends(spans(remote)), len(replicas)):
        place = (end.run, end.topic, end.partition)
        if place not in numbers:
            numbers[place] = (parts, EVERYTHING)
            parts += 1
        part, bound = numbers[place]
        replicas.append(
            ComparedReplica(
                case=cases[end.run], end=end, number=number, part=part, hw=None, bound=bound
            )
        )
    return replicas


def _damaged(remote: DataFrame, segments: dict[tuple[str, int], Segment]) -> list[Row]:
    """Return ranges of remote segments without a valid batch.

    A segment that ends inside a batch is damaged, because Kafka copies only complete segments.
    """
    ordinary = [damage for damage in ORDINARY if damage != "torn"]
    damaged = remote.where(F.col("damage").isNotNull() & ~F.col("damage").isin(ordinary))
    rows = []
    for row in damaged.select(*REPLICA, "base_offset", "position", "error").collect():
        segment = segments[row["run"], row["broker"]]
        place = (row["run"], row["topic"], row["partition"], row["base_offset"])
        note = f"{_name(segment)}, byte {row['position']}: {row['error']}"
        rows.append(_anomaly(place, [{"partition": row["partition"], "note": note}]))
    return rows


def _anomaly(place: tuple[object, ...], copies: list[Row]) -> Row:
    first = next((copy["value"] for copy in copies if copy.get("value")), None)
    row = dict(zip(_PLACE, place, strict=True))
    return {**row, "kind": REMOTE_DIVERGENCE, "value": first, "copies": copies}


def _copy(row: Row, segments: dict[tuple[str, int], Segment]) -> Row:
    segment = segments.get((row["run"], row["broker"]))
    return {
        "broker": None if segment else row["broker"],
        "partition": row["partition"],
        "offset": row["offset"],
        "leader_epoch": row["leader_epoch"],
        "value": row["record_id"],
        "note": _name(segment) if segment else None,
    }


def _name(segment: Segment) -> str:
    return segment.path.rpartition("/")[2]

"""``metadata-divergence``: the metadata logs of a KRaft quorum's controllers disagree on disk.

Two rules of Raft state which offsets must be equal, under any leader (KIP-595):

- *Log matching.* If two logs have a record of the same epoch at the same offset, all earlier
  records are equal, committed or not.
- *Committed records stay.* For each controller, the leader knows an offset up to which the
  controller's log equals its own, because each fetch names the follower's last epoch. A log is
  never truncated below the high watermark. DescribeQuorum returns both offsets
  (``harness.runs.history.QUORUM``). Below both offsets, the records must exist and be equal. A
  record on the disks of a majority is not always committed: the leader of its epoch must have known
  it (Raft, figure 8).

Above these bounds logs may differ: an isolated controller keeps uncommitted records until it
reaches the next leader. Logs may also differ in a prefix that a snapshot covers (KIP-630), in their
ends, and in a torn batch at the end after a kill.

The log of a single controller cannot be compared. But it must be complete, and reach its high
watermark. If it is complete, the run is "not judged". ZooKeeper has no metadata log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import METADATA_DIVERGENCE, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_controllers_keep_disks
from highwater.checkers.inspection.compare import Extent, ReplicaLogs, compare
from highwater.checkers.kafka_files import metadata_records
from highwater.checkers.kafka_files.whole_copies import METADATA_TOPIC
from highwater.checkers.metadata.controller_logs import (
    VOTERS_RECORD,
    ControllerLog,
    Row,
    controller_logs,
)
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine

_COMPARED: Final = ("offset", "leader_epoch", "control", "key", "value")
_READ: Final = (
    *("segment", "position", "base_offset", "last_offset", "crc_ok", "damage"),
    *_COMPARED,
)
_CONTROLS: Final = {
    "type 2": "LeaderChangeMessage",
    "type 5": "KRaftVersionRecord",
    VOTERS_RECORD: "VotersRecord",
}
_DIGITS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two logs of a run, which must be equal below offset ``bound``."""

    logs: tuple[ControllerLog, ControllerLog]
    bound: int

    @property
    def begin(self) -> int:
        """The first offset that both logs still have."""
        return max(log.first or 0 for log in self.logs)

    @property
    def end(self) -> int:
        """The offset up to which both logs must be equal, or at which one of them ends."""
        return min(self.bound, *(log.end for log in self.logs))

    @property
    def differs(self) -> bool:
        """True if the two logs are not equal. Equal logs need no comparison by Spark."""
        left, right = (log.between(self.begin, self.end).select(_COMPARED) for log in self.logs)
        return not left.equals(right)


def _says(row: Row) -> str:
    offset, copies = row["offset"], row["copies"]
    groups: dict[str, list[int]] = {}
    for copy in copies:
        groups.setdefault(copy["note"], []).append(copy["broker"])
    ordered = sorted(groups.items(), key=lambda group: (len(group[1]), group[1]))
    parts = [f"{_controllers(nodes)} {note}" for note, nodes in ordered]
    return f"Offset {offset} of the metadata log: {'; '.join(parts)}."


def _controllers(nodes: Sequence[int]) -> str:
    many = "s" if len(nodes) > 1 else ""
    return f"controller{many} {', '.join(map(str, sorted(nodes)))}:"


def _idle(tables: Tables, case: RunFiles) -> str:
    logs = controller_logs(tables)[case.key]
    if not logs:
        return "no metadata log of a KRaft controller was copied"
    if len(logs) == 1:
        return "there is only one metadata log"
    pairs = _pairs(logs, case.committed)
    return (
        ""
        if any(pair.begin < pair.end for pair in pairs)
        else ("no two metadata logs have an offset in common")
    )


@checker(
    Kind(
        METADATA_DIVERGENCE,
        guarantee="Controllers hold the same metadata at every offset that is committed.",
        singular="offset of the metadata log differs between controllers, or is missing",
        plural="offsets of the metadata log differ between controllers, or are missing",
        severity=Severity.CRITICAL,
        promise="agreement: every controller has the records that the quorum committed (KIP-595)",
        breaks=if_controllers_keep_disks,
        says=_says,
    ),
    idle=_idle,
)
def metadata_divergence(tables: Tables) -> pa.Table:
    """Return offsets at which controllers' logs differ, or one log lacks records."""
    rows: list[Row] = []
    pairs: list[_Pair] = []
    for case in tables.cases:
        logs = controller_logs(tables)[case.key]
        committed = case.committed
        rows += [row for log in logs for row in _by_itself(log, committed.get(log.controller, 0))]
        pairs += [pair for pair in _pairs(logs, committed) if pair.differs]
    rows += _compared(tables.engine, pairs)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _by_itself(log: ControllerLog, bound: int) -> Iterator[Row]:
    for damage in log.damage:
        where = f"no valid batch ({damage['segment']:020d}.log, byte {damage['position']})"
        yield _row(log, damage["base_offset"], f"{where}: {damage['error']}")
    if log.first is not None and log.first > log.covered:
        says = f"no record before offset {log.first}, although no snapshot covers these offsets"
        yield _row(log, log.first - 1, says)
    if log.end < bound and not (log.damage or log.unread):
        says = (
            "no record from here on, although the quorum's leader reported"
            f" {bound - log.end} more committed records of this log"
        )
        yield _row(log, log.end, says)


def _row(log: ControllerLog, offset: int | None, says: str) -> Row:
    return _anomaly(log.run, offset, [_copy(log, offset, None, says)])


def _anomaly(run: str, offset: int | None, copies: list[Row]) -> Row:
    place = {
        "run": run,
        "kind": METADATA_DIVERGENCE,
        "topic": METADATA_TOPIC,
        "partition": 0,
        "offset": offset,
    }
    return {**place, "copies": copies}


def _copy(log: ControllerLog, offset: int | None, epoch: int | None, says: str) -> Row:
    where = {"broker": log.controller, "partition": 0, "offset": offset}
    return {**where, "leader_epoch": epoch, "note": says}


def _pairs(logs: Sequence[ControllerLog], committed: dict[int, int]) -> Iterator[_Pair]:
    for left, right in combinations(logs, 2):
        committed_below = min(committed.get(log.controller, 0) for log in (left, right))
        yield _Pair(logs=(left, right), bound=max(committed_below, _matching(left, right)))


def _matching(left: ControllerLog, right: ControllerLog) -> int:
    """Return the offset after the last offset at which both logs' records have the same epoch."""
    bound = 0
    for epoch in left.epochs.keys() & right.epochs.keys():
        (first, last), (begin, end) = left.epochs[epoch], right.epochs[epoch]
        if max(first, begin) <= min(last, end):
            bound = max(bound, min(last, end) + 1)
    return bound


def _compared(engine: Engine, pairs: Sequence[_Pair]) -> Iterator[Row]:
    if not pairs:
        return
    differences = compare(_replica_logs(engine, pairs))
    differing = differences.offsets.where(F.col("other_record") | F.col("other_epoch"))
    places = differing.select("part", "offset").union(differences.lacking.select("part", "offset"))
    by_run: dict[tuple[str, int], dict[int, ControllerLog]] = {}
    for place in places.distinct().collect():
        for log in pairs[place["part"]].logs:
            by_run.setdefault((log.run, place["offset"]), {})[log.controller] = log
    for (run, offset), logs in sorted(by_run.items()):
        copies = [_record(log, offset) for _, log in sorted(logs.items())]
        yield _anomaly(run, offset, copies)


def _record(log: ControllerLog, offset: int) -> Row:
    rows = log.between(offset, offset + 1).to_pylist()
    if not rows:
        return _copy(log, offset, None, "no record")
    row = rows[0]
    value = row["value"] or b""
    control = _CONTROLS.get(row["control_type"], row["control_type"])
    name = control if row["control"] else metadata_records.name(value)
    digest = sha256(repr((row["key"], value)).encode()).hexdigest()[:_DIGITS]
    says = f"{name} of epoch {row['leader_epoch']}, {len(value)} bytes with digest {digest}"
    return _copy(log, offset, row["leader_epoch"], says)


def _replica_logs(engine: Engine, pairs: Sequence[_Pair]) -> ReplicaLogs:
    """Return the input of ``compare``: each pair is a partition with two replicas."""
    sides = [(part, pair, log) for part, pair in enumerate(pairs) for log in pair.logs]
    rows = [
        _numbered(part, replica, pair.bound, log) for replica, (part, pair, log) in enumerate(sides)
    ]
    records = engine.given(pa.concat_tables(rows)).withColumn(
        "print", F.xxhash64("key", "value", "control")
    )
    return ReplicaLogs(
        engine=engine,
        records=records,
        extents={
            replica: Extent(part=part, first=log.first, leo=min(log.end, pair.bound), gaps_till=0)
            for replica, (part, pair, log) in enumerate(sides)
            if log.first is not None
        },
        segments=[
            (replica, segment.base_offset, segment.end)
            for replica, (_, _, log) in enumerate(sides)
            for segment in log.segments
        ],
        damaged=any(log.damage for _, _, log in sides),
        keyed=False,
        doubted=False,
    )


def _numbered(part: int, replica: int, bound: int, log: ControllerLog) -> pa.Table:
    sound = log.between(0, bound).select(_READ)
    damage = pa.Table.from_pylist([*log.damage], schema=log.records.schema).select(_READ)
    rows = pa.concat_tables([sound, damage])
    numbers = {
        "part": pa.repeat(pa.scalar(part, pa.int32()), len(rows)),
        "replica": pa.repeat(pa.scalar(replica, pa.int32()), len(rows)),
        "hw": pa.nulls(len(rows), pa.int64()),
        "trusted": pa.repeat(pa.scalar(value=True), len(rows)),
    }
    for name, column in numbers.items():
        rows = rows.append_column(name, column)
    return rows

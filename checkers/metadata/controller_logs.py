"""Read the metadata logs of KRaft controllers from their disks, in this process.

These logs are small, with a few records a second. So this process reads them, and Spark only
compares the logs that differ (``checkers.metadata.metadata_divergence``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.derived import derived
from highwater.checkers.inspection.replica_extents import ORDINARY, TORN, UNREADABLE
from highwater.checkers.kafka_files.reader import SCHEMA, read_file, read_segment
from highwater.checkers.kafka_files.segment_files import Segment
from highwater.checkers.kafka_files.whole_copies import METADATA_TOPIC, metadata_segments
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.base.files import open_regular

VOTERS_RECORD: Final = "type 6"
"""The control type of a VotersRecord, in ``reader.SCHEMA``."""

Row = dict[str, Any]

_SNAPSHOT: Final = re.compile(r"(?P<end>\d{20})-(?P<epoch>\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Snapshot:
    """A snapshot of the metadata: all decisions below an offset (KIP-630).

    Attributes:
        end: the first offset that is not in the snapshot.
        epoch: the epoch of the last record in the snapshot.
    """

    end: int
    epoch: int
    path: Path


@dataclass(frozen=True, kw_only=True)
class ControllerLog:
    """The metadata log of one controller.

    Attributes:
        controller: the controller's node id.
        records: the log's records in order, in ``reader.SCHEMA``.
        damage: the ranges of the log that are not a valid batch, in the same columns. A torn end
            after a kill is not included.
        unread: true if the operating system failed to read a part of the log.
    """

    run: str
    controller: int
    segments: tuple[Segment, ...]
    snapshots: tuple[Snapshot, ...]
    records: pa.Table
    damage: tuple[Row, ...]
    unread: bool

    @property
    def first(self) -> int | None:
        """The offset of the log's first record; None if the log holds no record."""
        return self.records["offset"][0].as_py() if len(self.records) else None

    @property
    def end(self) -> int:
        """The offset after the log's last record and after all offsets that a snapshot covers."""
        last = self.records["offset"][-1].as_py() + 1 if len(self.records) else 0
        return max([last, *(snapshot.end for snapshot in self.snapshots)])

    @property
    def covered(self) -> int:
        """The offset below which the snapshots have all decisions."""
        return max((snapshot.end for snapshot in self.snapshots), default=0)

    @cached_property
    def epochs(self) -> dict[int, tuple[int, int]]:
        """Each epoch of the log's records, with its first and last offset."""
        grouped = self.records.group_by("leader_epoch").aggregate(
            [("offset", "min"), ("offset", "max")]
        )
        rows = zip(*(grouped[name].to_pylist() for name in _OF_EPOCHS), strict=True)
        return {epoch: (first, last) for epoch, first, last in rows if epoch is not None}

    @property
    def rank(self) -> tuple[int, int]:
        """The log's last epoch and its end.

        Of two logs, the log with the greater pair is newer (KIP-595).
        """
        last = max(self.snapshots, default=None)
        epoch = max([-1, *self.epochs, *([last.epoch] if last else [])])
        return epoch, self.end

    def between(self, first: int, end: int) -> pa.Table:
        """Return the log's records from offset ``first`` up to offset ``end``, exclusive."""
        offset = self.records["offset"]
        return self.records.filter(pc.and_(pc.greater_equal(offset, first), pc.less(offset, end)))


_OF_EPOCHS: Final = ("leader_epoch", "offset_min", "offset_max")


@derived
def controller_logs(tables: Tables) -> dict[str, list[ControllerLog]]:
    """Return the metadata logs of all KRaft controllers, by run."""
    return {case.key: read_logs(case) for case in tables.cases}


def read_logs(case: RunFiles) -> list[ControllerLog]:
    """Return the metadata log of every controller of a run, ordered by controller id."""
    return [
        _read(case, controller, case.metadata_logs[controller])
        for controller in sorted(case.metadata_logs)
    ]


def read_snapshot(log: ControllerLog, snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the records of a snapshot, without its control records."""
    for batch in _snapshot_batches(log, snapshot):
        yield from _values(batch)


def last_voters(log: ControllerLog) -> bytes | None:
    """Return the last VotersRecord (KIP-853); None if the controllers' settings name the voters."""
    of_log = log.records.to_batches()
    of_snapshots = (
        batch for snapshot in log.snapshots for batch in _snapshot_batches(log, snapshot)
    )
    last = None
    for batch in chain(of_snapshots, of_log):
        votes = batch.filter(pc.equal(batch["control_type"], VOTERS_RECORD))
        if len(votes):
            last = votes["value"][-1].as_py()
    return last


def _snapshot_batches(log: ControllerLog, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    where = Segment(
        path=str(snapshot.path),
        run=log.run,
        broker=log.controller,
        topic=METADATA_TOPIC,
        partition=0,
        base_offset=0,
    )
    with open_regular(snapshot.path) as file:
        yield from read_file(file, where)


def values(records: pa.Table) -> Iterator[bytes]:
    """Yield the values of records in order, without control records."""
    for batch in records.to_batches():
        yield from _values(batch)


def _values(batch: pa.RecordBatch) -> Iterator[bytes]:
    rows = zip(batch["value"].to_pylist(), batch["control"].to_pylist(), strict=True)
    yield from (value for value, control in rows if value is not None and not control)


def _read(case: RunFiles, controller: int, folder: Path) -> ControllerLog:
    segments = metadata_segments(case.key, controller, folder)
    rows = pa.Table.from_batches(
        [batch for segment in segments for batch in read_segment(segment)], SCHEMA
    )
    damage = rows.filter(pc.is_valid(rows["damage"])).to_pylist()
    return ControllerLog(
        run=case.key,
        controller=controller,
        segments=tuple(segments),
        snapshots=tuple(sorted(_snapshots(folder))),
        records=rows.filter(pc.is_valid(rows["offset"])),
        damage=tuple(_extraordinary(damage, segments)),
        unread=any(row["damage"] == UNREADABLE for row in damage),
    )


def _snapshots(folder: Path) -> Iterator[Snapshot]:
    for path in folder.iterdir():
        if name := _SNAPSHOT.fullmatch(path.name):
            yield Snapshot(end=int(name["end"]), epoch=int(name["epoch"]), path=path)


def _extraordinary(damage: Iterable[Row], segments: Sequence[Segment]) -> Iterator[Row]:
    """Yield the damaged ranges that neither a kill nor preallocation explains."""
    for row in damage:
        inside = row["damage"] == TORN and row["segment"] < segments[-1].base_offset
        if inside or row["damage"] not in (*ORDINARY, UNREADABLE):
            yield row

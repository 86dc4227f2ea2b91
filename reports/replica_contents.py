"""Compare the records of a partition's replicas at the end of a run, offset by offset."""

import glob
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from highwater.checkers.kafka_files.reader import read_partition
from highwater.harness.base.errors import HighwaterError
from highwater.harness.runs.partition_trace import Partition
from highwater.harness.runs.store import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOnDisk:
    """A record or marker on disk: its id or kind, and the leader epoch in which it was appended.

    ``value`` is None if neither the id nor the kind of marker can be read.
    """

    value: str | None
    epoch: int | None = None
    note: str = ""


Holdings: TypeAlias = Mapping[int, Mapping[int, RecordOnDisk]]
"""The record at each offset of each broker's replica, by broker id and offset."""

AROUND: Final = 3
"""Number of offsets shown before and after an offset where replicas differ."""
TAIL: Final = 4
RUN_MAX: Final = 8
"""Longest sequence of offsets that is shown completely; of longer sequences, only both ends are
shown."""
ROWS_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """The records of all replicas at one offset.

    ``states`` has a word for each broker: ``same``, ``odd`` (differs from most replicas) or
    ``none``. ``copies`` has None for a replica without a record at the offset.
    """

    offset: int
    subject: bool
    differs: bool
    copies: tuple[RecordOnDisk | None, ...]
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets between two rows that are not shown: their number, and how many of them differ."""

    offsets: int
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A comparison of one partition's replicas: rows and gaps in the order of offsets."""

    brokers: tuple[int, ...]
    rows: tuple[OffsetRow | Gap, ...]
    offsets: int
    differing: int


def side_by_side(holdings: Holdings, subjects: Iterable[int]) -> SideBySide:
    """Compare replicas; return rows near ``subjects``, near differences and at the end."""
    brokers = tuple(sorted(holdings))
    offsets = sorted({offset for holding in holdings.values() for offset in holding})
    subject_offsets = set(subjects)
    differing = {o for o in offsets if _differs([holdings[b].get(o) for b in brokers])}
    keep = set(offsets[-TAIL:])
    for offset in _ends(sorted(subject_offsets | differing)):
        if len(keep) >= ROWS_MAX:
            break
        keep |= set(range(offset - AROUND, offset + AROUND + 1))
    rows: list[OffsetRow | Gap] = []
    for is_kept, group in groupby(sorted({*offsets, *subject_offsets}), keep.__contains__):
        run = list(group)
        if is_kept:
            rows += [_row(holdings, brokers, o, subject=o in subject_offsets) for o in run]
        else:
            rows.append(Gap(offsets=len(run), differing=len(differing.intersection(run))))
    return SideBySide(
        brokers=brokers, rows=tuple(rows), offsets=len(offsets), differing=len(differing)
    )


def _ends(offsets: list[int]) -> list[int]:
    """Return the offsets; of more than ``RUN_MAX`` consecutive offsets, only the first and last."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][-1] + 1:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return [o for run in runs for o in (run if len(run) <= RUN_MAX else (run[0], run[-1]))]


def _differs(disks: Iterable[RecordOnDisk | None]) -> bool:
    """Return whether replicas have different records; a missing record is no difference."""
    return len({(h.value, h.note) for h in disks if h is not None}) > 1


def _row(holdings: Holdings, brokers: tuple[int, ...], offset: int, *, subject: bool) -> OffsetRow:
    copies = tuple(holdings[b].get(offset) for b in brokers)
    present = [(h.value, h.note) for h in copies if h is not None]
    differs = len(set(present)) > 1
    usual = max(set(present), key=lambda v: (present.count(v), v[0] or "")) if present else None
    states = tuple(
        "none" if h is None else "odd" if differs and (h.value, h.note) != usual else "same"
        for h in copies
    )
    return OffsetRow(offset=offset, subject=subject, differs=differs, copies=copies, states=states)


def replica_folders(run: Run, partition: Partition, without: Collection[str]) -> list[Path]:
    """Return the folders of one partition's replicas, in order.

    Args:
        without: paths of unusable files. A replica with such a file is left out, unless the file is
            a checkpoint.
    """
    topic, number = partition
    if not run.disks_here:
        return []
    folders = run.replicas.glob(f"*/{glob.escape(topic)}-{number}")
    return [
        folder
        for folder in sorted(folders)
        if folder.parent.name.isdecimal()
        and not any(
            path.startswith(folder.relative_to(run.path).as_posix())
            and not path.endswith("-checkpoint")
            for path in without
        )
    ]


def read_holdings(
    run: Run, partition: Partition, missing: list[str], without: Collection[str] = ()
) -> Holdings:
    """Read a partition's replicas after the run; add a sentence to ``missing`` for each failure."""
    topic, number = partition
    disks: dict[int, dict[int, RecordOnDisk]] = {}
    for folder in replica_folders(run, partition, without):
        records: dict[int, RecordOnDisk] = {}
        try:
            for batch in read_partition(folder, named_by_keys=run.plan().named_by_keys):
                records.update(_records(batch))
        except (HighwaterError, OSError, pa.ArrowException, ValueError) as error:
            missing.append(f"The replica on broker {folder.parent.name} cannot be read: {error}")
        disks[int(folder.parent.name)] = records
    if not disks:
        what = (
            "was copied"
            if run.disks_here
            else "was copied to this machine: the replicas are too large"
        )
        missing.append(f"No replica of {topic}-{number} {what}.")
    return disks


def _records(batch: pa.RecordBatch) -> Iterable[tuple[int, RecordOnDisk]]:
    columns = ("offset", "record_id", "leader_epoch", "crc_ok", "control_type")
    rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    for offset, value, epoch, crc_ok, control in rows:
        if offset is not None:
            name = f"{control} marker" if control else value
            note = "wrong checksum" if crc_ok is False else ""
            yield offset, RecordOnDisk(value=name, epoch=epoch, note=note)

"""Read file names and checkpoint files of log directories: a ``ReplicaFolder`` for each log."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from highwater.checkers.inspection.log_dirs import LogDir
from highwater.checkers.inspection.report_types import LogFinding
from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCH,
    LOG_START,
    RECOVERY_POINT,
    CheckpointError,
    Offsets,
    read_epochs,
    read_offsets,
)
from highwater.checkers.kafka_files.segment_files import PARTITION, SEGMENT, Segment, limited
from highwater.harness.base.files import read_regular

CLEANED: Final = "cleaner-offset-checkpoint"
"""The file with the offset up to which the cleaner has compacted each log (LogCleanerManager)."""

_CHECKPOINTS: Final = {
    "hw": HIGH_WATERMARK,
    "recovery_point": RECOVERY_POINT,
    "log_start": LOG_START,
    "cleaned": CLEANED,
}
"""Fields of a ``ReplicaFolder`` to the file of its log directory that has them."""

_TOPIC_ID: Final = re.compile(r"^topic_id:\s*(\S+)", re.MULTILINE)
_PARTITION_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1
_LEFT_OVER: Final = (".cleaned", ".swap")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFolder:
    """One replica's folder, without the content of its segments.

    Attributes:
        number: of the replica among all that are looked at: ``broker`` in rows of kafka-log.
        hw, recovery_point, log_start, cleaned: from the checkpoint files; None: not there.
        epochs: of leader-epoch-checkpoint; None: there is none.
        topic_id: of partition.metadata (KIP-516); None: there is none.
        findings: files that could not be read, and unknown files.
    """

    number: int
    broker: int
    path: Path
    log_dir: LogDir
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    bytes: int
    hw: int | None
    recovery_point: int | None
    log_start: int | None
    cleaned: int | None
    epochs: tuple[tuple[int, int], ...] | None
    topic_id: str | None
    findings: tuple[LogFinding, ...]


def replicas(log_dirs: Sequence[LogDir], *, internal: bool) -> list[ReplicaFolder]:
    """Return every replica in some log directories, in order of topic, partition and broker.

    ``internal``: whether Kafka's own topics, whose names begin with two underscores, are wanted.
    """
    folders = [
        (folder, log_dir, *read)
        for log_dir in log_dirs
        for read in [_checkpoints(log_dir)]
        for folder in _folders(log_dir, internal=internal)
    ]
    folders.sort(key=lambda entry: (*_name(entry[0]), entry[1].broker, entry[1].name))
    return [_replica(number, *entry) for number, entry in enumerate(folders)]


def _checkpoints(log_dir: LogDir) -> tuple[dict[str, Offsets | None], list[LogFinding]]:
    """Return a log directory's checkpoint files by field; None where one is missing or broken."""
    findings: list[LogFinding] = []
    offsets = {
        field: _read(log_dir, log_dir.path / name, read_offsets, findings)
        for field, name in _CHECKPOINTS.items()
    }
    return offsets, findings


def _read(
    log_dir: LogDir, path: Path, read: Callable[[Path], _T], findings: list[LogFinding]
) -> _T | None:
    """Return a checkpoint file's content; its errors go to ``findings``."""
    if path in log_dir.without or not os.path.lexists(path):
        return None
    try:
        return read(path)
    except CheckpointError as error:
        says = f"{error.message.removeprefix(f'{path.parent}/')}. It is taken as missing."
        findings.append(LogFinding("checkpoint-broken", "warning", says))
        return None


def _name(folder: Path) -> tuple[str, int]:
    match = PARTITION.fullmatch(folder.name)
    assert match is not None
    return match["topic"], int(match["partition"])


def _folders(log_dir: LogDir, *, internal: bool) -> Iterator[Path]:
    """Return the replicas' folders; those that are being deleted or moved have other names."""
    names = log_dir.only or {path.name for path in log_dir.path.iterdir()}
    for name in sorted(names):
        match = PARTITION.fullmatch(name)
        included = internal or log_dir.only or not name.startswith("__")
        if match and included and int(match["partition"]) <= _PARTITION_MAX:
            path = log_dir.path / name
            if not path.is_file():
                yield path


def _replica(
    number: int,
    path: Path,
    log_dir: LogDir,
    checkpoints: dict[str, Offsets | None],
    broken: Sequence[LogFinding],
) -> ReplicaFolder:
    topic, partition = key = _name(path)
    findings = list(broken)
    segments, size = _segments(number, path, findings)
    return ReplicaFolder(
        number=number,
        broker=log_dir.broker,
        path=path,
        log_dir=log_dir,
        topic=topic,
        partition=partition,
        segments=segments,
        bytes=size,
        **{field: (offsets or {}).get(key) for field, offsets in checkpoints.items()},
        epochs=_read(log_dir, path / LEADER_EPOCH, read_epochs, findings),
        topic_id=_topic_id(path),
        findings=tuple(findings),
    )


def _segments(
    number: int, path: Path, findings: list[LogFinding]
) -> tuple[tuple[Segment, ...], int]:
    """Return a folder's segments and their bytes, without leftovers of a compaction."""
    topic, partition = _name(path)
    names: list[str] = []
    size = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if SEGMENT.fullmatch(entry.name) and int(entry.name[:20]) <= _OFFSET_MAX:
                    names.append(entry.name)
                    size += _size(entry)
                elif entry.name.endswith(_LEFT_OVER):
                    says = f"{entry.name} is left of a compaction that was interrupted; not read."
                    findings.append(LogFinding("leftover", "note", says))
    except OSError as error:
        says = f"Its folder cannot be read: {error.strerror}."
        findings.append(LogFinding("unreadable", "error", says))
        return (), 0
    if not names:
        says = "Its folder holds no segment."
        findings.append(LogFinding("no-segments", "warning", says))
    segments = [
        Segment(
            path=str((path / name).absolute()),
            run="",
            broker=number,
            topic=topic,
            partition=partition,
            base_offset=int(name.removesuffix(".log")),
        )
        for name in names
    ]
    return tuple(limited(segments)), size


def _size(entry: os.DirEntry[str]) -> int:
    """Return a file's size in bytes; 0 for a missing one, which is an error when it is read."""
    try:
        return entry.stat().st_size if entry.is_file() else 0
    except OSError:
        return 0


def _topic_id(path: Path) -> str | None:
    try:
        text = read_regular(path / "partition.metadata").decode("utf-8", "replace")
        match = _TOPIC_ID.search(text)
    except OSError:
        return None
    return match[1] if match else None

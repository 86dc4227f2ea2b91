"""Read the file names and checkpoint files of log directories: a ``ReplicaFolder`` per replica."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
from highwater.checkers.kafka_files.foreign_files import foreign_file
from highwater.checkers.kafka_files.segment_files import (
    PARTITION,
    SEGMENT,
    SNAPSHOT,
    Segment,
    left_out,
    limited,
)
from highwater.harness.base.files import read_regular

CLEANED: Final = "cleaner-offset-checkpoint"
"""The file with the offset up to which the cleaner has compacted each log (LogCleanerManager)."""

_CHECKPOINTS: Final = {
    "hw": HIGH_WATERMARK,
    "recovery_point": RECOVERY_POINT,
    "log_start": LOG_START,
    "cleaned": CLEANED,
}
"""The fields of a ``ReplicaFolder`` whose values are in checkpoint files, with the name of each
file."""

_TOPIC_ID: Final = re.compile(r"^topic_id:\s*(\S+)", re.MULTILINE)
_PARTITION_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1
_LEFT_OVER: Final = (".cleaned", ".swap")
_SET_ASIDE: Final = re.compile(r"(?P<replica>.+-\d+)\.\w+-(?:delete|future|stray)")
_INTERNAL: Final = "__"
_REMOTE_TIER: Final = ("remote-log-index-cache", "__remote_log_metadata-")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFolder:
    """One replica's directory, without the content of its segments.

    Attributes:
        number: the replica's number among all inspected replicas; in the rows of kafka-log, this
            number is in the column ``broker``.
        hw, recovery_point, log_start, cleaned: offsets from the checkpoint files; None if missing.
        cleaner_told: whether the log directory has a checkpoint of the log cleaner.
        epochs: the content of leader-epoch-checkpoint; None if the file is missing.
        topic_id: the id in partition.metadata (KIP-516); None if the file is missing.
        snapshot: the greatest offset of a producer snapshot; None without a snapshot.
        begins: the base offset in the first segment's file name; None without a segment.
        tiered: whether older segments may be in a remote tier (KIP-405).
        findings: findings about files that could not be read, and about unknown files.
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
    cleaner_told: bool
    epochs: tuple[tuple[int, int], ...] | None
    topic_id: str | None
    snapshot: int | None
    begins: int | None
    tiered: bool
    findings: tuple[LogFinding, ...]

    @property
    def name(self) -> str:
        """The name of the replica's folder."""
        return self.path.name

    @property
    def here(self) -> bool:
        """True if the replica's folder exists, even if it cannot be read."""
        return os.path.lexists(self.path)


def replicas(log_dirs: Sequence[LogDir], *, internal: bool) -> list[ReplicaFolder]:
    """Return every replica in the log directories, ordered by topic, partition and broker.

    A replica without a directory is included if its broker's checkpoint names it, and another
    broker has this partition. The broker has not deleted such a replica: to delete or move a
    replica, a broker first renames the directory, and removes it a minute later. It writes the
    checkpoint every few seconds.

    Args:
        log_dirs: the result of ``log_dirs.log_dirs``.
        internal: whether to include Kafka's internal topics, whose names begin with ``__``.
    """
    listed = [list(_folders(log_dir, internal=internal)) for log_dir in log_dirs]
    here = {path.name for paths in listed for path in paths}
    listed_names = {
        (log_dir.broker, path.name)
        for log_dir, paths in zip(log_dirs, listed, strict=True)
        for path in paths
    }
    tiered = any(_tiered(log_dir) for log_dir in log_dirs)
    folders = []
    for log_dir, paths in zip(log_dirs, listed, strict=True):
        read = _checkpoints(log_dir)
        gone = [
            name
            for name in _gone(log_dir, read[0])
            if name in here and (log_dir.broker, name) not in listed_names
        ]
        listed_names |= {(log_dir.broker, name) for name in gone}
        paths += [log_dir.path / name for name in gone]
        folders += [(path, log_dir, *read, tiered) for path in paths]
    folders.sort(key=lambda entry: (*_name(entry[0]), entry[1].broker, entry[1].name))
    return [_replica(number, *entry) for number, entry in enumerate(folders)]


def set_aside(log_dirs: Iterable[LogDir]) -> list[str]:
    """Return replicas' directories that brokers marked as stray, or were deleting or moving."""
    return [
        f"{log_dir.name}/{name}"
        for log_dir in log_dirs
        if not log_dir.only
        for name in _names(log_dir)
        if _SET_ASIDE.fullmatch(name)
    ]


def internal_partitions(log_dirs: Iterable[LogDir]) -> list[str]:
    """Return the partitions of Kafka's internal topics in the log directories, in order."""
    names = {
        path.name
        for log_dir in log_dirs
        if not log_dir.only
        for path in _folders(log_dir, internal=True)
        if path.name.startswith(_INTERNAL)
    }
    return sorted(names)


def _names(log_dir: LogDir) -> list[str]:
    return sorted(path.name for path in log_dir.path.iterdir())


def _tiered(log_dir: LogDir) -> bool:
    """Return whether a broker has an index of the remote tier, or the remote tier's topic."""
    names = [] if log_dir.only else _names(log_dir)
    return any(name.startswith(_REMOTE_TIER) for name in names)


def _gone(log_dir: LogDir, checkpoints: dict[str, Offsets | None]) -> Iterator[str]:
    """Yield replicas that a broker's checkpoint names, but whose directory is missing."""
    if log_dir.only:
        return
    names = _names(log_dir)
    there = {match["replica"] if (match := _SET_ASIDE.fullmatch(name)) else name for name in names}
    for topic, partition in checkpoints["hw"] or {}:
        if (name := f"{topic}-{partition}") not in there:
            yield name


def _checkpoints(log_dir: LogDir) -> tuple[dict[str, Offsets | None], list[LogFinding]]:
    """Return a log directory's checkpoints by field; None for a missing or malformed file."""
    findings: list[LogFinding] = []
    offsets = {
        field: _read(log_dir, log_dir.path / name, read_offsets, findings)
        for field, name in _CHECKPOINTS.items()
    }
    return offsets, findings


def _read(
    log_dir: LogDir, path: Path, read: Callable[[Path], _T], findings: list[LogFinding]
) -> _T | None:
    """Return a checkpoint file's content, and add the file's errors to ``findings``."""
    if path in log_dir.without or not os.path.lexists(path):
        return None
    try:
        return read(path)
    except CheckpointError as error:
        says = f"{error.message.removeprefix(f'{path.parent}/')}. The inspection ignores this file."
        findings.append(LogFinding("checkpoint-broken", "warning", says))
        return None


def _name(folder: Path) -> tuple[str, int]:
    match = PARTITION.fullmatch(folder.name)
    assert match is not None
    return match["topic"], int(match["partition"])


def _folders(log_dir: LogDir, *, internal: bool) -> Iterator[Path]:
    """Yield the directories of replicas, without those that a broker was deleting or moving."""
    for name in sorted(log_dir.only) or _names(log_dir):
        match = PARTITION.fullmatch(name)
        included = internal or log_dir.only or not name.startswith(_INTERNAL)
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
    tiered: bool,
) -> ReplicaFolder:
    topic, partition = key = _name(path)
    findings = list(broken)
    segments, size, snapshot = _segments(number, path, findings)
    strange = {segment: kind for segment in segments if (kind := foreign_file(segment))}
    for segment, file_kind in strange.items():
        says = f"{Path(segment.path).name} is no Kafka log but {file_kind}."
        findings.append(LogFinding("unreadable", "error", says))
    return ReplicaFolder(
        number=number,
        broker=log_dir.broker,
        path=path,
        log_dir=log_dir,
        topic=topic,
        partition=partition,
        segments=tuple(segment for segment in segments if segment not in strange),
        bytes=size,
        **{field: (offsets or {}).get(key) for field, offsets in checkpoints.items()},
        cleaner_told=checkpoints["cleaned"] is not None,
        epochs=_read(log_dir, path / LEADER_EPOCH, read_epochs, findings),
        topic_id=_topic_id(path),
        snapshot=snapshot,
        begins=segments[0].base_offset if segments else None,
        tiered=tiered,
        findings=tuple(findings),
    )


def _segments(
    number: int, path: Path, findings: list[LogFinding]
) -> tuple[tuple[Segment, ...], int, int | None]:
    """Return a folder's segments, their size in bytes, and the greatest offset of a snapshot."""
    topic, partition = _name(path)
    try:
        with os.scandir(path) as entries:
            sizes = {entry.name: _size(entry) for entry in entries}
    except OSError as error:
        findings.append(_without_folder(path, error))
        return (), 0, None
    findings += _left_behind(sizes)
    names = [name for name in sizes if _is_segment(name)]
    snapshots = [int(match[1]) for name in sizes if (match := SNAPSHOT.fullmatch(name))]
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
    size = sum(sizes[name] for name in names)
    return tuple(limited(segments)), size, max(snapshots, default=None)


def _is_segment(name: str) -> bool:
    return SEGMENT.fullmatch(name) is not None and int(name[:20]) <= _OFFSET_MAX


def _without_folder(path: Path, error: OSError) -> LogFinding:
    """Return the finding about a directory that is missing or cannot be listed."""
    if os.path.lexists(path):
        says = f"The replica's directory cannot be read: {error.strerror}."
        return LogFinding("unreadable", "error", says)
    says = (
        f"The replica's directory is missing, but the broker's {HIGH_WATERMARK} names its "
        f"partition."
    )
    return LogFinding("no-folder", "error", says)


def _left_behind(names: Collection[str]) -> Iterator[LogFinding]:
    """Yield findings about file names: leftovers of compaction, and files that the copy lacks."""
    for name in sorted(names):
        if name.endswith(_LEFT_OVER):
            says = (
                f"{name} was left by an interrupted compaction. The inspection ignores this file."
            )
            yield LogFinding("leftover", "note", says)
    if (lacking := left_out(names)) is not None:
        yield LogFinding("missing-segment", "error", f"The replica's folder {lacking}.")


def _size(entry: os.DirEntry[str]) -> int:
    """Return a file's size in bytes; 0 if the file is missing, which causes an error later."""
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

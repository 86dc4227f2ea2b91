"""Functions that damage the files of a stopped broker.

Kafka appends records to the newest segment of a log. It flushes the segment when the segment is
full, at a clean shutdown, or after ``flush.messages`` records (``Log.append``, ``Log.roll``). The
offset up to which a log is flushed is its *recovery point*, which Kafka writes to
``recovery-point-offset-checkpoint`` every ``log.flush.offset.checkpoint.interval.ms``. Records
above the recovery point may exist only in the page cache.
"""

import contextlib
import os
import random
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    CheckpointError,
    Offsets,
    read_offsets,
)
from highwater.checkers.kafka_files.segment_files import PARTITION, SEGMENT
from highwater.harness.runs.faults.effects import RemovedOffsets

META_PROPERTIES: Final = "meta.properties"
"""The file with the ids of the log directory's node and cluster. On KRaft a node does not start
without it."""

SURVIVED: Final = "survived-offset-checkpoint"
"""A file that Highwater writes, in Kafka's checkpoint format. It has each replica's end offset
after the last simulated power failure."""

METADATA: Final = "__cluster_metadata"
"""The directory of KRaft's metadata log. Kafka flushes every append to this log
(``KafkaMetadataLog.appendAsLeader``)."""

_FRAME: Final = struct.Struct(">qi4xb")  # offset, length, (epoch or checksum), magic
_BLOCK: Final = 4096
_HEAD: Final = 12  # bytes of the fields offset and length, which the length does not count
_LAST_DELTA_AT: Final = 23  # in format 2: the last offset minus the base offset
_BATCHED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOnDisk:
    """A batch of records in a segment: its byte positions, its first and its last offset."""

    position: int
    end: int
    first: int
    last: int


def partitions(directory: Path, topic: str | None = None) -> list[Path]:
    """Return the folders of a topic's replicas, or of all replicas except KRaft's metadata log."""
    paths = []
    for folder in sorted(directory.iterdir()):
        name = PARTITION.fullmatch(folder.name)
        if name and folder.is_dir() and name["topic"] != METADATA:
            paths += [folder] if topic in {None, name["topic"]} else []
    return paths


def partition_of(replica: Path) -> int:
    """Return the partition number from a replica's directory name."""
    return int(replica.name.rpartition("-")[2])


def _used(directory: Path, topic: str) -> list[Path]:
    """Return the folders of the replicas of a topic and of Kafka's internal topics."""
    every = partitions(directory)
    return [folder for folder in every if folder.name.startswith("__")] + partitions(
        directory, topic
    )


def segments(replica: Path) -> list[Path]:
    """Return the segments of a replica, oldest first."""
    return sorted(path for path in replica.iterdir() if SEGMENT.fullmatch(path.name))


def batches(segment: Path) -> Iterator[BatchOnDisk]:
    """Yield the complete batches of a segment in order; in formats 0 and 1 a message is a batch.

    In formats 0 and 1 the offset of a batch is the offset of its last record.
    """
    data = segment.read_bytes()
    at = 0
    while len(data) - at >= _FRAME.size:
        offset, length, magic = _FRAME.unpack_from(data, at)
        end = at + length + _HEAD
        if length <= 0 or end > len(data):
            return
        last = offset
        if magic >= _BATCHED:
            last += int.from_bytes(data[at + _LAST_DELTA_AT :][:4])
        yield BatchOnDisk(position=at, end=end, first=offset, last=last)
        at = end


def lose_unflushed(
    directory: Path, topic: str, *, flushes: int | None, spared: float = 0.0
) -> list[RemovedOffsets]:
    """Remove unflushed bytes from replicas of a topic and of internal topics, as if power failed.

    Kafka flushes a segment when the next segment begins. So unflushed bytes are only in the newest
    segment, above the recovery point. If the broker flushes after every ``flushes`` records, the
    recovery point on disk may be too old. Then at most ``flushes - 1`` records are unflushed.
    Records that survived an earlier power failure are on the disk, and remain. (Kafka does not
    treat them as flushed when it starts: ``LogLoader.recoverLog``.)

    Args:
        directory: a log directory of a stopped broker.
        flushes: the topic's ``flush.messages``; None if it is not set.
        spared: the fraction of the unflushed bytes that the disk keeps, from 0 to 1. The log may
            then end in the middle of a batch, as after a real power failure.

    Returns:
        The offsets that each replica lost; replicas without a loss are left out.
    """
    flushed, survived = (_offsets(directory / name) for name in (RECOVERY_POINT, SURVIVED))
    lost = []
    for replica in _used(directory, topic):
        before = _whole(replica)
        key = (before.topic, before.partition)
        point = max(flushed.get(key, 0), survived.get(key, 0))
        if flushes is not None:
            point = max(point, before.end - (flushes - 1))
        _lose_tail(replica, point, spared)
        survived[key] = _whole(replica).end
        lost.append(_cut(replica, survived[key], before.end))
    lines = [f"{topic} {partition} {end}\n" for (topic, partition), end in survived.items()]
    text = f"0\n{len(lines)}\n{''.join(lines)}"
    (directory / SURVIVED).write_text(text, encoding="ascii")
    return [loss for loss in lost if loss.end > loss.first]


def _offsets(checkpoint: Path) -> Offsets:
    """Return the offset of each replica in a checkpoint; empty if the file cannot be read."""
    with contextlib.suppress(CheckpointError):
        return read_offsets(checkpoint)
    return {}


def _lose_tail(replica: Path, point: int, spared: float) -> None:
    """Remove the batches from offset ``point`` on, but keep the share ``spared`` of their bytes."""
    replica_segments = segments(replica)
    batch_list = list(batches(replica_segments[-1])) if replica_segments else []
    unflushed = [batch for batch in batch_list if batch.last >= point]
    if unflushed:
        start, end = unflushed[0].position, batch_list[-1].end
        os.truncate(replica_segments[-1], start + int(spared * (end - start)))


def unpromised(directory: Path, topic: str) -> dict[Path, bytes | int]:
    """Return the state of a disk, before the fault ``disk-lies`` makes flushes do nothing.

    Returns:
        Each segment's size in bytes, and the contents of each checkpoint file.
    """
    checkpoints = [directory / name for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START)]
    sizes = {file: file.stat().st_size for file in _every_segment(directory, topic)}
    return sizes | {file: file.read_bytes() for file in checkpoints if file.exists()}


def lose_promised(
    directory: Path, topic: str, before: Mapping[Path, bytes | int], choice: float
) -> list[RemovedOffsets]:
    """Remove bytes that Kafka wrote after ``before``, although it flushed them.

    If ``choice`` is below 0.5, the disk has written in order. Each log then ends within a block
    whose rest is zeros, and the checkpoints have their old contents. Otherwise the disk has written
    out of order. The checkpoints then have their new contents, and one block of each log is zeros.

    Args:
        topic: the topic whose replicas are damaged, together with internal topics.
        before: the result of ``unpromised``, before flushes did nothing.
        choice: a number from 0 to 1.

    Returns:
        The offsets that each replica lost. Kafka truncates a log at a block of zeros, but only
        above the log's recovery point.
    """
    in_order, share = choice < 0.5, 2 * choice % 1.0  # noqa: PLR2004 - both are as likely
    lost = []
    for replica in _used(directory, topic):
        whole, replica_segments = _whole(replica), segments(replica)
        new = [(file, file.stat().st_size - _size(before, file)) for file in replica_segments]
        at = int(share * sum(size for _, size in new))
        for file, size in new:
            if 0 <= at < size:
                first = _zero(file, _size(before, file) + at, ends=in_order)
                lost.append(_cut(replica, first, whole.end))
            elif at < 0 and in_order:
                os.truncate(file, 0)
            at -= size
    for file, content in before.items() if in_order else ():
        if isinstance(content, bytes):
            file.write_bytes(content)
    return [loss for loss in lost if loss.end > loss.first]


def _size(before: Mapping[Path, bytes | int], segment: Path) -> int:
    size = before.get(segment, 0)
    assert isinstance(size, int)
    return size


def _zero(segment: Path, at: int, *, ends: bool) -> int:
    """Write zeros from byte ``at`` to the end of its disk block; return the first lost offset.

    Args:
        ends: whether to truncate the file after this block.
    """
    hit = [batch.first for batch in batches(segment) if batch.end > at]
    end = min(segment.stat().st_size, at - at % _BLOCK + _BLOCK)
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(bytes(end - at))
        if ends:
            file.truncate()
    return hit[0] if hit else int(segment.stem)


def _every_segment(directory: Path, topic: str) -> list[Path]:
    return [file for replica in _used(directory, topic) for file in segments(replica)]


def wipe(directory: Path) -> list[RemovedOffsets]:
    """Remove all files of a log directory except ``meta.properties``, like a replaced disk."""
    ranges = [_whole(replica) for replica in partitions(directory)]
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != META_PROPERTIES:
            entry.unlink()
    return [loss for loss in ranges if loss.end > loss.first]


def remove_segment(directory: Path, topic: str) -> list[RemovedOffsets]:
    """Remove the oldest segment of each replica of a topic, and the indexes of that segment."""
    lost = []
    for offsets, files in _oldest_segments(directory, topic):
        lost.append(offsets)
        for file in files:
            file.unlink()
    return [loss for loss in lost if loss.end > loss.first]


def _oldest_segments(
    directory: Path, topic: str
) -> Iterator[tuple[RemovedOffsets, Sequence[Path]]]:
    """Yield the offsets and the files of the oldest segment of each replica of a topic."""
    for replica in partitions(directory, topic):
        replica_segments = segments(replica)
        if replica_segments:
            whole = _whole(replica)
            end = int(replica_segments[1].stem) if len(replica_segments) > 1 else whole.end
            files = sorted(replica.glob(f"{replica_segments[0].stem}.*"))
            yield _cut(replica, whole.first, end), files


def remove_file(
    directory: Path, topic: str, choice: float
) -> tuple[list[str], list[RemovedOffsets]]:
    """Remove one file of the oldest segment of each replica of a topic.

    Args:
        choice: a number from 0 to 1, which decides the file.

    Returns:
        The names of the removed files, and the offsets that were in them.
    """
    names, lost = [], []
    for offsets, files in _oldest_segments(directory, topic):
        file = files[int(choice * len(files))]
        file.unlink()
        names.append(f"{file.parent.name}/{file.name}")
        lost += [offsets] if SEGMENT.fullmatch(file.name) and offsets.end > offsets.first else []
    return names, lost


def ends(directory: Path, topic: str) -> dict[str, RemovedOffsets]:
    """Return replicas' offset ranges by folder name (``events-0``), also of internal topics."""
    return {replica.name: _whole(replica) for replica in _used(directory, topic)}


def copy_log_directory(directory: Path, topic: str, target: Path) -> None:
    """Copy a log directory without replicas of other topics; internal topics are copied."""
    target.mkdir(parents=True)
    for entry in _entries(directory, topic):
        if entry.is_dir():
            shutil.copytree(entry, target / entry.name)
        else:
            shutil.copy2(entry, target / entry.name)


def restore(directory: Path, topic: str, copy: Path) -> list[RemovedOffsets]:
    """Restore a copy of a log directory; return the offsets that its replicas have lost."""
    before = ends(directory, topic)
    for entry in _entries(directory, topic):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    shutil.copytree(copy, directory, dirs_exist_ok=True)
    after = ends(directory, topic)
    lost = [
        RemovedOffsets(
            whole.topic, whole.partition, after[name].end if name in after else 0, whole.end
        )
        for name, whole in before.items()
    ]
    return [loss for loss in lost if loss.end > loss.first]


def _entries(directory: Path, topic: str) -> list[Path]:
    """Return a log directory's entries without replicas of other topics; keep internal topics."""
    others = {*partitions(directory)} - {*_used(directory, topic)}
    return [entry for entry in sorted(directory.iterdir()) if entry not in others]


def remove_indexes(directory: Path, topic: str) -> int:
    """Remove every index file of a topic's replicas; return the number of files."""
    files = [path for replica in partitions(directory, topic) for path in replica.glob("*index")]
    for file in files:
        file.unlink()
    return len(files)


def flip_bit(
    directory: Path, topic: str, partition: int, choice: float
) -> tuple[BatchOnDisk, int] | None:
    """Flip one bit in a batch of a replica, in the newest segment that has batches.

    Args:
        choice: a number from 0 to 1, which decides the batch.

    Returns:
        The batch and the replica's end offset; None if the replica has no batch.
    """
    for segment in reversed(segments(directory / f"{topic}-{partition}")):
        if batch_list := list(batches(segment)):
            batch = batch_list[int(choice * len(batch_list))]
            with segment.open("r+b") as file:
                file.seek(batch.end - 1)
                byte = file.read(1)[0]
                file.seek(batch.end - 1)
                file.write(bytes([byte ^ 1]))
            return batch, batch_list[-1].last + 1
    return None


def tear(files: Iterable[Path], choice: float) -> str:
    """Empty each file, or replace its bytes by zeros; return a text about the changes.

    Args:
        choice: a number from 0 to 1, which decides what happens to each file.
    """
    says = []
    for file in files:
        dice = random.Random(f"{file.name} {file.parent.name} {choice}")  # noqa: S311 - repeatable
        zeros = dice.random() < 0.5  # noqa: PLR2004 - both may happen
        file.write_bytes(bytes(file.stat().st_size) if zeros else b"")
        place = f"{file.parent.name}/{file.name}"
        says.append(f"{place} {'has zeros alone' if zeros else 'is empty'}")
    return ", ".join(says)


def _whole(replica: Path) -> RemovedOffsets:
    """Return the range of all offsets in a replica."""
    replica_segments = segments(replica)
    first = int(replica_segments[0].stem) if replica_segments else 0
    batch_list = [batch for segment in replica_segments[-1:] for batch in batches(segment)]
    return _cut(
        replica,
        first,
        batch_list[-1].last + 1
        if batch_list
        else int(replica_segments[-1].stem)
        if replica_segments
        else 0,
    )


def _cut(replica: Path, after: int, before: int) -> RemovedOffsets:
    name = PARTITION.fullmatch(replica.name)
    assert name is not None
    return RemovedOffsets(
        topic=name["topic"], partition=int(name["partition"]), first=after, end=before
    )

"""Damage to the files of a broker that is down: no process, no cluster.

Kafka appends to the newest segment of a log and flushes it when the segment is full, when it shuts
down in order, or when ``flush.messages`` says so (``Log.append``, ``Log.roll``). The offset up to
which it has flushed is its *recovery point*, written to ``recovery-point-offset-checkpoint`` every
``log.flush.offset.checkpoint.interval.ms``. What lies above exists in the page cache alone.
"""

import contextlib
import os
import random
import shutil
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    RECOVERY_POINT,
    CheckpointError,
    Offsets,
    read_offsets,
)
from highwater.checkers.kafka_files.segment_files import PARTITION, SEGMENT
from highwater.harness.runs.faults.effects import RemovedOffsets

META_PROPERTIES: Final = "meta.properties"
"""Says which node of which cluster a log directory is of; KRaft does not start without it."""

SURVIVED: Final = "survived-offset-checkpoint"
"""Ours, in the form of Kafka's own: where each replica ended after the last power failure."""

METADATA: Final = "__cluster_metadata"
"""KRaft's log, of which every append is flushed (``KafkaMetadataLog.appendAsLeader``)."""

_FRAME: Final = struct.Struct(">qi4xb")  # offset, length, (epoch or checksum), magic
_HEAD: Final = 12  # bytes of offset and length, which the length leaves out
_LAST_DELTA_AT: Final = 23  # of format 2: what to add to the base offset for the last one
_BATCHED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOnDisk:
    """A batch of records: where it lies, and from which offset to which."""

    position: int
    end: int
    first: int
    last: int


def partitions(directory: Path, topic: str | None = None) -> list[Path]:
    """Return the replicas of a log directory, of one topic or all; KRaft's metadata is none."""
    paths = []
    for folder in sorted(directory.iterdir()):
        name = PARTITION.fullmatch(folder.name)
        if name and folder.is_dir() and name["topic"] != METADATA:
            paths += [folder] if topic in {None, name["topic"]} else []
    return paths


def partition_of(replica: Path) -> int:
    """Return the number of a replica's partition."""
    return int(replica.name.rpartition("-")[2])


def _used(directory: Path, topic: str) -> list[Path]:
    """Return the replicas of a topic and of Kafka's own; other topics' runs are over."""
    every = partitions(directory)
    return [folder for folder in every if folder.name.startswith("__")] + partitions(
        directory, topic
    )


def segments(replica: Path) -> list[Path]:
    """Return the segments of a replica, oldest first."""
    return sorted(path for path in replica.iterdir() if SEGMENT.fullmatch(path.name))


def batches(segment: Path) -> Iterator[BatchOnDisk]:
    """Yield the whole batches of a segment in order; in formats 0 and 1 each message is one.

    There a batch bears the offset of its last record.
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
    """Cut from a topic's replicas, and Kafka's own, what a power failure may take.

    That is what was never flushed: from the recovery point on, and only of the newest segment,
    since older ones are flushed when the next one begins. Where a broker flushes after so many
    messages, the recovery point on disk may be behind; what lies below the last so many stays then.
    So does what outlived an earlier failure: it was on the disk, though Kafka does not count it as
    flushed when it starts on it (``LogLoader.recoverLog``).

    Args:
        directory: of a broker that is down.
        flushes: ``flush.messages`` of the topic, if it is set.
        spared: 0 up to 1, the share of the unflushed bytes that had reached the disk. A cut may go
            through the midst of a batch, as a real one does.

    Returns:
        What replicas have lost, those that lost nothing left out.
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
    """Return what a checkpoint says of each replica; nothing where it cannot be read."""
    with contextlib.suppress(CheckpointError):
        return read_offsets(checkpoint)
    return {}


def _lose_tail(replica: Path, point: int, spared: float) -> None:
    """Cut a share of the newest segment from an offset on."""
    replica_segments = segments(replica)
    batch_list = list(batches(replica_segments[-1])) if replica_segments else []
    unflushed = [batch for batch in batch_list if batch.last >= point]
    if unflushed:
        start, end = unflushed[0].position, batch_list[-1].end
        os.truncate(replica_segments[-1], start + int(spared * (end - start)))


def wipe(directory: Path) -> list[RemovedOffsets]:
    """Remove all files of a broker but its identity: a new disk in place of the old one."""
    ranges = [_whole(replica) for replica in partitions(directory)]
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != META_PROPERTIES:
            entry.unlink()
    return [loss for loss in ranges if loss.end > loss.first]


def remove_segment(directory: Path, topic: str) -> list[RemovedOffsets]:
    """Remove the oldest segment of each replica of a topic, and its indexes with it."""
    lost = []
    for replica in partitions(directory, topic):
        replica_segments = segments(replica)
        if replica_segments:
            whole = _whole(replica)
            end = int(replica_segments[1].stem) if len(replica_segments) > 1 else whole.end
            lost.append(_cut(replica, whole.first, end))
            for file in replica.glob(f"{replica_segments[0].stem}.*"):
                file.unlink()
    return [loss for loss in lost if loss.end > loss.first]


def remove_indexes(directory: Path, topic: str) -> int:
    """Remove every index of a topic's replicas; how many there were."""
    files = [path for replica in partitions(directory, topic) for path in replica.glob("*index")]
    for file in files:
        file.unlink()
    return len(files)


def flip_bit(
    directory: Path, topic: str, partition: int, choice: float
) -> tuple[BatchOnDisk, int] | None:
    """Flip one bit of the payload of one batch of a replica's newest segment that has any.

    Args:
        choice: 0 up to 1; which batch.

    Returns:
        The batch and the offset before which the replica ended; None where it holds nothing.
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
    """Empty files, or replace their bytes by zeros; return in words what was done.

    Args:
        choice: 0 up to 1; decides for each of them.
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
    """All that a replica holds."""
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

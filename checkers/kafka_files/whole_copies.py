"""Find missing parts of a copied log directory without a list of its files.

A missing part is no error of the broker: the copy of the broker's disk may be incomplete.
"""

import mmap
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    LEADER_EPOCH,
    LOG_START,
    CheckpointError,
    read_epochs,
)
from highwater.checkers.kafka_files.foreign_files import foreign_file
from highwater.checkers.kafka_files.framing import frames, tail
from highwater.checkers.kafka_files.segment_files import (
    SEGMENT,
    SNAPSHOT,
    Segment,
    left_out,
    limited,
)
from highwater.harness.base.files import open_regular

METADATA_TOPIC: Final = "__cluster_metadata"

_METADATA_SNAPSHOT: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
"""The file name of a controller's snapshot of all records below an offset (KIP-630)."""

_LAST_DELTA: Final = slice(23, 27)
"""The bytes of a v2 batch that contain its last offset, relative to its first offset."""


def incomplete(folder: Path, segments: Sequence[Segment]) -> str:
    """Return why the copy of a log directory is incomplete; else empty.

    Spark does not list empty files, so a run that Spark copied may seem incomplete.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return ""  # the manifest or the reader reports the unreadable folder
    if why := left_out(names):
        return f"{why}: the copy is incomplete"
    for segment in segments:
        if what := foreign_file(segment):
            return f"has {Path(segment.path).name}, which is not a Kafka log but {what}"
    return ""


def incomplete_segment(segment: Segment) -> str:
    """Return why a file in the remote tier is incomplete; else empty.

    Kafka copies a segment to the remote tier after the next segment has begun, so the file has at
    least one batch.
    """
    if what := foreign_file(segment):
        return f"is not a Kafka log but {what}"
    end, torn = next_offset(segment)
    if torn:
        return "is truncated: it ends within a batch"
    return "has no batch" if end == segment.base_offset else ""


def gap(segments: Sequence[Segment], *, compacted: bool = False) -> str:
    """Describe the missing offsets between a log's segments; empty if there are none.

    Without compaction a log has every offset from its start on. So a gap means that a segment, or a
    segment's end, is missing. Other checkers judge bytes that are no batch.

    Args:
        compacted: whether compaction may have removed offsets. In such a log, only a torn batch at
            a segment's end shows a gap.
    """
    for before, after in pairwise(segments):
        end, torn = next_offset(before)
        if end is not None and end < after.base_offset and (torn or not compacted):
            between = f"offsets {end} to {after.base_offset - 1}"
            if torn:
                return f"has only a part of {Path(before.path).name}: {between} are missing"
            return (
                f"lacks a segment between {Path(before.path).name} and "
                f"{Path(after.path).name}: no segment contains {between}"
            )
    return ""


def missing_begin(folder: Path, segments: Sequence[Segment], log_start: int | None) -> str:
    """Describe a missing beginning of a log, with the offset at which it should begin; else empty.

    Retention moves the log start offset, and with it the first leader epoch (LeaderEpochFileCache).

    Args:
        log_start: the offset in the broker's log-start-offset-checkpoint; None without an entry.
    """
    starts = [] if log_start is None else [(log_start, LOG_START)]
    starts += [(start, LEADER_EPOCH) for _, start in _epochs(folder)[:1]]
    start, source = min(starts, default=(0, ""))
    first = segments[0].base_offset
    return (
        f"begins at offset {first}, but should begin at {start} according to {source}"
        if source and start < first
        else ""
    )


def missing_end(folder: Path, segments: Sequence[Segment], reached: Mapping[str, int]) -> str:
    """Describe a missing end of a log, with the offset that the log had reached; else empty.

    When a broker truncates a log, it writes its recovery point and removes later snapshots in the
    same step (LogManager.truncateTo, ProducerStateManager). It writes the log's epochs at once or
    soon after, depending on the release (KAFKA-15046). After a truncation or a start, the high
    watermark is never above the log's end, and the broker writes it every few seconds
    (UnifiedLog.truncateTo, Partition).

    So a log reaches the offsets in these files, even after a truncation, if the broker ran for some
    seconds more. A shorter log means that the copy lacks the last segment, or that its files were
    copied at different times.

    Args:
        reached: the offsets that the log had reached, by the file or request that shows this.
    """
    reached = dict(reached)
    reached[LEADER_EPOCH] = max((start for _, start in _epochs(folder)), default=0)
    names = (SNAPSHOT.fullmatch(path.name) for path in folder.iterdir())
    snapshot = max((int(name[1]) for name in names if name), default=0)
    reached[f"{snapshot:020d}.snapshot"] = snapshot
    source = max(reached, key=lambda name: reached[name])
    end, _ = next_offset(segments[-1])
    if end is None or end >= reached[source]:
        return ""
    return f"ends at offset {end}, although it had reached {reached[source]} according to {source}"


def _epochs(folder: Path) -> tuple[tuple[int, int], ...]:
    try:
        return read_epochs(folder / LEADER_EPOCH)
    except CheckpointError:
        return ()


def metadata_segments(run: str, controller: int, folder: Path) -> list[Segment]:
    """Return the segments of a controller's metadata log, in order."""
    return limited(
        [
            Segment(
                path=str(path),
                run=run,
                broker=controller,
                topic=METADATA_TOPIC,
                partition=0,
                base_offset=int(path.stem),
            )
            for path in folder.iterdir()
            if SEGMENT.fullmatch(path.name)
        ]
    )


def missing_metadata(folder: Path, segments: Sequence[Segment], reached_by_leader: int) -> str:
    """Describe the missing part of a metadata log; empty if the log is complete.

    A controller deletes segments only below the offset of a snapshot that it retains
    (KafkaMetadataLog).

    Args:
        reached_by_leader: the committed offset of this log that the quorum's leader reported.
    """
    names = (_METADATA_SNAPSHOT.fullmatch(path.name) for path in folder.iterdir())
    covered = max((int(name[1]) for name in names if name), default=0)
    first = segments[0].base_offset
    if first > covered:
        return (
            f"lacks the records before {first:020d}.log: the newest snapshot ends at "
            f"offset {covered}"
        )
    if between := gap(segments):
        return between
    end, _ = next_offset(segments[-1])
    if end is None or max(end, covered) >= reached_by_leader:
        return ""
    return (
        f"ends at offset {end}, but the quorum's leader reported that it had reached "
        f"{reached_by_leader}"
    )


def next_offset(segment: Segment) -> tuple[int | None, bool]:
    """Return the offset after a segment's last complete batch, and whether a torn batch follows.

    The offset is None if the segment also has bytes that are neither a batch, nor zeros, nor a torn
    batch.
    """
    torn, last = False, None
    try:
        with open_regular(Path(segment.path)) as file:
            if not file.read(1):
                return segment.base_offset, False
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            for chunk in frames(data, 0, len(data), segment.end):
                if not isinstance(chunk, int):
                    last = chunk
                    continue
                kind = tail(data, chunk, file.fileno(), segment.base_offset).kind
                if kind not in ("torn", "zeros"):
                    return None, False
                torn = kind == "torn"
    except OSError:
        return None, False
    if last is None:
        return segment.base_offset, torn
    at = int(last.positions[-1])
    delta = 0 if last.legacy else int.from_bytes(data[at : at + _LAST_DELTA.stop][_LAST_DELTA])
    return int.from_bytes(data[at : at + 8]) + delta + 1, torn

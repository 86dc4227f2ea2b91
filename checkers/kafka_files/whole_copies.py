"""Find what is missing from the folder of a log, where no list says which files it had.

Nothing here accuses a broker: a copy of its disk may have left files out.
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
"""A controller's snapshot: it has everything below an offset (KIP-630)."""

_LAST_DELTA: Final = slice(23, 27)
"""Bytes of a batch of v2 with its last offset, counted from its first."""


def incomplete(folder: Path, segments: Sequence[Segment]) -> str:
    """Return why a log's folder is no whole copy, the end of a sentence; empty where it may be.

    Spark lists no empty files, so that a mirrored run may seem to lack some.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return ""  # the manifest says so, or reading it will
    if why := left_out(names):
        return f"{why}: it is no whole copy"
    for segment in segments:
        if what := foreign_file(segment):
            return f"has {Path(segment.path).name}, which is no log of Kafka's but {what}"
    return ""


def incomplete_segment(segment: Segment) -> str:
    """Return why a file in the remote tier is no whole copy of a segment; empty where it may be.

    A segment is copied there when the next one has begun, so it has a batch.
    """
    if what := foreign_file(segment):
        return f"is no log of Kafka's but {what}"
    end, torn = next_offset(segment)
    if torn:
        return "is cut off: it ends within a batch"
    return "holds no batch" if end == segment.base_offset else ""


def gap(segments: Sequence[Segment], *, compacted: bool = False) -> str:
    """Return which offsets lie between a log's segments; empty where none do.

    A log that is not compacted has every offset from its start on, so a segment is missing, or the
    end of one. One with bytes that are no batch is left to those that judge these.

    Args:
        compacted: whether offsets may be missing; only the beginning of a batch shows something.
    """
    for before, after in pairwise(segments):
        end, torn = next_offset(before)
        if end is not None and end < after.base_offset and (torn or not compacted):
            between = f"offsets {end} to {after.base_offset - 1}"
            if torn:
                return f"has not all of {Path(before.path).name}: {between} are cut off"
            return (
                f"lacks a segment between {Path(before.path).name} and {Path(after.path).name}:"
                f" {between} lie in none"
            )
    return ""


def missing_begin(folder: Path, segments: Sequence[Segment], log_start: int | None) -> str:
    """Return where a log began that begins later here; empty where nothing says so.

    Retention moves the log start offset, and with it the first leader epoch (LeaderEpochFileCache).

    Args:
        log_start: of the broker's log-start-offset-checkpoint; None: it has none.
    """
    starts = [] if log_start is None else [(log_start, LOG_START)]
    starts += [(start, LEADER_EPOCH) for _, start in _epochs(folder)[:1]]
    start, says = min(starts, default=(0, ""))
    first = segments[0].base_offset
    return f"begins at offset {first}, and at {start} by {says}" if says and start < first else ""


def missing_end(folder: Path, segments: Sequence[Segment], reached: Mapping[str, int]) -> str:
    """Return which offset a log had reached and does not here; empty where it is all there.

    A broker that truncates writes down its recovery point and removes later snapshots in the same
    step (LogManager.truncateTo, ProducerStateManager), and its epochs, by release, at once or soon
    after (KAFKA-15046). Its high watermark is never above its log's end, after a truncation or a
    start, and is written down every few seconds (UnifiedLog.truncateTo, Partition). So a log that
    was truncated, and whose broker then went on, reaches what these say: one that does not is a
    copy without its last segment, or of several moments.

    Args:
        reached: offsets that the log had reached, each by the words for what says so.
    """
    reached = dict(reached)
    reached[LEADER_EPOCH] = max((start for _, start in _epochs(folder)), default=0)
    names = (SNAPSHOT.fullmatch(path.name) for path in folder.iterdir())
    snapshot = max((int(name[1]) for name in names if name), default=0)
    reached[f"{snapshot:020d}.snapshot"] = snapshot
    says = max(reached, key=lambda name: reached[name])
    end, _ = next_offset(segments[-1])
    if end is None or end >= reached[says]:
        return ""
    return f"ends at offset {end}, and by {says} it had reached {reached[says]}"


def _epochs(folder: Path) -> tuple[tuple[int, int], ...]:
    """Return a replica's leader epochs; none where its list is missing or broken."""
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
    """Return which part of a metadata log is missing; empty where none is.

    A controller removes segments only up to a snapshot that it keeps (KafkaMetadataLog).

    Args:
        reached_by_leader: how far the quorum's leader knew it to have what was committed.
    """
    names = (_METADATA_SNAPSHOT.fullmatch(path.name) for path in folder.iterdir())
    covered = max((int(name[1]) for name in names if name), default=0)
    first = segments[0].base_offset
    if first > covered:
        return f"lacks what is before {first:020d}.log: no snapshot goes beyond offset {covered}"
    if between := gap(segments):
        return between
    end, _ = next_offset(segments[-1])
    if end is None or max(end, covered) >= reached_by_leader:
        return ""
    return f"ends at offset {end}, and the quorum's leader knew it to reach {reached_by_leader}"


def next_offset(segment: Segment) -> tuple[int | None, bool]:
    """Return the offset behind a segment's last whole batch, and whether one more begins.

    It is None where the segment holds other bytes, too. Zeros and the beginning of a batch are no
    such bytes: they show no more than a missing file.
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

"""Find what is missing from the folder of a log, where no list says which files it had.

Nothing here accuses a broker: a copy of its disk may have left files out.
"""

import mmap
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.foreign_files import foreign_file
from highwater.checkers.kafka_files.framing import frames, tail
from highwater.checkers.kafka_files.segment_files import (
    SEGMENT,
    Segment,
    left_out,
    limited,
)
from highwater.harness.base.files import open_regular

METADATA_TOPIC: Final = "__cluster_metadata"

_SNAPSHOT: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
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


def gap(segments: Sequence[Segment]) -> str:
    """Return which offsets lie between a log's segments; empty where none do.

    A log that is not compacted has every offset from its start on, so a segment is missing. One
    with bytes that are no batch is left to those that judge these.
    """
    for before, after in pairwise(segments):
        end = next_offset(before)
        if end is not None and end < after.base_offset:
            return (
                f"lacks a segment between {Path(before.path).name} and {Path(after.path).name}:"
                f" offsets {end} to {after.base_offset - 1} lie in none"
            )
    return ""


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
    names = (_SNAPSHOT.fullmatch(path.name) for path in folder.iterdir())
    covered = max((int(name[1]) for name in names if name), default=0)
    first = segments[0].base_offset
    if first > covered:
        return f"lacks what is before {first:020d}.log: no snapshot goes beyond offset {covered}"
    if between := gap(segments):
        return between
    end = next_offset(segments[-1])
    if end is None or max(end, covered) >= reached_by_leader:
        return ""
    return f"ends at offset {end}, and the quorum's leader knew it to reach {reached_by_leader}"


def next_offset(segment: Segment) -> int | None:
    """Return the offset behind a segment's last batch; None where it holds other bytes, too.

    Zeros are no other bytes: they show no more than a missing file.
    """
    try:
        with open_regular(Path(segment.path)) as file:
            if not file.read(1):
                return segment.base_offset
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            last = None
            for chunk in frames(data, 0, len(data), segment.end):
                if isinstance(chunk, int):
                    if tail(data, chunk, file.fileno(), segment.base_offset).kind != "zeros":
                        return None
                else:
                    last = chunk
    except OSError:
        return None
    if last is None:
        return segment.base_offset
    at = int(last.positions[-1])
    delta = 0 if last.legacy else int.from_bytes(data[at : at + _LAST_DELTA.stop][_LAST_DELTA])
    return int.from_bytes(data[at : at + 8]) + delta + 1

"""The offsets that groups have committed, as ``__consumer_offsets`` has them on disk.

Keys and values are those of ``OffsetCommitKey`` and ``OffsetCommitValue``, whose versions begin
alike: the group, topic and partition, and the offset.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from highwater.checkers.groups.events import Place
from highwater.checkers.kafka_files.reader import read_segment
from highwater.checkers.kafka_files.segment_files import Segment, inside, limited
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.store import COORDINATOR_TOPICS

TOPIC: Final = COORDINATOR_TOPICS[1]
_KEY_VERSIONS: Final = (0, 1)
_VALUE: Final = struct.Struct(">hq")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group: str
    topic: str
    partition: int


def offset_key(data: bytes | None) -> OffsetKey | None:
    """Return the key of a record; None where it is that of something else."""
    if data is None or len(data) < _SHORT.size or _SHORT.unpack_from(data)[0] not in _KEY_VERSIONS:
        return None
    try:
        group, at = _text(data, _SHORT.size)
        topic, at = _text(data, at)
        (partition,) = _INT.unpack_from(data, at)
    except struct.error:
        return None
    return OffsetKey(group, topic, partition)


def committed_on_disk(case: RunFiles) -> dict[Place, int | None] | None:
    """Return the last offset of each group and partition of the topic under test.

    Of the replicas the most up to date decides; that they agree is another checker's matter. None
    where the run has no copy of the topic, or a part of it is no evidence.
    """
    folder = case.run.coordinators
    if any(unused.path.startswith(f"{folder.name}/") for unused in case.unread):
        return None
    replicas: dict[int, list[Segment]] = defaultdict(list)
    files = [segment for replica in folder.glob(f"*/{TOPIC}-*/") for segment in inside(replica)]
    for segment in limited(files) if files else ():
        replicas[segment.broker].append(segment)
    logs = [_last(segments, case.plan.topic.name) for segments in replicas.values()]
    return max(logs, key=lambda log: log[0])[1] if logs else None


def _last(segments: list[Segment], topic: str) -> tuple[tuple[int, int], dict[Place, int | None]]:
    """Return the last epoch and offset of a replica's log, and what it has committed."""
    end, committed = (-1, -1), dict[Place, int | None]()
    for epoch, offset, key, value in _records(segments):
        end = epoch, offset
        where = offset_key(key)
        if where is not None and where.topic == topic:
            readable = value is not None and len(value) >= _VALUE.size
            committed[where.group, where.partition] = (
                _VALUE.unpack_from(value)[1] if readable else None  # type: ignore[arg-type]
            )
    return end, committed


def _records(segments: list[Segment]) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    names = ("leader_epoch", "offset", "control", "key", "value")
    for segment in segments:
        for batch in read_segment(segment):
            columns = (batch[name].to_pylist() for name in names)
            for epoch, offset, control, key, value in zip(*columns, strict=True):
                if offset is not None and not control:
                    yield -1 if epoch is None else epoch, offset, key, value


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    begin = at + _SHORT.size
    if size < 0 or begin + size > len(data):
        raise struct.error("the text is cut")
    return data[begin : begin + size].decode(errors="replace"), begin + size

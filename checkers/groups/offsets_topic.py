"""The offsets that groups have committed, read from ``__consumer_offsets`` on disk.

Keys are ``OffsetCommitKey``, values ``OffsetCommitValue``. All versions begin with the same fields:
group, topic and partition in the key, and the offset in the value.
"""

import struct
from collections import defaultdict
from typing import Final, NamedTuple

from highwater.checkers.coordinator_logs import Row, coordinator_records
from highwater.checkers.groups.events import Place
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
    """Return a record's offset key; None if the record is no committed offset."""
    if data is None or len(data) < _SHORT.size or _SHORT.unpack_from(data)[0] not in _KEY_VERSIONS:
        return None
    try:
        group, at = _text(data, _SHORT.size)
        topic, at = _text(data, at)
        (partition,) = _INT.unpack_from(data, at)
    except struct.error:
        return None
    return OffsetKey(group, topic, partition)


class CommittedOffset(NamedTuple):
    """One record of a committed offset.

    Attributes:
        offset: None if the record removes the offset.
        timestamp_ms: when the commit took effect, since 1970; None if the log does not say.
        transactional: whether the commit is part of a transaction.
    """

    place: Place
    offset: int | None
    timestamp_ms: int | None
    transactional: bool


def committed_on_disk(case: RunFiles) -> dict[Place, int | None] | None:
    """Return the last committed offset for each group and partition of the topic under test.

    None if the run has no copy of the offsets topic, or if a part of the copy is no evidence.
    """
    commits = commits_on_disk(case)
    return None if commits is None else {commit.place: commit.offset for commit in commits}


def commits_on_disk(case: RunFiles) -> list[CommittedOffset] | None:
    """Return every committed offset of the topic under test, in the order of the log.

    None where ``coordinator_records`` returns None.
    """
    rows = coordinator_records(case, TOPIC)
    return None if rows is None else _commits(rows, case.plan.topic.name)


def _commits(rows: list[Row], topic: str) -> list[CommittedOffset]:
    """Return the offsets that the rows of a log commit.

    An offset that was written in a transaction counts from the transaction's commit on.
    """
    committed = list[CommittedOffset]()
    open_: dict[int, list[CommittedOffset]] = defaultdict(list)
    for row in rows:
        if row["control"]:
            pending = open_.pop(row["producer_id"], [])
            if row["control_type"] == "commit":
                at_ms = row["timestamp_ms"]
                committed += [commit._replace(timestamp_ms=at_ms) for commit in pending]
            continue
        where = offset_key(row["key"])
        if where is not None and where.topic == topic:
            commit = _committed(where, row)
            (open_[row["producer_id"]] if row["transactional"] else committed).append(commit)
    return committed


def _committed(where: OffsetKey, row: Row) -> CommittedOffset:
    value = row["value"]
    readable = value is not None and len(value) >= _VALUE.size
    return CommittedOffset(
        place=(where.group, where.partition),
        offset=_VALUE.unpack_from(value)[1] if readable else None,
        timestamp_ms=row["timestamp_ms"],
        transactional=bool(row["transactional"]),
    )


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    begin = at + _SHORT.size
    if size < 0 or begin + size > len(data):
        raise struct.error("the text is truncated")
    return data[begin : begin + size].decode(errors="replace"), begin + size

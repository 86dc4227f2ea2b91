"""The offsets that groups have committed, read from ``__consumer_offsets`` on disk.

Keys are ``OffsetCommitKey``, values ``OffsetCommitValue``. All versions begin with the same fields:
group, topic and partition in the key, and the offset in the value.
"""

import contextlib
from collections import defaultdict
from io import BytesIO
from typing import Final, NamedTuple

from aiokafka.protocol.types import Int16, Int32, Int64, Schema, String

from highwater.checkers.coordinator_logs import Row, coordinator_records
from highwater.checkers.groups.events import Place
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.store import COORDINATOR_TOPICS

TOPIC: Final = COORDINATOR_TOPICS[1]
_KEY_VERSIONS: Final = (0, 1)
_KEY: Final = Schema(("group", String()), ("topic", String()), ("partition", Int32))
_VALUE: Final = Schema(("version", Int16), ("offset", Int64))


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
        commit = _committed(row, topic)
        if commit is not None:
            (open_[row["producer_id"]] if row["transactional"] else committed).append(commit)
    return committed


def _committed(row: Row, topic: str) -> CommittedOffset | None:
    """Return the offset of a topic that a record commits; None if it commits none."""
    key, offset = BytesIO(row["key"] or b""), None
    try:
        if Int16.decode(key) not in _KEY_VERSIONS:
            return None
        group, name, partition = _KEY.decode(key)
    except ValueError:
        return None
    if name != topic:
        return None
    with contextlib.suppress(ValueError):
        _, offset = _VALUE.decode(BytesIO(row["value"] or b""))
    return CommittedOffset(
        place=(group, partition),
        offset=offset,
        timestamp_ms=row["timestamp_ms"],
        transactional=bool(row["transactional"]),
    )

"""The offsets that groups have committed, read from ``__consumer_offsets`` on disk.

Keys are ``OffsetCommitKey``, values ``OffsetCommitValue``. In all versions, a key begins with
group, topic and partition, and a value begins with the offset.
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
_GROUP_KEY: Final = Schema(("group", String()))
_GROUP_KEY_VERSION: Final = 2
_VALUE: Final = Schema(("version", Int16), ("offset", Int64))


class CommittedOffset(NamedTuple):
    """One record of a committed offset.

    Attributes:
        at: the record's own offset in ``__consumer_offsets``.
        offset: the committed offset; None if the record removes it.
        timestamp_ms: when the commit took effect, in ms since 1970; None if unknown.
        transactional: whether the commit is part of a transaction.
    """

    at: int
    place: Place
    offset: int | None
    timestamp_ms: int | None
    transactional: bool


class OffsetsLog:
    """The committed offsets of a topic, as a coordinator loads them from its log.

    An offset in a transaction takes effect when the transaction commits. It has no effect if an
    offset that is later in the log has already taken effect (``OffsetMetadataManager.replay`` of
    4.0, ``GroupMetadataManager.loadGroupsAndOffsets`` of 3.9). Releases differ if an offset is
    removed while an open transaction has a new offset for the same partition. Then ``possible``
    returns both results.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._last: dict[Place, CommittedOffset] = {}
        self._possible: dict[Place, frozenset[int | None]] = {}
        self._open: dict[int, dict[Place, CommittedOffset]] = defaultdict(dict)
        self._removed: set[CommittedOffset] = set()

    def possible(self, place: Place) -> frozenset[int | None]:
        """Return the offsets (None: no offset) that a coordinator may have for a partition."""
        return self._possible.get(place, frozenset({None}))

    def apply(self, row: Row) -> list[CommittedOffset]:
        """Apply the next record of the log.

        Return the commits that take effect because of this record.
        """
        if row["control"]:
            return self._end(row)
        commit = committed(row, self._topic)
        if commit is None:
            return []
        if commit.transactional:
            self._open[row["producer_id"]][commit.place] = commit
            return []
        if commit.offset is None:
            pending = (of.get(commit.place) for of in self._open.values())
            self._removed |= {before for before in pending if before is not None}
        self._set(commit)
        return [commit]

    def _end(self, marker: Row) -> list[CommittedOffset]:
        done = []
        for commit in self._open.pop(marker["producer_id"], {}).values():
            last = self._last.get(commit.place)
            newer = last is not None and last.offset is not None and last.at > commit.at
            if marker["control_type"] == "commit" and not newer:
                done.append(commit._replace(timestamp_ms=marker["timestamp_ms"]))
                before = self.possible(commit.place) if commit in self._removed else frozenset()
                self._set(commit, before)
        return done

    def _set(self, commit: CommittedOffset, before: frozenset[int | None] = frozenset()) -> None:
        self._last[commit.place] = commit
        self._possible[commit.place] = before | {commit.offset}


def committed_on_disk(case: RunFiles) -> dict[Place, int | None] | None:
    """Return the last committed offset for each group and partition of the topic under test.

    The result is None if the run has no complete copy of the offsets topic.
    """
    commits = commits_on_disk(case)
    return None if commits is None else {commit.place: commit.offset for commit in commits}


def commits_on_disk(case: RunFiles) -> list[CommittedOffset] | None:
    """Return every committed offset of the topic under test, in the order of the log.

    The result is None if the run has no complete copy of the offsets topic.
    """
    rows = coordinator_records(case, TOPIC)
    log = OffsetsLog(case.plan.topic.name)
    return None if rows is None else [commit for row in rows for commit in log.apply(row)]


def committed(row: Row, topic: str) -> CommittedOffset | None:
    """Return the offset that a record commits for a topic; None if it commits no such offset."""
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
        at=row["offset"],
        place=(group, partition),
        offset=offset,
        timestamp_ms=row["timestamp_ms"],
        transactional=bool(row["transactional"]),
    )


def removed_group(row: Row) -> str | None:
    """Return the group whose metadata a record removes; None if the record removes no group."""
    key = BytesIO(row["key"] or b"")
    try:
        if row["value"] or Int16.decode(key) != _GROUP_KEY_VERSION:
            return None
        return str(_GROUP_KEY.decode(key)[0])
    except ValueError:
        return None

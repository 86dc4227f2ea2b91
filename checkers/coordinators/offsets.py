"""Compare a coordinator's responses about groups' offsets with ``__consumer_offsets``."""

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer, Place, Row, contradicted
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION
from highwater.checkers.groups.commits import READER
from highwater.checkers.groups.events import GroupFinding
from highwater.checkers.groups.offsets_topic import TOPIC, OffsetsLog, committed, removed_group

REMOVES_GROUP: Final = "the group is removed, with a transaction open"
ENDS: Final = "the transaction ends"
"""Sentences about two records in the offsets topic, if a group has offsets in an open transaction.
The first record removes the group. The second record is the marker that ends the transaction."""

_SHOWN_MAX: Final = 8

Commits = Container[tuple[str, int, int]]
"""Commits of offsets, each as group, partition and offset."""


def offset_answers(rows: Iterable[Row]) -> list[CoordinatorAnswer]:
    """Return the coordinators' responses that were recorded together with the end of the log."""
    return [
        CoordinatorAnswer((row["group"], row["partition"]), row["offset"], row["end"])
        for row in rows
        if row["event"] == "committed" and row["process"] == READER and row["end"] is not None
    ]


def wrong_offsets(
    answers: Sequence[CoordinatorAnswer],
    replicas: Iterable[Sequence[Row]],
    topic: str,
    acknowledged: Commits | None = None,
) -> Iterator[GroupFinding]:
    """Yield the responses about offsets of a topic that contradict the coordinator's log.

    Args:
        acknowledged: the commits to which the coordinator responded. Before 4.0 its memory may lack
            any other commit, which its log has: it adds a commit when all in-sync replicas have it,
            and gives the commit up after ``offsets.commit.timeout.ms``
            (``GroupMetadataManager.storeOffsets``). None for coordinators from 4.0 on.
    """
    for answer, log, offsets in contradicted(answers, replicas, partial(OffsetsLog, topic)):
        if acknowledged is not None and answer.state in _given_up(
            log, answer.place, topic, acknowledged
        ):
            continue
        group, partition = answer.place
        expected = min(offsets, key=lambda offset: -1 if offset is None else offset)
        yield GroupFinding(
            kind=COORDINATOR_CONTRADICTION,
            group=group,
            partition=partition,
            offset=expected,
            says=f"The coordinator of group {group} returned {_named(answer.state)} for "
            f"partition {partition}, but {TOPIC} has {_named(expected)}.",
            records=tuple(_records(log, answer.place, topic))[-_SHOWN_MAX:],
        )


def _given_up(
    log: Sequence[Row], place: Place, topic: str, acknowledged: Commits
) -> set[int | None]:
    """Return the offsets that memory may have if it lacks the last commits without a response."""
    offsets = set[int | None]()
    for row in reversed(log):
        commit = committed(row, topic)
        if commit is not None and commit.place == place:
            offsets.add(commit.offset)
            if commit.transactional or commit.offset is None:
                return offsets
            if (*place, commit.offset) in acknowledged:
                return offsets
    return offsets | {None}


def _named(offset: int | None) -> str:
    return "no offset" if offset is None else f"offset {offset}"


def _records(log: Iterable[Row], place: Place, topic: str) -> Iterator[tuple[int, int | None, str]]:
    pending: set[int] = set()
    for row in log:
        producer, at = row["producer_id"], row["offset"]
        if row["control"]:
            if producer in pending:
                pending.discard(producer)
                yield at, producer, f"{ENDS}: {row['control_type']}"
            continue
        commit = committed(row, topic)
        if commit is not None and commit.place == place:
            group_commits = f"the group commits {_named(commit.offset)}"
            if commit.transactional:
                pending.add(producer)
                yield at, producer, f"{group_commits}, in a transaction of producer {producer}"
            else:
                yield at, None, group_commits
        elif pending and removed_group(row) == place[0]:
            yield at, None, REMOVES_GROUP

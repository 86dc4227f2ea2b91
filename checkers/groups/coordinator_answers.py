"""``coordinator-contradiction``: a coordinator answers with an offset that is not in its log.

A coordinator keeps the offsets of its groups in memory, and writes each change to
``__consumer_offsets`` first. After the members have ended, a client requests the offsets, and
records the log's end before the request. The response must be an offset that a coordinator would
have after it loads the log up to that end, or up to a later end (``offsets_topic.OffsetsLog``). The
replicas' logs are the evidence. The response is not judged

- if no end was recorded, or the cluster is external: the log may have other partitions;
- if no replica is complete: from offset 0 to that end without gaps (of compaction);
- if a complete replica agrees with the response. Another checker compares the replicas.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from highwater.checkers.coordinator_logs import coordinator_copies
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
from highwater.checkers.groups.commits import READER
from highwater.checkers.groups.events import GroupFinding, Place, Row, anomalies, in_words
from highwater.checkers.groups.offsets_topic import TOPIC, OffsetsLog, committed, removed_group
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import GROUPS_TABLE

REMOVES_GROUP: Final = "the group is removed, with a transaction open"
ENDS: Final = "the transaction ends"
"""Sentences about two records that end an open transaction: one removes the group, one is a
marker."""

_SHOWN_MAX: Final = 8


def _unanswered(_tables: Tables, case: RunFiles) -> str:
    if case.lacks(GROUPS_TABLE) or _answers(case):
        return ""
    return f"no coordinator's answer was recorded together with the end of {TOPIC}"


@checker(
    Kind(
        COORDINATOR_CONTRADICTION,
        guarantee="A group's coordinator answers with the offsets that its log has.",
        singular="offset that a coordinator answers with is not in its log",
        plural="offsets that coordinators answer with are not in their log",
        severity=Severity.CRITICAL,
        promise="durability: a coordinator's state is what its log says (KIP-98, KIP-848)",
        breaks=always,
        says=in_words,
    ),
    idle=_unanswered,
)
def coordinator_contradiction(tables: Tables) -> pa.Table:
    """Return the groups' offsets in which a coordinator and its log differ."""
    return anomalies(tables, _of_run)


def _of_run(case: RunFiles, _: list[Row]) -> Iterator[GroupFinding]:
    answers = _answers(case)
    copies = coordinator_copies(case, TOPIC) if answers else None
    if copies is not None and [*copies] == [0]:
        yield from contradictions(answers, copies[0], case.plan.topic.name)


def _answers(case: RunFiles) -> list[Row]:
    """Return the coordinators' responses in a run of our own, with the end of the log."""
    if case.plan.external is not None:
        return []
    return [
        row
        for row in case.rows(GROUPS_TABLE) or ()
        if row["event"] == "committed" and row["process"] == READER and row["end"] is not None
    ]


def contradictions(
    answers: Iterable[Row], replicas: Sequence[Sequence[Row]], topic: str
) -> Iterator[GroupFinding]:
    """Yield the responses that contradict every complete replica of ``__consumer_offsets``.

    Args:
        answers: rows of the journal; ``end`` is the end of the log at the request.
        replicas: the records of each replica, in order.
        topic: the topic whose offsets were requested.
    """
    whole = [log for log in replicas if all(row["offset"] == at for at, row in enumerate(log))]
    for answer in answers:
        logs = [log for log in whole if len(log) >= answer["end"]]
        place = answer["group"], answer["partition"]
        possible = [_possible(log, answer["end"], place, topic) for log in logs]
        if logs and not any(answer["offset"] in offsets for offsets in possible):
            yield _finding(answer, max(logs, key=len), topic)


def _possible(log: Sequence[Row], end: int, place: Place, topic: str) -> set[int | None]:
    """Return the offsets of a partition that the log has at that end, or at a later end."""
    state, offsets = OffsetsLog(topic), set[int | None]()
    for row in log[:end]:
        state.apply(row)
    offsets |= state.possible(place)
    for row in log[end:]:
        state.apply(row)
        offsets |= state.possible(place)
    return offsets


def _finding(answer: Row, log: Sequence[Row], topic: str) -> GroupFinding:
    group, partition = place = answer["group"], answer["partition"]
    state = OffsetsLog(topic)
    for row in log:
        state.apply(row)
    expected = min(state.possible(place), key=lambda offset: -1 if offset is None else offset)
    return GroupFinding(
        kind=COORDINATOR_CONTRADICTION,
        group=group,
        partition=partition,
        offset=expected,
        says=f"The coordinator of group {group} had {_named(answer['offset'])} for partition"
        f" {partition}; {TOPIC} has {_named(expected)}.",
        records=tuple(_records(log, place, topic))[-_SHOWN_MAX:],
    )


def _named(offset: int | None) -> str:
    return "no offset" if offset is None else f"offset {offset}"


def _records(log: Iterable[Row], place: Place, topic: str) -> Iterator[tuple[int, int | None, str]]:
    """Yield the records of a log that decide about a partition's offset, for ``GroupFinding``."""
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
            has = f"the group has {_named(commit.offset)}"
            if commit.transactional:
                pending.add(producer)
                yield at, producer, f"{has}, in a transaction of producer {producer}"
            else:
                yield at, None, has
        elif pending and removed_group(row) == place[0]:
            yield at, None, REMOVES_GROUP

"""The anomalies of the offsets that groups commit: ``lost-commit``, ``stale-commit`` and others.

A commit that was acknowledged took effect between its begin and its end. A commit that failed may
have taken effect at any time after its begin: the broker may have written an earlier attempt of the
client, and a paused coordinator may process the request late.

A returned offset is correct if a commit of this offset began before the response, and no later
commit had replaced it. A later commit began after the first commit ended, and was acknowledged
before the request. *None* is correct until a commit is acknowledged, and after the last commit
expired (``offsets.retention.minutes``).

``lost-commit``: a coordinator returned an incorrect offset after all members had ended, or the last
offset in the offsets topic (in the most up-to-date replica) is incorrect.

``stale-commit``: a member received an incorrect offset. So it reads records that its group has
already read.

``foreign-offset``: a coordinator returned an offset to a member, although no member had committed
an offset since the topic was created. So the offset belongs to an earlier topic with the same name.

``given-again``: a member received a record below the offset at which it began, or below its
position. (If a member skips records, the anomaly is ``poll-skip`` or ``undelivered``.)
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self

import pyarrow as pa

from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always, if_committed_is_kept
from highwater.checkers.groups.events import (
    FOREVER,
    GroupFinding,
    Place,
    Row,
    anomalies,
    by_place,
    ended_ns,
    in_words,
    no_group,
)
from highwater.checkers.groups.offsets_topic import committed_on_disk
from highwater.checkers.groups.ownership import ownerships
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.releases.cluster_facts import POSITIONS_RETENTION
from highwater.harness.runs.history import OK
from highwater.harness.runs.plan import Plan

LOST_COMMIT: Final = "lost-commit"
STALE_COMMIT: Final = "stale-commit"
GIVEN_AGAIN: Final = "given-again"
FOREIGN_OFFSET: Final = "foreign-offset"

READER: Final = "reader"
"""The process that requests the group's offsets after all members have ended."""

_DURABLE: Final = "durability: a committed offset is replicated as a record with acks=all"


@dataclass(frozen=True, slots=True)
class CommitRegister:
    """All commits of one group for one partition.

    Attributes:
        done: acknowledged commits, sorted by the time of their end.
        latest: for each index in ``done``: of the commits up to it, the commit that began last.
        commits: all commits, including failed commits.
    """

    done: list[Row]
    latest: list[Row]
    commits: list[Row]

    @classmethod
    def of(cls, commits: Sequence[Row]) -> Self:
        """Return the register of these commits."""
        done = sorted((row for row in commits if row["outcome"] == OK), key=ended_ns)
        return cls(done=done, latest=list(accumulate(done, _later)), commits=list(commits))

    def overtaken(self, offset: int | None, begun_ns: int, ended: int) -> Row | None:
        """Return the acknowledged commit that makes a returned offset wrong; None if it is correct.

        Args:
            offset: the returned offset.
            begun_ns: the time of the request.
            ended: the time of the response.
        """
        before = bisect_right(self.done, begun_ns - 1, key=ended_ns)
        if not before:
            return None
        last = self.latest[before - 1]
        right = offset is not None and any(
            commit["offset"] == offset
            and commit["invoke_ns"] < ended
            and (commit["outcome"] != OK or ended_ns(commit) >= last["invoke_ns"])
            for commit in self.commits
        )
        return None if right else last


def _later(before: Row, after: Row) -> Row:
    return max(before, after, key=lambda row: int(row["invoke_ns"]))


@checker(
    Kind(
        LOST_COMMIT,
        guarantee="A group's last offset is not older than an acknowledged commit.",
        singular="offset that a group had committed was lost",
        plural="offsets that a group had committed were lost",
        severity=Severity.CRITICAL,
        promise=_DURABLE,
        breaks=always,
        says=in_words,
    ),
    Kind(
        STALE_COMMIT,
        guarantee="A member begins at its group's position, not before an acknowledged commit.",
        singular="member received an outdated offset of its group",
        plural="times a member received an outdated offset of its group",
        severity=Severity.SERIOUS,
        promise=_DURABLE,
        breaks=always,
        says=in_words,
    ),
    Kind(
        FOREIGN_OFFSET,
        guarantee="A coordinator returns no offset of an earlier topic.",
        singular="offset was returned that the group had not committed in this topic",
        plural="offsets were returned that the group had not committed in this topic",
        severity=Severity.SERIOUS,
        promise="at least once: a group receives every record (KIP-932, KIP-1327)",
        breaks=always,
        says=in_words,
    ),
    Kind(
        GIVEN_AGAIN,
        guarantee="A member receives no record below its position.",
        singular="record below a member's position was returned to it",
        plural="records below a member's position were returned to it",
        severity=Severity.SERIOUS,
        promise="order: a reader's position never goes back by itself",
        breaks=if_committed_is_kept,
        says=in_words,
    ),
    idle=no_group,
)
def commits(tables: Tables) -> pa.Table:
    """Return the incorrect offsets of groups, and the records that members received again."""
    return anomalies(tables, _of_run)


def _of_run(case: RunFiles, rows: list[Row]) -> Iterator[GroupFinding]:
    yield from wrong_offsets(rows, committed_on_disk(case), offsets_retention_ns(case.plan))
    yield from repeated(rows)
    if (
        not case.plan.workload.transform
    ):  # producers commit the offsets of a program that transforms
        yield from foreign_offsets(rows)


def foreign_offsets(rows: Iterable[Row]) -> Iterator[GroupFinding]:
    """Yield, for each group and partition, the first offset that a member got before any commit."""
    for (group, partition), of_place in by_place(rows).items():
        begun_ns = min(
            (r["invoke_ns"] for r in of_place if r["event"] == "commit"), default=FOREVER
        )
        for row in of_place:
            strange = row["event"] == "committed" and row["offset"] is not None
            if strange and row["process"] != READER and ended_ns(row) < begun_ns:
                yield GroupFinding(
                    kind=FOREIGN_OFFSET,
                    group=group,
                    partition=partition,
                    offset=row["offset"],
                    says=f"The coordinator told {row['process']} to begin at offset "
                    f"{row['offset']} of partition {partition}, but group {group} had "
                    "committed no offset there since the topic was created.",
                )
                break


def offsets_retention_ns(plan: Plan) -> int:
    """Return how long coordinators store the offsets of a group without members, in ns."""
    minutes = plan.broker_config.get(POSITIONS_RETENTION)
    return FOREVER if minutes is None else int(minutes) * 60_000_000_000


def wrong_offsets(
    rows: Iterable[Row],
    on_disk: Mapping[Place, int | None] | None,
    retention_ns: int = FOREVER,
) -> Iterator[GroupFinding]:
    """Yield the incorrect offsets in coordinators' responses, and in the offsets topic.

    Args:
        on_disk: the last offsets in ``__consumer_offsets``; None if they are not known.
        retention_ns: the least time for which a coordinator stores a commit.
    """
    rows = list(rows)
    last_ns = max((ended_ns(row) for row in rows if row["complete_ns"] is not None), default=0)
    for place, of_place in by_place(rows).items():
        register = CommitRegister.of([row for row in of_place if row["event"] == "commit"])
        for row in of_place:
            if row["event"] != "committed":
                continue
            at_end = row["process"] == READER
            wrong = register.overtaken(row["offset"], row["invoke_ns"], ended_ns(row))
            if wrong is not None and not _expired(
                row["offset"], wrong, ended_ns(row), retention_ns
            ):
                kind = LOST_COMMIT if at_end else STALE_COMMIT
                when = "at the end" if at_end else f"in a later response to {row['process']}"
                returned = f"{when} the coordinator returned {_named(row['offset'])}"
                yield _finding(kind, place, wrong, returned)
        last = None if on_disk is None else on_disk.get(place)
        wrong = None if on_disk is None else register.overtaken(last, FOREVER, FOREVER)
        if wrong is not None and not _expired(last, wrong, last_ns, retention_ns):
            there = f"at the end __consumer_offsets has {_named(last)}"
            yield _finding(LOST_COMMIT, place, wrong, there)


def _expired(offset: int | None, commit: Row, at_ns: int, retention_ns: int) -> bool:
    return offset is None and at_ns - int(commit["invoke_ns"]) >= retention_ns


def _finding(kind: str, place: Place, commit: Row, returned: str) -> GroupFinding:
    group, partition = place
    return GroupFinding(
        kind=kind,
        group=group,
        partition=partition,
        offset=commit["offset"],
        says=f"{commit['process']} committed offset {commit['offset']} of partition {partition} for"
        f" group {group}, and the commit was acknowledged, but {returned}.",
    )


def _named(offset: int | None) -> str:
    return "no offset" if offset is None else f"offset {offset}"


def repeated(rows: Iterable[Row]) -> Iterator[GroupFinding]:
    """Yield the records that a member received although its position was after them."""
    rows = list(rows)
    places = by_place(row for row in rows if row["event"] in {"given", "sought"})
    for place, owners in ownerships(rows).items():
        group, partition = place
        before: dict[str, int] = {}
        for owner in owners:
            # A poll may last longer than an ownership. It may return records of two ownerships.
            since_ns, position = before.get(owner.process, -1), owner.begins
            before[owner.process] = min(owner.until_ns, FOREVER)
            for row in places.get(place, []):
                inside = owner.since_ns <= ended_ns(row) <= owner.leaves_ns
                if row["process"] != owner.process or not inside or row["invoke_ns"] < since_ns:
                    continue
                if row["event"] == "sought":
                    position = row["offset"]
                    continue
                if position is not None and row["offset"] < position:
                    yield GroupFinding(
                        kind=GIVEN_AGAIN,
                        group=group,
                        partition=partition,
                        offset=row["offset"],
                        says=f"{owner.process} received offset {row['offset']} of partition "
                        f"{partition}, although its position was {position}.",
                    )
                position = row["end"] if position is None else max(position, row["end"])

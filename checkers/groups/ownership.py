"""``two-owners``: a coordinator accepted two members of a group as owners of one partition.

A member owns a partition from the callback that assigns it to the callback that revokes it. A
coordinator removes a member without heartbeats, and the member notices its removal later. So two
members may believe that they own a partition. Kafka does not prevent this, but guarantees two
things:

- *In one epoch a partition is assigned to one member.* An epoch is a classic group's generation, or
  a member's epoch (KIP-848). The epochs of a group begin again after its removal: an empty group
  without offsets is removed at the next look for expired offsets. So two owners in one epoch are
  reported only if they owned the partition at the same time.
- *The coordinator refuses a member that was replaced.* When the next owner's callback begins, the
  coordinator has reassigned the partition. The anomaly is a commit that the old owner requests
  after this, and that the coordinator acknowledges. The response must come before the end of the
  old owner's revoke callback. Later the client may have rejoined, and sent the request again in the
  new epoch. If the next owner had left before the old owner got the partition, the group's epochs
  had begun again.

The epoch of an owner is its epoch at the assignment. An owner without a known epoch is not judged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import pyarrow as pa

from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
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
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import OK

TWO_OWNERS: Final = "two-owners"

_ENDS: Final = ("revoked", "lost")


@dataclass(slots=True, kw_only=True)
class Ownership:
    """The interval in which a member believed that it owned a partition.

    Attributes:
        begun_ns: the begin of the callback that assigned the partition.
        since_ns: the end of that callback.
        begins: the offset from which the member read; None if unknown.
        leaves_ns: the begin of the callback that revoked the partition, or the member's end.
        until_ns: the end of the revoke callback. Later responses do not belong to this ownership.
        proven_ns: the member's last request of a commit that was acknowledged; -1 if there is none.
    """

    process: str
    epoch: int | None
    begun_ns: int
    since_ns: int
    begins: int | None
    leaves_ns: int = FOREVER
    until_ns: int = FOREVER
    proven_ns: int = -1


def ownerships(rows: Iterable[Row]) -> dict[Place, list[Ownership]]:
    """Return the ownerships of each partition, in the order of their assignments."""
    rows = list(rows)
    commits: dict[tuple[str, str], list[Row]] = defaultdict(list)
    ends: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["event"] == "commit" and row["outcome"] == OK:
            commits[row["group"], row["process"]].append(row)
        elif row["event"] == "ended":
            ends[row["group"], row["process"]] = row["invoke_ns"]
    places = {place: _owners(of_place) for place, of_place in by_place(rows).items()}
    for (group, _), owners in places.items():
        for owner in owners:
            owner.leaves_ns = min(owner.leaves_ns, ends.get((group, owner.process), FOREVER))
            owner.proven_ns = max(
                (
                    row["invoke_ns"]
                    for row in commits[group, owner.process]
                    if row["invoke_ns"] >= owner.since_ns and ended_ns(row) <= owner.until_ns
                ),
                default=-1,
            )
    return places


def _owners(rows: Sequence[Row]) -> list[Ownership]:
    """Return the ownerships of a partition.

    ``rows`` are in the order in which their events ended.
    """
    owners: list[Ownership] = []
    now: dict[str, Ownership] = {}
    for row in rows:
        process = row["process"]
        if row["event"] == "assigned":
            if process in now:
                now[process].leaves_ns = now[process].until_ns = row["invoke_ns"]
            now[process] = Ownership(
                process=process,
                epoch=row["epoch"],
                begun_ns=row["invoke_ns"],
                since_ns=ended_ns(row),
                begins=row["offset"],
            )
            owners.append(now[process])
        elif row["event"] in _ENDS and process in now:
            owner = now.pop(process)
            owner.leaves_ns = row["invoke_ns"]
            # A member may still commit while the callback revokes its partition.
            owner.until_ns = ended_ns(row) if row["event"] == "revoked" else row["invoke_ns"]
    return owners


@checker(
    Kind(
        TWO_OWNERS,
        guarantee="A group assigns a partition to one member at a time, and refuses commits "
        "from the previous owner.",
        singular="partition had two owners in a group",
        plural="partitions had two owners in a group",
        severity=Severity.SERIOUS,
        promise="exclusion: a partition is owned by one member of a group (KIP-848)",
        breaks=always,
        says=in_words,
    ),
    idle=no_group,
)
def two_owners(tables: Tables) -> pa.Table:
    """Return the partitions that two members owned, one anomaly for each pair of owners."""
    return anomalies(tables, lambda _, rows: doubly_owned(rows))


def doubly_owned(rows: Iterable[Row]) -> Iterator[GroupFinding]:
    """Yield the partitions that two members owned, one finding for each pair of owners."""
    for (group, partition), owners in ownerships(rows).items():
        for pair in combinations(owners, 2):
            if says := conflict(*sorted(pair, key=lambda owner: owner.epoch or 0)):
                place = f"partition {partition} of group {group}"
                yield GroupFinding(
                    kind=TWO_OWNERS,
                    group=group,
                    partition=partition,
                    says=says.format(place=place),
                )


def conflict(old: Ownership, new: Ownership) -> str:
    """Return a sentence if Kafka forbids that both members owned the partition; else empty text."""
    if old.process == new.process or old.epoch is None or new.epoch is None:
        return ""
    if old.begun_ns >= new.leaves_ns:
        return ""
    if old.epoch == new.epoch:
        if new.begun_ns >= old.leaves_ns:
            return ""
        return f"In epoch {old.epoch} both {old.process} and {new.process} were assigned {{place}}."
    if old.proven_ns > new.begun_ns:
        return (
            f"{new.process} was assigned {{place}} in epoch {new.epoch}. Later {old.process}, "
            f"its owner since epoch {old.epoch}, requested a commit, and the coordinator "
            "acknowledged it."
        )
    return ""

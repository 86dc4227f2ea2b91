"""Stories without a fault: a group restarts after its committed offsets have expired.

A coordinator deletes the offsets of a group that has had no members for
``offsets.retention.minutes``, 7 days by default (1 day before 2.0; KIP-186, KIP-211). When a member
joins again, ``auto.offset.reset`` decides where it starts. With ``latest`` it skips all records
that the group has not read, and all that were written while the group had no member.
``earliest-positions`` is the same story with ``earliest``: the group reads everything again.
"""

from typing import Final

from highwater.harness.clients.groups.membership import GroupMembership
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.clients.added_partitions import await_first_record
from highwater.nemesis.stories.story import (
    OFFSETS_KEPT_S,
    HazardEnding,
    Prediction,
    StoryNeeds,
    story,
)

EXPIRED_POSITIONS: Final = "expired-positions"
"""The id of the problem that this story shows, in the catalogue of hazards."""

MEANWHILE: Final = ("m1", "m2", "m3")
LATE: Final = "m4"
"""The records that are written while the group has no members, and the record after its restart."""

_REFRESH_S: Final = 2.0
_LEAVES_S: Final = 30.0
_EXPIRES_S: Final = OFFSETS_KEPT_S + 30.0
_JOINS_S: Final = 30.0
_READS_S: Final = 10.0

_NEEDS: Final = StoryNeeds(expiry=True, joined=2)


@story(
    "expired-positions",
    HazardEnding(
        hazard=EXPIRED_POSITIONS,
        ending=Prediction(others=frozenset({("undelivered", value) for value in MEANWHILE})),
    ),
    needs=_NEEDS,
    outcome="The group misses records that were written while it had no members.",
    min_isr_most=3,
)
def expired_positions(context: ScheduleContext) -> None:
    """Let the offsets of a group (auto.offset.reset=latest) expire."""
    _be_away(context, "latest")


@story(
    "earliest-positions",
    HazardEnding(hazard=EXPIRED_POSITIONS, ending=Prediction()),
    needs=_NEEDS,
    outcome="The group receives all records.",
    min_isr_most=3,
)
def earliest_positions(context: ScheduleContext) -> None:
    """Repeat expired-positions, but with auto.offset.reset=earliest."""
    _be_away(context, "earliest")


def _be_away(context: ScheduleContext, reset: str) -> None:
    """Execute a story of this module with a value of auto.offset.reset."""
    leader = context.replicas[0]
    membership = GroupMembership(group=context.plan.group, reset=reset, refresh_s=_REFRESH_S)
    member = context.groups.join("member-0", membership)
    await_first_record(context, member)
    end = context.replica(leader).leo
    context.until(
        lambda: context.groups.committed(membership.group).get(0),
        lambda offset: offset == end,
        what=f"the group to commit offset {end}",
        limit_s=_LEAVES_S,
    )
    member.leave()
    context.until(
        lambda: member.assigned,
        lambda partitions: not partitions,
        what="the only member of the group to leave",
        limit_s=_LEAVES_S,
    )
    context.note(f"the group has committed offset {end}, and its only member leaves")
    for value in MEANWHILE:
        context.send(value, leader=leader)
    context.until(
        lambda: context.groups.committed(membership.group).get(0),
        lambda offset: offset is None,
        what="the group's committed offset to expire",
        limit_s=_EXPIRES_S,
    )
    context.note(
        f"{', '.join(MEANWHILE)} are acknowledged; the group's committed offset has expired", step=1
    )
    again = context.groups.join("member-1", membership)
    context.until(
        lambda: again.reading,
        lambda partitions: 0 in partitions,
        what="the group to read again",
        limit_s=_JOINS_S,
    )
    context.note("the group has a member again")
    offset = context.send(LATE, leader=leader)
    context.until(
        lambda: again.given.get(0, 0),
        lambda after: after > offset,
        what=f"the group to receive {LATE}",
        limit_s=_READS_S,
    )
    context.note(f"the group received {LATE}")

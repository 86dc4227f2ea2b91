"""Stories of partitions that are added to a topic that a group reads already. There is no fault.

``added-partition``: a consumer looks only now and then which partitions there are
(``metadata.max.age.ms``, 5 minutes by default). Producers do, too, but one that is started, or that
asks for another reason, writes to a new partition at once. The group has no offset there: with
``auto.offset.reset=latest`` it begins behind all of that (KAFKA-20539, KIP-1327).
``earliest-partition`` is the guard: the same, with ``earliest``.

``added-partition-share``: in a share group (KIP-932) the coordinator looks, and initialises a new
partition before it assigns it to members. Up to 4.3 at ``share.auto.offset.reset``, which is
``latest`` by default; from 4.4 on at the beginning, if the topic was known before (KAFKA-20742).
``earliest-share`` is its guard.
"""

import itertools
from typing import Final

from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.catalogue import Release
from highwater.nemesis.context import GroupMember, ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

ADDED_PARTITION: Final = "KAFKA-20539"
ADDED_TO_SHARE_GROUP: Final = "KAFKA-20742"
"""The hazards, in the catalogue."""

EARLY: Final = ("m1", "m2", "m3")
LATE: Final = "m4"
"""What is written to the new partition, before the group has found it and after that."""

SHARE_GROUPS: Final = (4, 2)
"""The first release that has share groups unless they are switched off."""

_REFRESH_S: Final = 12.0
"""Long enough to join, add a partition and write to it, before the consumer looks again."""

_JOINS_S: Final = 30.0
_FINDS_S: Final = 30.0
_READS_S: Final = 10.0
_BETWEEN_S: Final = 0.5
_OPENS_S: Final = 2.0
"""A leader looks up where a share partition begins when it is first asked for its records; nothing
tells when it has. It takes some hundredths of a second."""

_NEEDS: Final = StoryNeeds(added=1)
_SKIPPED: Final = Prediction(others=frozenset({("undelivered", value) for value in EARLY}))


@story(
    "added-partition",
    HazardEnding(hazard=ADDED_PARTITION, ending=_SKIPPED),
    needs=_NEEDS,
    outcome=(
        "The group is never given what was written to the new partition before it had looked: on"
        " every release."
    ),
    min_isr_most=3,
)
def added_partition(context: ScheduleContext) -> None:
    """Add a partition, and write to it before a group that begins at the latest has found it."""
    _add(context, _member(context, "latest"))


@story(
    "earliest-partition",
    HazardEnding(hazard=ADDED_PARTITION, ending=Prediction()),
    needs=_NEEDS,
    outcome="Every release gives the group everything: it begins where the partition begins.",
    min_isr_most=3,
)
def earliest_partition(context: ScheduleContext) -> None:
    """Guard against the same: with auto.offset.reset=earliest a group begins at the beginning."""
    _add(context, _member(context, "earliest"))


def _share_groups(release: Release) -> str:
    if release.number >= SHARE_GROUPS:
        return ""
    return "share groups are there by default from 4.2 on (KIP-932)"


@story(
    "added-partition-share",
    HazardEnding(hazard=ADDED_TO_SHARE_GROUP, ending=_SKIPPED),
    needs=_NEEDS,
    outcome=(
        "Up to 4.3 a share group is never given what was written to the new partition before the"
        " coordinator had found it; later brokers give it everything."
    ),
    min_isr_most=3,
    why_not=_share_groups,
)
def added_partition_share(context: ScheduleContext) -> None:
    """Add a partition, and write to it before the coordinator of a share group has found it."""
    _add_to_share_group(context)


@story(
    "earliest-share",
    HazardEnding(hazard=ADDED_TO_SHARE_GROUP, ending=Prediction()),
    needs=_NEEDS,
    outcome="Every release gives the group everything: it begins where the partition begins.",
    min_isr_most=3,
    why_not=_share_groups,
)
def earliest_share(context: ScheduleContext) -> None:
    """Do the same with share.auto.offset.reset=earliest: the group reads from the beginning."""
    reset = {"share.auto.offset.reset": "earliest"}
    context.cluster.configure_group(_share_group(context), reset)
    _add_to_share_group(context)


def _share_group(context: ScheduleContext) -> str:
    return f"{context.topic}-share"


def _add_to_share_group(context: ScheduleContext) -> None:
    _add(context, context.groups.share("share-0", _share_group(context)), opens_s=_OPENS_S)


def _member(context: ScheduleContext, reset: str) -> GroupMember:
    group = GroupMembership(group=f"{context.topic}-group", reset=reset, refresh_s=_REFRESH_S)
    return context.groups.join("member-0", group)


def _add(context: ScheduleContext, member: GroupMember, *, opens_s: float = 0.0) -> None:
    """Play a story, of whichever group the member is."""
    [(new, replicas)] = context.added.items()
    leader = replicas[0]
    _await_first_record(context, member)
    context.cluster.add_partitions(context.topic, context.added)
    added = f"partition {new} was added to {context.topic}; broker {leader} leads it"
    context.note(added, leader, step=1)
    for value in EARLY:
        context.send(value, leader=leader, partition=new)
    if new in member.assigned:
        raise ScheduleNotFollowedError(
            f"the group had found partition {new} before {EARLY[-1]} was acknowledged"
        )
    context.note(f"{', '.join(EARLY)} are in partition {new}, which the group has not found yet")
    context.until(
        lambda: member.reading,
        lambda partitions: new in partitions,
        what=f"the group to find partition {new}",
        limit_s=_FINDS_S,
    )
    context.hold(opens_s)
    context.note(f"the group has found partition {new}")
    offset = context.send(LATE, leader=leader, partition=new)
    context.until(
        lambda: member.given.get(new, 0),
        lambda after: after > offset,
        what=f"the group to be given {LATE}",
        limit_s=_READS_S,
    )
    context.note(f"the group was given {LATE}")


def _await_first_record(context: ScheduleContext, member: GroupMember) -> None:
    """Send records to partition 0 until the group is given one, and so has joined.

    Raises:
        ScheduleNotFollowedError: it was given none within the limit.
    """
    deadline = context.clock() + _JOINS_S
    for number in itertools.count():
        offset = context.send(f"w{number}", leader=context.replicas[0])
        try:
            context.until(
                lambda: member.given.get(0, 0),
                lambda after, offset=offset: after > offset,  # type: ignore[misc]
                what=f"the group to be given w{number}",
                limit_s=_BETWEEN_S,
            )
        except ScheduleNotFollowedError:
            context.check()
            if context.clock() >= deadline:
                raise
        else:
            context.note(f"the group reads {context.topic}: it was given w{number}")
            return

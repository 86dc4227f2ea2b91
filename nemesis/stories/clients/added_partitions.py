"""Stories without a fault: a partition is added to a topic that a group already reads.

``added-partition``: a consumer refreshes its list of partitions only at intervals
(``metadata.max.age.ms``, 5 minutes by default). A producer that starts in such an interval writes
to the new partition at once. The group has no committed offset for the new partition. With
``auto.offset.reset=latest`` it starts after all records that the partition then has (KAFKA-20539,
KIP-1327). ``earliest-partition`` is the same story with ``earliest``, and loses nothing.

``added-partition-share``: in a share group (KIP-932) the coordinator finds a new partition, and
sets its start offset before it assigns the partition to members. Up to 4.3
``share.auto.offset.reset`` decides the start, by default ``latest``. From 4.4 on the start is the
partition's beginning, if the coordinator already knew the topic (KAFKA-20742). ``earliest-share``
is the same story with ``earliest``, and loses nothing.
"""

import itertools
from typing import Final

from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.catalogue import Release
from highwater.nemesis.context import GroupMember, ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

ADDED_PARTITION: Final = "KAFKA-20539"
ADDED_TO_SHARE_GROUP: Final = "KAFKA-20742"
"""The ids, in the catalogue of hazards (``checkers.hazards``), of this loss in a consumer group and
in a share group."""

EARLY: Final = ("m1", "m2", "m3")
LATE: Final = "m4"
"""The records in the new partition: written before, and after, the group has found the partition.
"""

SHARE_GROUPS: Final = (4, 2)
"""The first release that enables share groups by default."""

_REFRESH_S: Final = 12.0
"""The consumer's interval between refreshes of its partition list. In this time it can join, and
the story can add a partition and write to it."""

_JOINS_S: Final = 30.0
_FINDS_S: Final = 30.0
_READS_S: Final = 10.0
_BETWEEN_S: Final = 0.5
_OPENS_S: Final = 2.0
"""The time in which the leader finds the start of a share partition, after the first fetch. No
request reports this event."""

_NEEDS: Final = StoryNeeds(added=1, outside=())
_SKIPPED: Final = Prediction(others=frozenset({("undelivered", value) for value in EARLY}))


@story(
    "added-partition",
    HazardEnding(hazard=ADDED_PARTITION, ending=_SKIPPED),
    needs=_NEEDS,
    outcome=("On every release the group misses the new partition's first records."),
    min_isr_most=3,
)
def added_partition(context: ScheduleContext) -> None:
    """Add a partition, and write to it before a group (auto.offset.reset=latest) has found it."""
    _add(context, _member(context, "latest"))


@story(
    "earliest-partition",
    HazardEnding(hazard=ADDED_PARTITION, ending=Prediction()),
    needs=_NEEDS,
    outcome="The group receives all records of the new partition.",
    min_isr_most=3,
)
def earliest_partition(context: ScheduleContext) -> None:
    """Repeat added-partition, but with auto.offset.reset=earliest."""
    _add(context, _member(context, "earliest"))


def _share_groups(release: Release) -> str:
    if release.number >= SHARE_GROUPS:
        return ""
    return "brokers enable share groups by default from 4.2 on (KIP-932)"


@story(
    "added-partition-share",
    HazardEnding(hazard=ADDED_TO_SHARE_GROUP, ending=_SKIPPED),
    needs=_NEEDS,
    outcome=("Up to 4.3 the share group misses the new partition's first records."),
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
    outcome="The share group receives all records of the new partition.",
    min_isr_most=3,
    why_not=_share_groups,
)
def earliest_share(context: ScheduleContext) -> None:
    """Repeat added-partition-share, but with share.auto.offset.reset=earliest."""
    reset = {"share.auto.offset.reset": "earliest"}
    context.cluster.configure_group(_share_group(context), reset)
    _add_to_share_group(context)


def _share_group(context: ScheduleContext) -> str:
    return f"{context.topic}-share"


def _add_to_share_group(context: ScheduleContext) -> None:
    _add(context, context.groups.share("share-0", _share_group(context)), opens_s=_OPENS_S)


def _member(context: ScheduleContext, reset: str) -> GroupMember:
    group = GroupMembership(group=context.plan.group, reset=reset, refresh_s=_REFRESH_S)
    return context.groups.join("member-0", group)


def _add(context: ScheduleContext, member: GroupMember, *, opens_s: float = 0.0) -> None:
    """Execute a story of this module with a member of a group or of a share group."""
    [(new, replicas)] = context.added.items()
    leader = replicas[0]
    await_first_record(context, member)
    context.cluster.add_partitions(context.topic, context.added)
    added = f"partition {new} was added to {context.topic}; broker {leader} leads it"
    context.note(added, leader, step=1)
    for value in EARLY:
        context.send(value, leader=leader, partition=new)
    if new in member.assigned:
        raise ScheduleNotFollowedError(
            f"the group found partition {new} before {EARLY[-1]} was acknowledged"
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
        what=f"the group to receive {LATE}",
        limit_s=_READS_S,
    )
    context.note(f"the group received {LATE}")


def await_first_record(context: ScheduleContext, member: GroupMember) -> None:
    """Send records to partition 0 until the member receives one; then it has joined its group.

    Raises:
        ScheduleNotFollowedError: the member received no record within the limit.
    """
    deadline = context.clock() + _JOINS_S
    for number in itertools.count():
        offset = context.send(f"w{number}", leader=context.replicas[0])
        try:
            context.until(
                lambda: member.given.get(0, 0),
                lambda after, offset=offset: after > offset,  # type: ignore[misc]
                what=f"the group to receive w{number}",
                limit_s=_BETWEEN_S,
            )
        except ScheduleNotFollowedError:
            context.check()
            if context.clock() >= deadline:
                raise
        else:
            context.note(f"the group reads {context.topic}: it received w{number}")
            return

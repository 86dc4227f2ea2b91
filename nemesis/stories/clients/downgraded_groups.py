"""The story of a group that becomes classic again: its coordinator forgets this change.

A group may have members of the classic protocol and of the consumer protocol (KIP-848). When its
last consumer-protocol member leaves, the group becomes classic. The coordinator changes the group
in its memory, and then appends records. If the uncompressed records are larger than a batch, the
coordinator of 4.0.2 and of 4.1.1 to 4.3 first flushes the batch that it has just opened. This batch
is empty, which counts as an error. So the coordinator reverts the change in memory (KAFKA-20845,
``CoordinatorRuntime.append``), but it still writes the records. In the log the group is then
classic, but later gets a member of the consumer protocol. No coordinator can load this log.
"""

from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.group_protocols import CONSUMER
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import GroupMember, ScheduleContext
from highwater.nemesis.stories.helpers import missed_if_late
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

FORGOTTEN: Final = "KAFKA-20845"
"""The id of ``downgraded-group``'s hazard in the catalogue."""

_OFFSETS: Final = COORDINATOR_TOPICS[1]
_BATCH: Final = {"max.message.bytes": "500"}
"""Less than the records of the change, and more than these are when they are compressed."""

_COMPRESSED_SINCE: Final = (4, 0, 2)
_LIMIT_S: Final = 40.0


def _compressed(release: Release) -> str:
    if release.number >= _COMPRESSED_SINCE:
        return ""
    return "its coordinator refuses records that fit only when they are compressed (KAFKA-19760)"


@story(
    "downgraded-group",
    HazardEnding(
        hazard=FORGOTTEN,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(joined=3, partitions=2, group=True, compressed=True, spoils=True),
    outcome="Up to 4.3 no coordinator can load the group's log any more.",
    min_isr_most=3,
    why_not=_compressed,
)
def downgraded_group(context: ScheduleContext) -> None:
    """Let the only member of the consumer protocol leave a group, and another such member join."""
    context.send("m0", leader=context.replicas[0])
    group = context.plan.group
    old = GroupMembership(group=group, reset="earliest")
    new = GroupMembership(group=group, reset="earliest", protocol=CONSUMER)
    stays = context.groups.join("member-0", old)
    _await_partitions(context, stays, 2)
    leaves = context.groups.join("member-1", new)
    _await_partitions(context, leaves, 1)
    context.note(f"{group} has a classic member and one of the brokers' protocol")
    context.cluster.configure(_OFFSETS, _BATCH)
    before = _written(context)
    leaves.leave()
    _await_written(context, before)
    context.note(f"the member of the brokers' protocol has left {group}", step=1)
    before = _written(context)
    context.groups.join("member-2", new)
    _await_written(context, before)
    context.note(f"another one has joined {group}")
    _move(context)


def _await_partitions(context: ScheduleContext, member: GroupMember, count: int) -> None:
    what = f"a member to have {count} partitions"
    context.until(lambda: len(member.assigned), count.__eq__, what=what, limit_s=_LIMIT_S)


def _move(context: ScheduleContext) -> None:
    """Move the coordinator, and note whether its successor serves the group."""
    state = context.until(
        lambda: context.probe.partition(_OFFSETS, 0),
        lambda state: len(state.isr) > 1,
        what="two in-sync replicas of the groups' log",
    )
    heir = next(broker for broker in state.isr if broker != state.leader)
    with missed_if_late():
        context.cluster.move_leader(_OFFSETS, 0, heir)
    try:
        context.groups.committed(context.plan.group)
    except UnreachableError as error:
        context.note(f"broker {heir} leads {_OFFSETS}-0, and serves no group: {error}", heir)
    else:
        context.note(f"broker {heir} leads {_OFFSETS}-0, and serves {context.plan.group}", heir)


def _written(context: ScheduleContext) -> int:
    leader = context.until(
        lambda: context.probe.partition(_OFFSETS, 0).leader,
        lambda leader: leader >= 0,
        what="the leader of the groups to be reported",
    )
    return context.probe.replica(leader, _OFFSETS, 0).leo


def _await_written(context: ScheduleContext, before: int) -> None:
    what = "the coordinator to write records"
    context.until(lambda: _written(context), lambda leo: leo > before, what=what, limit_s=_LIMIT_S)

"""The story of a group that its coordinator removes while a transaction has offsets for it.

A coordinator removes a group without members when all the group's offsets have expired. It checks
this every ``offsets.retention.check.interval.ms`` (10 minutes by default).

``removed-group``: a program assigns partitions to itself, so its group has no members. It commits
its first offsets in a transaction. While the transaction is open, the coordinator of 4.0.0 ignores
these offsets, and removes the group (KAFKA-19163, ``OffsetMetadataManager.cleanupExpiredOffsets``).
The commit succeeds, and the log has the offsets, but the coordinator does not know the group.

The story also has a second group, whose only transaction was aborted. When this group has been
removed, the coordinator has made its check.
"""

from typing import Final

from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.runs.history import OK
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

REMOVED_GROUP: Final = "KAFKA-19163"
"""The id of the problem that ``removed-group`` shows, in the catalogue of hazards."""

CONTRADICTED: Final = Prediction(others=frozenset({("coordinator-contradiction", "")}))

_LOOKS_S: Final = 30.0
_NEEDS: Final = StoryNeeds(transactions=True, group=True)


@story(
    "removed-group",
    HazardEnding(hazard=REMOVED_GROUP, ending=CONTRADICTED),
    needs=_NEEDS,
    outcome="On 4.0.0 the coordinator does not know the offset that a transaction has committed.",
    min_isr_most=3,
)
def removed_group(context: ScheduleContext) -> None:
    """Remove a group while its first offsets are in an open transaction, which then commits."""
    _remove(context, context.transactional("writer"))


def _remove(context: ScheduleContext, writer: NamedTransactions) -> None:
    """Commit a group's offset in a transaction during which the coordinator removes groups."""
    _begin(context, writer, "m0")
    other, second = context.transactional("other"), f"{context.topic}-second"
    other.begin()
    other.send_positions({0: 0}, context.groups.outside(second))
    if refusal := other.abort():
        raise ScheduleNotFollowedError(f"the transaction of {second} was not aborted: {refusal}")
    groups = context.until(
        context.groups.listed,
        lambda groups: second not in groups,
        what=f"the coordinator to remove {second}, which has no offset",
        limit_s=_LOOKS_S,
    )
    there = "is there" if context.plan.group in groups else "is gone, too"
    context.note(f"the coordinator has removed {second}; {context.plan.group} {there}", step=1)
    _commit(context, writer)


def _begin(context: ScheduleContext, writer: NamedTransactions, value: str) -> None:
    """Begin a transaction, and add a record and the group's offset after this record."""
    group = context.plan.group
    writer.begin()
    offset = writer.send(value, 0) + 1
    writer.send_positions({0: offset}, context.groups.outside(group))
    context.note(f"a transaction has offset {offset} for {group}, which has no members")


def _commit(context: ScheduleContext, writer: NamedTransactions) -> None:
    outcome = writer.commit()
    if outcome != OK:
        raise ScheduleNotFollowedError(f"the transaction did not commit; its outcome is {outcome}")
    context.note(f"the transaction with the offset of {context.plan.group} is committed")

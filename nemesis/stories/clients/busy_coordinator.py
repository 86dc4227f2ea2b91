"""The story of a coordinator that is too busy to end a transaction before the next one begins.

A group's coordinator keeps the offsets of open transactions by their producer. When it has written
the marker that ends a transaction, one thread moves or removes that producer's offsets. In 1.0.2,
and from 1.1.1 to 3.9.0, the coordinator answers WriteTxnMarkers without waiting for the thread
(KAFKA-17507, ``GroupMetadataManager.scheduleHandleTxnCompletion``). So the producer may begin its
next transaction and add offsets to it first; then the end of the first transaction removes these
offsets from memory, and the commit of the second finds none. The log has them.

The thread also removes expired offsets, and loads partitions of ``__consumer_offsets``. Here it is
busy with thousands of groups whose offsets expire at once.
"""

import time
from collections.abc import Iterator
from typing import Final

from highwater.clusters.admin.expiring_groups import commit_expiring
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.runs.history import OK
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LATE_COMPLETION: Final = "KAFKA-17507"
"""The id of ``busy-coordinator``'s hazard in the catalogue."""

_GROUPS: Final = 8_000
_EXPIRES_S: Final = 45.0
"""Seconds until the offsets of all these groups expire: enough to commit them all."""

_EXPIRED_S: Final = 120.0


@story(
    "busy-coordinator",
    HazardEnding(
        hazard=LATE_COMPLETION,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(transactions=True, group=True),
    outcome=(
        "On 1.0.2, and from 1.1.1 to 3.9.0, the coordinator lacks the offset of a committed"
        " transaction."
    ),
    min_isr_most=3,
)
def busy_coordinator(context: ScheduleContext) -> None:
    """End a transaction while its coordinator is busy: the next one's offsets are removed."""
    writer = context.transactional("writer")
    member = context.groups.outside(context.plan.group)
    _commit_many(context)
    writer.begin()
    writer.send_positions({0: 0}, member)
    context.note(f"a transaction has offset 0 for {context.plan.group}")
    left = context.until(
        lambda: _left(context),
        lambda left: left < _GROUPS,
        what="the coordinator to begin to remove groups",
        limit_s=_EXPIRED_S,
    )
    if refusal := writer.abort():
        raise ScheduleNotFollowedError(f"the transaction did not abort: {refusal}")
    context.note(
        f"the coordinator still has {left:,} groups to remove; that transaction is aborted"
    )
    _commit_next(context, writer, member)
    context.until(
        lambda: _left(context),
        lambda left: not left,
        what="the coordinator to remove all groups",
        limit_s=_EXPIRED_S,
    )


def _commit_next(context: ScheduleContext, writer: NamedTransactions, member: object) -> None:
    writer.begin()
    offset = writer.send("m0", 0) + 1
    writer.send_positions({0: offset}, member)
    left = _left(context)
    context.note(
        f"the next transaction has offset {offset} for {context.plan.group}; the coordinator has"
        f" {left:,} groups to remove",
        step=1,
    )
    outcome = writer.commit()
    if outcome != OK:
        raise ScheduleNotFollowedError(f"the transaction's outcome is {outcome}")
    context.note("that transaction is committed")


def _many(context: ScheduleContext) -> Iterator[str]:
    return (f"{context.topic}-many-{number}" for number in range(_GROUPS))


def _left(context: ScheduleContext) -> int:
    """Return how many of the groups that expire are left."""
    return len(context.groups.listed() & {*_many(context)})


def _commit_many(context: ScheduleContext) -> None:
    """Commit offsets of many groups, which expire at once.

    Raises:
        ScheduleNotFollowedError: the coordinator did not accept them all before they expire.
    """
    leader = context.until(
        lambda: context.probe.partition(COORDINATOR_TOPICS[1], 0).leader,
        lambda leader: leader >= 0,
        what="the leader of the groups to be reported",
    )
    address = context.cluster.brokers[leader].address
    expires_at = time.time() + _EXPIRES_S
    try:
        commit_expiring(address, [*_many(context)], context.topic, expires_at=expires_at)
    except UnreachableError as error:
        raise ScheduleNotFollowedError(error.message) from error
    early_s = expires_at - time.time()
    if early_s <= 0:
        raise ScheduleNotFollowedError(f"the groups' offsets were committed {-early_s:.1f} s late")
    context.note(f"{_GROUPS:,} groups have an offset, which expires in {early_s:.1f} s", leader)

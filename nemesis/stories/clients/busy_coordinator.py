"""The story of a coordinator that is too busy to end a transaction before the next begins.

A group's coordinator keeps the offsets of open transactions in memory, by producer. When it has
written the marker that ends a transaction, a background thread applies or removes that producer's
offsets. In 1.0.2, and from 1.1.1 to 3.9.0, the coordinator responds to WriteTxnMarkers without
waiting for the thread (KAFKA-17507, ``GroupMetadataManager.scheduleHandleTxnCompletion``). So the
producer may begin its next transaction, and add offsets, before the thread has handled the first
transaction. The thread then removes the new offsets from memory. When the second transaction
commits, its offsets are only in the log.

The same thread also removes expired offsets, and loads partitions of ``__consumer_offsets``. In
this story it is busy with thousands of groups whose offsets expire at the same time. Because of
``flush.messages``, the thread waits for the disk at each of these groups.
"""

import time
from collections.abc import Callable
from typing import Final

from highwater.clusters.admin.expiring_groups import commit_expiring
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.runs.history import OK
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import (
    CLEANUP_S,
    HazardEnding,
    Prediction,
    StoryNeeds,
    story,
)

LATE_COMPLETION: Final = "KAFKA-17507"
"""The id of the problem that ``busy-coordinator`` shows, in the catalogue of hazards."""

OFFSETS: Final = COORDINATOR_TOPICS[1]
_HASTY: Final = {"retry.backoff.ms": 50}
"""While a transaction ends, the coordinator refuses the next one. The client sends its request
again after this time."""

_FLUSH: Final = "flush.messages"
_GROUPS: Final = 1_500
_EXPIRES_S: Final = 20 * CLEANUP_S
"""Seconds until the offsets of all these groups expire: enough to commit them all."""

_AFTER_S: Final = 0.15 * CLEANUP_S
"""The offsets expire this long after a check by the coordinator. So the coordinator removes all of
them together at its next check."""

_EXPIRED_S: Final = 60.0


@story(
    "busy-coordinator",
    HazardEnding(
        hazard=LATE_COMPLETION,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(transactions=True, group=True),
    outcome="Up to 3.9.0 the coordinator does not know the second transaction's offset.",
    min_isr_most=3,
)
def busy_coordinator(context: ScheduleContext) -> None:
    """Begin a transaction before a busy coordinator has ended the previous one."""
    writer = context.transactional("writer", _HASTY)
    member = context.groups.outside(context.plan.group)
    writer.begin()
    end = writer.send("m0", 0) + 1
    writer.commit()
    coordinator = context.until(
        lambda: context.probe.partition(OFFSETS, 0).leader,
        lambda leader: leader >= 0,
        what="the leader of the groups to be reported",
    )

    def appended() -> int:
        return context.probe.replica(coordinator, OFFSETS, 0).leo

    def await_removal(after: int) -> None:
        context.until(
            appended,
            lambda leo: leo > after,
            what="the coordinator to start removing groups",
            limit_s=_EXPIRED_S,
        )

    before = appended()
    _commit_expiring(context, coordinator, 1, time.time())
    await_removal(before + 1)
    _commit_expiring(context, coordinator, _GROUPS, time.time() + _EXPIRES_S + _AFTER_S)
    context.cluster.configure(OFFSETS, {_FLUSH: "1"})
    writer.begin()
    writer.send_positions({0: 0}, member)
    context.note(f"a transaction has offset 0 for {context.plan.group}")
    before = appended()
    await_removal(before)
    _end(writer.abort)
    at_abort = _GROUPS - (appended() - before)
    writer.begin()
    writer.send_positions({0: end}, member)
    at_next = _GROUPS - (appended() - before)
    _end(writer.commit)
    context.cluster.configure(OFFSETS, {_FLUSH: None})
    context.note(
        f"the coordinator had {at_abort:,} of {_GROUPS:,} groups left to remove when it had"
        f" aborted that transaction, and {at_next:,} when the next transaction had offset"
        f" {end}; the next transaction is committed",
        coordinator,
        step=1,
    )
    await_removal(before + _GROUPS)


def _end(call: Callable[[], str]) -> None:
    if (outcome := call()) not in {"", OK}:
        raise ScheduleNotFollowedError(f"the transaction did not end; its outcome is {outcome}")


def _commit_expiring(
    context: ScheduleContext, coordinator: int, count: int, expires_at: float
) -> None:
    """Commit an offset for each of many groups. All these offsets expire at the same time.

    Raises:
        ScheduleNotFollowedError: the coordinator did not accept them all before they expire.
    """
    address = context.cluster.brokers[coordinator].address
    groups = [f"{context.topic}-many-{number}" for number in range(count)]
    try:
        commit_expiring(address, groups, context.topic, expires_at=expires_at)
    except UnreachableError as error:
        raise ScheduleNotFollowedError(error.message) from error
    early_s = expires_at - time.time()
    if count > 1 and early_s <= 0:
        raise ScheduleNotFollowedError(f"the groups' offsets were committed {-early_s:.1f} s late")
    have = "1 group has an offset" if count == 1 else f"{count:,} groups have an offset each"
    when = f"expires in {early_s:.1f} s" if early_s > 0 else "has expired"
    context.note(f"{have}, which {when}", coordinator)

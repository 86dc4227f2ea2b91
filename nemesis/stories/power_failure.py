"""The story of a power failure that loses the page cache of the only in-sync replica.

A leader acknowledges a record when every in-sync replica has it in memory. If one replica loses the
record, Kafka relies on the others. KIP-966 ("Eligible Leader Replicas") describes the gap: the only
member of the ISR is elected again even if it has lost records, and the other replicas truncate
their logs to match.

With ``flush.messages=1`` the replica has flushed the record, and loses nothing (``honest-disk``).
But the record is lost if the disk reports flushes that it has not done (``lying-disk``).
"""

from collections.abc import Callable
from typing import Final

from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import STRACE
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_alone,
    await_others,
    await_replicas,
    settle,
)
from highwater.nemesis.stories.story import StoryNeeds, story

SEGMENT_S: Final = 1.0
"""The time after which Kafka begins a new segment. It then flushes the previous segment. So only
the story's record, in its own segment, is not flushed."""

_FLUSHED: Final = {"flush.messages": "1"}
_POWER_FAILURE: Final = """
    settle m0 m1 m2
    send m3 to A
    let A B C
    stop B C
    let A
    kill A
    cut A to 3
    expire A
    start B C
    heal
"""


def ends_itself(release: Release) -> str:
    """Return why the story cannot run on a release before 0.11; empty for other releases.

    A follower with a longer log than its leader exits: "log truncation is not allowed"
    (``ReplicaFetcherThread.handleOffsetOutOfRange``, up to 0.10.2).
    """
    if not release.cuts_to_hw:
        return ""
    return "before 0.11 a follower with more records than its leader exits"


@story(
    "power-failure",
    _POWER_FAILURE,
    outcome=(
        "Since 0.11 the record is lost, although B and C have it on disk. Either "
        "min.insync.replicas=2 with eligible leader replicas (since 4.1) or unclean "
        "elections prevent the loss."
    ),
    controller="A",
    topic_config={"segment.ms": str(int(SEGMENT_S * 1000))},
    min_isr_most=2,
    why_not=ends_itself,
)
def power_failure(context: ScheduleContext) -> None:
    """Lose the unflushed end of the only in-sync replica's log; this replica leads again.

    B and C are shut down cleanly one after the other, as for maintenance, so that only A is in the
    ISR. Then A has a power failure. B and C, which have every record on disk, start before A.
    """
    offset = settle(context)
    context.hold(SEGMENT_S + 0.1)
    _leave_alone(context, offset)
    _require_segment(context, context.replicas[0], offset)
    _fail(context, "power-failure")


@story(
    "honest-disk",
    _POWER_FAILURE.replace("cut A to 3", ""),
    outcome="Nothing is lost.",
    controller="A",
    topic_config=_FLUSHED,
    min_isr_most=2,
)
def honest_disk(context: ScheduleContext) -> None:
    """Repeat power-failure, but with flush.messages=1."""
    _leave_alone(context, settle(context))
    _fail(context, "power-failure")


@story(
    "lying-disk",
    _POWER_FAILURE,
    needs=StoryNeeds(machine=STRACE),
    outcome="As with power-failure.",
    controller="A",
    topic_config=_FLUSHED,
    min_isr_most=2,
    why_not=ends_itself,
)
def lying_disk(context: ScheduleContext) -> None:
    """Repeat honest-disk, but the flushes of A do nothing."""
    offset = settle(context)
    _fail(context, "disk-lies", lambda: _leave_alone(context, offset))


def _leave_alone(context: ScheduleContext, offset: int) -> None:
    """Send a record, wait until every replica has it, and shut down all replicas but A."""
    a, *others = context.replicas
    context.send(VICTIM, leader=a)
    await_replicas(
        context,
        lambda seen: all(seen[replica].leo > offset for replica in context.replicas),
        what=f"every replica to have {VICTIM}",
        limit_s=10,
    )
    for broker in others:
        context.nemesis.inject("stop", broker)
    await_alone(context, a)


def _fail(
    context: ScheduleContext, fault: str, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Inject a fault that stops A, start the other brokers, and note the leader."""
    a, *others = context.replicas
    context.nemesis.inject(fault, a, meanwhile=meanwhile)
    context.nemesis.heal_all(others)
    await_others(context, a, others)
    leader = context.state().leader
    context.note(
        f"broker {leader} leads" if leader in others else f"no broker leads until broker {a} runs"
    )


def _require_segment(context: ScheduleContext, broker: int, offset: int) -> None:
    """Make sure that a broker's newest segment of partition 0 starts at an offset.

    Otherwise the power failure would also remove other records.

    Raises:
        ScheduleNotFollowedError: the segment starts at another offset.
    """
    newest = disk_damage.segments(context.cluster.brokers[broker].directory / f"{context.topic}-0")[
        -1
    ]
    if int(newest.stem) != offset:
        raise ScheduleNotFollowedError(
            f"{VICTIM} at offset {offset} is not the first record of its segment: {newest.name}"
        )

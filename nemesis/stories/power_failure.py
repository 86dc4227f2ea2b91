"""Stories of power failures: the page cache is lost, and a new leader is elected.

A record is acknowledged when every in-sync replica has it in memory; Kafka relies on replication to
keep the record if one replica loses it. KIP-966 ("Eligible Leader Replicas") describes the gap: a
replica that is alone in the ISR is elected again with any loss, and the other replicas truncate
their logs to match.

With ``flush.messages=1`` the replica has flushed the record, and loses nothing (``honest-disk``),
unless its disk only says that it has (``lying-disk``).
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
"""The time for which Kafka writes to a segment. Kafka flushes a segment when the next segment
begins. So only the victim, in its own segment, is not flushed."""

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
    """Return why the story cannot run before 0.11: a follower ahead of its leader halts there.

    See ``ReplicaFetcherThread.handleOffsetOutOfRange``, up to 0.10.2: "log truncation is not
    allowed".
    """
    if not release.cuts_to_hw:
        return ""
    return "followers that are ahead of their leader exit (before 0.11)"


@story(
    "power-failure",
    _POWER_FAILURE,
    outcome=(
        "Since 0.11 the record is lost, although B and C have it on disk. It is kept with"
        " min.insync.replicas=2 and eligible leader replicas (since 4.1), and with unclean"
        " elections, by which B or C leads."
    ),
    controller="A",
    topic_config={"segment.ms": str(int(SEGMENT_S * 1000))},
    min_isr_most=2,
    why_not=ends_itself,
)
def power_failure(context: ScheduleContext) -> None:
    """Lose the unflushed end of the last in-sync replica's log; the replica is elected again.

    B and C are shut down in order one after the other, as for maintenance, so that the ISR is A
    alone. Then the power of A fails. B and C, which have every record on disk, come back first.
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
    """Play power-failure with flush.messages=1."""
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
    """Play honest-disk, but the flushes of A do nothing."""
    offset = settle(context)
    _fail(context, "disk-lies", lambda: _leave_alone(context, offset))


def _leave_alone(context: ScheduleContext, offset: int) -> None:
    """Let every replica have the record at an offset, then shut down all replicas but A."""
    a, *others = context.replicas
    context.send(VICTIM, leader=a)
    await_replicas(
        context,
        lambda seen: all(seen[replica].leo > offset for replica in context.replicas),
        what=f"every replica to hold {VICTIM}",
        limit_s=10,
    )
    for broker in others:
        context.nemesis.inject("stop", broker)
    await_alone(context, a)


def _fail(
    context: ScheduleContext, fault: str, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Inject a fault that ends A, and start the other brokers."""
    a, *others = context.replicas
    context.nemesis.inject(fault, a, meanwhile=meanwhile)
    context.nemesis.heal_all(others)
    await_others(context, a, others)
    leader = context.state().leader
    context.note(
        f"broker {leader} leads" if leader in others else f"no broker leads without broker {a}"
    )


def _require_segment(context: ScheduleContext, broker: int, offset: int) -> None:
    """Make sure that a broker's newest segment of partition 0 begins at an offset.

    Raises:
        ScheduleNotFollowedError: the segment begins at another offset, so that other records would
            be lost.
    """
    newest = disk_damage.segments(context.cluster.brokers[broker].directory / f"{context.topic}-0")[
        -1
    ]
    if int(newest.stem) != offset:
        raise ScheduleNotFollowedError(
            f"{VICTIM} at {offset} is not the first of its segment: {newest.name}"
        )

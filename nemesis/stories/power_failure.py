"""Stories of power failures: what the page cache alone held is gone, and who is elected then.

A record is acknowledged when every in-sync replica has it in memory; Kafka leaves it to
replication that it outlives the loss of one. KIP-966 ("Eligible Leader Replicas") names the hole: a
replica that is alone in the ISR is elected again whatever it has lost, and the others cut their
logs to match.
"""

from typing import Final

from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_alone,
    await_others,
    await_replicas,
    settle,
)
from highwater.nemesis.stories.story import story

SEGMENT_S: Final = 1.0
"""How long a segment takes records. One that is followed by another has been flushed, so that the
victim in a segment of its own is all that is not: nothing else in Kafka flushes a log by itself."""

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


def _ends_itself(release: Release) -> str:
    """Before leader epochs a follower that is ahead of its leader ends its own process.

    ``ReplicaFetcherThread.handleOffsetOutOfRange``, to 0.10.2: "log truncation is not allowed".
    """
    if not release.cuts_to_hw:
        return ""
    return "followers that are ahead of their leader halt, and never come back (before 0.11)"


@story(
    "power-failure",
    _POWER_FAILURE,
    outcome=(
        "Since 0.11 it is lost on every release, whatever the acks, though B and C have it on their"
        " disks; with min.insync.replicas=2 and eligible leader replicas (since 4.1) it is kept,"
        " and with unclean elections, since B or C leads then."
    ),
    controller="A",
    topic_config={"segment.ms": str(int(SEGMENT_S * 1000))},
    min_isr_most=2,
    why_not=_ends_itself,
)
def power_failure(context: ScheduleContext) -> None:
    """Lose the unflushed tail of the last in-sync replica, which is elected again all the same.

    B and C are shut down in order one after the other, as for maintenance, so that A is the whole
    ISR. Then the power of A fails. B and C, who have all of it on disk, come back first.
    """
    a, *others = context.replicas
    offset = settle(context)
    context.hold(SEGMENT_S + 0.1)
    context.send(VICTIM, leader=a)
    await_replicas(
        context,
        lambda seen: all(seen[replica].leo > offset for replica in context.replicas),
        what=f"every replica to hold {VICTIM}",
        limit_s=10,
    )
    _require_segment(context, a, offset)
    for broker in others:
        context.nemesis.inject("stop", broker)
    await_alone(context, a)
    context.nemesis.inject("power-failure", a)
    context.nemesis.heal_all(others)
    await_others(context, a, others)
    leader = context.state().leader
    context.note(
        f"broker {leader} leads" if leader in others else f"no broker leads without broker {a}"
    )


def _require_segment(context: ScheduleContext, broker: int, offset: int) -> None:
    """Make sure that a broker's newest segment of partition 0 begins at an offset.

    Raises:
        ScheduleNotFollowedError: it does not; more than the victim would be lost, or nothing.
    """
    newest = disk_damage.segments(context.cluster.brokers[broker].directory / f"{context.topic}-0")[
        -1
    ]
    if int(newest.stem) != offset:
        raise ScheduleNotFollowedError(
            f"{VICTIM} at {offset} is not the first of its segment: {newest.name}"
        )

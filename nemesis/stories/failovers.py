"""Two stories (scripted scenarios) where brokers fail in the HW-lag window.

In ``loss`` a committed record is lost; in ``divergence`` two records get the same offset. Brokers
A, B and C have replicas of one partition. A leads, B is the next leader, and C is never killed, so
with ZooKeeper C is the controller. A is killed, then B. When A's session ends, the controller
elects B, which is already dead, and C follows B until B's session ends. Up to 0.10.2 C at once
truncates its log to its own HW (Partition.makeFollower). From 0.11 on C first asks the leader for
the end of C's epoch (KIP-101), gets no response, and keeps the record.

The schedule does not depend on the producer's acks: A is killed only when every replica has the
record and A has committed it. Only Kafka's promise about the record depends on acks.
"""

from collections.abc import Mapping
from typing import Final

from highwater.clusters.core.interfaces import ReplicaState
from highwater.harness.base.errors import WaitTimeoutError
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.hw_lag_window import await_window
from highwater.nemesis.stories.helpers import (
    SUCCESSOR,
    VICTIM,
    await_hw_on_disk,
    await_replicas,
    hw_on_disk,
    settle,
)
from highwater.nemesis.stories.story import FETCH_WAIT_S, story

GAP_S: Final = 1.85
"""Seconds from the kill of A to the kill of B. B's session must end more than a tick after A's
session (1.85 s - 1.17 s > 0.2 s), and A's session must still be alive (1.85 s < 2.33 s). So the
machine may stall for 0.48 s. The time begins at the request for the kill, because a kill takes 5 ms
for a process and 200 ms for a container, and longer on a busy machine."""


_COMMITTED: Final = """
    settle m0 m1 m2
    {first}
    send m3 to A
    fetch B C B C
    {then}
    kill A B
    expire A for B
    let C
    expire B for C
    let C
"""
"""The part of the script that both stories share. B and C fetch m3. At their next fetch A commits
m3, but B and C do not learn the new HW."""

_LOSS: Final = _COMMITTED.format(first="checkpoint A", then="") + "heal"
_DIVERGENCE: Final = _COMMITTED.format(first="", then="checkpoint A") + "send m4 to C\n heal"


@story(
    "loss",
    _LOSS,
    outcome="Up to 0.10.2 the record is lost. Later releases keep it.",
)
def loss(context: ScheduleContext) -> None:
    """Lose a committed record under clean elections: C truncates it, then becomes leader."""
    a, _, _ = context.replicas
    offset = settle(context)
    await_hw_on_disk(context, a, offset)  # kill A before it writes its HW to disk again
    commit_victim(context, offset)
    began = kill_leader(context, offset)
    require_hw_behind(context, a, offset)
    _fail_over_to_survivor(context, began)


@story(
    "divergence",
    _DIVERGENCE,
    outcome="Up to 0.10.2 in-sync replicas keep different records for ever. Later releases agree.",
)
def divergence(context: ScheduleContext) -> None:
    """Acknowledge two records at one offset: A's HW on disk is above its record, so A keeps it."""
    a, _, survivor = context.replicas
    offset = settle(context)
    commit_victim(context, offset)
    await_hw_on_disk(context, a, offset + 1)
    _fail_over_to_survivor(context, kill_leader(context, offset))
    successor = context.send(SUCCESSOR, leader=survivor)
    context.note(f"broker {survivor} has {SUCCESSOR} at offset {successor}", survivor)


def commit_victim(context: ScheduleContext, offset: int) -> None:
    """Send the story's record; wait until B and C have the record and A has committed it."""
    a, *followers = context.replicas
    context.send(VICTIM, leader=a)
    widens = context.cluster.release.window_widens

    def holds_it(state: ReplicaState) -> bool:
        return state.leo > offset and (state.hw == offset or not widens)

    await_replicas(
        context,
        lambda seen: (
            seen[a].hw > offset and all(holds_it(seen[follower]) for follower in followers)
        ),
        what=f"every replica to have {VICTIM}, and the followers to have it above their HW",
        limit_s=FETCH_WAIT_S,
    )


def kill_leader(context: ScheduleContext, offset: int) -> float:
    """Kill A inside the HW-lag window, if the window opens; return the second of the kill."""
    a, *followers = context.replicas
    began = context.clock()
    context.nemesis.inject("kill", a)
    if not context.cluster.release.window_widens:
        context.note(
            f"Kafka {context.cluster.release.name} sends an idle follower the new HW at once, so "
            "the HW-lag window closed before a broker could be killed in it"
        )
        return began
    try:
        seen = await_window(context.probe, context.topic, 0, followers, offset=offset, limit_s=0.5)
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(
            f"no broker was killed inside the HW-lag window: {error.message}"
        ) from error
    note_window(context, seen, offset)
    return began


def note_window(context: ScheduleContext, seen: Mapping[int, ReplicaState], offset: int) -> None:
    """Record a note about each broker that has the story's record above its HW."""
    for broker, state in seen.items():
        context.note(
            f"broker {broker} has {VICTIM} at offset {offset} above its HW: LEO {state.leo}, HW "
            f"{state.hw}",
            broker,
        )


def require_hw_behind(context: ScheduleContext, broker: int, offset: int) -> None:
    """Make sure that a killed broker has not written a HW above an offset to its disk.

    Raises:
        ScheduleNotFollowedError: the broker wrote its HW before it was killed.
    """
    if hw_on_disk(context, broker) > offset:
        raise ScheduleNotFollowedError(
            f"broker {broker} wrote HW {offset + 1} to its disk before it was killed"
        )


def _fail_over_to_survivor(context: ScheduleContext, began: float) -> None:
    """Kill B shortly before A's session ends; wait until C leads."""
    a, b, survivor = context.replicas
    context.hold(began + GAP_S - context.clock())
    context.nemesis.inject("kill", b)
    require_session(context, a, f"broker {b} was dead")
    await_turns(context, b, survivor)


def require_session(context: ScheduleContext, broker: int, before: str) -> None:
    """Raise an error if a broker's session ended before an event.

    Args:
        before: the event for the error message, such as ``broker 2 was isolated``.

    Raises:
        ScheduleNotFollowedError: the session has ended.
    """
    live = context.until(
        context.probe.live_brokers, what="a response that lists brokers with sessions"
    )
    if broker not in live:
        raise ScheduleNotFollowedError(f"the session of broker {broker} ended before {before}")


def await_turns(context: ScheduleContext, b: int, survivor: int) -> None:
    """Wait until C leads, and make sure that the dead B was leader before C.

    Raises:
        ScheduleNotFollowedError: both sessions ended at once, so C never followed B.
    """
    numbers: set[int] = set()

    def look() -> int:
        leader = context.probe.partition(context.topic, 0).leader
        numbers.add(leader)
        return leader

    context.until(
        look,
        lambda leader: leader == survivor,
        what=f"broker {survivor} to lead {context.topic}-0",
        limit_s=30,
    )
    if b not in numbers:
        raise ScheduleNotFollowedError(f"broker {b} did not become leader before broker {survivor}")

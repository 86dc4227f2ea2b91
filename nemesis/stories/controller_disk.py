"""Stories of controllers that lose their disks.

The voters of a KRaft quorum store its decisions on their disks. If one of several voters restarts
with an empty disk, it fetches the decisions from the other voters. A single voter cannot do this.
In this story the single voter's new disk gets the cluster's old id and a new metadata log.

A broker with a longer metadata log exits, because it must not truncate committed records
(``KafkaRaftClient.handleFetchResponse``). After a restart, it truncates its metadata log, and
treats its replicas as strays, which it may delete (KAFKA-15605). A broker with a shorter metadata
log appends the new records to its old ones: both logs have the same leader epochs (KIP-595).

With three voters the empty one still votes. A record of the metadata log that only this voter and
the leader had is lost if the third voter becomes leader by the empty one's vote. KIP-853 prevents
this if voters can be changed: then a new disk has a new id, and a node with this id is no voter.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.faults.coordination import fixed_voters, start_nodes
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_isr,
    await_leader,
    look_until,
    settle,
)
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 240.0
"""The longest wait until the new metadata log is longer than the old one. It grows by two records a
second (``metadata.max.idle.interval.ms``)."""
_IN_FLIGHT: Final = 3
"""The records that a response to a paused broker may have, and one more. If the broker's log were
longer than the new controller's, the broker would exit."""
_ROUNDS: Final = 2
_ACTIVE_S: Final = 60.0
_ALONE_S: Final = 15.0
"""The time in which voters with a majority elect a leader many times over."""


def _on_zookeeper(release: Release) -> str:
    return "" if release.coordination == "kraft" else "it has no KRaft controllers"


@story(
    "lost-metadata",
    HazardEnding(
        hazard="one-controller",
        ending=Prediction(others=frozenset({("lost-decision", "topic {topic} was created")})),
    ),
    needs=StoryNeeds(controllers=1, outside=("controller-disk-loss",)),
    outcome=("The controller no longer knows the topic, but brokers still lead its partitions."),
    min_isr_most=3,
    why_not=_on_zookeeper,
)
def lost_metadata(context: ScheduleContext) -> None:
    """Lose the disk of the only controller, and restart the whole cluster."""
    settle(context)
    [controller] = context.cluster.controllers
    old = context.until(
        lambda: _ends_of_logs(context)[controller],
        what="the controller to report the end of its log",
    )
    context.nemesis.inject("controller-disk-loss", controllers=[controller])
    for broker in context.replicas:
        context.nemesis.inject("kill", broker)
    context.nemesis.heal_fault("controller-disk-loss")
    end = context.until(
        lambda: _ends_of_logs(context)[controller],
        lambda end: end > old,
        what=f"the new metadata log to have more than the {old} records of the old log",
        limit_s=_LIMIT_S,
    )
    context.note(f"the new metadata log ends at {end}, the old metadata log ended at {old}")
    context.nemesis.heal_all(context.replicas)


def _ends_of_logs(context: ScheduleContext) -> Mapping[int, int]:
    quorum = context.probe.quorum()
    if quorum is None:
        raise UnreachableError("the cluster reports no metadata logs")
    return quorum.voters


def _static(release: Release) -> str:
    return _on_zookeeper(release) or fixed_voters(release)


@story(
    "static-quorum",
    HazardEnding(
        hazard="static-quorum",
        ending=Prediction(lost=frozenset({VICTIM}), others=frozenset({("lost-decision", None)})),
    ),
    needs=StoryNeeds(controllers=3),
    outcome="On KRaft the record is lost, with clean elections and min.insync.replicas=2.",
    min_isr_most=2,
    why_not=_on_zookeeper,
)
def static_quorum(context: ScheduleContext) -> None:
    """Lose a committed record: a controller with an empty disk elects one that missed decisions."""
    _replace_disk(context, renewed=False)


@story(
    "dynamic-quorum",
    HazardEnding(hazard="static-quorum", ending=Prediction()),
    needs=StoryNeeds(controllers=3, dynamic_quorum=True),
    outcome="The record is kept: a controller with a new disk id has no vote (KIP-853).",
    min_isr_most=2,
    why_not=_static,
)
def dynamic_quorum(context: ScheduleContext) -> None:
    """Repeat the story static-quorum, but voters can be changed, so each disk has an id."""
    _replace_disk(context, renewed=True)


def _replace_disk(context: ScheduleContext, *, renewed: bool) -> None:
    """Let a committed record depend on an ISR that only two of three controllers have seen.

    One of the two loses its disk, and starts again together with the third.

    Args:
        renewed: whether the empty disk has a new id.
    """
    a, b, c = context.replicas
    settle(context)
    nodes = context.cluster.controllers
    active = context.until(context.probe.quorum_leader, what="a controller to be active")
    emptied, behind = (other for other in nodes if other != active)
    with _restarted(context):
        context.nemesis.inject("pause", c)
        _kill_behind(context, behind, c)
        await_isr(context, a, b)
        context.send(VICTIM, leader=a)
        context.await_observed(_ROUNDS)
        context.note(f"brokers {a} and {b} are the ISR, and have {VICTIM}")
        for broker in (a, b):
            context.nemesis.inject("kill", broker)
        _kill(context, active)
        context.nemesis.inject("controller-disk-loss", controllers=[emptied])
        if renewed:
            nodes[emptied].lose_disk(renewed=True)
        context.nemesis.heal(c)
        with ThreadPoolExecutor(len(nodes), thread_name_prefix="start") as pool:
            starts = [
                pool.submit(nodes[behind].start),
                pool.submit(context.nemesis.heal_fault, "controller-disk-loss"),
            ]
            if _becomes_active(context, behind, limit_s=_ALONE_S if renewed else _ACTIVE_S):
                context.note(f"controller {behind} is active, which has not seen this ISR")
                await_leader(context, c, limit_s=_ACTIVE_S)
            else:
                context.note("no controller is active")
            starts.append(pool.submit(nodes[active].start))
            for start in starts:
                start.result()
    context.nemesis.heal_all(context.replicas)


def _kill_behind(context: ScheduleContext, controller: int, paused: int) -> None:
    """Kill a controller that knows more than a paused broker, but not that its session ended."""
    end = max(_ends_of_logs(context).values())
    context.until(
        lambda: _ends_of_logs(context)[controller],
        lambda reached: reached >= end + _IN_FLIGHT,
        what=f"controller {controller} to have more of the metadata log than broker {paused}",
    )
    _kill(context, controller)
    if paused not in context.state().isr:
        raise ScheduleNotFollowedError(
            f"broker {paused} left the ISR before controller {controller} was killed"
        )


def _becomes_active(context: ScheduleContext, controller: int, *, limit_s: float) -> bool:
    def look() -> int:
        try:
            return context.probe.quorum_leader()
        except UnreachableError:
            return -1

    leader = look_until(context, look, lambda leader: leader == controller, limit_s=limit_s)
    return leader == controller


def _kill(context: ScheduleContext, controller: int) -> None:
    context.cluster.controllers[controller].kill()
    context.note(f"controller {controller} is killed")


@contextmanager
def _restarted(context: ScheduleContext) -> Iterator[None]:
    """Start all controllers that are down, whether or not the block ends with an error."""
    try:
        yield
    finally:
        start_nodes([*context.cluster.controllers.values()])
        context.note("all controllers are started")

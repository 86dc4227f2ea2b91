"""The story of a cluster with one controller, whose disk is lost.

The voters of a KRaft quorum store its decisions on their disks. If one of several voters restarts
with an empty disk, it fetches the decisions from the other voters. A single voter cannot do this.
In this story the single voter's new disk gets the cluster's old id and a new metadata log.

A broker with a longer metadata log exits, because it must not truncate committed records
(``KafkaRaftClient.handleFetchResponse``). After a restart, it truncates its metadata log, and
treats its replicas as strays, which it may delete (KAFKA-15605). A broker with a shorter metadata
log appends the new records to its old ones: both logs have the same leader epochs (KIP-595).
"""

from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import settle
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 240.0
"""The longest wait until the new metadata log is longer than the old one. It grows by two records a
second (``metadata.max.idle.interval.ms``)."""
_ANSWERS: Final = (3, 7)


def _tells_nothing(release: Release) -> str:
    if release.coordination == "kraft" and release.number >= _ANSWERS:
        return ""
    return "its controllers do not report the end of their log (KIP-919)"


@story(
    "lost-metadata",
    HazardEnding(
        hazard="one-controller",
        ending=Prediction(others=frozenset({("lost-decision", "topic {topic} was created")})),
    ),
    needs=StoryNeeds(one_controller=True, outside=("controller-disk-loss",)),
    outcome=("The controller no longer knows the topic, but brokers still lead its partitions."),
    min_isr_most=3,
    why_not=_tells_nothing,
)
def lost_metadata(context: ScheduleContext) -> None:
    """Lose the disk of the only controller, and restart the whole cluster."""
    settle(context)
    [controller] = context.cluster.controllers
    old = context.until(
        lambda: _end_of_log(context, controller), what="the controller to report the end of its log"
    )
    context.nemesis.inject("controller-disk-loss", controllers=[controller])
    for broker in context.replicas:
        context.nemesis.inject("kill", broker)
    context.nemesis.heal_fault("controller-disk-loss")
    end = context.until(
        lambda: _end_of_log(context, controller),
        lambda end: end > old,
        what=f"the new metadata log to have more than the {old} records of the old log",
        limit_s=_LIMIT_S,
    )
    context.note(f"the new metadata log ends at {end}, the old metadata log ended at {old}")
    context.nemesis.heal_all(context.replicas)


def _end_of_log(context: ScheduleContext, controller: int) -> int:
    quorum = context.probe.quorum()
    if quorum is None:
        raise UnreachableError("the cluster reports no metadata logs")
    return quorum.voters[controller]

"""The story of a cluster with one controller, whose disk is lost.

What a quorum decides is on the disks of its voters. One of several that comes back empty gets
it from the others; a single one has no other. It is formatted anew, with the cluster's
old id, and begins a metadata log of its own. A broker whose log is longer has to truncate what was
committed, and ends (``KafkaRaftClient.handleFetchResponse``); started again, it truncates, and puts
the replicas of every topic aside as strays (KAFKA-15605). A broker whose log is shorter goes on at
its old end: both logs have the same leader epochs, so that nothing tells them apart (KIP-595).
"""

from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import settle
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 240.0
"""The new log grows by two records a second (``metadata.max.idle.interval.ms``)."""
_ANSWERS: Final = (3, 7)


def _tells_nothing(release: Release) -> str:
    if release.coordination == "kraft" and release.number >= _ANSWERS:
        return ""
    return "no controller of it reports by itself how long its log is (KIP-919)"


@story(
    "lost-metadata",
    HazardEnding(
        hazard="one-controller",
        ending=Prediction(others=frozenset({("lost-decision", "topic {topic} was created")})),
    ),
    needs=StoryNeeds(one_controller=True),
    outcome=(
        "The controller does not know the topic any more; brokers lead it still, by a metadata log"
        " that begins as the old one did and goes on as the new one does."
    ),
    min_isr_most=3,
    why_not=_tells_nothing,
)
def lost_metadata(context: ScheduleContext) -> None:
    """Lose the disk of the only controller, and start everything again."""
    settle(context)
    [controller] = context.cluster.controllers
    old = context.until(
        lambda: _end_of_log(context, controller), what="the controller to report its log's end"
    )
    context.nemesis.inject("controller-disk-loss", controllers=[controller])
    for broker in context.replicas:
        context.nemesis.inject("kill", broker)
    context.nemesis.heal_fault("controller-disk-loss")
    end = context.until(
        lambda: _end_of_log(context, controller),
        lambda end: end > old,
        what=f"the new metadata log to have more than the {old} records of the old one",
        limit_s=_LIMIT_S,
    )
    context.note(f"the new metadata log ends at {end}, the old one ended at {old}")
    context.nemesis.heal_all(context.replicas)


def _end_of_log(context: ScheduleContext, controller: int) -> int:
    quorum = context.probe.quorum()
    if quorum is None:
        raise UnreachableError("the quorum is not ours")
    return quorum.voters[controller]

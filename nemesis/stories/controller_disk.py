"""The story of a cluster with one controller, whose disk is lost.

The decisions of a quorum are on the disks of its voters. If one of several voters restarts with an
empty disk, it gets them from the other voters; a single voter cannot. It is formatted again, with
the cluster's old id, and begins a new metadata log. A broker with a longer metadata log would have
to truncate committed records, and exits (``KafkaRaftClient.handleFetchResponse``). After a restart,
it truncates, and treats the replicas of every topic as strays (KAFKA-15605). A broker with a
shorter metadata log appends the new log at its old end, because both logs have the same leader
epochs (KIP-595).
"""

from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import settle
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 240.0
"""The limit of the wait for the new metadata log, which grows by two records a second
(``metadata.max.idle.interval.ms``)."""
_ANSWERS: Final = (3, 7)


def _tells_nothing(release: Release) -> str:
    if release.coordination == "kraft" and release.number >= _ANSWERS:
        return ""
    return "its controllers do not report their log's end (KIP-919)"


@story(
    "lost-metadata",
    HazardEnding(
        hazard="one-controller",
        ending=Prediction(others=frozenset({("lost-decision", "topic {topic} was created")})),
    ),
    needs=StoryNeeds(one_controller=True),
    outcome=("The controller no longer knows the topic; brokers still lead it."),
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
        raise UnreachableError("the cluster reports no metadata logs")
    return quorum.voters[controller]

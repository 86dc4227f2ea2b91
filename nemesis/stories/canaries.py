"""Canaries: stories that lose data on every release; if no loss is reported, the harness is wrong.

These losses are no bugs of Kafka. A record that only the leader has is lost with the leader. A
leader from outside the ISR lacks records that the ISR has acknowledged.

``controller-unclean``: the topic and its brokers report that unclean elections are forbidden, but
they happen. On KRaft the controller decides. If the topic has no setting, the controller uses *its
own* (``ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic``). A broker, however,
reports the broker's setting for the topic. In ``topic-clean`` the topic has the setting.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from highwater.harness.releases.cluster_facts import UNCLEAN
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_alone,
    await_leader,
    await_others,
    await_replicas,
    settle,
)
from highwater.nemesis.stories.story import (
    FETCH_WAIT_S,
    HazardEnding,
    Prediction,
    StoryNeeds,
    story,
)

_BEFORE_S: Final = 0.3
_AFTER_S: Final = 0.15
"""Followers are paused from ``_BEFORE_S`` before their open fetches end until ``_AFTER_S`` after
the end. The pause and the kill of A take less than 2.33 s, the shortest rest of a session."""

_ANSWER_S: Final = 0.5
CONTROLLER_UNCLEAN: Final = "controller-unclean"
"""The id of the problem that this story shows, in the catalogue of hazards
(``checkers.hazards``)."""


_OTHER_TOPICS: Final = "other topics that allow unclean elections would lose records, too"
_CONTROLLERS: Final = StoryNeeds(outside="the settings of its controllers are not accessible")

_LEADER_KILL: Final = """
    settle m0 m1 m2
    pause B C
    send m3 to A
    kill A
    resume B C
    expire A for B
    let B C
    retry m3 to B
    heal
"""

_UNCLEAN: Final = """
    settle m0 m1 m2
    kill B C
    expire B
    expire C
    let A
    send m3 to A
    kill A
    expire A
    start B C
    heal
"""


def _no_own_settings(release: Release) -> str:
    if release.coordination == "kraft" and release.elects_unclean:
        return ""
    return "the controller's own setting decides only on KRaft from 3.9 on (KAFKA-12670)"


@story(
    "leader-kill",
    _LEADER_KILL,
    needs=StoryNeeds(outside=("kill", "pause")),
    outcome=(
        "With acks=0 and acks=1 the record is lost on every release. With acks=all it is kept."
    ),
)
def leader_kill(context: ScheduleContext) -> None:
    """Lose a record that only the leader has; with acks=0 or 1 the record is acknowledged."""
    a, b, survivor = context.replicas
    parked = context.clock()
    offset = settle(context)
    _hold_back(context, (b, survivor), parked)
    if context.plan.workload.acks == "all":
        context.send_on(VICTIM)  # no response can come: the paused followers are in the ISR
    else:
        context.send(VICTIM, leader=a, limit_s=_ANSWER_S)
    await_replicas(
        context,
        lambda seen: seen[a].leo > offset,
        what=f"broker {a} to have {VICTIM}",
        limit_s=_ANSWER_S,
        brokers=(a,),
    )
    context.nemesis.inject("kill", a)
    context.nemesis.heal_all((b, survivor))
    await_leader(context, b)
    if context.plan.workload.acks != "all" and context.replica(b).leo > offset:
        raise ScheduleNotFollowedError(f"broker {b} had fetched {VICTIM} before it was paused")


def _hold_back(context: ScheduleContext, followers: tuple[int, int], parked: float) -> None:
    """Pause the followers so that they cannot fetch records that are written later.

    A pause alone is not enough. In its response to an open fetch the leader would send the next
    record, and the follower would receive it when it resumes. So the pause begins shortly before
    the open fetches end, and lasts until the leader has sent empty responses. An external cluster
    has longer sessions than Highwater's own, so there the pause may begin at any time.

    Args:
        parked: a time in seconds; the leader received the open fetches after this time.
    """
    aligned = context.plan.external is None
    latest = context.clock() + FETCH_WAIT_S
    if aligned:
        context.hold(parked + FETCH_WAIT_S - _BEFORE_S - context.clock())
    for broker in followers:
        context.nemesis.inject("pause", broker)
    if not aligned:
        latest = context.clock() + FETCH_WAIT_S
    elif context.clock() > parked + FETCH_WAIT_S:
        raise ScheduleNotFollowedError(
            "a follower was paused too late: its fetch request was still open at the leader"
        )
    context.hold(latest + _AFTER_S - context.clock())


@story(
    "unclean",
    _UNCLEAN,
    needs=StoryNeeds(outside=_OTHER_TOPICS),
    outcome=("With unclean elections (on KRaft since 3.9) the record is lost, else kept."),
    controller="A",
)
def unclean(context: ScheduleContext) -> None:
    """Elect a leader uncleanly, without records that A acknowledged as the only member of the ISR.

    With ZooKeeper, A is the controller. A later controller does not remove brokers from an ISR if
    they were already dead (seen on 0.10.2); the replica lag limit removes them after 10 s.
    """
    topic = context.plan.topic
    allowed = topic.unclean_leader_election and context.cluster.release.elects_unclean
    _outlive(context, unclean=allowed)


@story(
    "controller-unclean",
    HazardEnding(hazard=CONTROLLER_UNCLEAN, ending=Prediction(lost=frozenset({VICTIM}))),
    needs=_CONTROLLERS,
    outcome="On KRaft from 3.9 on the record is lost.",
    controller="A",
    topic_config={UNCLEAN: ""},
    why_not=_no_own_settings,
)
def controller_unclean(context: ScheduleContext) -> None:
    """Repeat the story unclean, but only the controller allows unclean elections."""
    with _unclean_controllers(context):
        _outlive(context, unclean=True)


@story(
    "topic-clean",
    HazardEnding(hazard=CONTROLLER_UNCLEAN, ending=Prediction()),
    needs=_CONTROLLERS,
    outcome="The record is kept.",
    controller="A",
    why_not=_no_own_settings,
)
def topic_clean(context: ScheduleContext) -> None:
    """Repeat the story controller-unclean, but the topic itself forbids unclean elections."""
    with _unclean_controllers(context):
        _outlive(context, unclean=False)


@contextlib.contextmanager
def _unclean_controllers(context: ScheduleContext) -> Iterator[None]:
    """Allow unclean elections on the controllers during the ``with`` block."""
    context.cluster.configure_controllers({UNCLEAN: "true"})
    context.note(f"only the controllers have {UNCLEAN}=true", step=1)
    try:
        yield
    finally:
        context.cluster.configure_controllers({UNCLEAN: None})


def _outlive(context: ScheduleContext, *, unclean: bool) -> None:
    """Shrink the ISR to A, let A acknowledge a record, kill A, and start B and C again."""
    a, *others = context.replicas
    offset = settle(context)
    for broker in others:
        context.nemesis.inject("kill", broker)
    await_alone(context, a)
    context.send(VICTIM, leader=a)
    await_replicas(
        context,
        lambda seen: seen[a].hw > offset,
        what=f"broker {a} to commit {VICTIM}",
        limit_s=20,  # the controller sends the ISR only after timeouts of dead containers
        brokers=(a,),
    )
    context.nemesis.inject("kill", a)
    context.nemesis.heal_all(others)
    if unclean:
        await_leader(context, *others)
    else:
        await_others(context, a, others)
        context.note(f"broker {a} is dead, and no broker without {VICTIM} may become leader")

"""Canaries: schedules that lose data on every release; without a loss, the harness is broken.

These losses are no bugs of Kafka. A record that only its leader has is lost with the leader, and a
leader that is elected from outside the ISR lacks records that the ISR had.

``controller-unclean``: a topic and its brokers say that elections are clean, and elections are
unclean all the same. On KRaft the controller decides, by a topic's own setting, else by *its own*
settings (``ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic``); and a broker
describes a topic by the broker's settings. In ``topic-clean`` the topic has the setting.
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
from highwater.nemesis.stories.story import FETCH_WAIT_S, HazardEnding, Prediction, story

_BEFORE_S: Final = 0.3
_AFTER_S: Final = 0.15
"""Followers are paused from ``_BEFORE_S`` before the end of their waiting fetches until
``_AFTER_S`` after it. This interval and the kill of A fit well within the rest of a session, 2.33
s."""

_ANSWER_S: Final = 0.5
CONTROLLER_UNCLEAN: Final = "controller-unclean"
"""The id of the hazard in the catalogue."""


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
    return "only on KRaft, from 3.9 on, controllers have a say of their own (KAFKA-12670)"


@story(
    "leader-kill",
    _LEADER_KILL,
    outcome=(
        "With acks=0 and acks=1 the record is lost on every release; with acks=all it is kept."
    ),
)
def leader_kill(context: ScheduleContext) -> None:
    """Lose a record that only the leader holds; acks=0 and acks=1 acknowledge such records."""
    a, b, survivor = context.replicas
    parked = context.clock()
    offset = settle(context)
    _hold_back(context, (b, survivor), parked)
    if context.plan.workload.acks == "all":
        context.send_on(VICTIM)  # no answer can come: the followers are in the ISR, and held back
    else:
        context.send(VICTIM, leader=a, limit_s=_ANSWER_S)
    await_replicas(
        context,
        lambda seen: seen[a].leo > offset,
        what=f"broker {a} to hold {VICTIM}",
        limit_s=_ANSWER_S,
        brokers=(a,),
    )
    context.nemesis.inject("kill", a)
    context.nemesis.heal_all((b, survivor))
    await_leader(context, b)
    if context.plan.workload.acks != "all" and context.replica(b).leo > offset:
        raise ScheduleNotFollowedError(f"{VICTIM} had reached broker {b} before it was held back")


def _hold_back(context: ScheduleContext, followers: tuple[int, int], parked: float) -> None:
    """Pause the followers so that they cannot get records that are written from now on.

    A pause alone is not enough: the leader would send the next record in its response to a waiting
    fetch, which the follower would receive when it resumes. So the followers are paused shortly
    before their waiting fetches end, until the leader has sent empty responses.

    Args:
        parked: a time before the fetches began to wait.
    """
    latest = context.clock() + FETCH_WAIT_S
    context.hold(parked + FETCH_WAIT_S - _BEFORE_S - context.clock())
    for broker in followers:
        context.nemesis.inject("pause", broker)
    if context.clock() > parked + FETCH_WAIT_S:
        raise ScheduleNotFollowedError(
            "the followers were paused too late to have no fetch at the leader"
        )
    context.hold(latest + _AFTER_S - context.clock())


@story(
    "unclean",
    _UNCLEAN,
    outcome=(
        "With unclean elections (on KRaft since 3.9) the record is lost; else the record is kept."
    ),
    controller="A",
)
def unclean(context: ScheduleContext) -> None:
    """Elect a leader uncleanly, without records that A acknowledged as the only member of the ISR.

    On ZooKeeper A is the controller. A controller that is elected later does not remove brokers
    that were already dead from an ISR (seen on 0.10.2); the lag limit removes them after 10 s.
    """
    topic = context.plan.topic
    allowed = topic.unclean_leader_election and context.cluster.release.elects_unclean
    _outlive(context, unclean=allowed)


@story(
    "controller-unclean",
    HazardEnding(hazard=CONTROLLER_UNCLEAN, ending=Prediction(lost=frozenset({VICTIM}))),
    outcome="On KRaft from 3.9 on the record is lost.",
    controller="A",
    topic_config={UNCLEAN: ""},
    why_not=_no_own_settings,
)
def controller_unclean(context: ScheduleContext) -> None:
    """Play unclean, but neither the topic nor a broker has the setting: the controller has it."""
    with _unclean_controllers(context):
        _outlive(context, unclean=True)


@story(
    "topic-clean",
    HazardEnding(hazard=CONTROLLER_UNCLEAN, ending=Prediction()),
    outcome="The record is kept.",
    controller="A",
    why_not=_no_own_settings,
)
def topic_clean(context: ScheduleContext) -> None:
    """Play controller-unclean, but the topic has a setting of its own."""
    with _unclean_controllers(context):
        _outlive(context, unclean=False)


@contextlib.contextmanager
def _unclean_controllers(context: ScheduleContext) -> Iterator[None]:
    """Give the controllers the setting during the block."""
    context.cluster.configure_controllers({UNCLEAN: "true"})
    context.note(f"{UNCLEAN} is true on the controllers alone", step=1)
    try:
        yield
    finally:
        context.cluster.configure_controllers({UNCLEAN: None})


def _outlive(context: ScheduleContext, *, unclean: bool) -> None:
    """Let A acknowledge a record alone and die, and let B and C come back."""
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
        limit_s=20,  # the controller sends the ISR only after giving up on dead containers
        brokers=(a,),
    )
    context.nemesis.inject("kill", a)
    context.nemesis.heal_all(others)
    if unclean:
        await_leader(context, *others)
    else:
        await_others(context, a, others)
        context.note(f"broker {a} is dead, and no broker that lacks {VICTIM} may lead")

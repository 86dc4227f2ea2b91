"""The story of a leader that never learns that another broker led; with ZooKeeper.

A controller keeps in its memory a queue of decisions for each broker. If the controller crashes,
decisions that it has not sent are lost; the next controller sends each broker only the present
state. If a broker led before, and leads again in the present state, it does not know that another
broker led in between. It keeps the old LEOs of its followers (``Partition.makeLeader``,
``isNewLeader``), although the followers have since truncated their logs.

On KRaft the same happens without a crash of a controller (docs/findings/elected-again.md).
"""

from typing import Final

from highwater.clusters.relay.rules import RelayRule
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_answer,
    await_event,
    await_leads,
    await_leo,
    move_leader,
    settle,
)
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_LIMIT_S: Final = 20.0
_EPOCHS: Final = (0, 11)
_FETCHED_S: Final = 0.5
"""The longest time until a leader knows that a follower has appended a record."""


def _not_played(release: Release) -> str:
    if release.coordination == "kraft":
        return "its brokers read every decision in the metadata log"
    if release.number < _EPOCHS:
        return "its brokers exit when they are ahead of their leader"
    return ""


@story(
    "missed-decisions",
    HazardEnding(hazard="missed-decisions", ending=Prediction(lost=frozenset({VICTIM}))),
    needs=StoryNeeds(wire="nodes"),
    outcome="With ZooKeeper the record is lost, with any min.insync.replicas.",
    controller="D",
    min_isr_most=3,
    why_not=_not_played,
)
def missed_decisions(context: ScheduleContext) -> None:
    """Lose a committed record: the controller crashes, and A misses two moves of leadership."""
    network = network_of(context)
    a, b, c = context.replicas
    controller = context.controller()
    leo = settle(context)
    undelivered = RelayRule(kind="hold", what="leadership", links=frozenset({(controller, a)}))
    with network.under(undelivered):
        with context.intercept(f"hold Fetch broker-{c}>broker-{a} times=0") as of_c:
            await_event(of_c, "caught", limit_s=_LIMIT_S)
            context.direct.send(VICTIM, 0, address=context.cluster.brokers[a].address)
            await_leo(
                context, leo + 1, f"brokers {a} and {b} to have {VICTIM}", a, b, limit_s=_LIMIT_S
            )
            context.hold(_FETCHED_S)
            context.note(f"brokers {a} and {b} have {VICTIM}, at offset {leo}", a)
            _move(context, c)
            await_leo(context, leo, f"broker {b} to have truncated {VICTIM}", b, limit_s=_LIMIT_S)
            context.note(
                f"broker {b} has truncated {VICTIM}, because its new leader does not have it", b
            )
        with context.intercept(f"hold Fetch broker-{b}>broker-{a} times=0") as of_b:
            _move(context, a)
            await_leads(context, c, leads=False, limit_s=_LIMIT_S)
            context.note(
                f"broker {controller}, the controller, has not sent broker {a} this decision"
            )
            context.nemesis.inject("kill", controller)
            successor = context.until(
                context.probe.controller,
                lambda broker: broker != controller,
                what="another broker to be the controller",
                limit_s=_LIMIT_S,
            )
            context.note(f"broker {successor} is the controller")
            await_leo(context, leo + 1, f"broker {c} to have {VICTIM}", c, limit_s=_LIMIT_S)
            await_answer(context, VICTIM, limit_s=_LIMIT_S)
            context.note(
                f"broker {a} has acknowledged {VICTIM}, because it assumes that broker {b} has "
                "the record"
            )
            await_event(of_b, "caught", limit_s=_LIMIT_S)
            _move(context, b)
            await_leads(context, b, limit_s=_LIMIT_S)


def _move(context: ScheduleContext, broker: int) -> None:
    epoch = move_leader(context, broker)
    context.note(f"broker {broker} leads in epoch {epoch}, as the schedule requires", broker)

"""The story of a late write that sets back the start offset of a share group.

A partition's leader collects the acknowledgements of share groups' members (KIP-932), and writes
them to the share coordinator. Each write has a start offset: all earlier records are acknowledged.
A leader may have many writes under way. It repeats those to which the coordinator did not respond.
Up to 4.3 the last write determines the start offset, even if an earlier write had a greater one
(``ShareCoordinatorShard.generateShareStateRecord``). The coordinator has already forgotten the
states of records below the greater offset. So the next leader gives these records to members again.
From 4.4 on the greater start offset counts.

``share-step-back``: the coordinator is paused with a write in its socket, and another broker
becomes coordinator; later the leader repeats the write.
"""

from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.base.waiting import NotYetError
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.group_protocols import SHARE_BY_DEFAULT
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError, SharingMember
from highwater.nemesis.stories.helpers import await_leads, missed_if_late, move_leader
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

STEP_BACK: Final = "share-step-back"
"""The id of the hazard in the catalogue."""

_, _GROUPS, _STATES = COORDINATOR_TOPICS
_LOCK: Final = {"share.record.lock.duration.ms": "60000"}
"""A record is locked for longer than a coordinator is away."""

_JOINS_S: Final = 40.0
_ANSWERS_S: Final = 40.0


def _share_groups(release: Release) -> str:
    if release.number >= SHARE_BY_DEFAULT:
        return ""
    return "share groups are there by default from 4.2 on (KIP-932)"


@story(
    "share-step-back",
    HazardEnding(
        hazard=STEP_BACK,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(share=3, outside="the story moves the coordinators of other groups"),
    outcome="Up to 4.3 a member receives an accepted record again; later brokers do not do this.",
    min_isr_most=2,
    why_not=_share_groups,
)
def share_step_back(context: ScheduleContext) -> None:
    """Repeat a late write after the share group's start offset has grown."""
    a, b, c = context.replicas
    context.cluster.configure_group(f"{context.topic}-share", _LOCK)
    first = [context.send(value, leader=a) for value in ("m0", "m1")]
    low, high = context.groups.steered("share-0"), context.groups.steered("share-1")
    _receive(context, low, *first)
    last = context.send("m2", leader=a)
    _receive(context, high, last)
    _move(context, _GROUPS, a)
    _move(context, _STATES, c)
    _answered(_accept_late(context, low, high, first, last))
    context.note("m2 is accepted, too", step=1)
    low.leave()
    move_leader(context, b)
    await_leads(context, b)
    received = _receive(context, high, context.send("m3", leader=b))
    again = f"offsets {received[:-1]} again" if len(received) > 1 else "nothing else"
    context.note(f"broker {b} leads {context.topic}-0; a member receives m3, and {again}", b)


def _accept_late(
    context: ScheduleContext, low: SharingMember, high: SharingMember, first: list[int], last: int
) -> Future[None]:
    """Accept the last record with a paused coordinator, and the first ones with its successor.

    Resume the paused coordinator; return the future of the last record's acceptance.
    """
    frozen = context.replicas[-1]
    context.nemesis.inject("pause", frozen)
    late = high.accept(last)
    state = context.until(
        lambda: context.probe.partition(_STATES, 0),
        lambda state: state.leader not in {-1, frozen},
        what="another coordinator of share groups",
        limit_s=_ANSWERS_S,
    )
    context.note(f"broker {state.leader} coordinates share groups", state.leader)
    for offset in first:
        _answered(low.accept(offset))
    context.note("m0 and m1 are accepted")
    if late.done():
        raise ScheduleNotFollowedError(f"broker {frozen} was not asked before it was frozen")
    context.nemesis.heal(frozen)
    return late


def _answered(accepted: Future[None]) -> None:
    try:
        accepted.result(_ANSWERS_S)
    except (TimeoutError, KafkaException) as error:
        raise ScheduleNotFollowedError(f"a record was not accepted: {error!r}") from error


def _move(context: ScheduleContext, topic: str, broker: int) -> None:
    """Make a broker the coordinator of groups, or of share groups' states."""
    with missed_if_late():
        context.cluster.move_leader(topic, 0, broker)

    def look() -> None:
        if not context.probe.leads(broker, topic, 0):
            raise NotYetError("the opposite")

    what = f"broker {broker} to know that it leads {topic}-0"
    context.until(look, what=what, limit_s=_ANSWERS_S)
    context.note(f"broker {broker} leads {topic}-0", broker)


def _receive(context: ScheduleContext, member: SharingMember, *offsets: int) -> list[int]:
    """Poll until a member has received these offsets; return all offsets that it has received.

    Accept earlier records, because a member polls again only when all records are acknowledged.
    """
    received: set[int] = set()

    def look() -> set[int]:
        fresh = member.poll()
        received.update(fresh)
        for offset in fresh:
            if offset < min(offsets):
                _answered(member.accept(offset))
        return received

    what = f"a member to receive offsets {', '.join(map(str, offsets))}"
    context.until(look, lambda seen: seen >= set(offsets), what=what, limit_s=_JOINS_S)
    return sorted(received)

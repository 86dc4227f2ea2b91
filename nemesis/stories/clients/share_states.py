"""Stories about the state of share groups, which a share coordinator stores.

A partition's leader collects the acknowledgements of share groups' members (KIP-932), and writes
them to the share coordinator. Each write has a start offset: all earlier records are acknowledged.
A leader may have many writes under way. It repeats those to which the coordinator did not respond.
Up to 4.3 the last write determines the start offset, even if an earlier write had a greater one
(``ShareCoordinatorShard.generateShareStateRecord``). The coordinator has already forgotten the
states of records below the greater offset. So the next leader gives these records to members again.
From 4.4 on the greater start offset counts.

``share-step-back``: the coordinator is paused with a write in its socket, and another broker
becomes coordinator; later the leader repeats the write.

``unsaved-start``: a new group starts at ``share.auto.offset.reset``. The leader stores this offset
only with the group's first acknowledgement (``SharePartition.maybeInitialize``).

``late-initialize``: a message initializes the state, and is sent again without a response. The
share coordinator obeys both, because their state epochs are equal
(``ShareCoordinatorShard.initializeState``).

``unseen-record``: a leader counts the deliveries that it sends. Since 4.2 it does not reduce the
count if the member's connection breaks (``SharePartition.releaseAcquiredRecords``).
"""

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.base.waiting import NotYetError
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.group_protocols import DELIVERIES_MOST, SHARE_BY_DEFAULT
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError, SharingMember
from highwater.nemesis.stories.helpers import await_leads, missed_if_late, move_leader
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

STEP_BACK: Final = "share-step-back"
UNSAVED_START: Final = "unsaved-start"
LATE_INITIALIZE: Final = "late-initialize"
UNSEEN_RECORD: Final = "unseen-record"
"""The ids of the hazards in the catalogue."""

BACKLOG: Final = ("m1", "m2")

_, _GROUPS, _STATES = COORDINATOR_TOPICS
_LOCK: Final = {"share.record.lock.duration.ms": "60000"}
"""A record is locked for longer than a coordinator is away."""

_JOINS_S: Final = 40.0
_ANSWERS_S: Final = 40.0
_REPEATS_S: Final = 90.0
"""A broker sends a message again after a minute."""


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


def _receive(
    context: ScheduleContext, member: SharingMember, *offsets: int, limit_s: float = _JOINS_S
) -> list[int]:
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
    context.until(look, lambda seen: seen >= set(offsets), what=what, limit_s=limit_s)
    return sorted(received)


@story(
    "unsaved-start",
    HazardEnding(
        hazard=UNSAVED_START,
        ending=Prediction(others=frozenset({("undelivered", None)})),
    ),
    needs=StoryNeeds(share=1, outside="the story watches Kafka's topic of share groups"),
    outcome="Every release skips the waiting records.",
    min_isr_most=2,
    why_not=_share_groups,
)
def unsaved_start(context: ScheduleContext) -> None:
    """Change the leader before a share group that starts at latest acknowledges a record."""
    a, b, _ = context.replicas
    reset = {"share.auto.offset.reset": "latest", **_LOCK}
    context.cluster.configure_group(f"{context.topic}-share", reset)
    member = context.groups.steered("share-0")
    first = _join(context, member, "w", leader=a)
    for value in BACKLOG:
        context.send(value, leader=a)
    context.note(f"{', '.join(BACKLOG)} wait until the member polls again", step=1)
    move_leader(context, b)
    await_leads(context, b)
    for offset in first:
        member.accept(offset).exception(_ANSWERS_S)  # the member's journal has the error
    _join(context, member, "x", leader=b)  # B may read the state only after some of them


@story(
    "unseen-record",
    HazardEnding(
        hazard=UNSEEN_RECORD,
        ending=Prediction(others=frozenset({("undelivered", "m1")})),
    ),
    needs=StoryNeeds(share=1, wire="clients"),
    outcome="No member receives it.",
    min_isr_most=2,
    why_not=_share_groups,
)
def unseen_record(context: ScheduleContext) -> None:
    """Lose the responses that deliver a record to a share group, five times."""
    a = context.replicas[0]
    member = context.groups.steered("share-0")
    first = context.send("m0", leader=a)
    _receive(context, member, first)
    _answered(member.accept(first))
    written = _written(context)
    end = written()
    with context.intercept("drop ShareFetch.answer *>client:share-0 times=0"):
        context.send("m1", leader=a)
        _await_written(context, written, end + DELIVERIES_MOST, member)
        context.note("m1 was delivered for the last time", step=1)
    _receive(context, member, context.send("m2", leader=a))
    context.note("the member receives m2")


def _join(
    context: ScheduleContext, member: SharingMember, prefix: str, *, leader: int
) -> tuple[int, ...]:
    """Send records until a poll returns some, and return their offsets."""
    numbers = itertools.count()

    def look() -> tuple[int, ...]:
        context.send(f"{prefix}{next(numbers)}", leader=leader)
        return member.poll()

    what = "a member to receive a record"
    offsets = context.until(look, bool, what=what, limit_s=_JOINS_S)
    context.note(f"a member received offsets {offsets}")
    return offsets


def _written(context: ScheduleContext) -> Callable[[], int]:
    """Return a function that returns the end of the share coordinator's log."""
    coordinator = context.until(
        lambda: context.probe.partition(_STATES, 0), what="a coordinator of share groups"
    ).leader
    return lambda: context.probe.replica(coordinator, _STATES, 0).leo


def _await_written(
    context: ScheduleContext, written: Callable[[], int], end: int, member: SharingMember | None
) -> None:
    """Wait until the share coordinator's log has this end; meanwhile a member polls."""
    context.until(
        lambda: (member and member.poll(), written())[1],
        lambda leo: leo >= end,
        what=f"the share coordinator to write to offset {end}",
        limit_s=_ANSWERS_S,
    )


@story(
    "late-initialize",
    HazardEnding(
        hazard=LATE_INITIALIZE,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(share=2, wire="nodes"),
    outcome="They receive these records again.",
    min_isr_most=2,
    why_not=_share_groups,
)
def late_initialize(context: ScheduleContext) -> None:
    """Initialize a share group's state again, with a late message, after members accept records."""
    a, _, c = context.replicas
    other = context.groups.share("share-2", f"{context.topic}-other")
    context.until(lambda: other.reading, bool, what="another group to read", limit_s=_JOINS_S)
    _move(context, _GROUPS, a)
    _move(context, _STATES, c)
    offsets = [context.send(value, leader=a) for value in ("m0", "m1")]
    with context.intercept(f"hold InitializeShareGroupState broker-{a}>broker-{c}") as messages:
        low = context.groups.steered("share-0")
        context.until(
            lambda: (low.poll(), messages.events("caught"))[1],
            bool,
            what="the coordinator to initialize the group's state",
            limit_s=_JOINS_S,
        )
        context.note(f"the message to broker {c} is late", step=1)
        _receive(context, low, *offsets, limit_s=_REPEATS_S)
        for offset in offsets:
            _answered(low.accept(offset))
        low.leave()
        context.note("the message was repeated; m0 and m1 are accepted", c)
        written = _written(context)
        end = written()
    _await_written(context, written, end + 1, None)
    received = _receive(context, context.groups.steered("share-1"), context.send("m2", leader=a))
    context.note(f"a member receives m2, and offsets {received[:-1]} again")

"""A story about idempotent producers without transactions.

``expired-record``: the leader has two records of a producer, and cannot acknowledge them, since no
follower gets through to it. The first one expires (``delivery.timeout.ms``). A producer that gives
a sequence number up has to leave its epoch, in which the broker would wait for that number, and
librdkafka and Java send all that has no answer yet in the new one. The broker knows a record again
by producer id, epoch and sequence number (KIP-98), so the second record, which is in its log, is
appended once more.
"""

import contextlib
from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.client_choice import JAVA, LIBRDKAFKA
from highwater.nemesis.context import RecordsClient, ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import missed_if_late, settle
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

EXPIRED: Final = "expired-record"
"""The hazard of the story, in the catalogue."""

_WRITER: Final = "writer"
_DELIVERY_S: Final = 5.0
_REQUEST_S: Final = 1.5
"""A leader reads no further request of a connection before it has answered the one before, if only
that it took too long (``request.timeout.ms``)."""

_YOUNGER_S: Final = 3.0
"""So much later is the second record sent. All is over before a follower leaves the ISR, for which
``replica.lag.time.max.ms`` is 10 s."""

_AGAIN_S: Final = 2.0
"""So long a producer is given to send again what the leader has: until it is told once more that
this took too long."""

_LOOK_S: Final = 0.2

_ARRIVES_S: Final = 15.0
_SETTINGS: Final = {
    "message.timeout.ms": int(_DELIVERY_S * 1000),
    "request.timeout.ms": int(_REQUEST_S * 1000),
    "linger.ms": 0,
}


@story(
    EXPIRED,
    HazardEnding(
        hazard=EXPIRED,
        ending=Prediction(others=frozenset({("duplicate", "m5")})),
        libraries=(LIBRDKAFKA, JAVA),
    ),
    needs=StoryNeeds(wire="nodes", idempotent=True),
    outcome=(
        "An acknowledged record of an idempotent producer is in the log twice: with librdkafka and"
        " Java, on every release."
    ),
    min_isr_most=3,
)
def expired_record(scene: ScheduleContext) -> None:
    """Write a record twice though its producer is idempotent: the one before it expires."""
    leader, *followers = scene.replicas
    offset = settle(scene)
    writer = scene.producer(_WRITER, _SETTINGS)
    _send(scene, writer, "m3")
    _await_answers(writer, "m3")
    with contextlib.ExitStack() as held:
        for follower in followers:
            fetches = f"hold Fetch broker-{follower}>broker-{leader} times=0"
            caught = held.enter_context(scene.intercept(fetches))
            with missed_if_late():
                caught.await_event("caught", limit_s=_ARRIVES_S)
        scene.note(f"the wire holds what the followers ask of broker {leader}", leader)
        began = scene.clock()
        _send(scene, writer, "m4")
        _await_leo(scene, offset + 2, "m4")
        scene.hold(began + _YOUNGER_S - scene.clock())
        _send(scene, writer, "m5")
        until = began + _DELIVERY_S + _AGAIN_S
        while writer.await_answers(limit_s=_LOOK_S) > 1 and scene.clock() < until:
            continue
        waiting = writer.await_answers(limit_s=0)
        scene.note(f"the client has no answer about {waiting} of m4 and m5")
        scene.hold(until - scene.clock())
        scene.note(f"broker {leader} has {_leo(scene) - offset} records since m2", leader)
    waiting = writer.await_answers(limit_s=_ARRIVES_S)
    scene.note(f"the client has no answer about {waiting} of m4 and m5")


def _send(scene: ScheduleContext, writer: RecordsClient, value: str) -> None:
    writer.send_on(value, 0, size=scene.plan.workload.record_bytes)


def _await_answers(writer: RecordsClient, value: str) -> None:
    if writer.await_answers(limit_s=_ARRIVES_S):
        raise ScheduleNotFollowedError(f"the client has no answer about {value}")


def _await_leo(scene: ScheduleContext, leo: int, value: str) -> None:
    leader = scene.replicas[0]
    with missed_if_late():
        await_condition(
            lambda: _leo(scene),
            lambda seen: seen == leo,
            what=f"the leader to have {value}, and to end at {leo}",
            limit_s=_YOUNGER_S,
            passing=(UnreachableError,),
        )
    scene.note(f"broker {leader} has {value} at offset {leo - 1}", leader)


def _leo(scene: ScheduleContext) -> int:
    return scene.probe.replica(scene.replicas[0], scene.topic, 0).leo

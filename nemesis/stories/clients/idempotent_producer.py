"""A story about idempotent producers without transactions.

``expired-record``: the leader has two records of a producer, and cannot acknowledge them, since no
follower gets through to it. The first one expires (``delivery.timeout.ms``). A producer that gives
a sequence number up has to leave its epoch, in which the broker would wait for that number, and
librdkafka sends all that has no answer yet in the new one. The broker knows a record again by
producer id, epoch and sequence number (KIP-98), so the second record, which is in its log, is
appended once more. Java's producer fails what is in flight instead.
"""

from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.relay.rules import RelayRule, between
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.nemesis.context import RecordsClient, ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import missed_if_late, settle
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

EXPIRED: Final = "expired-record"
"""The hazard of the story, in the catalogue."""

_WRITER: Final = "writer"
_DELIVERY_S: Final = 5.0
_YOUNGER_S: Final = 3.0
"""So much later is the second record sent. All this is over before a follower leaves the ISR, for
which ``replica.lag.time.max.ms`` is 10 s."""

_AFTER_S: Final = 0.5
"""Time for a producer to send again what is not to be sent again."""

_ARRIVES_S: Final = 15.0
_SETTINGS: Final = {
    "message.timeout.ms": int(_DELIVERY_S * 1000),
    "request.timeout.ms": int(_DELIVERY_S * 1000),
    "linger.ms": 0,
}


@story(
    EXPIRED,
    HazardEnding(
        hazard=EXPIRED,
        ending=Prediction(others=frozenset({("duplicate", "m4")})),
        libraries=(LIBRDKAFKA,),
    ),
    needs=StoryNeeds(wire="nodes", idempotent=True),
    outcome=(
        "An acknowledged record of an idempotent producer is in the log twice: with librdkafka, on"
        " every release."
    ),
    min_isr_most=3,
)
def expired_record(scene: ScheduleContext) -> None:
    """Write a record twice though its producer is idempotent: the one before it expires."""
    leader, *followers = scene.replicas
    offset = settle(scene)
    writer = scene.producer(_WRITER, _SETTINGS)
    with network_of(scene).under(RelayRule(kind="reset", links=between([leader], followers))):
        scene.note(f"the followers are cut off from broker {leader}", leader)
        began = scene.clock()
        _send(scene, writer, "m3", offset)
        scene.hold(began + _YOUNGER_S - scene.clock())
        _send(scene, writer, "m4", offset + 1)
        await_condition(
            lambda: writer.await_answers(limit_s=_AFTER_S),
            lambda waiting: waiting == 1,
            what="m3 to expire",
            limit_s=_DELIVERY_S,
        )
        scene.note("m3 has expired; m4 has not")
        scene.hold(_AFTER_S)
    if writer.await_answers(limit_s=_ARRIVES_S):
        raise ScheduleNotFollowedError("the client has no answer about m4")
    scene.note(f"broker {leader} ends at {_leo(scene)}; m3 and m4 were at {offset}", leader)


def _send(scene: ScheduleContext, writer: RecordsClient, value: str, offset: int) -> None:
    """Send a record, and wait until the leader has it at an offset."""
    writer.send_on(value, 0, size=scene.plan.workload.record_bytes)
    with missed_if_late():
        await_condition(
            lambda: _leo(scene),
            lambda leo: leo == offset + 1,
            what=f"the leader to have {value} at offset {offset}",
            limit_s=_YOUNGER_S,
            passing=(UnreachableError,),
        )
    scene.note(f"broker {scene.replicas[0]} has {value} at offset {offset}", scene.replicas[0])


def _leo(scene: ScheduleContext) -> int:
    return scene.probe.replica(scene.replicas[0], scene.topic, 0).leo

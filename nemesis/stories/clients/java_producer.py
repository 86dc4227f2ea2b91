"""Stories about Kafka's own producer.

``wrong-topic``: a request with two batches waits in the client's socket, because the broker does
not read. The batches expire (``delivery.timeout.ms``) before the request is sent. Up to the fix of
KAFKA-19012 the producer then returns the batches' buffers to its pool, although the request still
uses them. The next records, for another topic, get these buffers. When the broker reads again, it
receives the bytes of these records as a batch for the first topic. The CRC is right, because it
does not cover the topic.

The batches must be older than their request, so that they expire first. So the producer keeps them
until it gets the late response to an earlier request. Part of the first batch is already in the
socket, so the broker refuses it as corrupt. Only the second batch reaches the wrong topic.
"""

from typing import Final

from highwater.clusters.relay.rules import RelayRule, client_name
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import await_answers, await_event
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

REUSED_BUFFER: Final = "KAFKA-19012"
"""The id of the problem that ``wrong-topic`` shows, in the catalogue of hazards."""

_WRITER: Final = "writer"
_SMALL: Final = 64
_LARGE: Final = 800_000
"""Bytes of a large record, more than the sockets between a client and the relay can buffer."""

_FIRST: Final = 0
_SECOND: Final = 3
"""The numbers of two partitions, which have the same leader on a cluster of three brokers."""

_STRANGER: Final = "other"
_STRANGERS: Final = 4
"""Number of records for the other topic: one more than the producer has buffers."""

_DELIVERY_S: Final = 7.0
_REQUEST_S: Final = 6.5
_OLDER_S: Final = 5.0
"""The seconds between the creation of the batches and the creation of their request."""

_ARRIVES_S: Final = 15.0
_SETTINGS: Final = {
    "message.timeout.ms": int(_DELIVERY_S * 1000),
    "request.timeout.ms": int(_REQUEST_S * 1000),
    "socket.timeout.ms": int(_REQUEST_S * 1000),
    "max.in.flight.requests.per.connection": 1,
    "linger.ms": 0,
    "batch.size": 1 << 20,
    "message.max.bytes": 4 << 20,
    "socket.send.buffer.bytes": 32 << 10,
}


@story(
    "wrong-topic",
    HazardEnding(
        hazard=REUSED_BUFFER,
        ending=Prediction(others=frozenset({("phantom", _STRANGER)})),
    ),
    needs=StoryNeeds(wire="clients", java=True, partitions=4),
    outcome=("Java's clients before the fix append a record to the wrong topic."),
    min_isr_most=3,
    why_not=lambda release: (
        "" if release.idempotence else "its clients do not connect through the relay"
    ),
)
def wrong_topic(context: ScheduleContext) -> None:
    """Append a record to the wrong topic: a batch expires in its producer's socket."""
    leader, elsewhere = context.replicas[0], context.replicas[1]
    other = f"{context.topic}-other"
    replicas = [elsewhere, *(broker for broker in context.replicas if broker != elsewhere)]
    context.cluster.create_topic(other, [replicas] * _STRANGERS, context.plan.topic.settings())
    writer = context.producer(_WRITER, _SETTINGS)
    writer.send_on("m0", _FIRST, size=_SMALL)
    writer.send_on(_STRANGER, 0, size=_SMALL, topic=other)
    await_answers(writer, "m0, and a record of the other topic")
    with context.intercept(f"hold Produce.answer *>client:{_WRITER}") as answer:
        writer.send_on("m1", _FIRST, size=_SMALL)
        await_event(answer, "caught", limit_s=_ARRIVES_S)
        writer.send_on("m2", _FIRST, size=_LARGE)
        writer.send_on("m3", _SECOND, size=_LARGE)
        context.note("m2 and m3 wait in the client for the response about m1")
        context.hold(_OLDER_S)
        unread = RelayRule(kind="cut", links=frozenset({(client_name(_WRITER), leader)}))
        with network_of(context).under(unread):
            context.note(
                f"the relay stops reading the client's messages to broker {leader}", leader
            )
            answer.release("schedule")
            await_answers(writer, "m1, m2 and m3")
            context.note("m2 and m3 have expired in the client's socket")
            for partition in range(_STRANGERS):
                writer.send_on(_STRANGER, partition, size=_LARGE, topic=other)
            await_answers(writer, "the records of the other topic")
            context.note(f"{_STRANGERS} records were acknowledged in {other}")
    _await_second(context, leader)


def _await_second(context: ScheduleContext, leader: int) -> None:
    """Wait until the leader has appended one of the two batches, and note the partition.

    The client chooses which batch is first in the request.
    """
    ends = context.until(
        lambda: {
            partition: context.probe.replica(leader, context.topic, partition).leo
            for partition in (_FIRST, _SECOND)
        },
        lambda seen: seen[_FIRST] + seen[_SECOND] > len(("m0", "m1")),
        what="the leader to append the bytes from the socket",
        limit_s=_ARRIVES_S,
    )
    says = ", ".join(f"partition {partition} ends at {leo}" for partition, leo in ends.items())
    context.note(f"the leader has received the rest of the request: {says}", leader)

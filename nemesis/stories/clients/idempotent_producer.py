"""A story about idempotent producers without transactions.

``expired-record``: the leader appends two records of a producer, but its responses are late. The
first record expires in the producer (``delivery.timeout.ms``). The producer then drops the record's
sequence number, and needs a new epoch: in the old epoch the broker would expect that number. In the
new epoch librdkafka sends every record without a response again. The broker identifies a record by
producer id, epoch and sequence number (KIP-98), so it appends the second record again. Depending on
timing, Java's producer does the same, or waits for open requests (docs/findings/duplicates.md).
"""

from typing import Final

from highwater.harness.clients.record_sender import Sender
from highwater.harness.releases.client_choice import LIBRDKAFKA, read_client
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import await_answers, await_event, await_leo, settle
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_WRITER: Final = "writer"
_SEND_ON: Final = (LIBRDKAFKA,)
"""Client libraries that continue to send while a response is late, and that send all records again
in a new epoch."""

_DELIVERY_S: Final = 5.0
_YOUNGER_S: Final = 2.5
"""The seconds between the sends of the two records."""

_ARRIVES_S: Final = 15.0
_SETTINGS: Final = {"message.timeout.ms": int(_DELIVERY_S * 1000), "linger.ms": 0}


@story(
    "expired-record",
    HazardEnding(
        hazard="",
        ending=Prediction(others=frozenset({("duplicate", "m5")})),
        libraries=_SEND_ON,
    ),
    needs=StoryNeeds(wire="clients", idempotent=True),
    outcome=("With librdkafka an acknowledged record is in the log twice on every release."),
    min_isr_most=3,
)
def expired_record(context: ScheduleContext) -> None:
    """Append a record twice despite idempotence, because the producer's previous record expired."""
    leader = context.replicas[0]
    offset = settle(context)
    writer = context.producer(_WRITER, _SETTINGS)
    _send(context, writer, "m3")
    await_answers(writer, "m3")
    with context.intercept(f"hold Produce.answer *>client:{_WRITER}") as answer:
        began = context.clock()
        _send(context, writer, "m4")
        await_event(answer, "caught", limit_s=_ARRIVES_S)
        context.note(
            f"broker {leader} has m4 at offset {_leo(context) - 1}; the relay holds its response",
            leader,
        )
        context.hold(began + _YOUNGER_S - context.clock())
        _send(context, writer, "m5")
        if read_client(context.plan.client, context.plan.kafka).library in _SEND_ON:
            await_leo(
                context, offset + 3, f"broker {leader} to have m5", leader, limit_s=_YOUNGER_S / 2
            )
        context.until(
            lambda: writer.await_answers(limit_s=0.1),
            lambda waiting: waiting < len(("m4", "m5")),
            what="the client to report m4 as expired",
            limit_s=_ARRIVES_S,
        )
        context.note(
            f"m4 has expired in the client; the log of broker {leader} ends at {_leo(context)}",
            leader,
        )
    await_answers(writer, "m5")
    context.note(f"broker {leader} has {_leo(context) - offset} records since m2", leader)


def _send(context: ScheduleContext, writer: Sender, value: str) -> None:
    writer.send_on(value, 0, size=context.plan.workload.record_bytes)


def _leo(context: ScheduleContext) -> int:
    return context.replica(context.replicas[0]).leo

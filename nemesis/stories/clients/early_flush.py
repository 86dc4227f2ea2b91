"""A story about ``KafkaProducer.flush`` that returns too early.

``early-flush``: a broker refuses a batch as too large (``max.message.bytes``), although no record
is too large. The producer splits the batch, and sends the parts (KIP-126). Up to the fix of
KAFKA-19479 ``flush`` does not wait for the parts, although its Javadoc promises that every earlier
record is completed. After the flush, the program crashes.

A batch becomes larger than ``batch.size`` if it compresses worse than the producer estimates. The
estimate decreases with each batch that compresses well (``CompressionRatioEstimator``). So the
story first sends records that compress well.
"""

import random
from typing import Final

from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import await_event
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

EARLY_FLUSH: Final = "KAFKA-19479"
"""The id of the problem that ``early-flush`` shows, in the catalogue of hazards."""

_WRITER: Final = "writer"
_BATCH: Final = 16_384
_LARGEST: Final = 26_000
"""The topic's ``max.message.bytes``: more than ``batch.size``, but less than the records of
``_LATE`` together."""

_EASY: Final = 120
_EASY_BYTES: Final = 1_000
"""Number and size of the records that compress well. They lower the producer's estimate from 1 to
0.4."""

_LATE: Final = tuple(f"m{number}" for number in range(15))
_HARD_BYTES: Final = 2_000
"""Records that do not compress, all in one batch."""

_FLUSH_S: Final = 3.0
_ARRIVES_S: Final = 15.0
_SETTINGS: Final = {
    "batch.size": _BATCH,
    "compression.type": "gzip",
    "linger.ms": 2_000,
}


@story(
    "early-flush",
    HazardEnding(hazard=EARLY_FLUSH, ending=Prediction(lost=frozenset(_LATE))),
    needs=StoryNeeds(wire="clients", java=True),
    outcome="With older Java clients, flush returns although no log has its records.",
    topic_config={"max.message.bytes": str(_LARGEST)},
    min_isr_most=3,
    why_not=lambda release: (
        "" if release.idempotence else "its clients do not connect through the relay"
    ),
)
def early_flush(context: ScheduleContext) -> None:
    """Flush records whose batch is too large; the program crashes when flush has returned."""
    draw = random.Random(context.plan.seed)  # noqa: S311 - bytes that do not compress
    writer = context.producer(_WRITER, _SETTINGS)
    for number in range(_EASY):
        writer.send_on(f"w{number}", 0, size=_EASY_BYTES)
        if not writer.trust_flush(limit_s=_ARRIVES_S):
            raise ScheduleNotFollowedError(f"w{number} was not flushed in time")
    context.note(f"the producer has sent {_EASY} batches that compress well")
    with context.intercept(f"hold Produce client:{_WRITER}>* n=2 times=0") as later:
        for value in _LATE:
            writer.send_on(value, 0, size=len(value) + 1, content=draw.randbytes(_HARD_BYTES))
        returned = writer.trust_flush(limit_s=_FLUSH_S)
        await_event(later, "caught", limit_s=_ARRIVES_S)
        context.note("the producer has divided the batch and sends the parts; the relay holds them")
        if returned:
            context.note(
                "flush has returned: the program assumes that all records are written, and crashes"
            )
            writer.close(limit_s=0)
            later.let_pass(lose=True)
    if not returned:
        context.note("flush waits for the parts")
        if not writer.trust_flush(limit_s=_ARRIVES_S):
            raise ScheduleNotFollowedError("flush has not returned")
        context.note("flush has returned")

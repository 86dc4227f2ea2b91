"""Reads the offsets that a group has committed, when all members have ended."""

import contextlib
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

READER: Final = "reader"
"""The process that asks for the offsets."""

_ASK_S: Final = 5.0
_LIMIT_S: Final = 30.0


def committed_offsets(places: Iterable[TopicPartition]) -> dict[int, int | None]:
    """Return a group's offsets from an answer; None for a partition without an offset."""
    return {
        place.partition: None if place.offset < 0 else place.offset
        for place in places
        if place.error is None
    }


def read_group_offsets(plan: Plan, recorder: Recorder, settings: Settings) -> None:
    """Record the group's offset in every partition, with a client that does not join the group.

    If no coordinator answers in time, no row is written, and the final offsets are not judged.

    Args:
        settings: settings from ``client_config.consumer``, with the group.
    """
    journal = GroupJournal(recorder, process=READER, group=settings["group.id"])
    partitions = [TopicPartition(plan.topic.name, n) for n in range(plan.topic.partitions)]
    client = Consumer(settings)

    def ask() -> None:
        begun_ns = journal.clock()
        answer = client.committed(partitions, timeout=_ASK_S)
        if any(place.error is not None for place in answer):
            raise NotYetError(str(answer))
        journal.note("committed", committed_offsets(answer), begun_ns)

    try:
        with contextlib.suppress(WaitTimeoutError):
            await_condition(
                ask,
                what=f"the coordinator of {settings['group.id']} to return the group's offsets",
                limit_s=_LIMIT_S,
                passing=(KafkaException,),
            )
    finally:
        client.close()

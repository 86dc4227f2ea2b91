"""Reads the offsets that a group has committed, when all members have ended."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, SteadyCondition, await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import COORDINATOR_TOPICS

READER: Final = "reader"
"""The process that requests the offsets."""

_ASK_S: Final = 5.0
_SETTLES_S: Final = 1.0
"""Seconds in which a coordinator applies committed offsets of its log; it needs milliseconds."""

_LIMIT_S: Final = 30.0


def committed_offsets(places: Iterable[TopicPartition]) -> dict[int, int | None]:
    """Return a group's offsets from an answer; None for a partition without an offset."""
    return {
        place.partition: None if place.offset < 0 else place.offset
        for place in places
        if place.error is None
    }


class GroupAnswer(NamedTuple):
    """A coordinator's answer about the offsets of a group.

    Attributes:
        begun_ns: the time of the request.
        end: the end of the log of ``__consumer_offsets`` before it; None if it is not known.
        offsets: the group's offset in each partition; None for no offset.
    """

    begun_ns: int
    end: int | None
    offsets: dict[int, int | None]


def read_group_offsets(plan: Plan, recorder: Recorder, settings: Settings) -> None:
    """Record the group's offset in every partition, with a client that does not join the group.

    A response is used after it has been the same for a while, without a new record in the
    coordinators' log. Otherwise the last response is used, without the end of that log. If no
    coordinator responds in time, no row is written, and the final offsets are not judged.

    Args:
        settings: settings from ``client_config.consumer``, with the group.
    """
    journal = GroupJournal(recorder, process=READER, group=settings["group.id"])
    partitions = [TopicPartition(plan.topic.name, n) for n in range(plan.topic.partitions)]
    client = Consumer(settings)
    answers: deque[GroupAnswer] = deque(maxlen=2)

    def ask() -> GroupAnswer:
        begun_ns, end = journal.clock(), None if plan.external else _end(client)
        places = client.committed(partitions, timeout=_ASK_S)
        if any(place.error is not None for place in places):
            raise NotYetError(str(places))
        answers.append(GroupAnswer(begun_ns, end, committed_offsets(places)))
        return answers[-1]

    steady = SteadyCondition[GroupAnswer](
        lambda _: answers[0][1:] == answers[-1][1:], for_s=0 if plan.external else _SETTLES_S
    )
    answer: GroupAnswer | None
    try:
        answer = await_condition(
            ask,
            steady,
            what=f"the coordinator of {settings['group.id']} to return the group's offsets",
            limit_s=_LIMIT_S,
            passing=(KafkaException,),
        )
    except WaitTimeoutError:
        answer = answers[-1]._replace(end=None) if answers else None
    finally:
        client.close()
    if answer is not None:
        journal.note("committed", answer.offsets, answer.begun_ns, end=answer.end)


def _end(client: Consumer) -> int:
    """Return the end of ``__consumer_offsets``, which has one partition in our own clusters."""
    place = TopicPartition(COORDINATOR_TOPICS[1], 0)
    bounds = client.get_watermark_offsets(place, timeout=_ASK_S)
    if bounds is None:
        raise NotYetError(f"the leader of {place.topic} does not return its end offset")
    return bounds[1]

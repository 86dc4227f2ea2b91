"""Read the offsets that a group has committed, after all members have ended."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, SteadyCondition, await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import COORDINATOR_TOPICS

READER: Final = "reader"
"""The name of the process that requests the offsets."""

_ASK_S: Final = 5.0
_SETTLES_S: Final = 1.0
"""A coordinator applies committed records of its log within this number of seconds. Usually it
needs milliseconds."""

_LIMIT_S: Final = 30.0
_Answer = TypeVar("_Answer", bound=tuple[Any, ...])


def committed_offsets(places: Iterable[TopicPartition]) -> dict[int, int | None]:
    """Return partition -> the group's offset in a response; None for no offset."""
    return {
        place.partition: None if place.offset < 0 else place.offset
        for place in places
        if place.error is None
    }


class GroupAnswer(NamedTuple):
    """A coordinator's response about the offsets of a group.

    Attributes:
        begun_ns: time of the request.
        end: end offset of ``__consumer_offsets`` before the request; None if it is not known.
        offsets: the group's offset in each partition; None for no offset.
    """

    begun_ns: int
    end: int | None
    offsets: dict[int, int | None]


def read_group_offsets(plan: Plan, recorder: Recorder, settings: Settings) -> None:
    """Record the group's offset in every partition, with a client that does not join the group.

    The function asks until the response, and the end of ``__consumer_offsets``, stay the same for
    some time. At the time limit it uses the last response, without that end. Without any response
    it writes no row, and the judge cannot check the final offsets.

    Args:
        settings: settings from ``client_config.consumer``, with the group.
    """
    journal = GroupJournal(recorder, process=READER, group=settings["group.id"])
    partitions = [TopicPartition(plan.topic.name, n) for n in range(plan.topic.partitions)]
    client = Consumer(settings)
    last: GroupAnswer | None = None

    def ask() -> GroupAnswer:
        nonlocal last
        begun_ns, end = journal.clock(), None if plan.external else _end(client)
        places = client.committed(partitions, timeout=_ASK_S)
        if any(place.error is not None for place in places):
            raise NotYetError(str(places))
        last = GroupAnswer(begun_ns, end, committed_offsets(places))
        return last

    try:
        last = settled(
            ask,
            what=f"the coordinator of {settings['group.id']} to return the group's offsets",
            passing=(KafkaException,),
            for_s=0 if plan.external else _SETTLES_S,
        )
    except WaitTimeoutError:
        last = last and last._replace(end=None)
    finally:
        client.close()
    if last is not None:
        journal.note("committed", last.offsets, last.begun_ns, end=last.end)


def settled(
    ask: Callable[[], _Answer],
    *,
    what: str,
    passing: tuple[type[Exception], ...],
    for_s: float = _SETTLES_S,
) -> _Answer:
    """Send a request to a coordinator until its response stays the same. Return the last response.

    Args:
        ask: returns a response as a tuple. Its first field is the time, which may change.
        what: the awaited condition in words, for the error message.
        passing: errors of ``ask`` that are ignored until the time limit.
        for_s: seconds for which the response must stay the same.

    Raises:
        WaitTimeoutError: the response still changed at the time limit.
    """
    answers: deque[_Answer] = deque(maxlen=2)

    def look() -> _Answer:
        answers.append(ask())
        return answers[-1]

    steady = SteadyCondition[_Answer](lambda _: answers[0][1:] == answers[-1][1:], for_s=for_s)
    return await_condition(look, steady, what=what, limit_s=_LIMIT_S, passing=passing)


def _end(client: Consumer) -> int:
    """Return the end of ``__consumer_offsets``, which has one partition in a local cluster."""
    place = TopicPartition(COORDINATOR_TOPICS[1], 0)
    bounds = client.get_watermark_offsets(place, timeout=_ASK_S)
    if bounds is None:
        raise NotYetError(f"the leader of {place.topic} does not return its end offset")
    return bounds[1]

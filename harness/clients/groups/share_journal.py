"""The journal of a share group member: its records, and the results of its acknowledgements."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.groups.journal import MemberJournal
from highwater.harness.clients.libraries.interfaces import SharedRecord
from highwater.harness.runs.history import INFO, OK
from highwater.harness.runs.recorder import Recorder

ACQUIRED: Final = "acquired"
ACCEPT: Final = "accept"
RELEASE: Final = "release"
REJECT: Final = "reject"


class _Answer(NamedTuple):
    """An acknowledgement whose result the client has not reported yet."""

    event: str
    begun_ns: int
    deliveries: int | None


class ShareJournal(MemberJournal):
    """The journal of a share group's member."""

    def __init__(self, recorder: Recorder, *, process: str, group: str) -> None:
        super().__init__(recorder, process=process, group=group)
        self._begun: dict[tuple[int, int], deque[_Answer]] = defaultdict(deque)

    def given(self, messages: Iterable[SharedRecord], invoke_ns: int) -> None:
        """Record the result of a poll that ends now."""
        complete_ns = self.clock()
        for message in messages:
            self._add(
                ACQUIRED,
                invoke_ns,
                complete_ns,
                partition=message.partition(),
                offset=message.offset(),
                deliveries=message.delivery_count(),
            )

    def answers(self, event: str, messages: Iterable[SharedRecord]) -> None:
        """Record that the member now acknowledges these records; ``event`` is the kind."""
        begun_ns = self.clock()
        for message in messages:
            answer = _Answer(event, begun_ns, message.delivery_count())
            self._begun[message.partition() or 0, message.offset() or 0].append(answer)

    def refused(self, message: SharedRecord) -> None:
        """Remove an acknowledgement that the client itself refused."""
        self._begun[message.partition() or 0, message.offset() or 0].pop()

    def answered(
        self, offsets: Mapping[TopicPartition, Iterable[int]], error: KafkaException | None
    ) -> None:
        """Record the results of acknowledgements. The client calls this method as a callback."""
        complete_ns = self.clock()
        for place, numbers in offsets.items():
            for offset in numbers:
                if waiting := self._begun.get((place.partition, offset)):
                    self._end(place.partition, offset, waiting.popleft(), complete_ns, error)

    def _give_up(self) -> None:
        for (partition, offset), waiting in self._begun.items():
            for answer in waiting:
                self._end(partition, offset, answer, None, None)
        self._begun.clear()

    def _end(
        self,
        partition: int,
        offset: int,
        answer: _Answer,
        complete_ns: int | None,
        error: KafkaException | None,
    ) -> None:
        done = complete_ns is not None and error is None
        self._add(
            answer.event,
            answer.begun_ns,
            complete_ns,
            outcome=OK if done else INFO,
            partition=partition,
            offset=offset,
            deliveries=answer.deliveries,
            error=None if error is None else _name(error),
        )


def _name(error: KafkaException) -> str:
    cause = error.args[0] if error.args else error
    name = getattr(cause, "name", None)
    return str(name()) if callable(name) else type(cause).__name__

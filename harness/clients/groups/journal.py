"""The journal of a group member: its assignments, its commits, and the responses.

The rows are those of ``harness.runs.history.GROUPS``. Checkers use only these rows to find the
owner of a partition at a given time, and the offsets that the group must have stored
(``checkers.groups``).
"""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import TopicPartition

from highwater.harness.clients.libraries.interfaces import ClientError, ReadRecord
from highwater.harness.runs.history import INFO, OK
from highwater.harness.runs.recorder import Recorder

Begun = dict[tuple[int, int], deque[int]]


class MemberJournal(ABC):
    """The journal of a group member from its start to its end. Only the member's thread uses it.

    Args:
        process: the member's name in the history.
    """

    def __init__(self, recorder: Recorder, *, process: str, group: str) -> None:
        self.clock: Callable[[], int] = recorder.clock
        self._recorder = recorder
        self._row = {"process": process, "group": group}

    def ended(self, invoke_ns: int, *, crashed: bool) -> None:
        """Record the requests without a response, and whether the member left or crashed."""
        self._give_up()
        self._add("ended", invoke_ns, self.clock(), outcome=INFO if crashed else OK)

    @abstractmethod
    def _give_up(self) -> None:
        """Record the requests without a response."""

    def _add(self, event: str, invoke_ns: int, complete_ns: int | None, **row: object) -> None:
        self._recorder.group(
            {
                **self._row,
                "event": event,
                "outcome": OK,
                "invoke_ns": invoke_ns,
                "complete_ns": complete_ns,
                **row,
            }
        )


class GroupJournal(MemberJournal):
    """The journal of a consumer group's member."""

    def __init__(self, recorder: Recorder, *, process: str, group: str) -> None:
        super().__init__(recorder, process=process, group=group)
        self._begun: Begun = defaultdict(deque)

    def note(
        self,
        event: str,
        places: Mapping[int, int | None],
        invoke_ns: int,
        *,
        epoch: int | None = None,
        end: int | None = None,
    ) -> None:
        """Record an event that ends now: a row for each partition and offset in ``places``."""
        complete_ns = self.clock()
        for partition, offset in places.items():
            self._add(
                event,
                invoke_ns,
                complete_ns,
                partition=partition,
                offset=offset,
                epoch=epoch,
                end=end,
            )

    def given(self, messages: Iterable[ReadRecord], invoke_ns: int) -> None:
        """Record a poll that ends now: a row for each range of rising offsets in a partition."""
        complete_ns = self.clock()
        runs: dict[int, list[list[int]]] = {}
        for message in messages:
            offset = message.offset() or 0
            of_partition = runs.setdefault(message.partition() or 0, [])
            if not of_partition or offset < of_partition[-1][1]:
                of_partition.append([offset, offset])
            of_partition[-1][1] = offset + 1
        for partition, spans in runs.items():
            for first, end in spans:
                self._add(
                    "given", invoke_ns, complete_ns, partition=partition, offset=first, end=end
                )

    def commits(self, places: Iterable[TopicPartition]) -> int:
        """Record that a commit of these offsets begins now; return the time in ns."""
        begun_ns = self.clock()
        for place in places:
            self._begun[place.partition, place.offset].append(begun_ns)
        return begun_ns

    @property
    def unanswered(self) -> frozenset[int]:
        """The partitions with a commit that has no response yet."""
        return frozenset(partition for (partition, _), begun in self._begun.items() if begun)

    def answered(self, error: ClientError | None, places: Iterable[TopicPartition]) -> None:
        """Record the response to a commit. The consumer calls this method as its ``on_commit``.

        A commit with an error is ``info``: the client may have retried, and the broker may have
        written an earlier attempt.
        """
        complete_ns = self.clock()
        for place in places:
            waiting = self._begun.get((place.partition, place.offset))
            if not waiting:
                continue
            wrong = place.error or error
            self._add(
                "commit",
                waiting.popleft(),
                complete_ns,
                outcome=OK if wrong is None else INFO,
                partition=place.partition,
                offset=place.offset,
                error=None if wrong is None else wrong.name(),
            )

    def _give_up(self) -> None:
        for (partition, offset), waiting in self._begun.items():
            for begun_ns in waiting:
                self._add(
                    "commit", begun_ns, None, outcome=INFO, partition=partition, offset=offset
                )
        self._begun.clear()

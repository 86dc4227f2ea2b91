"""A consumer of a Python library behind librdkafka's methods.

Both libraries work on an event loop in another thread. What happens there is put into a mailbox, in
the order in which it happened: what a poll has returned, that partitions were given or are to be
taken, that a commit was answered. The reader's own thread serves it, within ``consume`` and
``close``, and the library's listener waits for that.

A record is passed on only if its poll ended after the last seek of its partition, and while the
member holds it: aiokafka fetches while its listener still waits.
"""

import contextlib
import queue
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, overload

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.libraries.interfaces import OnPartitions
from highwater.harness.clients.libraries.python_errors import PythonError, as_error

_WAITS_S: Final = 5.0
_LATE_S: Final = 1.0
_CALM_S: Final = 0.05
"""So long it waits after an error, which may come back at once."""

_OUT: Final = "OffsetOutOfRangeError"
_TRUNCATED: Final = "LogTruncationError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The end of a poll.

    Attributes:
        seeks: how often each partition was sought before.
    """

    messages: Sequence[ReadMessage] = ()
    raised: BaseException | None = None
    seeks: Mapping[int, int]


Mail = Polled | Callable[[], None] | None
Events = Callable[[str, list[int]], Future[None]]
"""Called with ``assigned``, ``revoked`` or ``lost``, and partitions; the Future ends after it."""


class LibraryConsumer(Protocol):
    """A consumer of a library on its event loop. What it begins may never end.

    ``post`` of the constructor gets the end of each poll, put in before anything that happens
    later.
    """

    def assign(self, topic: str, partitions: list[int]) -> None:
        """Read partitions, in no group."""

    def subscribe(self, topic: str, events: Events) -> None:
        """Join the group of the settings."""

    def poll(self, most: int, wait_s: float) -> None:
        """Begin a poll."""

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        """Go on from these offsets."""

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        """Return the group's offsets, where it has some."""

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        """Commit."""

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        """Return where the log of a partition begins and ends."""

    def group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the group's metadata."""

    def epoch(self) -> int:
        """Return the group's generation; not above zero where it knows none."""

    def leave(self) -> Future[None]:
        """Leave the group, and end."""

    def crash(self) -> None:
        """End; the group is not notified. Never raises."""


class PythonConsumer:
    """A consumer of one topic. Not thread-safe.

    Args:
        made: makes the engine; its argument is ``post``.
    """

    def __init__(
        self, made: Callable[[Callable[[Polled], None]], LibraryConsumer], settings: Settings
    ) -> None:
        self._mail: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._engine = made(self._mail.put)
        weakref.finalize(self, self._engine.crash).atexit = False
        self._answered = settings.get("on_commit")
        self._topic = ""
        self._assigned: set[int] = set()
        self._seeks: dict[int, int] = defaultdict(int)
        self._read: deque[ReadMessage] = deque()
        self._polling = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets; of a member, those that it was given now."""
        if not self._topic:
            self._topic = partitions[0].topic
            self._engine.assign(self._topic, [place.partition for place in partitions])
        self._assigned |= {place.partition for place in partitions}
        self._go_to({place.partition: place.offset for place in partitions if place.offset >= 0})

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, too."""
        self.assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Do nothing: to read a partition from elsewhere is one call."""

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group of the settings."""
        [self._topic] = topics
        callbacks = {"assigned": on_assign, "revoked": on_revoke, "lost": on_lost}

        def serve(event: str, numbers: list[int], served: Future[None]) -> None:
            if event != "assigned":
                self._assigned -= set(numbers)
                self._drop_read(numbers)
            try:
                if numbers or event == "assigned":
                    places = [TopicPartition(self._topic, number) for number in numbers]
                    callbacks[event](self, places)
            finally:
                served.set_result(None)

        def events(event: str, numbers: list[int]) -> Future[None]:
            served: Future[None] = Future()
            self._mail.put(lambda: serve(event, numbers, served))
            return served

        self._engine.subscribe(self._topic, events)

    def consume(self, num_messages: int, timeout: float) -> Sequence[ReadMessage]:
        """Return the next records, and errors that are to be logged."""
        if not self._read:
            if not self._polling:
                self._polling = True
                self._engine.poll(num_messages, timeout)
            self._serve(time.monotonic() + timeout + _LATE_S, lambda: not self._polling)
        most = min(num_messages, len(self._read))
        return [self._read.popleft() for _ in range(most)]

    def seek(self, partition: TopicPartition) -> None:
        """Go on from another offset."""
        self._go_to({partition.partition: partition.offset})

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's offsets; below zero where it has none."""
        numbers = [place.partition for place in partitions]
        offsets = self._result(self._engine.committed(numbers), timeout)
        return [TopicPartition(self._topic, number, offsets.get(number, -1)) for number in numbers]

    @overload
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit offsets of the group."""
        future = self._engine.commit({place.partition: place.offset for place in offsets})
        if not asynchronous:
            self._result(future, _WAITS_S)
            return offsets

        def tell() -> None:
            raised = future.exception()
            error = as_error(raised) if isinstance(raised, Exception) else None
            if self._answered is not None:
                self._answered(error, offsets)

        future.add_done_callback(lambda _: self._mail.put(tell))
        return None

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return where the log of a partition begins, and where it ends for a reader."""
        future = self._engine.bounds(partition.topic, partition.partition)
        bounds: tuple[int, int] = self._result(future, timeout)
        return bounds

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the group's metadata, an object of the library."""
        return self._engine.group_metadata()

    def epoch(self) -> int | None:
        """Return the generation of the group; None: not known."""
        epoch = self._engine.epoch()
        return epoch if epoch > 0 else None

    def close(self) -> None:
        """Leave the group, if it is in one, and end."""
        left = self._engine.leave()
        left.add_done_callback(lambda _: self._mail.put(None))
        self._serve(time.monotonic() + _WAITS_S, left.done)
        self._engine.crash()

    def drop(self) -> None:
        """End as by a crash: the group is not notified."""
        self._engine.crash()

    def _go_to(self, offsets: Mapping[int, int]) -> None:
        self._result(self._engine.seek(offsets), _WAITS_S)
        for partition in offsets:
            self._seeks[partition] += 1
        self._drop_read(offsets)

    def _result(self, future: Future[Any], limit_s: float) -> Any:  # noqa: ANN401 - of any of them
        """Return the result of a call, for which nothing that is in the mail is needed."""
        try:
            return future.result(limit_s)
        except Exception as raised:
            if not future.done():
                slow = PythonError(kind="_TIMED_OUT", message=f"no answer within {limit_s:g} s")
                raise KafkaException(slow) from raised
            raise KafkaException(as_error(raised)) from raised

    def _serve(self, deadline: float, done: Callable[[], bool]) -> None:
        """Serve the mail until something is done, or it is too late."""
        while not done() and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                mail = self._mail.get(timeout=left)
                if isinstance(mail, Polled):
                    self._polling = False
                    self._take(mail)
                elif mail is not None:
                    mail()

    def _take(self, polled: Polled) -> None:
        if polled.raised is not None:
            self._read.extend(self._failed(polled.raised))
            time.sleep(_CALM_S)
        self._read.extend(
            message
            for message in polled.messages
            if (number := message.partition()) in self._assigned
            and polled.seeks.get(number or 0, 0) == self._seeks[number or 0]
        )

    def _failed(self, raised: BaseException) -> list[ReadMessage]:
        """Return what a poll has raised as errors: one for each partition without a position."""
        if not isinstance(raised, Exception):
            raise raised
        if type(raised).__name__ == _TRUNCATED:
            positions = {
                place.partition: getattr(offset, "offset", offset)
                for place, offset in getattr(raised, "divergent_offsets", {}).items()
            }
        elif type(raised).__name__ == _OUT and raised.args and isinstance(raised.args[0], dict):
            positions = {place.partition: offset for place, offset in raised.args[0].items()}
        else:
            return [ReadMessage(None, None, error=as_error(raised))]
        return [stranded(*place, str(raised)) for place in positions.items()]

    def _drop_read(self, partitions: Sequence[int] | Mapping[int, int]) -> None:
        others = [message for message in self._read if message.partition() not in partitions]
        self._read.clear()
        self._read.extend(others)

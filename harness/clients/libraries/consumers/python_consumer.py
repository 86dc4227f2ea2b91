"""A consumer of a Python library, with librdkafka's methods.

Both libraries work on an event loop in another thread. That thread puts events into a mailbox, in
the order in which they happened: a poll's result, assigned partitions, partitions to be revoked, a
commit's answer. The reader's own thread serves the mailbox, within ``consume`` and ``close``, and
the library's listener waits for that.

A record is passed on only if its poll ended after the last seek in its partition, and while the
member has the partition: aiokafka fetches while its listener still waits.
"""

import contextlib
import queue
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.consumers.buffered_consumer import (
    CALM_S,
    WAITS_S,
    BufferedConsumer,
)
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.libraries.interfaces import OnPartitions
from highwater.harness.clients.libraries.python_errors import PythonError, as_error

_LATE_S: Final = 1.0
_OUT: Final = "OffsetOutOfRangeError"
_TRUNCATED: Final = "LogTruncationError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The result of a poll.

    Attributes:
        seeks: partition to the number of seeks before the poll ended.
    """

    messages: Sequence[ReadMessage] = ()
    raised: BaseException | None = None
    seeks: Mapping[int, int]


Mail = Polled | Callable[[], None] | None
Events = Callable[[str, list[int]], Future[None]]
"""Called with ``assigned``, ``revoked`` or ``lost``, and partitions; the Future ends with it."""


class LibraryConsumer(Protocol):
    """A library's consumer on its event loop. The calls that it begins may never end.

    The constructor's ``post`` gets every poll's result before any later event.
    """

    def assign(self, topic: str, partitions: list[int]) -> None:
        """Read partitions, without a group."""

    def subscribe(self, topic: str, events: Events) -> None:
        """Join the group that the settings name."""

    def poll(self, most: int, wait_s: float) -> None:
        """Begin a poll."""

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        """Continue at these offsets."""

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        """Return the group's offsets, for partitions that have an offset."""

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        """Commit these offsets."""

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        """Return the first offset and the end offset of a partition's log."""

    def group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the group's metadata."""

    def epoch(self) -> int:
        """Return the group's generation; zero or below if it is not known."""

    def leave(self) -> Future[None]:
        """Leave the group, and end the consumer."""

    def crash(self) -> None:
        """End without a notice to the group. Never raises."""


class PythonConsumer(BufferedConsumer):
    """A consumer for one topic. Not thread-safe.

    Args:
        made: makes the library's consumer; its argument is ``post``.
    """

    def __init__(
        self, made: Callable[[Callable[[Polled], None]], LibraryConsumer], settings: Settings
    ) -> None:
        super().__init__()
        self._mail: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._engine = made(self._mail.put)
        weakref.finalize(self, self._engine.crash).atexit = False
        self._answered = settings.get("on_commit")
        self._topic = ""
        self._assigned: set[int] = set()
        self._seeks: dict[int, int] = defaultdict(int)
        self._polling = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets; for a member, the partitions just assigned."""
        if not self._topic:
            self._topic = partitions[0].topic
            self._engine.assign(self._topic, [place.partition for place in partitions])
        self._assigned |= {place.partition for place in partitions}
        self._go_to({place.partition: place.offset for place in partitions if place.offset >= 0})

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group that the settings name."""
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

    def _fill(self, most: int, timeout: float) -> None:
        if not self._polling:
            self._polling = True
            self._engine.poll(most, timeout)
        self._serve(time.monotonic() + timeout + _LATE_S, lambda: not self._polling)

    def seek(self, partition: TopicPartition) -> None:
        """Continue at a different offset."""
        self._go_to({partition.partition: partition.offset})

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's offsets; below zero for a partition without an offset."""
        numbers = [place.partition for place in partitions]
        offsets = self._result(self._engine.committed(numbers), timeout)
        return [TopicPartition(self._topic, number, offsets.get(number, -1)) for number in numbers]

    def _commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        future = self._engine.commit({place.partition: place.offset for place in offsets})
        if not asynchronous:
            self._result(future, WAITS_S)
            return

        def tell() -> None:
            raised = future.exception()
            error = as_error(raised) if isinstance(raised, Exception) else None
            if self._answered is not None:
                self._answered(error, offsets)

        future.add_done_callback(lambda _: self._mail.put(tell))

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a partition's first offset, and the end offset for this reader."""
        future = self._engine.bounds(partition.topic, partition.partition)
        bounds: tuple[int, int] = self._result(future, timeout)
        return bounds

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the group's metadata, as an object of the library."""
        return self._engine.group_metadata()

    def epoch(self) -> int | None:
        """Return the group's generation; None if it is not known."""
        epoch = self._engine.epoch()
        return epoch if epoch > 0 else None

    def close(self) -> None:
        """Leave the group, if the consumer is in a group, and end."""
        left = self._engine.leave()
        left.add_done_callback(lambda _: self._mail.put(None))
        self._serve(time.monotonic() + WAITS_S, left.done)
        self._engine.crash()

    def drop(self) -> None:
        """End as in a crash: the group is not notified."""
        self._engine.crash()

    def _go_to(self, offsets: Mapping[int, int]) -> None:
        self._result(self._engine.seek(offsets), WAITS_S)
        for partition in offsets:
            self._seeks[partition] += 1
        self._drop_read(offsets)

    def _result(self, future: Future[Any], limit_s: float) -> Any:  # noqa: ANN401 - of any of them
        """Return the result of a call that does not need the mailbox to be served."""
        try:
            return future.result(limit_s)
        except Exception as raised:
            if not future.done():
                slow = PythonError(kind="_TIMED_OUT", message=f"no answer within {limit_s:g} s")
                raise KafkaException(slow) from raised
            raise KafkaException(as_error(raised)) from raised

    def _serve(self, deadline: float, done: Callable[[], bool]) -> None:
        """Serve the mailbox until ``done`` returns True, or until the deadline."""
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
            time.sleep(CALM_S)
        self._read.extend(
            message
            for message in polled.messages
            if (number := message.partition()) in self._assigned
            and polled.seeks.get(number or 0, 0) == self._seeks[number or 0]
        )

    def _failed(self, raised: BaseException) -> list[ReadMessage]:
        """Return a poll's exception as errors: an error for each partition without a position."""
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

"""A client driver's consumer, with librdkafka's methods.

The driver's thread puts responses and events into a queue, in order: records, assigned partitions,
revoked partitions, responses to commits. The reader's own thread processes the queue within
``consume`` and ``close``. After an event the driver waits until the event is processed.

A poll may end after a seek in the partition, or after the partition was revoked. Then the consumer
drops the poll's records of that partition.
"""

import contextlib
import queue
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.drivers.client_driver import (
    OPENS_S,
    ClientDriver,
    DriverAnswer,
    DriverRecord,
)
from highwater.harness.clients.drivers.driver_errors import DriverError, as_error
from highwater.harness.clients.libraries.consumers.buffered_consumer import (
    CALM_S,
    WAITS_S,
    BufferedConsumer,
)
from highwater.harness.clients.libraries.consumers.read_message import (
    CREATE_TIME,
    NO_TIME,
    ReadMessage,
    stranded,
)
from highwater.harness.clients.libraries.interfaces import OnPartitions
from highwater.harness.clients.libraries.library_producer import SLOW

_LATE_S: Final = 1.0
_Result = TypeVar("_Result")


class DriverConsumer(BufferedConsumer):
    """A consumer for one topic. Not thread-safe.

    Args:
        opens: starts the driver; ``opens(True)`` if the consumer joins the settings' group.
    """

    def __init__(self, opens: Callable[[bool], ClientDriver], settings: Settings) -> None:
        super().__init__()
        self._opens = opens
        self._answered = settings.get("on_commit")
        self._mail: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._open: ClientDriver | None = None
        self._topic = ""
        self._generation = 0
        self._assigned: set[int] = set()
        self._seeks: dict[int, int] = defaultdict(int)
        self._polling = False

    @property
    def _driver(self) -> ClientDriver:
        return self._open or self._begin(member=False)

    def _begin(self, *, member: bool) -> ClientDriver:
        self._open = self._opens(member)
        weakref.finalize(self, self._open.kill).atexit = False
        return self._open

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets, in addition to the partitions read so far."""
        self._topic = self._topic or partitions[0].topic
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
        driver = self._begin(member=True)

        def serve(given: DriverAnswer) -> None:
            numbers = given.partitions
            if given.event != "assigned":
                self._assigned -= set(numbers)
                self._drop_read(numbers)
            try:
                if numbers or given.event == "assigned":
                    places = [TopicPartition(self._topic, number) for number in numbers]
                    callbacks[given.event](self, places)
            finally:
                driver.ask("handled", lambda _: None, event=given.id)

        def happened(given: DriverAnswer) -> None:
            self._generation = given.generation or self._generation
            self._mail.put(partial(serve, given))

        driver.happened = happened
        _needed(
            "cannot join the group", driver.fulfil("subscribe", lambda _: None, topic=self._topic)
        )

    def _fill(self, most: int, timeout: float) -> None:
        if not self._polling:
            self._driver.check()
            self._polling = True
            self._driver.ask("poll", self._polled, max=most, wait_ms=int(timeout * 1000))
        self._serve(time.monotonic() + timeout + _LATE_S, lambda: not self._polling)

    def _polled(self, given: DriverAnswer) -> None:
        self._mail.put(partial(self._take, given, dict(self._seeks)))

    def _take(self, given: DriverAnswer, seeks: Mapping[int, int]) -> None:
        """Process the response to a poll.

        Args:
            seeks: partition to the number of seeks in it when the response came.
        """
        self._polling = False
        if given.error:
            self._read.append(ReadMessage(None, None, error=given.as_error()))
            time.sleep(CALM_S)
        messages = [stranded(*place, "out of range") for place in given.out_of_range.items()]
        messages += map(_message, given.records)
        self._read.extend(
            message
            for message in messages
            if (number := message.partition() or 0) in self._assigned
            and seeks.get(number, 0) == self._seeks[number]
        )

    def seek(self, partition: TopicPartition) -> None:
        """Continue to read at another offset."""
        self._go_to({partition.partition: partition.offset})

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's committed offsets; -1 for a partition without a committed offset."""
        numbers = [place.partition for place in partitions]
        there = self._driver.fulfil(
            "committed", lambda given: given.offsets, topic=self._topic, partitions=numbers
        )
        offsets = _result(there, timeout)
        return [TopicPartition(self._topic, number, offsets.get(number, -1)) for number in numbers]

    def _commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        places = {place.partition: place.offset for place in offsets}
        future = self._driver.fulfil("commit", lambda _: None, topic=self._topic, offsets=places)
        if not asynchronous:
            _result(future, WAITS_S)
            return

        def tell() -> None:
            raised = future.exception()
            if self._answered is not None:
                self._answered(as_error(raised) if raised else None, offsets)

        future.add_done_callback(lambda _: self._mail.put(tell))

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a partition's first offset, and the end offset for this isolation level."""
        place = {"topic": partition.topic, "partition": partition.partition}
        bounds = self._driver.fulfil("bounds", lambda given: (given.first, given.end), **place)
        return _result(bounds, timeout)

    def consumer_group_metadata(self) -> object:
        """Return the group's metadata, in the driver's own form."""
        member = self._driver.fulfil("member", lambda given: given.member)
        return _needed("cannot commit offsets in transactions", member)

    def epoch(self) -> int | None:
        """Return the group's generation; None if unknown."""
        return self._generation or None

    def close(self) -> None:
        """Leave the group, if the consumer is a member, and close the consumer."""
        if self._open is not None:
            left = self._open.fulfil("close", lambda _: None)
            left.add_done_callback(lambda _: self._mail.put(lambda: None))
            self._serve(time.monotonic() + WAITS_S, left.done)
            self.drop()

    def drop(self) -> None:
        """Kill the consumer, as in a crash. The group gets no request."""
        if self._open is not None:
            self._open.kill()

    def _go_to(self, offsets: Mapping[int, int]) -> None:
        def count(_: DriverAnswer) -> None:
            for partition in offsets:
                self._seeks[partition] += 1

        _result(self._driver.fulfil("seek", count, topic=self._topic, offsets=offsets), WAITS_S)
        self._drop_read(offsets)

    def _serve(self, deadline: float, done: Callable[[], bool]) -> None:
        """Process the queue until ``done`` returns True, or until the time limit."""
        while not done() and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self._mail.get(timeout=left)()


def _message(record: DriverRecord) -> ReadMessage:
    return ReadMessage(
        record.partition,
        record.offset,
        None if record.value is None else record.value.encode(),
        key=None if record.key is None else record.key.encode(),
        leader_epoch=record.epoch,
        timestamp=(CREATE_TIME if record.timestamp_ms else NO_TIME, record.timestamp_ms),
    )


def _result(future: Future[_Result], limit_s: float) -> _Result:
    """Return a call's result. Use this for calls whose responses do not go through the queue."""
    try:
        return future.result(limit_s)
    except Exception as raised:
        if not future.done():
            slow = DriverError(kind=SLOW, message=f"no response within {limit_s:g} s")
            raise KafkaException(slow) from raised
        raise KafkaException(as_error(raised)) from raised


def _needed(without: str, future: Future[_Result]) -> _Result:
    """Return a call's result; raise HarnessError if it fails, because the run needs the result."""
    try:
        return future.result(OPENS_S)
    except (KafkaException, TimeoutError) as why:
        raise HarnessError(f"the client driver {without}: {why}") from why

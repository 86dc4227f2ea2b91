"""kafka-python's ``KafkaConsumer``, whose event loop runs in its own thread.

A call waits for that loop, and the loop waits for a listener. So every call is made in a thread for
which the process does not wait; meanwhile the reader's own thread serves the listener's calls.
"""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

import kafka
from confluent_kafka import KafkaException
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata, TopicPartition

from highwater.harness.clients.libraries.consumers.in_thread import in_thread
from highwater.harness.clients.libraries.consumers.python_consumer import Events, Polled
from highwater.harness.clients.libraries.consumers.read_message import (
    APPEND_TIME,
    CREATE_TIME,
    ReadMessage,
)
from highwater.harness.clients.libraries.python_errors import PythonError

_LOOK_S: Final = 0.005
_WAITS_MS: Final = 5_000


class KafkaPythonEngine:
    """A consumer of kafka-python. The first poll opens the consumer, and waits for a broker.

    Args:
        settings: settings for a ``KafkaConsumer`` that is a member of a group.
        post: called with the result of every poll.
    """

    def __init__(self, settings: dict[str, Any], post: Callable[[Polled], None]) -> None:
        # Without a group the client looks for no coordinator, which would make brokers create
        # ``__consumer_offsets``.
        self._settings = {**settings, "group_id": None}
        self._group = settings["group_id"]
        self._post = post
        self._consumer: Any = None
        self._prepare: Callable[[Any], None] = lambda _: None
        self._topic = ""
        self._first: dict[int, int] = {}
        self._seeks: dict[int, int] = defaultdict(int)
        self._opening = threading.Lock()
        self._ended = threading.Event()

    def assign(self, topic: str, partitions: list[int]) -> None:
        """Read partitions, without a group."""
        self._topic = topic
        places = [TopicPartition(topic, number) for number in partitions]
        with self._opening:
            self._prepare = lambda consumer: consumer.assign(places)
            if self._consumer is not None:
                self._prepare(self._consumer)

    def subscribe(self, topic: str, events: Events) -> None:
        """Join the group that the settings name."""
        self._topic = topic
        self._settings = {**self._settings, "group_id": self._group}

        def prepare(consumer: Any) -> None:  # noqa: ANN401 - kafka-python has no types
            consumer.subscribe([topic], listener=_Listener(events, consumer._net.sleep))  # noqa: SLF001 - of its event loop

        self._prepare = prepare

    def poll(self, most: int, wait_s: float) -> None:
        """Begin a poll."""
        in_thread("kafka-python-poll", lambda: self._poll(most, wait_s))

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        """Continue at these offsets."""
        done: Future[None] = Future()
        try:
            for number, offset in offsets.items():
                self._seek(number, offset)
        except Exception as raised:  # noqa: BLE001 - the thread that waits gets it
            done.set_exception(raised)
        else:
            done.set_result(None)
        return done

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        """Return the group's offsets, for partitions that have an offset."""
        return in_thread("kafka-python-committed", lambda: self._committed(partitions))

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        """Commit these offsets."""
        places = {
            TopicPartition(self._topic, number): OffsetAndMetadata(offset, "", -1)
            for number, offset in offsets.items()
        }
        return in_thread("kafka-python-commit", lambda: self._commit(places))

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        """Return the first offset and the end offset of a partition's log."""
        place = TopicPartition(topic, partition)
        return in_thread("kafka-python-bounds", lambda: self._bounds(place))

    def group_metadata(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        """Return the group's metadata."""
        return self._opened().group_metadata()

    def epoch(self) -> int:
        """Return the group's generation."""
        return int(self._opened().group_metadata().generation_id)

    def leave(self) -> Future[None]:
        """Leave the group, and end the consumer."""
        return in_thread("kafka-python-close", self._leave)

    def crash(self) -> None:
        """End without a notice to the group. Never raises."""
        self._ended.set()
        if self._consumer is not None:
            self._end(self._consumer)

    def _end(self, consumer: Any) -> None:  # noqa: ANN401 - kafka-python has no types
        if not consumer._closed:  # noqa: SLF001 - ``close`` would leave the group
            consumer._closed = True  # noqa: SLF001
            with contextlib.suppress(Exception):
                consumer._coordinator._close_heartbeat()  # noqa: SLF001
            with contextlib.suppress(Exception):
                consumer._client.close()  # noqa: SLF001

    def _opened(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        with self._opening:
            if self._ended.is_set():
                raise KafkaException(PythonError(kind="ConsumerClosed"))
            if self._consumer is None:
                consumer = kafka.KafkaConsumer(**self._settings)
                self._prepare(consumer)
                for number, offset in self._first.items():
                    consumer.seek(TopicPartition(self._topic, number), offset)
                self._consumer = consumer
                if self._ended.is_set():  # while it was opened
                    self._end(consumer)
            return self._consumer

    def _poll(self, most: int, wait_s: float) -> None:
        try:
            polled = self._opened().poll(timeout_ms=int(wait_s * 1000), max_records=most)
        except Exception as raised:  # noqa: BLE001 - the reader's thread logs it
            self._post(Polled(raised=raised, seeks=dict(self._seeks)))
        else:
            messages = [_message(record) for records in polled.values() for record in records]
            self._post(Polled(messages=messages, seeks=dict(self._seeks)))

    def _seek(self, number: int, offset: int) -> None:
        with self._opening:
            self._seeks[number] += 1
            if self._consumer is None:
                self._first[number] = offset
            else:
                self._consumer.seek(TopicPartition(self._topic, number), offset)

    def _committed(self, partitions: list[int]) -> dict[int, int]:
        consumer = self._opened()
        offsets: dict[int, int] = {}
        for number in partitions:
            place = TopicPartition(self._topic, number)
            offset = consumer.committed(place, timeout_ms=_WAITS_MS)
            if offset is not None:
                offsets[number] = offset
        return offsets

    def _commit(self, places: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._opened().commit(places, timeout_ms=_WAITS_MS)

    def _bounds(self, place: TopicPartition) -> tuple[int, int]:
        consumer = self._opened()
        first = consumer.beginning_offsets([place])
        last = consumer.end_offsets([place])
        return first[place], last[place]

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=_WAITS_MS)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """The listener for a group's assignments: it waits until an event is served."""

    def __init__(self, events: Events, sleep: Callable[[float], Any]) -> None:
        self._events = events
        self._sleep = sleep

    async def on_partitions_revoked(self, revoked: Any) -> None:  # noqa: ANN401 - of kafka-python
        """Report that partitions are being revoked."""
        await self._served("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:  # noqa: ANN401 - of kafka-python
        """Report that partitions were assigned."""
        await self._served("assigned", assigned)

    async def on_partitions_lost(self, lost: Any) -> None:  # noqa: ANN401 - of kafka-python
        """Report that the group has removed the member."""
        await self._served("lost", lost)

    async def _served(self, event: str, places: Any) -> None:  # noqa: ANN401 - of kafka-python
        served = self._events(event, sorted(place.partition for place in places))
        while not served.done():
            await self._sleep(_LOOK_S)


def _message(record: Any) -> ReadMessage:  # noqa: ANN401 - kafka-python has no types
    epoch = record.leader_epoch
    return ReadMessage(
        record.partition,
        record.offset,
        record.value,
        key=record.key,
        leader_epoch=epoch if epoch is not None and epoch >= 0 else None,
        timestamp=(APPEND_TIME if record.timestamp_type else CREATE_TIME, record.timestamp or 0),
    )

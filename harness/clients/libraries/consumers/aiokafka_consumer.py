"""aiokafka's ``AIOKafkaConsumer``, on an event loop in its own thread."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import aiokafka
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from confluent_kafka import KafkaException

from highwater.harness.clients.libraries.consumers.in_thread import LoopThread
from highwater.harness.clients.libraries.consumers.python_consumer import Events, Polled
from highwater.harness.clients.libraries.consumers.read_message import (
    APPEND_TIME,
    CREATE_TIME,
    ReadMessage,
)
from highwater.harness.clients.libraries.python_errors import PythonError


class AiokafkaEngine:
    """A consumer of aiokafka. The first poll starts the consumer, and waits for a broker.

    Args:
        settings: settings for an ``AIOKafkaConsumer`` that is a member of a group.
        post: called with the result of every poll.
    """

    def __init__(self, settings: dict[str, Any], post: Callable[[Polled], None]) -> None:
        self._settings = settings
        self._post = post
        self._consumer: Any = None
        self._started = False
        self._prepare: Callable[[Any], None] = lambda _: None
        self._topic = ""
        self._seeks: dict[int, int] = defaultdict(int)
        self._first: dict[int, int] = {}
        self._thread = LoopThread("aiokafka-reader", self._disconnect)

    def assign(self, topic: str, partitions: list[int]) -> None:
        """Read partitions, without a group."""
        self._topic = topic
        self._settings = {**self._settings, "group_id": None}
        places = [TopicPartition(topic, number) for number in partitions]
        self._prepare = lambda consumer: consumer.assign(places)

    def subscribe(self, topic: str, events: Events) -> None:
        """Join the group that the settings name."""
        self._topic = topic
        listener = _Listener(events)
        self._prepare = lambda consumer: consumer.subscribe([topic], listener=listener)

    def poll(self, most: int, wait_s: float) -> None:
        """Begin a poll."""
        self._thread.begin(self._poll(most, wait_s))

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        """Continue at these offsets."""
        return self._thread.begin(self._seek(offsets))

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        """Return the group's offsets, for partitions that have an offset."""
        return self._thread.begin(self._committed(partitions))

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        """Commit these offsets."""
        places = {TopicPartition(self._topic, number): at for number, at in offsets.items()}
        return self._thread.begin(self._commit(places))

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        """Return the first offset and the end offset of a partition's log."""
        return self._thread.begin(self._bounds(TopicPartition(topic, partition)))

    def group_metadata(self) -> str:
        """Return the group's name; aiokafka's producer takes nothing more."""
        return str(self._settings["group_id"])

    def epoch(self) -> int:
        """Return the group's generation."""
        return int(self._consumer._coordinator.generation)  # noqa: SLF001 - it is not public

    def leave(self) -> Future[None]:
        """Leave the group, and end the consumer."""
        return self._thread.begin(self._stop())

    def crash(self) -> None:
        """End without a notice to the group. Never raises."""
        self._thread.end()

    async def _disconnect(self) -> None:
        if self._consumer is not None:
            self._consumer._closed = True  # noqa: SLF001 - or it warns that it was not stopped
            await self._consumer._client.close()  # noqa: SLF001 - ``stop`` would leave the group

    async def _opened(self) -> Any:  # noqa: ANN401 - aiokafka has no types
        if self._consumer is None:
            self._consumer = aiokafka.AIOKafkaConsumer(**self._settings)
            self._prepare(self._consumer)
        if not self._started:
            await self._consumer.start()
            for number, offset in self._first.items():
                self._consumer.seek(TopicPartition(self._topic, number), offset)
            self._started = True
        return self._consumer

    async def _poll(self, most: int, wait_s: float) -> None:
        try:
            consumer = await self._opened()
            polled = await consumer.getmany(timeout_ms=int(wait_s * 1000), max_records=most)
        except Exception as raised:  # noqa: BLE001 - the reader's thread logs it
            self._post(Polled(raised=raised, seeks=dict(self._seeks)))
        else:
            messages = [_message(record) for records in polled.values() for record in records]
            self._post(Polled(messages=messages, seeks=dict(self._seeks)))

    async def _seek(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self._seeks[number] += 1
            if self._started:
                self._consumer.seek(TopicPartition(self._topic, number), offset)
            else:
                self._first[number] = offset

    async def _committed(self, partitions: list[int]) -> dict[int, int]:
        places = [TopicPartition(self._topic, number) for number in partitions]
        answers = [await self._consumer.committed(place) for place in places]
        return {
            number: offset
            for number, offset in zip(partitions, answers, strict=True)
            if offset is not None
        }

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        await self._consumer.commit(offsets)

    async def _bounds(self, place: TopicPartition) -> tuple[int, int]:
        if not self._started:
            raise KafkaException(PythonError(kind="KafkaConnectionError"))
        first = await self._consumer.beginning_offsets([place])
        last = await self._consumer.end_offsets([place])
        return first[place], last[place]

    async def _stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """The listener for a group's assignments: it waits until an event is served."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def on_partitions_revoked(self, revoked: Any) -> None:  # noqa: ANN401 - of aiokafka
        """Report that partitions are being revoked."""
        await asyncio.wrap_future(self._events("revoked", _numbers(revoked)))

    async def on_partitions_assigned(self, assigned: Any) -> None:  # noqa: ANN401 - of aiokafka
        """Report that partitions were assigned."""
        await asyncio.wrap_future(self._events("assigned", _numbers(assigned)))


def _numbers(places: Any) -> list[int]:  # noqa: ANN401 - of aiokafka
    return sorted(place.partition for place in places)


def _message(record: ConsumerRecord) -> ReadMessage:
    return ReadMessage(
        record.partition,
        record.offset,
        record.value,
        key=record.key,
        timestamp=(APPEND_TIME if record.timestamp_type else CREATE_TIME, record.timestamp or 0),
    )

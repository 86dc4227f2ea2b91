"""aiokafka as a library of clients: ``AIOKafkaProducer`` on an event loop in its own thread.

A queue and one task pass records to the producer, in the order in which they were sent. The first
record or call starts the producer, and waits for a broker.
"""

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import aiokafka
from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.libraries import python_settings
from highwater.harness.clients.libraries.consumers.aiokafka_consumer import AiokafkaEngine
from highwater.harness.clients.libraries.consumers.in_thread import LoopThread
from highwater.harness.clients.libraries.library_log import LibraryLog
from highwater.harness.clients.libraries.python_errors import (
    UNREACHED,
    PythonError,
    as_error,
    error_of,
)
from highwater.harness.clients.libraries.python_producer import Answer, PythonClients


@dataclass(frozen=True, slots=True, kw_only=True)
class _Letter:
    topic: str
    value: bytes
    partition: int
    answer: Answer


class _Client:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._letters: asyncio.Queue[_Letter] = asyncio.Queue()
        self._producer: Any = None
        self._started = False
        self._error: PythonError | None = None
        self._thread = LoopThread("aiokafka", self._disconnect)
        self._sending = self._thread.begin(self._send_all())  # kept, or the task might be collected

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        if self._error is not None:
            raise KafkaException(self._error)
        letter = _Letter(topic=topic, value=value, partition=partition, answer=answer)
        self._thread.loop.call_soon_threadsafe(self._letters.put_nowait, letter)

    def call(self, method: str, *words: object) -> Future[object]:
        return self._thread.begin(self._call(method, *words))

    def offsets(self, places: Iterable[TopicPartition]) -> object:
        return {
            aiokafka.TopicPartition(place.topic, place.partition): place.offset for place in places
        }

    def end(self) -> None:
        if self._error is None or self._error.kind != "ProducerClosed":
            self._error = PythonError(kind="ProducerClosed", queued=False)
            self._thread.end()

    async def _disconnect(self) -> None:
        if self._producer is not None:
            self._producer._closed = True  # noqa: SLF001 - or it warns that it was not stopped
            await self._producer.client.close()

    async def _send_all(self) -> None:
        while True:
            letter = await self._letters.get()
            try:
                producer = await self._opened()
                future = await producer.send(letter.topic, letter.value, partition=letter.partition)
            except Exception as raised:  # noqa: BLE001 - it raises before it queues
                self._refuse(letter, raised)
            else:
                future.add_done_callback(lambda done, to=letter.answer: _tell(done, to))

    def _refuse(self, letter: _Letter, raised: Exception) -> None:
        error = replace(as_error(raised), queued=False)
        sender = None if self._producer is None else self._producer._sender.sender_task  # noqa: SLF001
        if sender is not None and sender.done():  # then the producer refuses everything
            self._error = self._error or replace(error, ended=True)
        letter.answer(error, None)

    async def _call(self, method: str, *words: object) -> object:
        producer = await self._opened()
        if method == "init_transactions":  # done by the producer's start
            return None
        return await getattr(producer, method)(*words)

    async def _opened(self) -> Any:  # noqa: ANN401 - aiokafka has no types
        if self._producer is None:
            self._producer = aiokafka.AIOKafkaProducer(**self._settings)
        if not self._started:
            try:
                await self._producer.start()
            except Exception as raised:
                again = type(raised).__name__ in UNREACHED
                error = error_of(raised, queued=False, again=again)
                raise KafkaException(error) from raised
            self._started = True
        return self._producer


def _tell(done: "asyncio.Future[Any]", answer: Answer) -> None:
    """Pass a record's result to its callback; with acks=0 there is no offset."""
    if done.cancelled():
        return
    raised = done.exception()
    if raised is not None:
        answer(error_of(raised), None)
        return
    metadata = done.result()
    answer(None, None if metadata is None else metadata.offset)


def aiokafka_clients(log: logging.Logger) -> PythonClients:
    """Return aiokafka's clients; the log gets the library's lines."""
    return PythonClients(
        lambda settings: _Client(python_settings.aiokafka(settings)),
        lambda settings, post: AiokafkaEngine(python_settings.aiokafka_consumer(settings), post),
        LibraryLog("aiokafka", log),
        LibraryLog("asyncio", log),
    )

"""kafka-python as a library of clients: ``KafkaProducer``, whose sender is a separate thread.

Its constructor waits for a broker, so the first record or call that needs the producer opens it.
"""

import contextlib
import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Final

import kafka
from confluent_kafka import KafkaException, TopicPartition
from kafka.errors import KafkaError

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.libraries import python_settings
from highwater.harness.clients.libraries.consumers.in_thread import in_thread
from highwater.harness.clients.libraries.consumers.kafka_python_consumer import KafkaPythonEngine
from highwater.harness.clients.libraries.library_log import LibraryLog
from highwater.harness.clients.libraries.python_errors import (
    UNREACHED,
    PythonError,
    error_of,
)
from highwater.harness.clients.libraries.python_producer import Answer, PythonClients

_ENDS_S: Final = 2.0


class _Client:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._producer: Any = None
        self._ended = threading.Event()

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        producer = self._opened()
        try:
            future = producer.send(topic, value, partition=partition)
        except OSError as raised:  # perhaps from waking the sender's thread
            answer(error_of(raised), None)
        except Exception as raised:  # whatever else it raises, it raises before it queues
            raise KafkaException(error_of(raised, queued=False)) from raised
        else:
            future.add_callback(lambda metadata: answer(None, self._offset(metadata)))
            future.add_errback(lambda raised: answer(error_of(raised), None))

    def call(self, method: str, *words: object) -> Future[object]:
        return in_thread(f"kafka-python-{method}", lambda: self._waits(method, *words))

    def offsets(self, places: Iterable[TopicPartition]) -> object:
        return {
            kafka.TopicPartition(place.topic, place.partition): kafka.OffsetAndMetadata(
                place.offset
            )
            for place in places
        }

    def _waits(self, method: str, *words: object) -> object:
        return getattr(self._opened(), method)(*words)

    def end(self) -> None:
        self._ended.set()
        if self._producer is not None:
            self._close(self._producer)

    def _close(self, producer: Any) -> None:  # noqa: ANN401 - kafka-python has no types
        # ``close(timeout=0)`` raises if records wait, and then ends nothing.
        producer._sender.force_close()  # noqa: SLF001 - there is no other way to end it at once
        if threading.current_thread() is not producer._sender:  # noqa: SLF001
            producer._sender.join(_ENDS_S)  # noqa: SLF001
        with contextlib.suppress(KafkaError):
            producer.close(timeout=0)

    def _offset(self, metadata: Any) -> int | None:  # noqa: ANN401 - kafka-python has no types
        """Return a broker's offset; with acks=0 return None, since kafka-python makes one up."""
        return None if self._settings["acks"] == 0 else metadata.offset

    def _opened(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        with self._opening:
            if self._ended.is_set():
                raise KafkaException(PythonError(kind="ProducerClosed", queued=False))
            if self._producer is None:
                try:
                    self._producer = kafka.KafkaProducer(**self._settings)
                except KafkaError as raised:
                    again = type(raised).__name__ in UNREACHED
                    error = error_of(raised, queued=False, again=again)
                    raise KafkaException(error) from raised
                except (RuntimeError, ValueError) as raised:
                    raise HarnessError(f"kafka-python refuses this producer: {raised}") from raised
                if self._ended.is_set():  # while it was opened
                    self._close(self._producer)
            return self._producer


def kafka_python_clients(log: logging.Logger) -> PythonClients:
    """Return kafka-python's clients; the log gets the library's lines."""
    return PythonClients(
        lambda settings: _Client(python_settings.kafka_python(settings)),
        lambda settings, post: KafkaPythonEngine(
            python_settings.kafka_python_consumer(settings), post
        ),
        LibraryLog("kafka", log),
    )

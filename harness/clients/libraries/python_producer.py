"""A producer of a Python library, with librdkafka's methods.

Its client works in its own thread: kafka-python's sender, aiokafka's event loop. Answers arrive in
that thread and wait until ``poll`` serves them. So answers are observed later than they arrived,
and a send's recorded begin is before the client's call: recorded intervals may be wider than real
intervals, never narrower.
"""

import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, NoReturn, Protocol

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.answers import Mailbox, WaitingRecord
from highwater.harness.clients.libraries.consumers.python_consumer import (
    LibraryConsumer,
    Polled,
    PythonConsumer,
)
from highwater.harness.clients.libraries.interfaces import OnDelivery
from highwater.harness.clients.libraries.library_log import LibraryLog
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW, LibraryProducer
from highwater.harness.clients.libraries.python_errors import (
    PythonError,
    PythonOutcomes,
    as_error,
)

_QUEUE_RECORDS: Final = 2_000

Answer = Callable[[PythonError | None, int | None], None]
"""Called from any thread with a record's error, if any, and its offset."""


class PythonClient(Protocol):
    """A client of a Python library. Only ``send`` may wait for brokers, up to its limit."""

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        """Send a record.

        Raises:
            KafkaException: the record is refused; the argument is a ``PythonError``.
        """

    def call(self, method: str, *words: object) -> Future[object]:
        """Begin a call to a producer's method that waits for brokers."""

    def offsets(self, places: Iterable[TopicPartition]) -> object:
        """Return offsets in the producer's form."""

    def end(self) -> None:
        """End as in a crash: send nothing to brokers. Never raises; may be repeated."""


class PythonProducer(LibraryProducer):
    """A producer of a Python library. Not thread-safe; ``poll`` and ``flush`` call the callbacks.

    Its client ends with the last reference to this object, like librdkafka's client.
    """

    def __init__(self, client: PythonClient) -> None:
        super().__init__()
        weakref.finalize(self, client.end).atexit = False
        self._client = client
        self._mailbox = Mailbox()

    def __len__(self) -> int:
        return len(self._mailbox)

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record."""
        if len(self._mailbox) >= _QUEUE_RECORDS:
            raise BufferError("the queue is full: too many records wait for answers")
        mailbox = self._mailbox
        number = mailbox.expect(
            WaitingRecord(partition=partition, value=value, on_delivery=on_delivery)
        )
        try:
            self._client.send(
                topic,
                value,
                partition,
                lambda error, offset: mailbox.answer(number, error, offset),
            )
        except BaseException:
            mailbox.forget(number)
            raise

    def poll(self, timeout: float = -1) -> int:
        """Wait for callbacks, and serve them; return how many."""
        return self._mailbox.serve(timeout)

    def purge(self) -> None:
        """End the client, and report every record without an answer as given up."""
        self._mailbox.serve(0)
        self._client.end()
        self._mailbox.give_up(PythonError(kind=GAVE_UP))

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Ask for a topic's partitions; the first record makes the connection to a leader."""
        try:
            self._client.call("partitions_for", topic).result(limit_s)
        except Exception as raised:
            raise WaitTimeoutError(f"the producer knows no {topic}: {raised!r}") from raised

    def drop(self) -> None:
        """End the producer as in a crash: send nothing to its coordinator."""
        self._client.end()

    close = drop

    def _begin(self, method: str, *words: Any) -> Future[object]:  # noqa: ANN401 - of ``_within``
        if not words:
            return self._client.call(method)
        offsets, group = words
        return self._client.call(method, self._client.offsets(offsets), group)

    def _failed(self, raised: Exception) -> KafkaException:
        return KafkaException(as_error(raised))

    def _slow(self, message: str) -> PythonError:
        return PythonError(kind=SLOW, message=message, again=True)


class PythonClients:
    """Clients of one Python library.

    Args:
        opened: makes a client from settings with librdkafka's names.
        reading: makes the library's consumer from such settings.
        logs: copies of the library's log lines, closed together with the clients.
    """

    outcomes: Final = PythonOutcomes()

    def __init__(
        self,
        opened: Callable[[Settings], PythonClient],
        reading: Callable[[Settings, Callable[[Polled], None]], LibraryConsumer],
        *logs: LibraryLog,
    ) -> None:
        self._opened = opened
        self._reading = reading
        self._logs = logs
        self._clients: weakref.WeakSet[PythonClient] = weakref.WeakSet()
        self._engines: weakref.WeakSet[LibraryConsumer] = weakref.WeakSet()

    def producer(self, settings: Settings) -> PythonProducer:
        """Open a producer, with or without transactions, or of single records."""
        client = self._opened(settings)
        self._clients.add(client)
        return PythonProducer(client)

    single = producer

    def consumer(self, settings: Settings) -> PythonConsumer:
        """Open a consumer."""

        def made(post: Callable[[Polled], None]) -> LibraryConsumer:
            engine = self._reading(settings, post)
            self._engines.add(engine)
            return engine

        return PythonConsumer(made, settings)

    def share_consumer(self, settings: Settings) -> NoReturn:
        """Raise an error: the Python libraries have no share consumers (KIP-932)."""
        raise HarnessError(f"{settings['client.id']} cannot be in a share group with this library")

    def close(self) -> None:
        """End all clients that this object opened. Never raises."""
        for client in tuple(self._clients):
            client.end()
        for engine in tuple(self._engines):
            engine.crash()
        for log in self._logs:
            log.close()

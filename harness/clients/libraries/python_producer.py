"""A producer of a Python library, with librdkafka's methods.

Its client works in its own thread: kafka-python's sender, aiokafka's event loop. Answers arrive in
that thread and wait until ``poll`` serves them. So answers are observed later than they arrived,
and a send's recorded begin is before the client's call: recorded intervals may be wider than real
intervals, never narrower.
"""

import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, NoReturn, Protocol

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
from highwater.harness.clients.libraries.python_errors import (
    GAVE_UP,
    SLOW,
    PythonError,
    PythonOutcomes,
    as_error,
)

_QUEUE_RECORDS: Final = 2_000
_LOOK_S: Final = 0.05
_BEGIN_S: Final = 5.0

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


class PythonProducer:
    """A producer of a Python library. Not thread-safe; ``poll`` and ``flush`` call the callbacks.

    Its client ends with the last reference to this object, like librdkafka's client.
    """

    def __init__(self, client: PythonClient) -> None:
        weakref.finalize(self, client.end).atexit = False
        self._client = client
        self._mailbox = Mailbox()
        self._call: tuple[str, Future[object]] | None = None

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

    def queue(self, topic: str, value: bytes, partition: int, *, on_delivery: OnDelivery) -> None:
        """Queue a record; wait while the queue is full."""
        while True:
            try:
                self.produce(topic, value, partition=partition, on_delivery=on_delivery)
            except BufferError:
                self.poll(_LOOK_S)
            else:
                return

    def poll(self, timeout: float = -1) -> int:
        """Wait for callbacks, and serve them; return how many."""
        return self._mailbox.serve(timeout)

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until no record waits; return how many records still wait."""
        deadline = None if timeout < 0 else time.monotonic() + timeout
        while len(self._mailbox) and (deadline is None or time.monotonic() < deadline):
            self.poll(_LOOK_S)
        return len(self._mailbox)

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

    def init_transactions(self, timeout: float) -> None:
        """Replace every other producer with this ``transactional.id``."""
        self._within("init_transactions", timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within("begin_transaction", _BEGIN_S)

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], group: object, timeout: float
    ) -> None:
        """Add offsets of a group to the transaction."""
        words = self._client.offsets(offsets), group
        self._within("send_offsets_to_transaction", timeout, *words)

    def commit_transaction(self, timeout: float) -> None:
        """Commit the transaction."""
        self._within("commit_transaction", timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort the transaction."""
        self._within("abort_transaction", timeout)

    def _within(self, method: str, timeout: float, *words: object) -> None:
        """Call a method that waits; if it already runs, go on waiting for it.

        Both libraries give such a call no time-out.
        """
        if self._call is None or self._call[0] != method:
            self._call = method, self._client.call(method, *words)
        future = self._call[1]
        try:
            future.result(timeout)
        except Exception as raised:
            if not future.done():
                slow = PythonError(kind=SLOW, message=f"{method} has not returned", again=True)
                raise KafkaException(slow) from raised
            self._call = None
            raise KafkaException(as_error(raised)) from raised
        self._call = None
        self._mailbox.serve(0)  # records for which the call has waited


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
        """Open a producer."""
        client = self._opened(settings)
        self._clients.add(client)
        return PythonProducer(client)

    def single(self, settings: Settings) -> PythonProducer:
        """Open a producer of single records."""
        return self.producer(settings)

    def transactional(self, settings: Settings) -> PythonProducer:
        """Open a transactional producer, which no coordinator knows yet."""
        return self.producer(settings)

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

"""A producer of a Python library behind librdkafka's methods.

Its client works in a thread of its own: kafka-python's sender, aiokafka's event loop. Answers come
from there and wait until ``poll`` serves them, so that they are observed later than they came, and
a send begins before the client is asked: intervals are wider than they were, never narrower.
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
"""Called from any thread with what became of a record, and its offset."""


class PythonClient(Protocol):
    """A client of a Python library. Only ``send`` may wait for brokers, and within its limit."""

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        """Send a record.

        Raises:
            KafkaException: it is refused; the argument is a ``PythonError``.
        """

    def call(self, method: str, *words: object) -> Future[object]:
        """Begin a call of the producer that waits for brokers."""

    def offsets(self, places: Iterable[TopicPartition]) -> object:
        """Return offsets as the producer takes them."""

    def end(self) -> None:
        """End it as a crash does: nothing is asked of brokers. Never raises; may be repeated."""


class PythonProducer:
    """A producer of a Python library. Not thread-safe; callbacks come from ``poll`` and ``flush``.

    Its client ends with the last reference to it, as librdkafka's does.
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
            raise BufferError("so many records wait for their answers")
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
        """Queue a record; a full queue is waited out."""
        while True:
            try:
                self.produce(topic, value, partition=partition, on_delivery=on_delivery)
            except BufferError:
                self.poll(_LOOK_S)
            else:
                return

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, once there are some; how many."""
        return self._mailbox.serve(timeout)

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until nothing waits; how many records still do."""
        deadline = None if timeout < 0 else time.monotonic() + timeout
        while len(self._mailbox) and (deadline is None or time.monotonic() < deadline):
            self.poll(_LOOK_S)
        return len(self._mailbox)

    def purge(self) -> None:
        """End the client, and report every record without an answer as one that never got any."""
        self._mailbox.serve(0)
        self._client.end()
        self._mailbox.give_up(PythonError(kind=GAVE_UP))

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Ask for the partitions of a topic; a connection to a leader is made by a first record."""
        try:
            self._client.call("partitions_for", topic).result(limit_s)
        except Exception as raised:
            raise WaitTimeoutError(f"the producer knows no {topic}: {raised!r}") from raised

    def drop(self) -> None:
        """End it as a crash does: nothing is asked of its coordinator."""
        self._client.end()

    close = drop

    def init_transactions(self, timeout: float) -> None:
        """Take the place of every producer of this ``transactional.id``."""
        self._within("init_transactions", timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within("begin_transaction", _BEGIN_S)

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], group: object, timeout: float
    ) -> None:
        """Put offsets of a group into the transaction."""
        words = self._client.offsets(offsets), group
        self._within("send_offsets_to_transaction", timeout, *words)

    def commit_transaction(self, timeout: float) -> None:
        """Commit."""
        self._within("commit_transaction", timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort."""
        self._within("abort_transaction", timeout)

    def _within(self, method: str, timeout: float, *words: object) -> None:
        """Call a method that waits; go on with it if it is called already.

        Neither library gives such a call a time-out of its own.
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
        self._mailbox.serve(0)  # of records about which the call has waited


class PythonClients:
    """Clients of one Python library.

    Args:
        opened: makes a client of settings in librdkafka's names.
        reading: makes the engine of a consumer of such settings.
        logs: copies of the library's log lines, which end with its clients.
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
        """Refuse: neither library has members of share groups (KIP-932)."""
        raise HarnessError(f"{settings['client.id']} cannot be in a share group with this library")

    def close(self) -> None:
        """End all of its clients. Never raises."""
        for client in tuple(self._clients):
            client.end()
        for engine in tuple(self._engines):
            engine.crash()
        for log in self._logs:
            log.close()

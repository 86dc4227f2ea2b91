"""The methods that the producers of several libraries share, and their errors."""

import math
import time
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.libraries.interfaces import ClientError, OnDelivery, RecordProducer

_SERVED_S: Final = 0.05
_BEGIN_S: Final = 5.0

NO_NUMBER: Final = -1
"""The error code of an error that the client itself raises."""

SLOW: Final = "_TIMED_OUT"
"""This project's name for the error of a call that has not returned within the time limit."""

GAVE_UP: Final = "_PURGED"
"""This project's name for the error of a record that had no response when the harness stopped
waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryError(ABC):
    """One error of a Java or Python client.

    Attributes:
        message: the exception's message.
        number: Kafka's error code; -1 if the error has none.
        queued: whether the client queued the record.
    """

    message: str = ""
    number: int = NO_NUMBER
    queued: bool = True

    def __str__(self) -> str:
        return f"{self.name()}: {self.message}"

    @abstractmethod
    def name(self) -> str:
        """Return the simple name of the exception's class."""

    @abstractmethod
    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""

    @abstractmethod
    def retriable(self) -> bool:
        """Return whether the caller may repeat the call. The client continues the earlier call."""

    def code(self) -> int:
        """Return Kafka's error code; -1 if the error has none."""
        return self.number

    def txn_requires_abort(self) -> bool:
        """Return whether the application must abort its transaction."""
        return not self.fatal() and not self.retriable()


class WaitingProducer:
    """A base class for producers. ``queue`` and ``flush`` call ``poll`` while they wait."""

    def queue(
        self: RecordProducer, topic: str, value: bytes, partition: int, *, on_delivery: OnDelivery
    ) -> None:
        """Queue a record, as ``produce`` does. Wait while the queue is full."""
        while True:
            try:
                self.produce(topic, value, partition=partition, on_delivery=on_delivery)
            except BufferError:
                self.poll(_SERVED_S)
            else:
                return

    def flush(self: RecordProducer, timeout: float = -1) -> int:
        """Call callbacks until every record has a response, or until the timeout.

        Return the number of records without a response.
        """
        deadline = time.monotonic() + (timeout if timeout >= 0 else math.inf)
        while len(self) and (left := deadline - time.monotonic()) > 0:
            self.poll(min(left, _SERVED_S))
        return len(self)

    def trust_flush(self: RecordProducer, timeout: float) -> bool:
        """Flush; return whether every record has a response. See ``SingleProducer``."""
        return self.flush(timeout) == 0


class LibraryProducer(WaitingProducer, ABC):
    """The transactions of a Java or Python library's producer, with librdkafka's methods.

    In the Python libraries, and in Java up to 2.x, such calls have no timeout. So a call may still
    run after the harness's time limit. The next call of the same method waits for the earlier call.
    """

    def __init__(self) -> None:
        self._call: tuple[str, Future[object]] | None = None

    @abstractmethod
    def poll(self, timeout: float = -1) -> int:
        """Wait for the first callback; call all callbacks that are due; return their number."""

    @abstractmethod
    def _begin(self, method: str, *words: object) -> Future[object]:
        """Begin a call that waits for brokers; return a Future of its result."""

    @abstractmethod
    def _failed(self, raised: Exception) -> KafkaException:
        """Return a call's exception as a ``KafkaException`` with a ``LibraryError``."""

    @abstractmethod
    def _slow(self, message: str) -> ClientError:
        """Return the error for a call that has not returned in time. It is retriable."""

    def init_transactions(self, timeout: float) -> None:
        """Fence every other producer with this ``transactional.id``."""
        self._within("init_transactions", timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within("begin_transaction", _BEGIN_S)

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], group: object, timeout: float
    ) -> None:
        """Add offsets of a group to the transaction."""
        self._within("send_offsets_to_transaction", timeout, offsets, group)

    def commit_transaction(self, timeout: float) -> None:
        """Commit the transaction."""
        self._within("commit_transaction", timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort the transaction."""
        self._within("abort_transaction", timeout)

    def _within(self, method: str, timeout: float, *words: object) -> None:
        if self._call is None or self._call[0] != method:
            self._call = method, self._begin(method, *words)
        future = self._call[1]
        try:
            future.result(timeout)
        except Exception as raised:
            if not future.done():
                raise KafkaException(self._slow(f"{method} has not returned in time")) from raised
            self._call = None
            raise self._failed(raised) from raised
        self._call = None
        self.poll(0)  # report records for which the call has waited

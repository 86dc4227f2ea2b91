"""A producer for stories (scripted scenarios): it sends named records in transactions."""

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    ClientLibrary,
    DeliveredRecord,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.transaction_buffer import OpenTransaction, TransactionBuffer
from highwater.harness.clients.transactional_producer import (
    TransactionalProducer,
    TransactionEnd,
    TransactionTimeouts,
)
from highwater.harness.runs.history import READ_COMMITTED, record_value
from highwater.harness.runs.recorder import Recorder

_CALL_S: Final = 40.0
_LAST_S: Final = 5.0
_PATIENCE: Final = {
    # Time that the client waits for a response before it sends the request on a new connection.
    "socket.timeout.ms": 4_000,
    # Time before the client repeats a request without a response. librdkafka's default is 0.1 s,
    # and longer each time. With more time, a story can act before the repetition.
    "retry.backoff.ms": 1_000,
    # Longer than a story: the coordinator must not abort an open transaction by itself.
    "transaction.timeout.ms": 120_000,
}


class NamedTransactions:
    """One transactional producer for named records. Not thread-safe.

    Args:
        settings: settings for a transactional producer.
        library: the producers' library.
        process: the producer's name in the history.
        size: bytes of a record.
        changes: settings that override all others.

    Raises:
        HarnessError: no coordinator accepted the producer in time.
    """

    def __init__(
        self,
        recorder: Recorder,
        settings: Settings,
        *,
        process: str,
        topic: str,
        size: int,
        library: ClientLibrary = LIBRDKAFKA,
        changes: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.sent = 0
        """Number of records sent so far."""
        self.answered = True
        """Whether the coordinator has responded to every EndTxn."""
        self.appended = 0
        """Number of records of the last transaction for which the leader returned an offset."""
        self.errors: dict[str, str] = {}
        """Record name to error name, for records that the client reports as not appended."""
        self._library = library
        self._settings: Settings = {**settings, **_PATIENCE, "linger.ms": 0, **changes}
        self._process = process
        self._topic = topic
        self._size = size
        self._stop = threading.Event()
        self._tape = TransactionBuffer(
            recorder, process=process, topic=topic, isolation=READ_COMMITTED
        )
        self._current: OpenTransaction | None = None
        self._session = self._opened()

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            HarnessError: the client refuses to begin.
        """
        if not self._session.begin():
            raise HarnessError(f"{self._process} cannot begin a transaction")
        self._current = self._tape.begin()
        self.appended = 0

    def send(self, value: str, partition: int) -> int:
        """Send a record within the transaction; return its offset.

        Raises:
            HarnessError: the leader did not append the record.
        """
        offsets: list[int | None] = []
        self._queue(value, partition, offsets.append)
        self._session.flush()
        if not offsets or offsets[0] is None:
            raise HarnessError(f"the leader did not append the record {value} of {self._process}")
        return offsets[0]

    def send_on(self, value: str, partition: int, *, size: int = 0) -> None:
        """Send a record within the transaction. Do not wait for the response."""
        self._queue(value, partition, lambda _: None, size)
        self._session.client.poll(0)

    def send_positions(self, positions: Mapping[int, int], group: object) -> None:
        """Add a group's offsets to the transaction.

        Args:
            positions: partition to offset.
            group: the group's metadata, from the same library.

        Raises:
            HarnessError: no coordinator has accepted the offsets.
        """
        places = [TopicPartition(self._topic, *place) for place in positions.items()]
        if not self._session.offsets(places, group):
            raise HarnessError(f"{self._process} cannot add a group's offsets to its transaction")

    def flush(self) -> None:
        """Wait until every record has a response."""
        self._session.flush()

    def commit(self) -> str:
        """Commit the transaction; return the outcome: ok, fail or info."""
        return self._end(self._session.commit).outcome

    def abort(self) -> str:
        """Abort the transaction. Return the name of the error, or an empty text."""
        return self._end(self._session.abort).error or ""

    def renew(self) -> None:
        """Open a new producer with the same ``transactional.id``. It fences the old producer.

        Raises:
            HarnessError: no coordinator accepted the new producer in time.
        """
        self._session.drop()
        self._session = self._opened()

    def close(self) -> None:
        """Abort an open transaction, and write the rest of the history."""
        self._stop.set()
        if self._current is not None:
            self.abort()
        self._tape.close()

    def _queue(
        self, value: str, partition: int, answer: Callable[[int | None], None], size: int = 0
    ) -> None:
        assert self._current is not None, "a record needs a transaction"
        note = self._current.send(value, partition)

        def delivered(error: ClientError | None, message: DeliveredRecord) -> None:
            note(error, message)
            self.appended += error is None
            if error is not None:
                self.errors[value] = error.name()
            answer(None if error else message.offset())

        record = record_value(value, size or self._size)
        self._session.client.queue(self._topic, record, partition, on_delivery=delivered)
        self.sent += 1

    def _opened(self) -> TransactionalProducer:
        patience = TransactionTimeouts(self._stop, _CALL_S, lambda: _LAST_S)
        session = TransactionalProducer(self._settings, patience, self._library)
        if not session.open():
            raise HarnessError(f"no coordinator accepted {self._process} within {_CALL_S:g} s")
        return session

    def _end(self, call: Callable[[], TransactionEnd]) -> TransactionEnd:
        assert self._current is not None, "there is no transaction to end"
        end = call()
        self._current.end(end.outcome, end.error, answered=end.answered)
        self.answered = self.answered and end.error is None
        self._current = None
        return end

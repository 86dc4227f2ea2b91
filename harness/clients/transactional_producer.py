"""One transactional producer: its requests to the coordinator, and their timeouts."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.interfaces import ClientError, ClientLibrary
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.send_rate import POLL_S
from highwater.harness.runs.history import FAIL, INFO, OK

_SLICE_S: Final = 1.0


class TransactionTimeouts:
    """The timeouts of a client: for each call, and for all calls after ``stop`` together.

    Args:
        each_s: seconds for one call.
        last_s: returns the seconds for all calls after ``stop``; it is called once.
    """

    def __init__(self, stop: threading.Event, each_s: float, last_s: Callable[[], float]) -> None:
        self._stop = stop
        self._each_s = each_s
        self._last_s = last_s
        self._end: float | None = None

    def left_s(self, since: float) -> float:
        """Return the seconds left for a call that began at ``since`` (``time.monotonic()``)."""
        now = time.monotonic()
        if self._stop.is_set() and self._end is None:
            self._end = now + self._last_s()
        left = since + self._each_s - now
        return left if self._end is None else min(left, self._end - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """The end of a transaction.

    Attributes:
        outcome: ok, fail or info.
        error: the client's name of the error; None if there was no error.
        answered: whether EndTxn got a response. False if the client stopped waiting for it.
        usable: whether the producer can begin another transaction.
    """

    outcome: str
    error: str | None = None
    answered: bool = True
    usable: bool = True


class TransactionalProducer:
    """One transactional producer, from InitProducerId to its end. Not thread-safe."""

    def __init__(
        self,
        settings: Settings,
        patience: TransactionTimeouts,
        library: ClientLibrary = LIBRDKAFKA,
    ) -> None:
        self._outcomes = library.outcomes
        self._log = settings["logger"]
        self._name = settings["client.id"]
        self._patience = patience
        self.client = library.producer(settings)

    def open(self) -> bool:
        """Fence other producers with this name, and abort their transaction; False on an error."""
        return self._call(self.client.init_transactions) is None

    def begin(self) -> bool:
        """Begin a transaction. Return False if this producer cannot begin transactions any more."""
        try:
            self.client.begin_transaction()
        except KafkaException as error:
            self._log.warning("%s: a transaction cannot begin: %s", self._name, error)
            return False
        return True

    def offsets(self, offsets: list[TopicPartition], group: object) -> bool:
        """Add a group's offsets to the transaction. Return False if it must be aborted."""
        send = self.client.send_offsets_to_transaction
        return self._call(lambda limit_s: send(offsets, group, limit_s)) is None

    def flush(self) -> None:
        """Wait until every record has its delivery report, up to the timeout of one call."""
        self.client.flush(max(0.0, self._patience.left_s(time.monotonic())))

    def commit(self) -> TransactionEnd:
        """Commit. After an error that requires it, abort; see ``delivery_outcomes``."""
        error = self._call(self.client.commit_transaction)
        if error is None:
            return TransactionEnd(outcome=OK)
        aborted = error.txn_requires_abort() and self._abort() is None
        return TransactionEnd(
            outcome=self._outcomes.not_committed(error, aborted=aborted),
            error=error.name(),
            answered=not error.retriable(),
            usable=aborted,
        )

    def abort(self) -> TransactionEnd:
        """Abort. The outcome is ``fail`` even if the abort fails: no commit was requested."""
        error = self._abort()
        if error is None:
            return TransactionEnd(outcome=FAIL)
        return TransactionEnd(
            outcome=FAIL, error=error.name(), answered=not error.retriable(), usable=False
        )

    def crash_in_commit(self) -> TransactionEnd:
        """Request the commit, without waiting for the response."""
        try:
            self.client.commit_transaction(0.001)
        except KafkaException as error:
            return TransactionEnd(
                outcome=INFO, error=error.args[0].name(), answered=False, usable=False
            )
        return TransactionEnd(outcome=OK)

    def drop(self) -> None:
        """Close the producer as in a crash. Its coordinator gets no request."""
        self.client.drop()

    def _abort(self) -> ClientError | None:
        return self._call(self.client.abort_transaction)

    def _call(self, api: Callable[[float], object]) -> ClientError | None:
        """Call ``api``; repeat it while its error is retriable. Return None, or the last error."""
        began = time.monotonic()
        while True:
            try:
                api(max(0.0, min(_SLICE_S, self._patience.left_s(began))))
            except KafkaException as raised:
                error: ClientError = raised.args[0]
                self._log.info("%s: %s", self._name, error)
                if not error.retriable() or self._patience.left_s(began) <= 0:
                    return error
                self.client.poll(POLL_S)
            else:
                return None

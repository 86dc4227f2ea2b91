"""A sender of single, named records, for stories (scripted scenarios) and the final read.

The sender waits for the outcome of each record at once, or later. It also sends records to other
topics, but does not write these to the history, which is about one topic.
"""

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.delivery_outcomes import REFUSED_LOCALLY
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    ClientLibrary,
    DeliveredRecord,
    OnDelivery,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.runs.history import INFO, OK, SEND, record_value
from highwater.harness.runs.recorder import Recorder

_POLL_S: Final = 0.05
_UNKNOWN_PARTITION: Final = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - its public name


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOutcome:
    """The outcome of one record's send, as in the history.

    Attributes:
        outcome: ok, fail or info.
        offset: the record's offset; None if the broker did not return the offset.
        error: the client's error name; None if ok, or if the limit passed without a response.
    """

    outcome: str
    offset: int | None = None
    error: str | None = None


class Sender:
    """One producer for named records. Threads can share it. It sends one record at a time.

    Args:
        settings: the producer's settings, with its acks.
        retries: whether the client may send a record again.
        library: the producer's library.
    """

    def __init__(
        self,
        recorder: Recorder,
        settings: Settings,
        row: dict[str, str],
        *,
        size: int,
        retries: bool = True,
        library: ClientLibrary = LIBRDKAFKA,
    ) -> None:
        if not retries:
            settings = {**settings, "enable.idempotence": False, "retries": 0}
        self.sent = 0
        self._waiting = 0
        self._outcomes = library.outcomes
        self._producer = library.single(settings)
        self._recorder = recorder
        self._row = {**row, "kind": SEND, "acks": str(settings["acks"])}
        self._topic = row["topic"]
        self._size = size
        self._retries = retries
        self._lock = threading.Lock()
        self._stopping = False

    def warm_up(self, *, limit_s: float) -> None:
        """Connect to every partition's leader, so that the first send is not slower than others."""
        with self._lock:
            self._producer.reach(self._topic, limit_s=limit_s)

    def send(self, identity: str, partition: int, *, limit_s: float) -> SendOutcome:
        """Send one record. Return within a millisecond or two after its acknowledgement.

        Without a response within the limit, the result is ``info`` without an error. If a response
        arrives later, the history gets the later outcome.
        """
        with self._lock:
            self.sent += 1
            answers: list[SendOutcome] = []
            value = record_value(identity, self._size)
            deadline = time.monotonic() + limit_s
            invoke_ns = self._recorder.clock()
            note = self._noted(identity, partition, answers)
            try:
                self._queue(value, partition, note, deadline)
            except KafkaException as raised:
                answer = SendOutcome(outcome=REFUSED_LOCALLY, error=raised.args[0].name())
                self._record(answer, partition, identity, invoke_ns, self._recorder.clock())
                return answer
            self._waiting += 1
            while not answers and not self._stopping and (left := deadline - time.monotonic()) > 0:
                self._producer.poll(min(left, _POLL_S))
                self._recorder.check()
            return answers[0] if answers else SendOutcome(outcome=INFO)

    def send_on(
        self, value: str, partition: int, *, size: int, topic: str = "", content: bytes = b""
    ) -> None:
        """Send a record without waiting for a response.

        Args:
            value: the record's name.
            size: the size in bytes of the record without ``content``.
            topic: the record's topic; empty for the topic of the history.
            content: bytes after the record's name that do not compress.

        Raises:
            HarnessError: the client refuses the record.
        """
        record = record_value(value, size) + content
        with self._lock:
            note = self._forget if topic else self._noted(value, partition, [])
            try:
                self._producer.queue(topic or self._topic, record, partition, on_delivery=note)
            except KafkaException as raised:
                raise HarnessError(
                    f"the client refused the record {value}: {raised.args[0]}"
                ) from raised
            self._waiting += 1
            self.sent += not topic

    def await_answers(self, *, limit_s: float) -> int:
        """Wait until every record has a response, or the limit; return the number without one."""
        deadline = time.monotonic() + limit_s
        with self._lock:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._producer.poll(min(left, _POLL_S))
                self._recorder.check()
            return self._waiting

    def trust_flush(self, *, limit_s: float) -> bool:
        """Call the library's own flush; return whether it has returned within the limit.

        Then records without an error count as acknowledged. A program that trusts its flush would
        assume the same.
        """
        with self._lock:
            return self._producer.trust_flush(limit_s)

    def _noted(self, identity: str, partition: int, answers: list[SendOutcome]) -> OnDelivery:
        """Return the delivery callback for a record that is sent now. It records the outcome."""
        invoke_ns = self._recorder.clock()

        def delivered(error: ClientError | None, message: DeliveredRecord) -> None:
            self._waiting -= 1
            answer = self._answer(error, message)
            answers.append(answer)
            purged = error is not None and self._outcomes.unanswered(error)
            complete_ns = None if purged else self._recorder.clock()
            self._record(answer, partition, identity, invoke_ns, complete_ns)

        return delivered

    def _forget(self, error: ClientError | None, message: DeliveredRecord) -> None:
        """Record nothing, because the record belongs to another topic."""
        del error, message
        self._waiting -= 1

    def _queue(
        self,
        value: bytes,
        partition: int,
        answered: OnDelivery,
        deadline: float,
    ) -> None:
        """Queue a record. If its partition is new to the client, first request the partitions."""
        while True:
            try:
                self._producer.queue(self._topic, value, partition, on_delivery=answered)
            except KafkaException as raised:
                unknown = raised.args[0].code() == _UNKNOWN_PARTITION
                if not unknown or time.monotonic() >= deadline:
                    raise
            else:
                return
            with contextlib.suppress(WaitTimeoutError):
                self._producer.reach(self._topic, limit_s=_POLL_S * 20)

    def finish(self, *, limit_s: float) -> None:
        """Wait for responses within the limit. Record missing responses as unknown outcomes.

        The producer stays connected until ``close``. A second call does nothing.
        """
        if self._stopping:
            return
        self._stopping = True
        with self._lock:
            self._producer.flush(limit_s)
            self._producer.purge()
            self._producer.flush(1.0)

    def close(self, *, limit_s: float) -> None:
        """Finish, and close the producer. A second call does nothing."""
        self.finish(limit_s=limit_s)
        with self._lock:
            self._producer.close()

    def _answer(self, error: ClientError | None, message: DeliveredRecord) -> SendOutcome:
        if error is not None:
            outcome = self._outcomes.delivered(error, retries=self._retries)
            return SendOutcome(outcome=outcome, error=error.name())
        offset = message.offset()
        return SendOutcome(outcome=OK, offset=None if offset is None or offset < 0 else offset)

    def _record(
        self,
        answer: SendOutcome,
        partition: int | None,
        value: str,
        invoke_ns: int,
        complete_ns: int | None,
    ) -> None:
        self._recorder.operation(
            **self._row,
            outcome=answer.outcome,
            invoke_ns=invoke_ns,
            complete_ns=complete_ns,
            partition=partition,
            offset=answer.offset,
            value=value,
            error=answer.error,
        )

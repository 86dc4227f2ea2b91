"""The loop of a producer without transactions: it sends records to partitions in turn."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from highwater.harness.clients.libraries.interfaces import ClientError, RecordProducer
from highwater.harness.clients.operation_buffers import SendBuffer
from highwater.harness.clients.send_rate import POLL_S, RateLimiter, StopSignal
from highwater.harness.runs.history import record_value
from highwater.harness.runs.plan import Plan

_GRACE_S: Final = 2.0


class ProducerLoop:
    """One producer, in its own thread. It sends until it is stopped, then waits for responses.

    The producer stays connected until ``close``, because with acks=0 a broker may not have read its
    records. ``sent`` is the next sequence number.

    Args:
        opened: opens the client at first, and a new client after a fatal error.
        prefix: prefix of the records' names, ``<prefix>-<sequence>``.
        tape: the buffer for its operations.
        first: the first sequence number. It continues the numbers of an earlier producer.
        named: sequence number to record name, if names have another form.
        records: the user's own records. They are sent once, in this order, instead of generated
            records.
    """

    def __init__(
        self,
        opened: Callable[[], RecordProducer],
        plan: Plan,
        tape: SendBuffer,
        prefix: str,
        pace: RateLimiter,
        *,
        first: int = 0,
        named: Callable[[int], str] | None = None,
        records: Sequence[bytes] = (),
    ) -> None:
        self.sent = first
        self._opened = opened
        self._plan = plan
        self._tape = tape
        self._named = named or (lambda sequence: f"{prefix}-{sequence}")
        self._records = records
        self._pace = pace
        self._client = opened()

    def run(self, stop: StopSignal, answer_limit_s: Callable[[], float]) -> None:
        """Send until ``stop`` is set. Then wait up to ``answer_limit_s`` for missing responses."""
        while not stop.is_set():
            left = len(self._records) - self.sent if self._records else None
            due = self._pace.due()
            self._send(due if left is None else min(due, left), stop)
            self._client.poll(POLL_S if left == 0 else self._pace.wait_s())
            self._tape.turn()
        self._drain(answer_limit_s())
        self._tape.close()

    def close(self) -> None:
        """Close the client, after ``run`` has returned."""
        self._client.close()

    def _send(self, size: int, stop: StopSignal) -> None:
        """Send ``size`` records. Wait while the queue is full, unless ``stop`` is set."""
        topic, partitions = self._plan.topic.name, self._plan.topic.partitions
        answered = self._tape.burst()
        for _ in range(size):
            value = self._value(self.sent)
            partition = self.sent % partitions
            while True:
                on_delivery = partial(answered, self.sent)
                try:
                    self._client.produce(topic, value, partition=partition, on_delivery=on_delivery)
                except BufferError:
                    if stop.is_set():
                        return
                    self._client.poll(POLL_S)
                    self._tape.turn()
                    answered = self._tape.burst()
                except KafkaException as error:
                    self._refused(self.sent, partition, error.args[0])
                    break
                else:
                    break
            self.sent += 1

    def _value(self, sequence: int) -> bytes:
        if self._records:
            return self._records[sequence]
        return record_value(self._named(sequence), self._plan.workload.record_bytes)

    def _refused(self, sequence: int, partition: int, error: ClientError) -> None:
        """Record that the client refused a record. After a fatal error, open a new client."""
        self._tape.refused(sequence, partition, error)
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - its public name
            self._drain(0.0)
            self._client.close()
            self._client = self._opened()
        self._client.poll(POLL_S)  # a pause: repeated refusals would fill the history

    def _drain(self, limit_s: float) -> None:
        """Wait for responses. Then stop waiting: the other records' callbacks get an error."""
        deadline = time.monotonic() + limit_s
        while len(self._client) and time.monotonic() < deadline:
            self._client.poll(POLL_S)
            self._tape.turn()
        self._client.purge()
        self._client.flush(_GRACE_S)

"""Sends single, named records without transactions, and waits for answers later: for the stories.

Its producer may also send to other topics. Such records are not in the history, which is about one
topic.
"""

import time
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    ClientLibrary,
    DeliveredRecord,
    OnDelivery,
)
from highwater.harness.runs.history import OK, RUN, SEND, record_value
from highwater.harness.runs.recorder import Recorder

_POLL_S: Final = 0.05
_LAST_S: Final = 1.0


class NamedRecords:
    """One producer for named records. Not thread-safe.

    Args:
        settings: settings for a producer.
        process: the producer's name in the history.
        topic: the topic of the history.
        library: the producer's library.
    """

    def __init__(
        self,
        recorder: Recorder,
        settings: Settings,
        *,
        process: str,
        topic: str,
        library: ClientLibrary,
    ) -> None:
        self.sent = 0
        """Number of records sent to the topic so far."""
        self._recorder = recorder
        self._row = {"process": process, "kind": SEND, "phase": RUN, "topic": topic}
        self._row["acks"] = str(settings["acks"])
        self._topic = topic
        self._outcomes = library.outcomes
        self._client = library.producer(settings)

    def send_on(self, value: str, partition: int, *, size: int, topic: str = "") -> None:
        """Send a record, and do not wait for an answer.

        Args:
            value: the record's name.
            size: bytes of the record.
            topic: a topic other than the topic of the history; empty: the topic of the history.

        Raises:
            HarnessError: the client refuses the record.
        """
        record = record_value(value, size)
        note = _forget if topic else self._noted(value, partition)
        try:
            self._client.queue(topic or self._topic, record, partition, on_delivery=note)
        except KafkaException as raised:
            raise HarnessError(f"{value} was refused: {raised.args[0]}") from raised
        self.sent += not topic

    def await_answers(self, *, limit_s: float) -> int:
        """Wait until every record has an answer; return how many have no answer yet."""
        deadline = time.monotonic() + limit_s
        while len(self._client) and (left := deadline - time.monotonic()) > 0:
            self._client.poll(min(left, _POLL_S))
            self._recorder.check()
        return len(self._client)

    def close(self) -> None:
        """Wait a moment for answers, give up the remaining records, and end the producer."""
        self._client.flush(_LAST_S)
        self._client.purge()
        self._client.flush(_LAST_S)
        self._client.close()

    def _noted(self, value: str, partition: int) -> OnDelivery:
        """Return the callback that records the outcome of a record sent now."""
        invoke_ns = self._recorder.clock()

        def answered(error: ClientError | None, message: DeliveredRecord) -> None:
            gone = error is not None and self._outcomes.unanswered(error)
            outcome = OK if error is None else self._outcomes.delivered(error, retries=True)
            self._recorder.operation(
                **self._row,
                outcome=outcome,
                invoke_ns=invoke_ns,
                complete_ns=None if gone else self._recorder.clock(),
                partition=partition,
                offset=message.offset() if error is None else None,
                value=value,
                error=error and error.name(),
            )

        return answered


def _forget(error: ClientError | None, message: DeliveredRecord) -> None:
    """Record nothing: the record belongs to a different topic."""
    del error, message

"""Share group members with Kafka's own Java client: ``KafkaShareConsumer``.

This consumer is not thread-safe. During a call of its methods, it reports the results of
acknowledgements to a callback.
"""

import contextlib
import re
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition
from py4j.protocol import Py4JError

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries import java_settings
from highwater.harness.clients.libraries.consumers.java_callbacks import (
    CallbackGateway,
    JavaCallback,
    interfaces,
)
from highwater.harness.clients.libraries.consumers.java_records import parse
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage
from highwater.harness.clients.libraries.interfaces import OnAcknowledged

_THREAD: Final = ("delegate", "applicationEventHandler", "networkThread")
_CONNECTIONS: Final = ("networkClientDelegate", "client")
"""Private fields: the path from a consumer to its thread, and from the thread to its
connections."""

_OFFSETS: Final = re.compile(r"-(\d+)=\[(\d+(?:, \d+)*)\]")
_CLOSES_S: Final = 30.0


class JavaShareConsumer:
    """A ``KafkaShareConsumer`` for one topic. Not thread-safe."""

    def __init__(self, gateway: CallbackGateway, settings: Settings) -> None:
        self._gateway = gateway
        self._topic = ""
        self._kinds: dict[AcknowledgeType, Any] = {}
        self._answers: ShareAnswers | None = None
        self._java = gateway.share_consumer(java_settings.share_consumer(settings))

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Set the callback for the responses to acknowledgements."""

        def answered(partition: int, offsets: list[int], exception: Any) -> None:  # noqa: ANN401 - of Java
            error = None if exception is None else self._gateway.error_of(exception)
            place = TopicPartition(self._topic, partition)
            callback({place: offsets}, None if error is None else KafkaException(error))

        self._answers = ShareAnswers(answered)
        self._call(self._java.setAcknowledgementCommitCallback, self._answers)

    def subscribe(self, topics: list[str]) -> None:
        """Join the group that the settings name."""
        [self._topic] = topics
        self._call(self._java.subscribe, self._gateway.list(topics))

    def poll(self, timeout: float) -> list[ReadMessage]:
        """Return the next records. In implicit mode, also accept the records of the last poll."""
        records = self._call(self._java.poll, self._gateway.duration(timeout))
        text = "[]" if records.isEmpty() else self._gateway.text_of_all(records)
        self._gateway.forget(records)
        return parse(text)

    def acknowledge(self, message: ReadMessage, ack_type: AcknowledgeType) -> None:
        """Acknowledge a record. The next poll or ``commit_sync`` sends the acknowledgement.

        Java requires a ``ConsumerRecord``, but uses only its topic, partition and offset. So the
        record here has no key and no value.
        """
        place = self._topic, message.partition(), message.offset()
        record = self._gateway.share_record(*place, None, None)
        if ack_type not in self._kinds:
            self._kinds[ack_type] = getattr(self._gateway.acknowledge_types, ack_type.name)
        try:
            self._call(self._java.acknowledge, record, self._kinds[ack_type])
        finally:
            self._gateway.forget(record)

    def commit_sync(self, timeout: float) -> None:
        """Send the acknowledgements, and wait until the callback has the responses."""
        answer = self._call(self._java.commitSync, self._gateway.duration(timeout))
        self._gateway.forget(answer)

    def close(self) -> None:
        """Send the acknowledgements, leave the group, and close the consumer."""
        try:
            self._call(self._java.close, self._gateway.duration(_CLOSES_S))
        finally:
            self._forget()

    def drop(self) -> None:
        """Close the consumer as in a crash: send no request, and end its thread and connections.

        ``close`` would wait for responses that never arrive. Java has no other method for this, so
        this method uses private fields.
        """
        with contextlib.suppress(Py4JError):  # the JVM or the consumer has already ended
            thread = self._gateway.hidden(self._java, *_THREAD)
            self._gateway.hidden(thread, *_CONNECTIONS).initiateClose()
            thread.close(self._gateway.duration(0))
        self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(Py4JError):
            self._gateway.forget(self._java, *self._kinds.values())
        if self._answers is not None:
            self._gateway.forget_proxy(self._answers)

    def _call(self, method: Callable[..., Any], *words: Any) -> Any:  # noqa: ANN401 - of Java
        """Call Java. If a callback raised an exception, raise it."""
        try:
            return method(*words)
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised
        finally:
            if self._answers is not None:
                self._answers.raise_again()


class ShareAnswers(JavaCallback):
    """A member's callback for the results of acknowledgements. Java calls it."""

    Java = interfaces("org.apache.kafka.clients.consumer.AcknowledgementCommitCallback")

    def __init__(self, answered: Callable[[int, list[int], Any], None]) -> None:
        super().__init__()
        self._answered = answered

    def onComplete(self, offsets: Any, exception: Any) -> None:  # noqa: N802, ANN401 - of Java
        """Report the results of the acknowledgements of these offsets."""
        self.serve(lambda: self._tell(offsets.toString(), exception))

    def _tell(self, offsets: str, exception: Any) -> None:  # noqa: ANN401 - of Java
        for partition, numbers in _OFFSETS.findall(offsets):
            self._answered(int(partition), [*map(int, numbers.split(", "))], exception)

"""Members of share groups by Kafka's own Java client: ``KafkaShareConsumer``.

Java tells what became of acknowledgements by a callback, within a poll. It is made of JDK classes
by method handles and puts what it is given into a queue, which Python empties after each call: no
thread of Java ever waits for one of Python's. An answer is so observed later than it came.
"""

import json
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition
from py4j.protocol import Py4JError

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries import java_settings
from highwater.harness.clients.libraries.java_gateway import KafkaGateway
from highwater.harness.clients.libraries.sharing.java_records import (
    JavaRecord,
    RecordFormat,
    RecordReader,
)
from highwater.harness.clients.libraries.sharing.share_interfaces import OnAcknowledged

_NETWORK: Final = (
    "delegate",
    "applicationEventHandler",
    "networkThread",
    "networkClientDelegate",
    "client",
)
"""Where a ``KafkaShareConsumer`` has the client of its connections."""

_CALLBACK: Final = "org.apache.kafka.clients.consumer.AcknowledgementCommitCallback"


class JavaShareLibrary:
    """Java's members of share groups, in one JVM."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._format = RecordFormat(gateway.jvm, gateway.new_array, shared=True)
        self._add = _callbacks(gateway)

    def share_consumer(self, settings: Settings) -> "JavaShareConsumer":
        """Open a member."""
        return JavaShareConsumer(self._gateway, settings, self._format.reader(), self._add)


class JavaShareConsumer:
    """A ``KafkaShareConsumer``. For one thread; callbacks come from ``poll`` and ``commit_sync``.

    Args:
        add: of ``_callbacks``.
    """

    def __init__(
        self,
        gateway: KafkaGateway,
        settings: Settings,
        reader: RecordReader,
        add: Any,  # noqa: ANN401 - of Java
    ) -> None:
        self._gateway = gateway
        self._reader = reader
        self._add = add
        self._topic = ""
        self._answers: Any = None
        self._callback: OnAcknowledged | None = None
        clients = gateway.jvm.org.apache.kafka.clients.consumer
        ours = java_settings.share_consumer(settings)
        self._java = gateway.client(clients.KafkaShareConsumer, "share consumer", ours)
        self._record = clients.ConsumerRecord
        self._types = clients.AcknowledgeType

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Have the answers to acknowledgements told."""
        java = self._gateway.jvm.java
        self._answers = java.util.concurrent.ConcurrentLinkedQueue()
        self._callback = callback
        kind = java.lang.Class.forName(_CALLBACK)
        proxies = java.lang.invoke.MethodHandleProxies
        self._java.setAcknowledgementCommitCallback(
            proxies.asInterfaceInstance(kind, self._add.bindTo(self._answers))
        )

    def subscribe(self, topics: list[str]) -> None:
        """Join the group of the settings."""
        [self._topic] = topics
        self._java.subscribe(self._gateway.jvm.java.util.Set.of(self._topic))

    def poll(self, timeout: float) -> list[JavaRecord]:
        """Return the next records; without explicit acknowledgement the last ones are accepted."""
        try:
            records = self._java.poll(self._gateway.duration(timeout))
            self._serve()
            given = self._reader.read(records)
            self._gateway.forget(records)
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised
        return given

    def acknowledge(self, message: JavaRecord, ack_type: AcknowledgeType) -> None:
        """Say what becomes of a record; brokers are told by the next poll, or ``commit_sync``.

        Java wants the record, and looks at its place alone. (It takes places since 4.2, but only of
        records that it could not read.)
        """
        record = self._record(self._topic, message.partition(), message.offset(), None, None)
        try:
            self._java.acknowledge(record, getattr(self._types, ack_type.name))
            self._gateway.forget(record)
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised

    def commit_sync(self, timeout: float) -> None:
        """Tell brokers what became of records, and wait for their answers.

        The callback gets them, too.
        """
        try:
            self._gateway.forget(self._java.commitSync(self._gateway.duration(timeout)))
            self._serve()
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised

    def close(self) -> None:
        """Send what was acknowledged, leave the group, and end."""
        try:
            self._java.close()
            self._serve()
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised

    def drop(self) -> None:
        """End as by a crash: its connections end first, and nobody is told.

        Java has no such call, so the client of its connections is taken from where it hides it.
        """
        network = self._gateway.hidden(self._java, *_NETWORK)
        try:
            network.initiateClose()
            self._java.close(self._gateway.duration(0))
        except Py4JError as raised:
            self._gateway.refusal(raised)

    def _serve(self) -> None:
        """Tell the answers that have come."""
        if self._callback is None:
            return
        while (answer := self._answers.poll()) is not None:
            raised = answer.getValue()
            error = None if raised is None else KafkaException(self._gateway.error_of(raised))
            offsets = answer.getKey()
            for place in offsets.keySet():
                partition = TopicPartition(self._topic, place.partition())
                self._callback({partition: json.loads(offsets.get(place).toString())}, error)
            self._gateway.forget(answer)


def _callbacks(gateway: KafkaGateway) -> Any:  # noqa: ANN401 - of Java
    """Return what adds a pair of two arguments to a ``Queue``, a method handle of all three."""
    java = gateway.jvm.java.lang
    handles, method_type = java.invoke.MethodHandles, java.invoke.MethodType
    anything = java.Class.forName("java.lang.Object")
    two = gateway.new_array(java.Class, 2)
    two[0] = two[1] = anything
    lookup = handles.publicLookup()
    kind = java.Class.forName("java.util.AbstractMap$SimpleImmutableEntry")
    pair = lookup.findConstructor(kind, method_type.methodType(java.Void.TYPE, two))
    pair = pair.asType(method_type.methodType(anything, two))
    queue, adds = java.Class.forName("java.util.Queue"), java.Boolean.TYPE
    add = lookup.findVirtual(queue, "add", method_type.methodType(adds, anything))
    return handles.collectArguments(add, 1, pair)

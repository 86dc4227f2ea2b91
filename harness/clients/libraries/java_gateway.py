"""A Py4J gateway to a JVM that has Kafka's clients. The gateway needs no Java code of our own.

A call is a request and a response over loopback. An object that a call returns stays in the JVM
until the harness releases it. Python's garbage collector does not release it, because the collector
may run after the JVM's end.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError, get_return_value, is_error

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.libraries.java_errors import JavaError

HOST: Final = "127.0.0.1"
_CLIENTS: Final = "org.apache.kafka.clients.producer"


_FORGOTTEN_AT_ONCE: Final = 100

FENCES_MEMBERS: Final = (2, 5)
"""From this release on, a producer sends the group member's metadata with offsets (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMembership:
    """A consumer's group metadata. A producer sends it with the consumer's offsets."""

    group: str
    generation: int
    member: str


class KafkaGateway:
    """A gateway to one JVM. Threads can share it: each thread has its own connections.

    Args:
        port: the port on which the JVM listens.
        token: the token that the JVM requires from every client.
        release: the release of the JVM's Kafka clients.
    """

    def __init__(self, port: int, token: str, release: tuple[int, ...]) -> None:
        self.release = release
        self.token = token
        self._gateway = self._connected(port)
        jvm: Any = self._gateway.jvm
        self._properties = jvm.java.util.Properties
        self._milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        clients = jvm.org.apache.kafka.clients.producer
        self._producer = clients.KafkaProducer
        self.record = clients.ProducerRecord
        consumers = jvm.org.apache.kafka.clients.consumer
        self._offset = consumers.OffsetAndMetadata
        self.partition = jvm.org.apache.kafka.common.TopicPartition
        self.map = jvm.java.util.HashMap
        self._metadata = consumers.ConsumerGroupMetadata
        self._optional = jvm.java.util.Optional
        self._errors = jvm.org.apache.kafka.common.protocol.Errors
        self._duration = jvm.java.time.Duration
        self._words = jvm.java.util.StringTokenizer
        self._collections = jvm.java.util.Collections
        self._bindings = self._gateway.java_gateway_server.getGateway().getBindings().keySet()
        self._forgotten: list[str] = []
        self._forgetting = threading.Lock()

    def _connected(self, port: int) -> JavaGateway:
        parameters = GatewayParameters(
            address=HOST, port=port, auth_token=self.token, enable_memory_management=False
        )
        gateway = JavaGateway(gateway_parameters=parameters)
        gateway.set_gateway_client(RaisingConnections(gateway_parameters=parameters))
        return gateway

    def producer(self, settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - of Java
        """Return a new ``KafkaProducer``.

        Raises:
            HarnessError: Java refuses the settings.
        """
        return self.opened("producer", self._producer, settings)

    def opened(self, what: str, kind: Any, settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - of Java
        """Return a new object of the Java class ``kind``; ``what`` is its name in errors.

        Raises:
            HarnessError: Java refuses the settings.
        """
        properties = self._properties()
        for name, value in settings.items():
            properties.setProperty(name, value)
        try:
            return kind(properties)
        except Py4JJavaError as raised:
            error = self.error_of(raised.java_exception)
            raise HarnessError(f"Java refuses the settings of this {what}: {error}") from raised
        finally:
            self.forget(properties)

    def offsets(self, places: Iterable[TopicPartition]) -> Any:  # noqa: ANN401 - of Java
        """Return offsets as a Java ``Map``."""
        offsets = self.map()
        for place in places:
            partition = self.partition(place.topic, place.partition)
            offset = self._offset(place.offset)
            offsets.put(partition, offset)
            self.forget(partition, offset)
        return offsets

    def membership(self, group: JavaMembership) -> Any:  # noqa: ANN401 - of Java
        """Return ``group`` for ``sendOffsetsToTransaction``: before 2.5 only its name (KIP-447)."""
        if self.release < FENCES_MEMBERS:
            return group.group
        words = group.group, group.generation, group.member
        return self._metadata(*words, self._optional.empty())

    def close_now(self, producer: Any) -> None:  # noqa: ANN401 - of Java
        """Close a producer at once, without a request to a coordinator."""
        try:
            if self.release >= (2, 0):
                producer.close(self._duration.ofMillis(0))
            else:
                producer.close(0, self._milliseconds)
        except Py4JError:  # the JVM or the producer has already ended
            return

    def error_of(self, exception: Any, *, queued: bool = True) -> JavaError:  # noqa: ANN401 - of Java
        """Return a Java exception as a ``JavaError``; use the cause of an ExecutionException."""
        classes = tuple(_classes(exception))
        if classes[0] == "ExecutionException" and exception.getCause() is not None:
            return self.error_of(exception.getCause(), queued=queued)
        number = self._errors.forException(exception).code() if "ApiException" in classes else -1
        message = str(exception.getMessage() or "")
        return JavaError(classes=classes, message=message, number=number, queued=queued)

    def refusal(self, raised: Py4JError, *, queued: bool = True) -> KafkaException:
        """Return a call's exception as a ``KafkaException`` with a ``JavaError``.

        Raises:
            HarnessError: the JVM has ended.
        """
        if not isinstance(raised, Py4JJavaError):
            raise HarnessError(
                f"the JVM of the Java clients does not respond: {raised}",
                hint="See logs/java-clients.log in the run's folder.",
            ) from raised
        return KafkaException(self.error_of(raised.java_exception, queued=queued))

    def serve_callbacks(self) -> int:
        """Start the server of a ``CallbackGateway`` in the JVM; return its port."""
        builder: Any = self._gateway.jvm.py4j.ClientServer.ClientServerBuilder()
        options = builder.javaPort(0).authToken(self.token).enableMemoryManagement(False)
        server = options.build()
        server.startServer()
        return int(server.getJavaServer().getListeningPort())

    def has_class(self, name: str) -> bool:
        """Return whether the JVM has a class with this full name."""
        try:
            self._gateway.jvm.java.lang.Class.forName(name)
        except Py4JJavaError:
            return False
        return True

    def forget(self, *objects: Any) -> None:  # noqa: ANN401 - of Java
        """Release objects in the JVM. One request releases many objects, so it is sent later."""
        with self._forgetting:
            self._forgotten += [reference._get_object_id() for reference in objects]  # noqa: SLF001
            if len(self._forgotten) < _FORGOTTEN_AT_ONCE:
                return
            names, self._forgotten = self._forgotten, []
        words = self._words(" ".join(names))
        listed = self._collections.list(words)
        self._bindings.removeAll(listed)
        self._gateway.detach(words)
        self._gateway.detach(listed)

    def close(self) -> None:
        """Close the connections."""
        self._gateway.close()


class RaisingConnections(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """Connections to the JVM that raise errors of calls without PySpark's code.

    PySpark replaces Py4J's function that raises errors, for all gateways of this process. PySpark's
    function would look for our exceptions in Spark's JVM.
    """

    def send_command(
        self,
        command: str,
        retry: bool = True,
        binary: bool = False,
    ) -> Any:  # noqa: ANN401 - of py4j
        """Send a command. If Java threw an exception, raise an error."""
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0]:
            get_return_value(answer, self, *command.split("\n")[1:3])
        return answer


def _classes(exception: Any) -> Iterator[str]:  # noqa: ANN401 - of Java
    kind = exception.getClass()
    while kind is not None and kind.getName() != "java.lang.Object":
        yield kind.getSimpleName()
        kind = kind.getSuperclass()

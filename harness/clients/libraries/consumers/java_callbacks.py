"""A gateway to a JVM, in which Java calls Python functions in the thread that called Java.

``KafkaConsumer`` is not thread-safe. It calls its listeners within a poll, in the polling thread.
With Py4J's ``ClientServer``, such a callback arrives in the Python thread that called ``poll``. A
call of Java from the callback arrives in the same Java thread. The ``GatewayServer`` in the JVM
starts the ``ClientServer``, so no Java code of our own is needed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from py4j.clientserver import ClientServer, JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import PythonProxyPool

from highwater.harness.clients.libraries.java_gateway import (
    HOST,
    KafkaGateway,
    RaisingConnections,
)

DURATIONS: Final = (2, 0)
"""The first release in which a consumer's blocking calls have timeouts (KIP-266)."""

_TO_MEMBERSHIP: Final = (
    *("delegate", "applicationEventHandler", "networkThread", "requestManagers"),
)
_CALLED_SO: Final = (4, 0)
"""From this release on, the class for a consumer's membership has another name."""

_OPTIONS: Final = "org.apache.kafka.clients.consumer.CloseOptions"
_CLOSES_WITHIN: Final = (0, 10, 2)


def interfaces(*names: str) -> type:
    """Return a class ``Java`` for the attribute ``Java`` of a Python class.

    From this attribute, Py4J reads the names of the Java interfaces that the Python class has.
    """
    return type("Java", (), {"implements": list(names)})


class JavaCallback:
    """A Python object that Java calls.

    Java cannot pass on a Python exception. So this class stores it, and ``raise_again`` raises it
    after Java has returned.

    Attributes:
        deaf: whether the object ignores all later calls from Java.
    """

    def __init__(self) -> None:
        self.deaf = False
        self._raised: BaseException | None = None

    def raise_again(self) -> None:
        """Raise the exception that a callback has raised, if any."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def serve(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` and store its exception. Do nothing if this object is ``deaf``."""
        if self.deaf:
            return
        try:
            callback()
        except BaseException as raised:  # noqa: BLE001 - ``raise_again`` raises it
            self._raised = self._raised or raised


class CallbackGateway(KafkaGateway):
    """A gateway to the JVM of another gateway, for consumers, which call back.

    Args:
        other: the first gateway, which starts the server for this gateway.
    """

    def __init__(self, other: KafkaGateway) -> None:
        super().__init__(other.serve_callbacks(), other.token, other.release)
        jvm: Any = self._gateway.jvm
        self._consumers = jvm.org.apache.kafka.clients.consumer
        self._consumer = self._consumers.KafkaConsumer
        self.string_deserializer = jvm.org.apache.kafka.common.serialization.StringDeserializer
        self.share_record = self._consumers.ConsumerRecord
        self.acknowledge_types = self._consumers.AcknowledgeType
        self._set = jvm.java.util.HashSet
        self._list = jvm.java.util.ArrayList
        self._arrays = jvm.java.util.Arrays
        self._streams = jvm.java.util.stream.StreamSupport

    def _connected(self, port: int) -> ClientServer:
        java = JavaParameters(
            address=HOST, port=port, auth_token=self.token, enable_memory_management=False
        )
        return _InThread(java, PythonParameters(eager_load=False))

    def consumer(self, settings: Mapping[str, str], values: object = None) -> Any:  # noqa: ANN401 - of Java
        """Return a new ``KafkaConsumer``.

        Args:
            values: a deserializer for values; None for the deserializer in the settings.

        Raises:
            HarnessError: Java refuses the settings.
        """
        given = () if values is None else (self.string_deserializer(), values)
        return self.opened("consumer", lambda words: self._consumer(words, *given), settings)

    def share_consumer(self, settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - of Java
        """Return a new ``KafkaShareConsumer``.

        Raises:
            HarnessError: Java refuses the settings.
        """
        return self.opened("share consumer", self._consumers.KafkaShareConsumer, settings)

    def close_within(self, consumer: Any, limit_s: float) -> None:  # noqa: ANN401 - of Java
        """Close a consumer within a time limit."""
        if self.release >= DURATIONS:
            consumer.close(self.duration(limit_s))
        elif self.release >= _CLOSES_WITHIN:
            consumer.close(int(limit_s * 1000), self._milliseconds)
        else:
            consumer.close()

    def close_as_member(self, consumer: Any) -> None:  # noqa: ANN401 - of Java
        """Close a consumer at once. The group keeps it as a member until a timeout."""
        consumer.close(self._stays())

    def silence(self, consumer: Any) -> None:  # noqa: ANN401 - of Java
        """Stop the heartbeats of a member of a KIP-848 group.

        A closed member leaves the group with its next heartbeat, even with the option to stay
        (``AbstractHeartbeatRequestManager.poll``, 4.1 to 4.4). A member with a fatal error sends no
        heartbeat. So this method sets the fatal state, by reflection, because no public method
        does.
        """
        manager = "consumerMembershipManager" if self.release >= _CALLED_SO else "membershipManager"
        self.hidden(consumer, *_TO_MEMBERSHIP, manager).get().transitionToFatal()

    def hidden(self, owner: Any, *names: str) -> Any:  # noqa: ANN401 - of Java
        """Return the value of a private field: ``hidden(owner, "a", "b")`` is ``owner.a.b``."""
        for name in names:
            kind = owner.getClass()
            while name not in {field.getName() for field in kind.getDeclaredFields()}:
                kind = kind.getSuperclass()
            field = kind.getDeclaredField(name)
            field.setAccessible(True)
            owner = field.get(owner)
        return owner

    def _stays(self) -> Any:  # noqa: ANN401 - of Java
        """Return the option ``CloseOptions`` to stay in the group, made by reflection.

        Py4J cannot choose between a static and a non-static method with the same name.
        """
        jvm: Any = self._gateway.jvm
        find = jvm.java.lang.Class.forName
        kinds = self._gateway.new_array(jvm.java.lang.Class, 1)
        kinds[0] = find(f"{_OPTIONS}$GroupMembershipOperation")
        words = self._gateway.new_array(jvm.java.lang.Object, 1)
        words[0] = self._consumers.CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP
        made = find(_OPTIONS).getMethod("groupMembershipOperation", kinds).invoke(None, words)
        return made.withTimeout(self.duration(0))

    def set(self, items: Iterable[Any]) -> Any:  # noqa: ANN401 - of Java
        """Return a ``HashSet``."""
        return self._set(self.list(items))

    def list(self, items: Iterable[Any]) -> Any:  # noqa: ANN401 - of Java
        """Return an ``ArrayList``."""
        made = self._list()
        for item in items:
            made.add(item)
        return made

    def duration(self, seconds: float) -> Any:  # noqa: ANN401 - of Java
        """Return a ``Duration``."""
        return self._duration.ofMillis(int(seconds * 1000))

    def text_of_all(self, iterable: Any) -> str:  # noqa: ANN401 - of Java
        """Return the text of ``Arrays.toString`` for all items of a Java ``Iterable``."""
        spliterator = iterable.spliterator()
        stream = self._streams.stream(spliterator, False)
        array = stream.toArray()
        text = str(self._arrays.toString(array))
        self.forget(spliterator, stream, array)
        return text

    def forget_proxy(self, proxy: object) -> None:
        """Remove a Python object from the objects that Java may call."""
        self._gateway.gateway_property.pool.forget(proxy)


class _InThread(ClientServer):  # type: ignore[misc]  # py4j has no types
    def _create_gateway_client(self) -> "_Connections":
        return _Connections(self.java_parameters, self.python_parameters)

    def _create_gateway_property(self) -> Any:  # noqa: ANN401 - of py4j
        made = super()._create_gateway_property()
        made.pool = _Proxies()
        return made


class _Connections(RaisingConnections, JavaClient):  # type: ignore[misc]  # py4j has no types
    """Connections to the JVM, one for each thread."""


class _Proxies(PythonProxyPool):  # type: ignore[misc]  # py4j has no types
    """The Python objects that Java calls, each stored once. Py4J stores an object at each use."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, str] = {}

    def put(self, object: Any, force_id: str | None = None) -> str:  # noqa: A002, ANN401 - of py4j
        with self.lock:
            if id(object) not in self._names:
                self._names[id(object)] = super().put(object, force_id)
            return self._names[id(object)]

    def forget(self, proxy: object) -> None:
        with self.lock:
            name = self._names.pop(id(proxy), None)
            if name is not None:
                del self[name]

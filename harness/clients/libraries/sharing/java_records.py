"""Records of Java, brought to Python a whole poll at a time.

A call for each field of each record costs more than all else that a reader does. So the JVM writes
the fields of one record after the other into one array of bytes: method handles of
``ConsumerRecord`` and ``DataOutputStream``, which the JVM puts together to a ``Consumer`` for
``forEach``.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from highwater.harness.clients.libraries.interfaces import ClientError

_RECORD: Final = "org.apache.kafka.clients.consumer.ConsumerRecord"
_OPTIONAL: Final = "java.util.Optional"
_FIXED: Final = struct.Struct(">iqqiiii")
_NONE: Final = -1
_CREATED: Final = 1
"""The kind of a timestamp that a producer gave, as confluent-kafka numbers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRecord:
    """A ``ConsumerRecord``, behind the methods of confluent-kafka's messages."""

    at: int
    place: int
    created_ms: int
    epoch: int | None
    deliveries: int | None
    name: bytes | None
    content: bytes | None

    def error(self) -> ClientError | None:
        """Return None: Java raises errors."""
        return None

    def partition(self) -> int:
        """Return its partition."""
        return self.at

    def offset(self) -> int:
        """Return its offset."""
        return self.place

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended it; None where the client has none."""
        return self.epoch

    def delivery_count(self) -> int | None:
        """Return how often a share group gave it to members, this time included."""
        return self.deliveries

    def key(self) -> bytes | None:
        """Return its key."""
        return self.name

    def value(self) -> bytes | None:
        """Return its value."""
        return self.content

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its timestamp, and the timestamp in milliseconds."""
        return _CREATED, self.created_ms


class RecordFormat:
    """The way in which a JVM writes records. Made once; safe to share.

    Args:
        jvm: of the gateway.
        new_array: of the gateway.
        shared: whether records have a delivery count, as those of share groups.
    """

    def __init__(self, jvm: Any, new_array: Any, *, shared: bool) -> None:  # noqa: ANN401 - of py4j
        self._jvm = jvm
        self._new_array = new_array
        self._handles = jvm.java.lang.invoke.MethodHandles
        self._lookup = self._handles.publicLookup()
        self._record = self._class(_RECORD)
        self._any = self._class("java.lang.Object")
        self._write_record = self._writer(shared=shared)
        self._kind = self._class("java.util.function.Consumer")
        self._proxies = jvm.java.lang.invoke.MethodHandleProxies

    def reader(self) -> "RecordReader":
        """Return a reader for one consumer."""
        written = self._jvm.java.io.ByteArrayOutputStream()
        stream = self._jvm.java.io.DataOutputStream(written)
        write = self._write_record.bindTo(stream)
        return RecordReader(written, self._proxies.asInterfaceInstance(self._kind, write))

    def _writer(self, *, shared: bool) -> Any:  # noqa: ANN401 - of Java
        """Return what writes a record into a stream: its fields, in the order of ``_FIXED``."""
        java = self._jvm.java.lang
        whole, long, data = java.Integer.TYPE, java.Long.TYPE, self._class("[B")
        unknown = self._handles.constant(whole, _NONE)
        none = self._handles.dropArguments(unknown, 0, self._array(self._record))
        *fields, write = [
            self._write("writeInt", whole, self._get("partition", whole)),
            self._write("writeLong", long, self._get("offset", long)),
            self._write("writeLong", long, self._get("timestamp", long)),
            self._write("writeInt", whole, self._number("leaderEpoch")),
            self._write("writeInt", whole, self._number("deliveryCount") if shared else none),
            self._write("writeInt", whole, self._get("serializedKeySize", whole)),
            self._write("writeInt", whole, self._get("serializedValueSize", whole)),
            self._write("write", data, self._content("key")),
            self._write("write", data, self._content("value")),
        ]
        for field in reversed(fields):
            write = self._handles.foldArguments(write, field)
        return write

    def _get(self, name: str, kind: Any) -> Any:  # noqa: ANN401 - of Java
        return self._lookup.findVirtual(self._record, name, self._type(kind))

    def _number(self, name: str) -> Any:  # noqa: ANN401 - of Java
        """Return the number in an ``Optional`` of a record, or -1."""
        optional = self._class("java.util.Optional")
        or_else = self._lookup.findVirtual(optional, "orElse", self._type(self._any, self._any))
        or_none = self._handles.insertArguments(or_else, 1, self._array(_NONE, of="Object"))
        number = self._handles.filterReturnValue(self._get(name, optional), or_none)
        return number.asType(self._type(self._jvm.java.lang.Integer.TYPE, self._record))

    def _content(self, name: str) -> Any:  # noqa: ANN401 - of Java
        """Return the bytes of a record's key or value, and no bytes where it is null."""
        objects = self._class("java.util.Objects")
        two = self._type(self._any, self._any, self._any)
        or_else = self._lookup.findStatic(objects, "requireNonNullElse", two)
        or_empty = self._handles.insertArguments(or_else, 1, self._array(b"", of="Object"))
        content = self._handles.filterReturnValue(self._get(name, self._any), or_empty)
        return content.asType(self._type(self._class("[B"), self._record))

    def _write(self, method: str, kind: Any, field: Any) -> Any:  # noqa: ANN401 - of Java
        """Return what writes a field of a record into a stream."""
        stream = self._class("java.io.DataOutputStream")
        void = self._jvm.java.lang.Void.TYPE
        write = self._lookup.findVirtual(stream, method, self._type(void, kind))
        return self._handles.filterArguments(write, 1, self._array(field, of="invoke.MethodHandle"))

    def _class(self, name: str) -> Any:  # noqa: ANN401 - of Java
        return self._jvm.java.lang.Class.forName(name)

    def _type(self, result: Any, *arguments: Any) -> Any:  # noqa: ANN401 - of Java
        method_type = self._jvm.java.lang.invoke.MethodType
        return method_type.methodType(result, self._array(*arguments))

    def _array(self, *items: Any, of: str = "Class") -> Any:  # noqa: ANN401 - of Java
        kind = self._jvm.java.lang
        for part in of.split("."):
            kind = getattr(kind, part)
        array = self._new_array(kind, len(items))
        for number, item in enumerate(items):
            array[number] = item
        return array


class RecordReader:
    """Reads what the polls of one consumer return, for its thread.

    Args:
        written: a ``ByteArrayOutputStream``.
        write: a ``Consumer`` that writes a record into it.
    """

    def __init__(self, written: Any, write: Any) -> None:  # noqa: ANN401 - of Java
        self._written = written
        self._write = write

    def read(self, records: Any) -> list[JavaRecord]:  # noqa: ANN401 - of Java
        """Return the records of an ``Iterable``."""
        self._written.reset()
        records.forEach(self._write)
        return list(_decode(self._written.toByteArray()))


def _decode(data: bytes) -> Iterator[JavaRecord]:
    at = 0
    while at < len(data):
        partition, offset, created_ms, epoch, deliveries, *sizes = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        parts = []
        for size in sizes:
            parts.append(None if size < 0 else data[at : at + size])
            at += max(0, size)
        yield JavaRecord(
            at=partition,
            place=offset,
            created_ms=created_ms,
            epoch=None if epoch == _NONE else epoch,
            deliveries=None if deliveries == _NONE else deliveries,
            name=parts[0],
            content=parts[1],
        )

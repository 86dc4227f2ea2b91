"""Decode the records of KRaft's metadata log that contain decisions (KIP-500, KIP-631).

A record's value is a frame version, the kind, the kind's version, and fields in the flexible format
(KIP-482). Kinds and versions are those of Kafka 3.3 to 4.4 (``metadata`` module of Kafka).
A newer version of a kind may only add fields that are tagged or at the end; these are skipped.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

TOPIC: Final = 2
"""The ``ConfigRecord.resource_type`` for topics (ConfigResource.Type)."""

UNCHANGED: Final = -2
"""The value of ``PartitionChangeRecord.leader`` if leader and epoch do not change."""

_FRAME: Final = 1
_MORE: Final = 0x80
_VARINT_BYTES: Final = 5
_ISR_TAG, _LEADER_TAG, _REPLICAS_TAG = 0, 1, 2
_UUID_BYTES: Final = 16
_T = TypeVar("_T")


class MetadataRecordError(ValueError):
    """The checksum of a record is sound, but its content makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created."""

    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is removed, with all its partitions."""

    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created, or a snapshot contains this state of the partition."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changes; a None field does not change. A leader here starts a new epoch."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a resource; if the value is None, the setting returns to its default."""

    resource_type: int
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The finalized level of a feature (KIP-584)."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class BeginTransactionRecord:
    """A transaction begins: its records take effect together at its end (KIP-868)."""


@dataclass(frozen=True, slots=True)
class EndTransactionRecord:
    """The records of the transaction take effect."""


@dataclass(frozen=True, slots=True)
class AbortTransactionRecord:
    """The records of the transaction never take effect."""


MetadataRecord: TypeAlias = (
    TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | FeatureLevelRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
)


@dataclass(slots=True)
class _Fields:
    """A reader of a record's fields, from the position ``at`` on; every read moves it forward."""

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise MetadataRecordError(
                f"{size} bytes are to follow byte {self.at}, but the record has {len(self.data)}"
            )
        part = self.data[self.at : end]
        self.at = end
        return part

    def varint(self) -> int:
        """Return an unsigned varint of at most 32 bits."""
        value = 0
        for place in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & ~_MORE) << 7 * place
            if byte < _MORE:
                return value
        raise MetadataRecordError(f"a number before byte {self.at} has no end")

    def number(self, layout: str) -> int:
        """Return a big-endian integer."""
        (value,) = struct.unpack(f">{layout}", self.take(struct.calcsize(layout)))
        return int(value)

    def uuid(self) -> bytes:
        """Return the bytes of an id."""
        return self.take(_UUID_BYTES)

    def nullable_string(self) -> str | None:
        """Return a compact string, or None for null."""
        size = self.varint()
        try:
            return self.take(size - 1).decode("utf-8") if size else None
        except UnicodeDecodeError as error:
            raise MetadataRecordError(f"text before byte {self.at} is no UTF-8") from error

    def string(self) -> str:
        """Return a compact string."""
        return self._required(self.nullable_string())

    def nullable_brokers(self) -> tuple[int, ...] | None:
        """Return a compact array of broker ids, or None for null."""
        size = self.varint()
        return tuple(self.number("i") for _ in range(size - 1)) if size else None

    def brokers(self) -> tuple[int, ...]:
        """Return a compact array of broker ids."""
        return self._required(self.nullable_brokers())

    def skip_uuids(self) -> None:
        """Skip a compact array of ids."""
        self.take(_UUID_BYTES * max(0, self.varint() - 1))

    def read_tags(self) -> Mapping[int, "_Fields"]:
        """Return the tagged fields at the end of a record, by tag."""
        tags = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            tags[tag] = _Fields(self.take(size))
        return tags

    def _required(self, value: _T | None) -> _T:
        if value is None:
            raise MetadataRecordError(f"a field before byte {self.at} is null")
        return value


def _partition(fields: _Fields, version: int) -> PartitionRecord:
    partition, topic_id = fields.number("i"), fields.uuid()
    replicas, isr = fields.brokers(), fields.brokers()
    fields.brokers()  # replicas to be removed
    fields.brokers()  # replicas to be added
    leader, epoch = fields.number("i"), fields.number("i")
    fields.number("i")  # the partition's own epoch
    if version:
        fields.skip_uuids()  # the log directory of each replica (KIP-858)
    fields.read_tags()
    return PartitionRecord(
        topic_id=topic_id,
        partition=partition,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
    )


def _partition_change(fields: _Fields, _: int) -> PartitionChangeRecord:
    partition, topic_id = fields.number("i"), fields.uuid()
    tags = fields.read_tags()
    leader = tags[_LEADER_TAG].number("i") if _LEADER_TAG in tags else UNCHANGED
    return PartitionChangeRecord(
        topic_id=topic_id,
        partition=partition,
        replicas=tags[_REPLICAS_TAG].nullable_brokers() if _REPLICAS_TAG in tags else None,
        isr=tags[_ISR_TAG].nullable_brokers() if _ISR_TAG in tags else None,
        leader=leader,
    )


def _topic(fields: _Fields, _: int) -> TopicRecord:
    return TopicRecord(name=fields.string(), topic_id=fields.uuid())


def _config(fields: _Fields, _: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=fields.number("b"),
        resource=fields.string(),
        name=fields.string(),
        value=fields.nullable_string(),
    )


def _removed_topic(fields: _Fields, _: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=fields.uuid())


def _feature(fields: _Fields, _: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=fields.string(), level=fields.number("h"))


_READERS: Final[Mapping[int, Callable[[_Fields, int], MetadataRecord]]] = MappingProxyType(
    {
        2: _topic,
        3: _partition,
        4: _config,
        5: _partition_change,
        9: _removed_topic,
        12: _feature,
        23: lambda *_: BeginTransactionRecord(),
        24: lambda *_: EndTransactionRecord(),
        25: lambda *_: AbortTransactionRecord(),
    }
)
_NAMES: Final = MappingProxyType(
    {
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        2: "TopicRecord",
        3: "PartitionRecord",
        4: "ConfigRecord",
        5: "PartitionChangeRecord",
        9: "RemoveTopicRecord",
        12: "FeatureLevelRecord",
        14: "ClientQuotaRecord",
        15: "ProducerIdsRecord",
        17: "BrokerRegistrationChangeRecord",
        20: "NoOpRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
        27: "RegisterControllerRecord",
        28: "ClearElrRecord",
    }
)


def decode(value: bytes) -> MetadataRecord | None:
    """Return a record of the metadata log; None if its kind contains no decision that is checked.

    Raises:
        MetadataRecordError: the value is no metadata record, or is incomplete.
    """
    fields = _Fields(value)
    kind, version = _head(fields)
    read = _READERS.get(kind)
    return None if read is None else read(fields, version)


def voters(value: bytes) -> frozenset[int]:
    """Return the ids in a VotersRecord, a control record of the log (KIP-853).

    Raises:
        MetadataRecordError: the value is no VotersRecord, or is incomplete.
    """
    fields = _Fields(value)
    fields.number("h")  # the record's version
    ids = [_voter(fields) for _ in range(fields.varint() - 1)]
    return frozenset(ids)


def _voter(fields: _Fields) -> int:
    voter = fields.number("i")
    fields.uuid()  # the voter's data directory
    for _ in range(fields.varint() - 1):  # the voter's endpoints: name, host and port
        fields.string(), fields.string(), fields.number("H")
        fields.read_tags()
    fields.number("h"), fields.number("h")  # the versions of KRaft that the voter supports
    fields.read_tags()
    fields.read_tags()
    return voter


def name(value: bytes) -> str:
    """Return Kafka's name for a record's kind, for messages."""
    try:
        kind, _ = _head(_Fields(value))
    except MetadataRecordError:
        return "no record"
    return _NAMES.get(kind, f"record of kind {kind}")


def _head(fields: _Fields) -> tuple[int, int]:
    """Return a record's kind and version."""
    frame = fields.varint()
    if frame != _FRAME:
        raise MetadataRecordError(f"frame version {frame}, which Kafka does not have")
    return fields.varint(), fields.varint()

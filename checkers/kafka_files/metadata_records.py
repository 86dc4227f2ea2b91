"""Decode the controllers' decisions in KRaft's metadata log (KIP-500, KIP-631).

A record's value has a frame version, the kind, the kind's version, and fields in the flexible
format (KIP-482). Kinds and versions are those of Kafka 3.3 to 4.4 (``metadata`` module of Kafka). A
newer version of a kind may only add fields that are tagged or at the end; these are skipped.
"""

import struct
from collections.abc import Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
    UnsignedVarInt32,
)

TOPIC: Final = 2
"""The ``resource_type`` of a topic in a ConfigRecord (ConfigResource.Type)."""

_FRAME: Final = 1
_UUID_BYTES: Final = 16


class MetadataRecordError(ValueError):
    """The content of a metadata record is invalid, although its checksum is correct."""


class MetadataRecord(NamedTuple):
    """A metadata record with a decision of the controller.

    Attributes:
        kind: Kafka's name for the kind of record.
        fields: the values by the names in ``_SCHEMAS``.
    """

    kind: str
    fields: Mapping[str, Any]


class _Uuid:
    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        value = data.read(_UUID_BYTES)
        if len(value) < _UUID_BYTES:
            raise ValueError("the record ends inside a UUID")
        return value


class _Text:
    @classmethod
    def decode(cls, data: BytesIO) -> str:
        value: str | None = CompactString().decode(data)
        if value is None:
            raise ValueError("a string that must not be null is null")
        return value


class _Brokers:
    @classmethod
    def decode(cls, data: BytesIO) -> tuple[int, ...]:
        brokers = CompactArray(Int32).decode(data)
        if brokers is None:
            raise ValueError("an array that must not be null is null")
        return tuple(brokers)


class _Changes:
    """The tagged fields of a PartitionChangeRecord. A value that does not change has no field."""

    _TAGS: Final = {0: ("isr", _Brokers), 1: ("leader", Int32), 2: ("replicas", _Brokers)}

    @classmethod
    def decode(cls, data: BytesIO) -> dict[str, Any]:
        tags = TaggedFields.decode(data)
        return {
            name: kind.decode(BytesIO(tags[tag]))
            for tag, (name, kind) in cls._TAGS.items()
            if tag in tags and tags[tag] != b"\0"  # null also means that the field does not change
        }


_SCHEMAS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "TopicRecord": Schema(("name", _Text), ("topic_id", _Uuid)),
        "RemoveTopicRecord": Schema(("topic_id", _Uuid)),
        "PartitionRecord": Schema(
            ("partition", Int32),
            ("topic_id", _Uuid),
            ("replicas", _Brokers),
            ("isr", _Brokers),
            ("removing_replicas", _Brokers),
            ("adding_replicas", _Brokers),
            ("leader", Int32),
            ("leader_epoch", Int32),
        ),
        "PartitionChangeRecord": Schema(
            ("partition", Int32), ("topic_id", _Uuid), ("changes", _Changes)
        ),
        "ConfigRecord": Schema(
            ("resource_type", Int8),
            ("resource_name", _Text),
            ("name", _Text),
            ("value", CompactString()),  # null: the setting returns to its default
        ),
        "FeatureLevelRecord": Schema(("name", _Text), ("level", Int16)),
        # The records between these two take effect together, or never (KIP-868).
        "BeginTransactionRecord": Schema(),
        "EndTransactionRecord": Schema(),
        "AbortTransactionRecord": Schema(),
    }
)
"""The kinds of records with decisions that are checked. Each kind has its fields up to the last
field that is used."""

_VOTER: Final = Schema(
    ("voter", Int32),
    ("directory_id", _Uuid),
    (
        "endpoints",
        CompactArray(("name", _Text), ("host", _Text), ("port", Int16), ("tags", TaggedFields)),
    ),
    ("versions", Schema(("least", Int16), ("most", Int16), ("tags", TaggedFields))),
    ("tags", TaggedFields),
)
_VOTERS: Final = Schema(("version", Int16), ("voters", CompactArray(_VOTER)))

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
    """Return a record of the metadata log; None if no checker uses this kind of record.

    Raises:
        MetadataRecordError: the value is not a complete metadata record.
    """
    data = BytesIO(value)
    kind = _kind(data)
    schema = _SCHEMAS.get(kind)
    return None if schema is None else MetadataRecord(kind, _read(schema, data, kind))


def voters(value: bytes) -> frozenset[int]:
    """Return the ids of the voting controllers in a VotersRecord, a control record (KIP-853).

    Raises:
        MetadataRecordError: the value is not a complete VotersRecord.
    """
    fields = _read(_VOTERS, BytesIO(value), "VotersRecord")
    return frozenset(voter for voter, *_ in fields["voters"] or ())


def name(value: bytes) -> str:
    """Return Kafka's name for a record's kind, for messages."""
    try:
        return _kind(BytesIO(value))
    except MetadataRecordError:
        return "an invalid record"


def _kind(data: BytesIO) -> str:
    """Read and return a record's kind. The next bytes of ``data`` are then the record's fields."""
    frame = Schema(*((word, UnsignedVarInt32) for word in ("frame", "kind", "version")))
    fields = _read(frame, data, "a record")
    if fields["frame"] != _FRAME:
        raise MetadataRecordError(f"Kafka has no frame version {fields['frame']}")
    return _NAMES.get(fields["kind"], f"record of kind {fields['kind']}")


def _read(schema: Schema, data: BytesIO, kind: str) -> dict[str, Any]:
    try:
        return dict(zip(schema.names, schema.decode(data), strict=True))
    except (ValueError, struct.error) as error:
        raise MetadataRecordError(
            f"{kind} ends early, or is invalid, before byte {data.tell()}"
        ) from error

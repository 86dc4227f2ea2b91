"""librdkafka's producers and readers for records with keys (``record_keys``)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    DeliveredRecord,
    OnDelivery,
    ReadRecord,
)
from highwater.harness.clients.libraries.librdkafka import (
    Librdkafka,
    Producer,
    ReachingProducer,
)
from highwater.harness.runs.history import record_id
from highwater.harness.runs.topics.record_keys import parts, tombstone_name


class KeyedProducer(Producer):
    """A producer that takes a record's key from its name; see ``record_keys``.

    If a name contains no key, the whole name is the key. A tombstone has no value: its timestamp
    and its delivery report contain its name.
    """

    def produce(  # type: ignore[override]  # it has the arguments of ``RecordProducer``
        self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery
    ) -> None:
        """Queue a record; see ``RecordProducer.produce``."""
        name = record_id(value)
        named = parts(name)
        key = (name if named is None else named.key).encode()
        if named is None or not named.deletes:
            super().produce(topic, value, key, partition=partition, on_delivery=on_delivery)
            return
        super().produce(
            topic,
            None,
            key,
            partition=partition,
            on_delivery=partial(_report, on_delivery, value),
            timestamp=named.timestamp_ms,
        )


class NamedProducer(Producer):
    """A producer that uses a record's name as its key.

    Args:
        names: record value to record name.
    """

    def __init__(self, settings: Settings, names: Mapping[bytes, str]) -> None:
        super().__init__(settings)
        self._names = names

    def produce(  # type: ignore[override]  # it has the arguments of ``RecordProducer``
        self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery
    ) -> None:
        """Queue a record; see ``RecordProducer.produce``."""
        key = self._names[value].encode()
        super().produce(topic, value, key, partition=partition, on_delivery=on_delivery)


class _SingleProducer(KeyedProducer, ReachingProducer):
    """A producer for records with keys that can wait for connections to all leaders."""


class _Tombstone(NamedTuple):
    """The delivery report of a tombstone. Its value is the tombstone's name."""

    message: DeliveredRecord
    named: bytes

    def partition(self) -> int | None:
        return self.message.partition()

    def offset(self) -> int | None:
        return self.message.offset()

    def value(self) -> bytes:
        return self.named


def _report(
    on_delivery: OnDelivery, named: bytes, error: ClientError | None, message: DeliveredRecord
) -> None:
    on_delivery(error, _Tombstone(message, named))


class KeyedLibrary(Librdkafka):
    """librdkafka, with producers that give keys to records."""

    def producer(self, settings: Settings) -> KeyedProducer:
        """Open a producer of single records or of transactions."""
        return KeyedProducer(settings)

    def single(self, settings: Settings) -> ReachingProducer:
        """Open a producer of single records."""
        return _SingleProducer(settings)


KEYED: Final = KeyedLibrary()


def read_values(messages: Sequence[ReadRecord]) -> list[bytes | None]:
    """Return the values of messages. For a tombstone, return its name as the value."""
    values = [message.value() for message in messages]
    if None not in values:
        return values
    return [
        _name(message) if value is None else value
        for message, value in zip(messages, values, strict=True)
    ]


def _name(message: ReadRecord) -> bytes | None:
    key = message.key()
    return None if key is None else tombstone_name(key, message.timestamp()[1]).encode()

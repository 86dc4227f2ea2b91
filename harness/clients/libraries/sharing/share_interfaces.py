"""The seam between members of share groups (KIP-932) and the library that they are of.

As in ``interfaces``, methods are those of confluent-kafka.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.interfaces import ReadRecord


class SharedRecord(ReadRecord, Protocol):
    """A record that a member was given, or an error in its place."""

    def delivery_count(self) -> int | None:
        """Return how often it was given to members, this time included."""


OnAcknowledged = Callable[[Mapping[TopicPartition, Iterable[int]], KafkaException | None], None]
"""Called with offsets, and with what went wrong with their acknowledgements."""


class SharingConsumer(Protocol):
    """A member of a share group. For one thread; callbacks come from ``poll`` and ``close``.

    What its methods raise is a ``KafkaException`` whose argument is a ``ClientError``, or an
    ``IllegalStateException`` of confluent-kafka.
    """

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Have the answers to acknowledgements told."""

    def subscribe(self, topics: list[str]) -> None:
        """Join the group of the settings."""

    def poll(self, timeout: float) -> Iterable[SharedRecord]:
        """Return the next records; without explicit acknowledgement the last ones are accepted."""

    def acknowledge(self, message: Any, ack_type: AcknowledgeType) -> None:  # noqa: ANN401 - of ``poll``
        """Say what becomes of a record; brokers are told by the next poll, or ``commit_sync``."""

    def commit_sync(self, timeout: float) -> object:
        """Tell brokers what became of records, and wait for their answers."""

    def close(self) -> None:
        """Send what was acknowledged, leave the group, and end."""

    def drop(self) -> None:
        """End as by a crash: nobody is told. Nobody may refer to it afterwards."""


class ShareLibrary(Protocol):
    """A library of members of share groups. Settings are in librdkafka's names."""

    def share_consumer(self, settings: Settings) -> SharingConsumer:
        """Open a member, of settings of ``client_config.share_consumer``."""

"""A record from a Java or Python consumer, with the methods of librdkafka's records."""

from typing import Final

from confluent_kafka import KafkaError

from highwater.harness.clients.libraries.interfaces import ClientError

CREATE_TIME: Final = 1
APPEND_TIME: Final = 2
NO_TIME: Final = 0
"""librdkafka's numbers for the kinds of timestamps."""


class ReadMessage:
    """A record, or an error that a consumer returns instead of a record."""

    __slots__ = ("_at", "_deliveries", "_epoch", "_error", "_key", "_place", "_time", "_value")

    def __init__(
        self,
        partition: int | None,
        offset: int | None,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        leader_epoch: int | None = None,
        deliveries: int | None = None,
        timestamp: tuple[int, int] = (NO_TIME, 0),
        error: ClientError | None = None,
    ) -> None:
        self._at = partition
        self._place = offset
        self._value = value
        self._key = key
        self._epoch = leader_epoch
        self._deliveries = deliveries
        self._time = timestamp
        self._error = error

    def error(self) -> ClientError | None:
        """Return the error; None for a record."""
        return self._error

    def partition(self) -> int | None:
        """Return the record's partition."""
        return self._at

    def offset(self) -> int | None:
        """Return the record's offset."""
        return self._place

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended the record."""
        return self._epoch

    def delivery_count(self) -> int | None:
        """Return how many times the share group has delivered this record."""
        return self._deliveries

    def key(self) -> bytes | None:
        """Return the record's key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the record's value."""
        return self._value

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the record's timestamp, and the timestamp in milliseconds."""
        return self._time

    def headers(self) -> None:
        """Return None, because these libraries return no headers."""


def stranded(partition: int, position: int, why: str) -> ReadMessage:
    """Return an error in librdkafka's form: ``position`` is not in the partition's log."""
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, why)  # noqa: SLF001 - its public name
    return ReadMessage(partition, position, error=error)

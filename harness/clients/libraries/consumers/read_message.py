"""A record that a consumer of Java or Python has returned, with the methods of librdkafka's."""

from typing import Final

from confluent_kafka import KafkaError

from highwater.harness.clients.libraries.interfaces import ClientError

CREATE_TIME: Final = 1
APPEND_TIME: Final = 2
NO_TIME: Final = 0
"""Kinds of timestamps, in librdkafka's numbers."""


class ReadMessage:
    """A record, or an error in its place."""

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
        """Return its partition."""
        return self._at

    def offset(self) -> int | None:
        """Return its offset."""
        return self._place

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended it."""
        return self._epoch

    def delivery_count(self) -> int | None:
        """Return how often a share group gave it to members, this time included."""
        return self._deliveries

    def key(self) -> bytes | None:
        """Return its key."""
        return self._key

    def value(self) -> bytes | None:
        """Return its value."""
        return self._value

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its timestamp, and the timestamp in milliseconds."""
        return self._time


def stranded(partition: int, position: int, why: str) -> ReadMessage:
    """Return the error of a position that is not in the log, as librdkafka's."""
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, why)  # noqa: SLF001 - its public name
    return ReadMessage(partition, position, error=error)

"""A base class for consumers: it buffers the records of a poll, and ``consume`` returns them."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, Literal, overload

from confluent_kafka import TopicPartition

from highwater.harness.clients.libraries.consumers.read_message import ReadMessage

WAITS_S: Final = 5.0
"""Limit in seconds of a call that waits for brokers."""

CALM_S: Final = 0.05
"""The pause in seconds after an error, because the same error may occur again at once."""


class BufferedConsumer(ABC):
    """A consumer for one topic. Not thread-safe."""

    def __init__(self) -> None:
        self._read: deque[ReadMessage] = deque()

    @abstractmethod
    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets. A group member keeps its other partitions."""

    @abstractmethod
    def _fill(self, most: int, timeout: float) -> None:
        """Poll once, and add the poll's records to ``_read``."""

    @abstractmethod
    def _commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        """Commit offsets of the group. Wait for the response unless ``asynchronous``."""

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, in addition to the others."""
        self.assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Do nothing: a later ``assign`` sets the new offsets."""
        del partitions

    def consume(self, num_messages: int, timeout: float) -> Sequence[ReadMessage]:
        """Return the next records. An error is returned as a message without a record."""
        if not self._read:
            self._fill(num_messages, timeout)
        most = min(num_messages, len(self._read))
        return [self._read.popleft() for _ in range(most)]

    @overload
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit offsets of the group."""
        self._commit(offsets, asynchronous=asynchronous)
        return None if asynchronous else offsets

    def _drop_read(self, partitions: Collection[int]) -> None:
        """Drop buffered records of partitions that are revoked or read from another offset."""
        others = [message for message in self._read if message.partition() not in partitions]
        self._read.clear()
        self._read.extend(others)

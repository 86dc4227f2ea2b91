"""The interface between a run's clients and their library.

Errors, messages, producers and consumers have the methods of confluent-kafka, whose own classes
satisfy these Protocols. The other libraries are wrapped in classes with the same methods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings


class ClientError(Protocol):
    """An error of a client."""

    def code(self) -> int:
        """Return Kafka's number of the error; below zero for the client's own errors."""

    def name(self) -> str:
        """Return the library's name of the error."""

    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""

    def retriable(self) -> bool:
        """Return whether the same call may be repeated. It then resumes."""

    def txn_requires_abort(self) -> bool:
        """Return whether the application must abort its transaction."""


class DeliveredRecord(Protocol):
    """A record with a response, or a record that will never get a response."""

    def partition(self) -> int | None:
        """Return the record's partition."""

    def offset(self) -> int | None:
        """Return the record's offset; None or below zero if the broker did not return it."""

    def value(self) -> bytes | None:
        """Return the record's value."""


OnDelivery = Callable[[Any, Any], None]
"""A delivery callback. Its arguments are a ``ClientError`` or None, and a ``DeliveredRecord``."""


class RecordProducer(Protocol):
    """A producer. Not thread-safe; ``poll`` and ``flush`` call the callbacks."""

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record.

        Raises:
            BufferError: the queue is full; serve callbacks, and try again.
            KafkaException: the record is refused; the argument is a ``ClientError``.
        """

    def queue(self, topic: str, value: bytes, partition: int, *, on_delivery: OnDelivery) -> None:
        """Queue a record; wait while the queue is full."""

    def poll(self, timeout: float = -1) -> int:
        """Run callbacks; return their number."""

    def flush(self, timeout: float = -1) -> int:
        """Run callbacks until no record waits; return the number of records that still wait."""

    def purge(self) -> None:
        """Abandon every record; later callbacks report this for each record."""

    def close(self) -> object:
        """Close the producer after ``purge``, without requests to brokers. May be repeated."""

    def __len__(self) -> int:
        """Return the number of waiting records and callbacks."""


class SingleProducer(RecordProducer, Protocol):
    """A producer of single records, for stories, whose first record is as fast as later ones."""

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Request the partitions of a topic, and connect to their leaders.

        Raises:
            WaitTimeoutError: no broker responded within the limit.
        """

    def trust_flush(self, timeout: float) -> bool:
        """Call the library's flush; afterwards report each record without an error as acknowledged.

        Returns:
            Whether the flush has returned; if not, a second call waits for the same flush.
        """


class TransactionCalls(Protocol):
    """The calls of one transactional producer to its coordinator; every call may raise an error.

    The error is a ``KafkaException`` whose argument is a ``ClientError``. Without a response in
    time, that error is retriable.
    """

    def init_transactions(self, timeout: float) -> object:
        """Fence every other producer with this ``transactional.id``."""

    def begin_transaction(self) -> object:
        """Begin a transaction."""

    def send_offsets_to_transaction(self, offsets: Any, group: Any, timeout: float) -> object:  # noqa: ANN401 - of the library
        """Add offsets of a group to the transaction."""

    def commit_transaction(self, timeout: float) -> object:
        """Commit the transaction."""

    def abort_transaction(self, timeout: float) -> object:
        """Abort the transaction."""


class TransactionsProducer(RecordProducer, TransactionCalls, Protocol):
    """A transactional producer."""

    def drop(self) -> None:
        """Close the producer as in a crash: its coordinator gets no request."""


class ReadRecord(Protocol):
    """A record that a consumer has returned, or an error in its place."""

    def error(self) -> ClientError | None:
        """Return the error; None for a record. ``_AUTO_OFFSET_RESET`` is about one partition."""

    def partition(self) -> int | None:
        """Return the record's partition."""

    def offset(self) -> int | None:
        """Return the record's offset; for a position out of range, that position."""

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended the record; None if the client has none."""

    def key(self) -> Any:  # noqa: ANN401 - bytes, which confluent-kafka types as str, too
        """Return the record's key."""

    def value(self) -> Any:  # noqa: ANN401 - the same
        """Return the record's value."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the record's timestamp, and the timestamp in milliseconds."""


OnPartitions = Callable[[Any, list[TopicPartition]], None]
"""A callback with a ``RecordConsumer`` and the partitions that were assigned, revoked or lost."""


class RecordConsumer(Protocol):
    """A consumer for one topic. Not thread-safe; ``consume`` and ``close`` call the callbacks.

    Its methods raise a ``KafkaException`` whose argument is a ``ClientError``. A group member
    reports the response to every commit to ``on_commit`` in its settings.
    """

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions from these offsets; in a group, the new assignment."""

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions in addition; for a group with incremental assignments."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions, to read them from different offsets."""

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group that the settings name.

        ``on_assign`` sets the first offsets by ``assign`` or ``incremental_assign``. Before that
        call, no record from an assigned partition is returned.
        """

    def consume(self, num_messages: int, timeout: float) -> Sequence[ReadRecord]:
        """Return the next records, and errors to be logged."""

    def seek(self, partition: TopicPartition) -> None:
        """Continue at a different offset."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's committed offsets; below zero for a partition without one."""

    # Commit offsets of the group: ``on_commit`` gets the answer; else wait for it and return it.
    @overload
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: Literal[False]
    ) -> list[TopicPartition] | None: ...

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a partition's first offset, and the end offset for this reader."""

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the metadata that its library's producers send with offsets in a transaction."""

    def epoch(self) -> int | None:
        """Return the generation of a classic group, or the member's epoch; None if unknown."""

    def close(self) -> None:
        """Leave the group, if the consumer is in a group, and close the consumer."""

    def drop(self) -> None:
        """Close the consumer as in a crash: brokers get no request. Do not use it afterwards."""


class SharedRecord(ReadRecord, Protocol):
    """A record that a share group member got, or an error in its place."""

    def delivery_count(self) -> int | None:
        """Return how often the record was delivered to members, including this delivery."""


OnAcknowledged = Callable[[Mapping[TopicPartition, Iterable[int]], KafkaException | None], None]
"""A callback with offsets, and with the error of their acknowledgements, if there is one."""


class SharingConsumer(Protocol):
    """A member of a share group. Not thread-safe; ``poll`` and ``close`` call the callbacks.

    Its methods raise a ``KafkaException`` whose argument is a ``ClientError``, or an
    ``IllegalStateException`` of confluent-kafka.
    """

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Set the callback for the responses to acknowledgements."""

    def subscribe(self, topics: list[str]) -> None:
        """Join the group that the settings name."""

    def poll(self, timeout: float) -> Iterable[SharedRecord]:
        """Return the next records; in implicit mode this accepts the records of the last poll."""

    def acknowledge(self, message: Any, ack_type: AcknowledgeType) -> None:  # noqa: ANN401 - of ``poll``
        """Acknowledge a record; the next poll or ``commit_sync`` sends this to the brokers."""

    def commit_sync(self, timeout: float) -> object:
        """Send the acknowledgements, and wait for the brokers' responses."""

    def close(self) -> None:
        """Send the acknowledgements, leave the group, and close the consumer."""

    def drop(self) -> None:
        """Close the consumer as in a crash: brokers get no request. Do not use it afterwards."""


class Outcomes(Protocol):
    """The outcomes of records and transactions after a library's errors."""

    def delivered(self, error: Any, *, retries: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a record whose delivery failed with an error."""

    def unanswered(self, error: Any) -> bool:  # noqa: ANN401 - a ClientError
        """Return whether the error only means that the harness purged the record."""

    def not_committed(self, error: Any, *, aborted: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a transaction whose requested commit failed."""


class ReaderLibrary(Protocol):
    """A library of consumers.

    Settings have librdkafka's names; a library uses those that it knows.
    """

    def consumer(self, settings: Settings) -> RecordConsumer:
        """Open a consumer with settings from ``client_config.consumer``."""

    def share_consumer(self, settings: Settings) -> SharingConsumer:
        """Open a share group member with settings from ``client_config.share_consumer``.

        Raises:
            HarnessError: the library has no share consumers.
        """


class ClientLibrary(ReaderLibrary, Protocol):
    """A library of clients.

    Settings have librdkafka's names; a library uses those that it knows.
    """

    @property
    def outcomes(self) -> Outcomes:
        """The meaning of the library's errors."""

    def producer(self, settings: Settings) -> TransactionsProducer:
        """Open a producer. With a ``transactional.id``, it is not initialised yet."""

    def single(self, settings: Settings) -> SingleProducer:
        """Open a producer of single records."""

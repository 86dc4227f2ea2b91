"""The interface between a run's clients and their library.

Errors, messages, producers and consumers have the methods of confluent-kafka. Its own classes
satisfy these Protocols. For other libraries, this project has classes with the same methods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings


class ClientError(Protocol):
    """An error of a client."""

    def code(self) -> int:
        """Return Kafka's error code; a number below zero for the client's own errors."""

    def name(self) -> str:
        """Return the library's name of the error."""

    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""

    def retriable(self) -> bool:
        """Return whether the caller may repeat the call. The client continues the earlier call."""

    def txn_requires_abort(self) -> bool:
        """Return whether the application must abort its transaction."""


class DeliveredRecord(Protocol):
    """A record with a response, or a record for which the producer stopped waiting."""

    def partition(self) -> int | None:
        """Return the record's partition."""

    def offset(self) -> int | None:
        """Return the record's offset; None or below zero if the broker did not return it."""

    def value(self) -> bytes | None:
        """Return the record's value."""


OnDelivery = Callable[[Any, Any], None]
"""A delivery callback. Its arguments are a ``ClientError`` or None, and a ``DeliveredRecord``."""


class RecordProducer(Protocol):
    """A producer. Not thread-safe. ``poll`` and ``flush`` call the callbacks."""

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record.

        Raises:
            BufferError: the queue is full. The caller must call ``poll``, and try again.
            KafkaException: the client refuses the record; the argument is a ``ClientError``.
        """

    def queue(self, topic: str, value: bytes, partition: int, *, on_delivery: OnDelivery) -> None:
        """Queue a record. Wait while the queue is full."""

    def poll(self, timeout: float = -1) -> int:
        """Call the callbacks of records with a response; return the number of callbacks."""

    def flush(self, timeout: float = -1) -> int:
        """Call callbacks until every record has a response, or until the timeout.

        Return the number of records without a response.
        """

    def purge(self) -> None:
        """Stop waiting for responses. The callback of each waiting record then gets an error."""

    def close(self) -> object:
        """Close the producer after ``purge``, without requests. A second call is allowed."""

    def __len__(self) -> int:
        """Return the number of records that wait for a response or a callback."""


class SingleProducer(RecordProducer, Protocol):
    """A producer of single records, for stories. After ``reach``, its first send is fast."""

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Request the partitions of a topic, and connect to their leaders.

        Raises:
            WaitTimeoutError: no broker responded within the limit.
        """

    def trust_flush(self, timeout: float) -> bool:
        """Call the library's flush. Then report each record without an error as acknowledged.

        Returns:
            False if the flush has not returned in time. A second call then waits for the same
            flush.
        """


class TransactionCalls(Protocol):
    """The calls of one transactional producer to its coordinator. Every call may raise an error.

    The error is a ``KafkaException`` whose argument is a ``ClientError``. If the coordinator does
    not respond in time, that error is retriable.
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
        """Close the producer as in a crash. Its coordinator gets no request."""


class ReadRecord(Protocol):
    """A record that a consumer has returned, or an error instead of a record."""

    def error(self) -> ClientError | None:
        """Return the error; None for a record.

        An ``_AUTO_OFFSET_RESET`` has a partition and an offset. All other errors have neither.
        """

    def partition(self) -> int | None:
        """Return the record's partition."""

    def offset(self) -> int | None:
        """Return the record's offset. For ``_AUTO_OFFSET_RESET``, return the position."""

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the record; None if the client does not report it."""

    def key(self) -> Any:  # noqa: ANN401 - bytes, which confluent-kafka types as str, too
        """Return the record's key."""

    def value(self) -> Any:  # noqa: ANN401 - the same
        """Return the record's value."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the record's timestamp, and the timestamp in milliseconds."""

    def headers(self) -> Any:  # noqa: ANN401 - names and values, of several types
        """Return the record's headers, or None. Only librdkafka returns headers."""


OnPartitions = Callable[[Any, list[TopicPartition]], None]
"""A callback with a ``RecordConsumer`` and the partitions that were assigned, revoked or lost."""


class RecordConsumer(Protocol):
    """A consumer for one topic. Not thread-safe. ``consume`` and ``close`` call the callbacks.

    Its methods raise a ``KafkaException`` whose argument is a ``ClientError``. The response to
    every commit goes to the callback ``on_commit`` in the settings.
    """

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions from these offsets.

        For a group member, these partitions are the new assignment.
        """

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Also read these partitions. Only for a group with incremental assignments."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions. A later call may read them from other offsets."""

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group that the settings name.

        ``on_assign`` must call ``assign`` or ``incremental_assign`` with the first offsets. Before
        that call, the consumer returns no record of an assigned partition.
        """

    def consume(self, num_messages: int, timeout: float) -> Sequence[ReadRecord]:
        """Return the next records. An error is returned as a message without a record."""

    def seek(self, partition: TopicPartition) -> None:
        """Continue to read at another offset."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's committed offsets; a negative offset means that there is none."""

    # Commits offsets of the group. Asynchronous: ``on_commit`` gets the response. Otherwise: wait.
    @overload
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: Literal[False]
    ) -> list[TopicPartition] | None: ...

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a partition's first offset, and the end offset for this isolation level."""

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return the member's metadata. A producer of this library sends it with the offsets."""

    def epoch(self) -> int | None:
        """Return the generation of a classic group, or the member's epoch; None if unknown."""

    def close(self) -> None:
        """Leave the group, if the consumer is a member, and close the consumer."""

    def drop(self) -> None:
        """Close the consumer as in a crash. Brokers get no request. No other call may follow."""


class SharedRecord(ReadRecord, Protocol):
    """A record that a share group member got, or an error instead of a record."""

    def delivery_count(self) -> int | None:
        """Return how many times brokers have delivered the record to members so far."""


OnAcknowledged = Callable[[Mapping[TopicPartition, Iterable[int]], KafkaException | None], None]
"""A callback with offsets, and with the error of their acknowledgements, if there is one."""


class SharingConsumer(Protocol):
    """A member of a share group. Not thread-safe. ``poll`` and ``close`` call the callbacks.

    Its methods raise a ``KafkaException`` whose argument is a ``ClientError``, or an
    ``IllegalStateException`` of confluent-kafka.
    """

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Set the callback for the responses to acknowledgements."""

    def subscribe(self, topics: list[str]) -> None:
        """Join the group that the settings name."""

    def poll(self, timeout: float) -> Iterable[SharedRecord]:
        """Return the next records. In implicit mode, also accept the records of the last poll."""

    def acknowledge(self, message: Any, ack_type: AcknowledgeType) -> None:  # noqa: ANN401 - of ``poll``
        """Acknowledge a record. The next poll or ``commit_sync`` sends the acknowledgement."""

    def commit_sync(self, timeout: float) -> object:
        """Send the acknowledgements, and wait for the brokers' responses."""

    def close(self) -> None:
        """Send the acknowledgements, leave the group, and close the consumer."""

    def drop(self) -> None:
        """Close the consumer as in a crash. Brokers get no request. No other call may follow."""


class Outcomes(Protocol):
    """The rules of a library: error -> outcome of a record or a transaction (fail or info)."""

    def delivered(self, error: Any, *, retries: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a record whose delivery failed with an error."""

    def unanswered(self, error: Any) -> bool:  # noqa: ANN401 - a ClientError
        """Return whether the harness stopped waiting, so that the client reported this error."""

    def not_committed(self, error: Any, *, aborted: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a transaction after its commit request failed with this error."""


class ReaderLibrary(Protocol):
    """A library of consumers.

    Settings have librdkafka's names. A library ignores settings that it does not have.
    """

    def consumer(self, settings: Settings) -> RecordConsumer:
        """Open a consumer with settings from ``client_config.consumer``."""

    def share_consumer(self, settings: Settings) -> SharingConsumer:
        """Open a share group member with settings from ``client_config.share_consumer``.

        Raises:
            HarnessError: the library has no share consumers.
        """


class ClientLibrary(ReaderLibrary, Protocol):
    """A library of producers and consumers.

    Settings have librdkafka's names. A library ignores settings that it does not have.
    """

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of records and transactions after this library's errors."""

    def producer(self, settings: Settings) -> TransactionsProducer:
        """Open a producer. If it is transactional, call ``init_transactions`` next."""

    def single(self, settings: Settings) -> SingleProducer:
        """Open a producer of single records."""

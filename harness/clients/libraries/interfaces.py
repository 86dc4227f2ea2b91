"""The seam between the clients of a run and the library that they are of.

Errors, messages, producers and consumers have the methods of confluent-kafka, whose own classes
satisfy these Protocols; a library of another language wears the same methods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition

from highwater.harness.clients.client_config import Settings


class ClientError(Protocol):
    """An error of a client."""

    def code(self) -> int:
        """Return Kafka's number of the error; below zero if the client made it up."""

    def name(self) -> str:
        """Return the name that the library gives it."""

    def fatal(self) -> bool:
        """Return whether its producer is good for nothing any more."""

    def retriable(self) -> bool:
        """Return whether the same call may be repeated, to go on where it stopped."""

    def txn_requires_abort(self) -> bool:
        """Return whether the application is to abort its transaction."""


class DeliveredRecord(Protocol):
    """A record about which there is an answer, or will never be."""

    def partition(self) -> int | None:
        """Return its partition."""

    def offset(self) -> int | None:
        """Return its offset; None or below zero when the broker did not return it."""

    def value(self) -> bytes | None:
        """Return its value."""


OnDelivery = Callable[[Any, Any], None]
"""Called with a ``ClientError`` or None, and a ``DeliveredRecord``."""


class RecordProducer(Protocol):
    """A producer. Not thread-safe; callbacks come from ``poll`` and ``flush``."""

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record.

        Raises:
            BufferError: the queue is full; serve callbacks, and try again.
            KafkaException: it is refused; the argument is a ``ClientError``.
        """

    def queue(self, topic: str, value: bytes, partition: int, *, on_delivery: OnDelivery) -> None:
        """Queue a record; a full queue is waited out."""

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks; how many."""

    def flush(self, timeout: float = -1) -> int:
        """Serve callbacks until nothing waits; how many records still do."""

    def purge(self) -> None:
        """Give up on every record: each gets a report that says so, when callbacks are served."""

    def close(self) -> object:
        """End, after ``purge``: it asks brokers for nothing any more. May be repeated."""

    def __len__(self) -> int:
        """Return how many records and callbacks wait."""


class SingleProducer(RecordProducer, Protocol):
    """A producer of single records, for stories: a first record is as fast as all others."""

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Get to know the partitions of a topic, and their leaders.

        Raises:
            WaitTimeoutError: that is not so within the limit.
        """


class TransactionCalls(Protocol):
    """The calls of one transactional producer to its coordinator; each may raise.

    What they raise is a ``KafkaException`` whose argument is a ``ClientError``. Without an answer
    in time it is retriable.
    """

    def init_transactions(self, timeout: float) -> object:
        """Take the place of every producer of this ``transactional.id``."""

    def begin_transaction(self) -> object:
        """Begin a transaction."""

    def send_offsets_to_transaction(self, offsets: Any, group: Any, timeout: float) -> object:  # noqa: ANN401 - of the library
        """Put offsets of a group into the transaction."""

    def commit_transaction(self, timeout: float) -> object:
        """Commit."""

    def abort_transaction(self, timeout: float) -> object:
        """Abort."""


class TransactionsProducer(RecordProducer, TransactionCalls, Protocol):
    """A transactional producer."""

    def drop(self) -> None:
        """End it as a crash does: nothing is asked of its coordinator."""


class ReadRecord(Protocol):
    """A record that a consumer has returned, or an error in its place."""

    def error(self) -> ClientError | None:
        """Return the error; None for a record. ``_AUTO_OFFSET_RESET`` is one of a partition."""

    def partition(self) -> int | None:
        """Return its partition."""

    def offset(self) -> int | None:
        """Return its offset; of a position out of range, that position."""

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended it; None where the client has none."""

    def key(self) -> Any:  # noqa: ANN401 - bytes, which confluent-kafka types as str, too
        """Return its key."""

    def value(self) -> Any:  # noqa: ANN401 - the same
        """Return its value."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its timestamp, and the timestamp in milliseconds."""


OnPartitions = Callable[[Any, list[TopicPartition]], None]
"""Called with a ``RecordConsumer`` and the partitions that it was given, or that were taken."""


class RecordConsumer(Protocol):
    """A consumer of one topic. Not thread-safe. Callbacks come within ``consume`` and ``close``.

    What its methods raise is a ``KafkaException`` whose argument is a ``ClientError``. A member of
    a group answers each commit by ``on_commit`` of its settings.
    """

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions from these offsets; in a group, the new assignment."""

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions as well; in a group with incremental assignments."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions, to read them from elsewhere."""

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group of the settings.

        ``on_assign`` says where to begin, by ``assign`` or ``incremental_assign``; no record of
        such a partition is returned before.
        """

    def consume(self, num_messages: int, timeout: float) -> Sequence[ReadRecord]:
        """Return the next records, and errors that are to be logged."""

    def seek(self, partition: TopicPartition) -> None:
        """Go on from another offset."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's offsets; below zero where it has none."""

    # Commit offsets of the group: ``on_commit`` gets the answer, or it is waited for and returned.
    @overload
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: Literal[False]
    ) -> list[TopicPartition] | None: ...

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return where the log of a partition begins, and where it ends for a reader."""

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 - of the library
        """Return what its library's producers send along with offsets in a transaction."""

    def epoch(self) -> int | None:
        """Return the generation of a classic group, or the member's epoch; None: not known."""

    def close(self) -> None:
        """Leave the group, if it is in one, and end."""

    def drop(self) -> None:
        """End as by a crash: the broker is not notified. It must not be used afterwards."""


class SharedRecord(ReadRecord, Protocol):
    """A record that a member was given, or an error in its place."""

    def delivery_count(self) -> int | None:
        """Return how often it was given to members, this time included."""


OnAcknowledged = Callable[[Mapping[TopicPartition, Iterable[int]], KafkaException | None], None]
"""Called with offsets, and with what went wrong with their acknowledgements."""


class SharingConsumer(Protocol):
    """A member of a share group. Not thread-safe; callbacks come from ``poll`` and ``close``.

    What its methods raise is a ``KafkaException`` whose argument is a ``ClientError``, or an
    ``IllegalStateException`` of confluent-kafka.
    """

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged) -> None:
        """Set the callback for the responses to acknowledgements."""

    def subscribe(self, topics: list[str]) -> None:
        """Join the group of the settings."""

    def poll(self, timeout: float) -> Iterable[SharedRecord]:
        """Return the next records; without explicit acknowledgement the last ones are accepted."""

    def acknowledge(self, message: Any, ack_type: AcknowledgeType) -> None:  # noqa: ANN401 - of ``poll``
        """Say what becomes of a record; brokers learn it by the next poll, or ``commit_sync``."""

    def commit_sync(self, timeout: float) -> object:
        """Send the acknowledgements, and wait for the brokers' responses."""

    def close(self) -> None:
        """Send what was acknowledged, leave the group, and end."""

    def drop(self) -> None:
        """End as by a crash: the broker is not notified. It must not be used afterwards."""


class Outcomes(Protocol):
    """The meaning of a library's errors for the history."""

    def delivered(self, error: Any, *, retries: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a record whose delivery failed with an error."""

    def unanswered(self, error: Any) -> bool:  # noqa: ANN401 - a ClientError
        """Return whether it only says that we told the client to give up."""

    def not_committed(self, error: Any, *, aborted: bool) -> str:  # noqa: ANN401 - a ClientError
        """Return the outcome of a transaction whose commit was asked for, and failed."""


class ReaderLibrary(Protocol):
    """A library of consumers. Settings are in librdkafka's names, and each reads its own."""

    def consumer(self, settings: Settings) -> RecordConsumer:
        """Open a consumer, of settings of ``client_config.consumer``."""

    def share_consumer(self, settings: Settings) -> SharingConsumer:
        """Open a member of a share group, of settings of ``client_config.share_consumer``.

        Raises:
            HarnessError: the library has none.
        """


class ClientLibrary(ReaderLibrary, Protocol):
    """A library of clients. Settings are in librdkafka's names, and each library reads its own."""

    @property
    def outcomes(self) -> Outcomes:
        """The meaning of its errors."""

    def producer(self, settings: Settings) -> RecordProducer:
        """Open a producer."""

    def single(self, settings: Settings) -> SingleProducer:
        """Open a producer of single records."""

    def transactional(self, settings: Settings) -> TransactionsProducer:
        """Open a transactional producer, which no coordinator knows yet."""

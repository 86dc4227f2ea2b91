"""Errors of Kafka's Java producer, and what each says about a record or a transaction.

An error is a Java exception, and known by the names of its class and of those that it extends.
Its Javadoc, and ``KafkaProducer``'s and ``Sender``'s code, say when it is thrown.

*A record.* ``send`` returns a Future. Its exception is that of the last attempt, as librdkafka's
delivery report is: with retries an earlier attempt may have been appended, so that it is ``info``.
It is ``fail`` if the client was told never to retry, and the broker answered with an error that it
has before it appends (``REFUSED_BEFORE_APPEND``), or if the client refused the record before it
queued it: it threw, or returned a Future that had failed already (``KafkaProducer$FutureFailure``),
for a reason that it has only then (``REFUSED_BEFORE_QUEUE``). A ``TimeoutException`` has two
meanings: from ``send`` itself it waited for metadata or memory, later the record may be anywhere.

*A transaction.* The reasoning is that of ``harness.clients.delivery_outcomes``. After a failed
commit Java's documentation says to close the producer on what is in ``FATAL``, to call again on a
``TimeoutException``, and otherwise to abort.
"""

from dataclasses import dataclass
from typing import Final

from highwater.harness.runs.history import FAIL, INFO

REFUSED_BEFORE_APPEND: Final = frozenset(
    {
        "NotEnoughReplicasException",
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "CorruptRecordException",
        "InvalidRequiredAcksException",
        "InvalidTimestampException",
        "InvalidRecordException",
        "InvalidTopicException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "UnsupportedForMessageFormatException",
        "UnsupportedCompressionTypeException",
        "OutOfOrderSequenceException",
        "InvalidProducerEpochException",
    }
)
"""Answers that a broker gives only before it appends: the same as of librdkafka, by Java's names.
Not among them are NotEnoughReplicasAfterAppendException, TimeoutException (also an answer, when the
ISR did not follow), NotLeaderOrFollowerException and UnknownTopicOrPartitionException."""

REFUSED_BEFORE_QUEUE: Final = frozenset(
    {
        "TimeoutException",
        "BufferExhaustedException",
        "RecordTooLargeException",
        "SerializationException",
        "InvalidTopicException",
        "TopicAuthorizationException",
        "UnknownTopicOrPartitionException",
    }
)
"""What ``KafkaProducer.doSend`` meets before it appends a record to its queue."""

FATAL: Final = frozenset(
    {
        "ProducerFencedException",
        "InvalidProducerEpochException",
        "AuthenticationException",
        "AuthorizationException",
        "UnsupportedVersionException",
        "UnsupportedForMessageFormatException",
        "FencedInstanceIdException",
        "IllegalStateException",
        "InvalidTxnStateException",
        "ApplicationRecoverableException",
        "InvalidConfigurationException",
    }
)
"""After these a transactional producer is to be closed (Javadoc of ``KafkaProducer``, KIP-1050).
Since 2.5 OutOfOrderSequenceException is not among them (KIP-360); before, its abort fails, too."""

LOST_PRODUCER: Final = frozenset({"UnknownProducerIdException", "InvalidPidMappingException"})
"""The coordinator no longer knows who asks; the client skips the EndTxn of an abort then."""

RETRIABLE: Final = frozenset({"TimeoutException", "InterruptException"})
"""A call that may be repeated, to go on where it stopped."""

GAVE_UP: Final = "_PURGED"
"""Our own name for a record without an answer when we stopped waiting."""

SLOW: Final = "_TIMED_OUT"
"""Our own name for a call that has not returned yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaError:
    """One error of a Java client.

    Attributes:
        classes: simple names of the exception's class and of those above it.
        message: the exception's own words.
        number: Kafka's number of the error, where it has one.
        queued: whether the record was given to the client at all.
    """

    classes: tuple[str, ...]
    message: str = ""
    number: int = -1
    queued: bool = True

    def __str__(self) -> str:
        return f"{self.name()}: {self.message}"

    def code(self) -> int:
        """Return Kafka's number of it; -1 if it has none."""
        return self.number

    def name(self) -> str:
        """Return the simple name of its class."""
        return self.classes[0]

    def fatal(self) -> bool:
        """Return whether its producer is good for nothing any more."""
        refused = not self.queued and self.name() == "KafkaException"  # an error state, for good
        return refused or self.among(FATAL)

    def retriable(self) -> bool:
        """Return whether the same call may be repeated, to go on where it stopped."""
        return self.among(RETRIABLE) or self.name() == SLOW

    def txn_requires_abort(self) -> bool:
        """Return whether the application is to abort its transaction."""
        return not self.fatal() and not self.retriable()

    def among(self, names: frozenset[str]) -> bool:
        """Return whether it is one of these classes, or extends one."""
        return not names.isdisjoint(self.classes)


class JavaOutcomes:
    """The meaning of Java's errors for the history."""

    def delivered(self, error: JavaError, *, retries: bool) -> str:
        """Return the outcome of a record whose Future failed, or whose ``send`` threw."""
        if not error.queued:
            return FAIL if error.name() in REFUSED_BEFORE_QUEUE else INFO
        return FAIL if error.name() in REFUSED_BEFORE_APPEND and not retries else INFO

    def unanswered(self, error: JavaError) -> bool:
        """Return whether it only says that we gave up waiting."""
        return error.name() == GAVE_UP

    def not_committed(self, error: JavaError, *, aborted: bool) -> str:
        """Return the outcome of a transaction whose commit was asked for, and failed."""
        return FAIL if aborted and not error.among(LOST_PRODUCER) else INFO

"""Errors of Kafka's Java producer, and the outcome of a record or a transaction after each error.

An error is a Java exception, identified by the names of its class and its superclasses. The
exception's Javadoc, and the code of ``KafkaProducer`` and ``Sender``, say when it is thrown.

*A record.* ``send`` returns a Future. The Future's exception comes from the last attempt, as in
librdkafka's delivery report. With retries an earlier attempt may have been appended, so the record
is ``info``. The record is ``fail`` in two cases. First: the client does not retry, and a broker
returns this error only before it appends (``REFUSED_BEFORE_APPEND``). Second: ``send`` raised an
exception or returned a ``KafkaProducer$FutureFailure``, and the client raises this error only
before it queues a record (``REFUSED_BEFORE_QUEUE``). A ``TimeoutException`` from ``send`` itself
means that the client waited for metadata or memory. A later ``TimeoutException`` does not tell
whether the record was written.

*A transaction.* The rules are the same as in ``harness.clients.delivery_outcomes``. After a failed
commit, Java's documentation requires: for an error in ``FATAL``, close the producer; after a
``TimeoutException``, call again; otherwise, abort.
"""

from dataclasses import dataclass
from typing import Final

from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW, LibraryError
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
"""Errors that a broker returns only before it appends: librdkafka's list with Java's names. These
errors are not in the list: NotEnoughReplicasAfterAppendException, TimeoutException (also from the
broker, if the ISR did not follow), NotLeaderOrFollowerException and
UnknownTopicOrPartitionException."""

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
"""Errors that ``KafkaProducer.doSend`` raises only before it adds a record to its queue."""

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
"""Errors after which a transactional producer must be closed (Javadoc of ``KafkaProducer``,
KIP-1050). OutOfOrderSequenceException is not fatal since 2.5 (KIP-360). Before 2.5, an abort after
this error fails, too."""

LOST_PRODUCER: Final = frozenset({"UnknownProducerIdException", "InvalidPidMappingException"})
"""Errors with which the coordinator says that it has no state of the producer. The client then
aborts without an EndTxn."""

RETRIABLE: Final = frozenset({"TimeoutException", "InterruptException"})
"""Errors after which the caller may repeat a call. The client then continues the earlier call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaError(LibraryError):
    """One error of a Java client.

    Attributes:
        classes: simple names of the exception's class and its superclasses.
    """

    classes: tuple[str, ...]

    def name(self) -> str:
        """Return the simple name of the exception's class."""
        return self.classes[0]

    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""
        refused = (
            not self.queued and self.name() == "KafkaException"
        )  # the producer's state is a permanent error
        return refused or self.among(FATAL)

    def retriable(self) -> bool:
        """Return whether the caller may repeat the call. The client continues the earlier call."""
        return self.among(RETRIABLE) or self.name() == SLOW

    def among(self, names: frozenset[str]) -> bool:
        """Return whether the exception is an instance of one of these classes."""
        return not names.isdisjoint(self.classes)


class JavaOutcomes:
    """The outcomes of records and transactions after errors of Java's producer."""

    def delivered(self, error: JavaError, *, retries: bool) -> str:
        """Return the outcome of a record whose Future failed, or whose ``send`` raised an error."""
        if not error.queued:
            return FAIL if error.name() in REFUSED_BEFORE_QUEUE else INFO
        return FAIL if error.name() in REFUSED_BEFORE_APPEND and not retries else INFO

    def unanswered(self, error: JavaError) -> bool:
        """Return whether the harness stopped waiting, so that the client reported this error."""
        return error.name() == GAVE_UP

    def not_committed(self, error: JavaError, *, aborted: bool) -> str:
        """Return the outcome of a transaction after its commit request failed with this error."""
        return FAIL if aborted and not error.among(LOST_PRODUCER) else INFO

"""Errors of kafka-python and aiokafka, and what an error says about a record or a transaction.

Both libraries use Kafka's numbers for brokers' answers (``BrokerResponseError.errno``). An error
without such a number is the client's own: there was no answer.

*A record.* ``send`` raises errors before the record is added to a batch, so the record is ``fail``.
A later error comes from the last attempt; with retries an earlier attempt may be in the log, so the
record is ``info``, as with librdkafka (``harness.clients.delivery_outcomes``).

*A transaction.* After an earlier error, ``commit_transaction`` refuses before it asks the
coordinator, and the application must abort. Both clients refuse to abort a transaction whose commit
they have requested. So the transaction is ``fail`` if the abort is acknowledged, else ``info``.
"""

from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.clients import delivery_outcomes
from highwater.harness.clients.libraries.library_producer import GAVE_UP, NO_NUMBER, LibraryError
from highwater.harness.runs.history import FAIL

UNREACHED: Final = frozenset({"NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"})
"""The client could not be opened, because no broker answered. The call may be repeated."""

FATAL: Final = frozenset(
    {
        "ProducerFenced",
        "ProducerFencedError",
        "ProducerClosed",
        "IllegalStateError",
        "TransactionalIdAuthorizationFailed",
        "TransactionalIdAuthorizationFailedError",
        "ClusterAuthorizationFailedError",
    }
)
"""Errors after which a producer must be closed, with names from aiokafka and kafka-python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonError(LibraryError):
    """One error of a Python client.

    Attributes:
        kind: the name of the exception's class.
        again: whether the call may be repeated, and then continues where it stopped.
        ended: whether the client has ended and cannot be used any more.
    """

    kind: str
    again: bool = False
    ended: bool = False

    def name(self) -> str:
        """Return the name of the exception's class."""
        return self.kind

    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""
        return self.ended or self.kind in FATAL

    def retriable(self) -> bool:
        """Return whether the same call may be repeated, and then continues where it stopped."""
        return self.again


def error_of(raised: BaseException, *, queued: bool = True, again: bool = False) -> PythonError:
    """Return a Python client's exception as an error."""
    number = getattr(raised, "errno", None)
    return PythonError(
        kind=type(raised).__name__,
        message=str(raised),
        number=number if isinstance(number, int) else NO_NUMBER,
        queued=queued,
        again=again,
    )


def as_error(raised: Exception) -> PythonError:
    """Return a call's exception as an error; return the ``PythonError`` if it has one already."""
    if isinstance(raised, KafkaException) and isinstance(raised.args[0], PythonError):
        return raised.args[0]
    return error_of(raised, again=type(raised).__name__ in UNREACHED)


class PythonOutcomes:
    """The meaning of these errors for the history."""

    def delivered(self, error: PythonError, *, retries: bool) -> str:
        """Return the outcome of a record that ``send`` refused, or whose Future failed."""
        if not error.queued:
            return FAIL
        return delivery_outcomes.delivered(error.number, retries=retries)

    def unanswered(self, error: PythonError) -> bool:
        """Return whether the error only says that we stopped waiting."""
        return error.kind == GAVE_UP

    def not_committed(self, error: PythonError, *, aborted: bool) -> str:
        """Return the outcome of a transaction whose requested commit failed."""
        return delivery_outcomes.not_committed(error.number, aborted=aborted)

"""Errors of kafka-python and aiokafka, and what each says about a record or a transaction.

Both number the answers of brokers as Kafka does (``BrokerResponseError.errno``). An error without
such a number is the client's own: it has no answer.

*A record.* An error that ``send`` raises was raised before the record was appended to a batch, so
it is ``fail``. Later the error is that of the last attempt; with retries an earlier attempt may be
in the log, so it is ``info``, as with librdkafka (``harness.clients.delivery_outcomes``).

*A transaction.* ``commit_transaction`` refuses before it asks the coordinator when an error has
come before; the application is to abort then. Both clients refuse to abort a transaction whose
commit they have asked for. So it is ``fail`` if the abort is acknowledged, and ``info`` otherwise.
"""

from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.clients import delivery_outcomes
from highwater.harness.runs.history import FAIL

GAVE_UP: Final = "_PURGED"
"""Our own name for a record without an answer when we stopped waiting."""

SLOW: Final = "_TIMED_OUT"
"""Our own name for a call that has not returned yet."""

UNREACHED: Final = frozenset({"NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"})
"""The client could not be opened: no broker has answered. It may be tried again."""

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
"""After these a producer is to be closed; aiokafka's names and kafka-python's differ."""

NO_NUMBER: Final = -1
"""The number of an error that is the client's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonError:
    """One error of a Python client.

    Attributes:
        kind: the name of the exception's class.
        message: the exception's own words.
        number: Kafka's number of the error, where it has one.
        queued: whether the record was given to the client at all.
        again: whether the call may be repeated, to go on where it stopped.
        ended: whether the client has said that it is good for nothing any more.
    """

    kind: str
    message: str = ""
    number: int = NO_NUMBER
    queued: bool = True
    again: bool = False
    ended: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def code(self) -> int:
        """Return Kafka's number of it; -1 if it has none."""
        return self.number

    def name(self) -> str:
        """Return the name of its class."""
        return self.kind

    def fatal(self) -> bool:
        """Return whether its producer is good for nothing any more."""
        return self.ended or self.kind in FATAL

    def retriable(self) -> bool:
        """Return whether the same call may be repeated, to go on where it stopped."""
        return self.again

    def txn_requires_abort(self) -> bool:
        """Return whether the application is to abort its transaction."""
        return not self.fatal() and not self.again


def error_of(raised: BaseException, *, queued: bool = True, again: bool = False) -> PythonError:
    """Return an exception of a Python client as an error."""
    number = getattr(raised, "errno", None)
    return PythonError(
        kind=type(raised).__name__,
        message=str(raised),
        number=number if isinstance(number, int) else NO_NUMBER,
        queued=queued,
        again=again,
    )


def as_error(raised: Exception) -> PythonError:
    """Return what a call has raised as an error; it may be one of ours already."""
    if isinstance(raised, KafkaException) and isinstance(raised.args[0], PythonError):
        return raised.args[0]
    return error_of(raised, again=type(raised).__name__ in UNREACHED)


class PythonOutcomes:
    """The meaning of these errors for the history."""

    def delivered(self, error: PythonError, *, retries: bool) -> str:
        """Return the outcome of a record that ``send`` refused, or whose future failed."""
        if not error.queued:
            return FAIL
        return delivery_outcomes.delivered(error.number, retries=retries)

    def unanswered(self, error: PythonError) -> bool:
        """Return whether it only says that we gave up waiting."""
        return error.kind == GAVE_UP

    def not_committed(self, error: PythonError, *, aborted: bool) -> str:
        """Return the outcome of a transaction whose commit was asked for, and failed."""
        return delivery_outcomes.not_committed(error.number, aborted=aborted)

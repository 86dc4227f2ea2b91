"""Errors of client drivers, and the outcome of a record or a transaction after each error.

*A record* that was not queued is ``fail``. Any other error belongs to the last attempt. With
retries, an earlier attempt may be in the log. So the record is ``info``, as with librdkafka
(``harness.clients.delivery_outcomes``).

*A transaction.* After an error, kafka-python and aiokafka refuse to commit, and the application
must abort. These libraries refuse to abort a transaction whose commit they have requested. So the
transaction is ``fail`` if the abort is acknowledged, and ``info`` otherwise.
"""

from dataclasses import dataclass

from confluent_kafka import KafkaException

from highwater.harness.clients import delivery_outcomes
from highwater.harness.clients.libraries.library_producer import GAVE_UP, LibraryError
from highwater.harness.runs.history import FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverError(LibraryError):
    """One error of a driver's client.

    Attributes:
        kind: the library's name of the error.
        again: whether the caller may repeat the call. The client then continues the earlier call.
        ended: whether the client has ended and cannot be used any more.
    """

    kind: str
    again: bool = False
    ended: bool = False

    def name(self) -> str:
        """Return the library's name of the error."""
        return self.kind

    def fatal(self) -> bool:
        """Return whether the producer cannot be used any more."""
        return self.ended

    def retriable(self) -> bool:
        """Return whether the caller may repeat the call. The client continues the earlier call."""
        return self.again


def as_error(raised: BaseException) -> DriverError:
    """Return a call's exception, or the error inside a ``KafkaException``, as a ``DriverError``."""
    if isinstance(raised, KafkaException) and isinstance(raised.args[0], DriverError):
        return raised.args[0]
    return DriverError(kind=type(raised).__name__, message=str(raised))


class DriverOutcomes:
    """The outcomes of records and transactions after errors of client drivers."""

    def delivered(self, error: DriverError, *, retries: bool) -> str:
        """Return the outcome of a record that ``send`` refused, or whose Future failed."""
        if not error.queued:
            return FAIL
        return delivery_outcomes.delivered(error.number, retries=retries)

    def unanswered(self, error: DriverError) -> bool:
        """Return whether the harness stopped waiting, so that the client reported this error."""
        return error.kind == GAVE_UP

    def not_committed(self, error: DriverError, *, aborted: bool) -> str:
        """Return the outcome of a transaction after its commit request failed with this error."""
        return delivery_outcomes.not_committed(error.number, aborted=aborted)

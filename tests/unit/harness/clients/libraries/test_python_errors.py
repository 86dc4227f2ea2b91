"""The meaning of each documented error of kafka-python and aiokafka, one by one."""

import aiokafka.errors
import kafka.errors
import pytest
from confluent_kafka import KafkaException

from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW
from highwater.harness.clients.libraries.python_errors import (
    FATAL,
    UNREACHED,
    PythonError,
    PythonOutcomes,
    as_error,
    error_of,
)
from highwater.harness.runs.history import FAIL, INFO

OUTCOMES = PythonOutcomes()

KAFKA_PYTHON = {
    # An answer that a broker has before it appends.
    "NotEnoughReplicasError": FAIL,
    "MessageSizeTooLargeError": FAIL,
    "RecordListTooLargeError": FAIL,
    "CorruptRecordError": FAIL,
    "InvalidRequiredAcksError": FAIL,
    "InvalidTimestampError": FAIL,
    "InvalidRecordError": FAIL,
    "InvalidTopicError": FAIL,
    "TopicAuthorizationFailedError": FAIL,
    "ClusterAuthorizationFailedError": FAIL,
    "UnsupportedForMessageFormatError": FAIL,
    "UnsupportedCompressionTypeError": FAIL,
    "OutOfOrderSequenceNumberError": FAIL,
    "InvalidProducerEpochError": FAIL,
    # One that it may have after that.
    "NotEnoughReplicasAfterAppendError": INFO,
    "RequestTimedOutError": INFO,
    "NotLeaderForPartitionError": INFO,
    "LeaderNotAvailableError": INFO,
    "UnknownTopicOrPartitionError": INFO,
    "KafkaStorageError": INFO,
    "UnknownError": INFO,
    "UnknownProducerIdError": INFO,
    "ProducerFencedError": INFO,
    "TransactionAbortableError": INFO,
    "InvalidTxnStateError": INFO,
    "NetworkExceptionError": INFO,
    # The client's own, which has no answer.
    "KafkaTimeoutError": INFO,
    "KafkaConnectionError": INFO,
    "NodeNotReadyError": INFO,
    "Cancelled": INFO,
    "CorrelationIdError": INFO,
    "KafkaProtocolError": INFO,
    "InvalidReceiveError": INFO,
    "TransactionAbortedError": INFO,
    "IllegalStateError": INFO,
    "KafkaError": INFO,
}
AIOKAFKA = {
    # An answer that a broker has before it appends.
    "NotEnoughReplicasError": FAIL,
    "MessageSizeTooLargeError": FAIL,
    "RecordListTooLargeError": FAIL,
    "CorruptRecordException": FAIL,
    "InvalidRequiredAcksError": FAIL,
    "InvalidTimestampError": FAIL,
    "InvalidTopicError": FAIL,
    "TopicAuthorizationFailedError": FAIL,
    "ClusterAuthorizationFailedError": FAIL,
    "UnsupportedForMessageFormatError": FAIL,
    "OutOfOrderSequenceNumber": FAIL,
    "InvalidProducerEpoch": FAIL,
    # One that it may have after that.
    "NotEnoughReplicasAfterAppendError": INFO,
    "RequestTimedOutError": INFO,
    "NotLeaderForPartitionError": INFO,
    "LeaderNotAvailableError": INFO,
    "UnknownTopicOrPartitionError": INFO,
    "KafkaStorageError": INFO,
    "UnknownError": INFO,
    "UnknownProducerId": INFO,
    "InvalidTxnState": INFO,
    "ProducerFenced": INFO,
    # The client's own, which has no answer.
    "KafkaTimeoutError": INFO,
    "KafkaConnectionError": INFO,
    "NodeNotReadyError": INFO,
    "Cancelled": INFO,
    "CorrelationIdError": INFO,
    "KafkaProtocolError": INFO,
    "ProducerClosed": INFO,
    "KafkaError": INFO,
}
"""The outcome of a record whose client never tries again."""

ANSWERS = [(kafka.errors, *row) for row in KAFKA_PYTHON.items()]
ANSWERS += [(aiokafka.errors, *row) for row in AIOKAFKA.items()]


@pytest.mark.parametrize(("library", "name", "outcome"), ANSWERS)
def test_an_answer_is_certain_only_before_the_append_and_without_retries(
    library: object, name: str, outcome: str
) -> None:
    error = error_of(getattr(library, name)())
    assert error.name() == name
    assert OUTCOMES.delivered(error, retries=False) == outcome
    assert OUTCOMES.delivered(error, retries=True) == INFO


@pytest.mark.parametrize("raised", [kafka.errors.KafkaTimeoutError(), ValueError("no partition")])
def test_what_send_raises_was_never_queued(raised: Exception) -> None:
    refused = error_of(raised, queued=False)
    assert {OUTCOMES.delivered(refused, retries=again) for again in (True, False)} == {FAIL}


def test_every_name_of_the_tables_is_an_error_of_a_library() -> None:
    for name in FATAL | UNREACHED:
        assert hasattr(kafka.errors, name) or hasattr(aiokafka.errors, name), name


@pytest.mark.parametrize(
    ("error", "aborted", "outcome"),
    [
        (error_of(kafka.errors.KafkaError("an error state")), True, FAIL),
        (error_of(kafka.errors.KafkaError("an error state")), False, INFO),
        (error_of(kafka.errors.ProducerFencedError()), False, INFO),
        (error_of(kafka.errors.UnknownProducerIdError()), True, INFO),
        (error_of(kafka.errors.InvalidProducerIdMappingError()), True, INFO),
        (error_of(aiokafka.errors.TopicAuthorizationFailedError()), True, FAIL),
        (error_of(aiokafka.errors.InvalidProducerIdMapping()), True, INFO),
        (error_of(AssertionError("Invalid state transition")), False, INFO),
        (PythonError(kind=SLOW, again=True), False, INFO),
    ],
)
def test_a_commit_failed_for_certain_only_if_its_abort_proves_it(
    error: PythonError, aborted: bool, outcome: str
) -> None:
    assert OUTCOMES.not_committed(error, aborted=aborted) == outcome


def test_a_call_may_be_repeated_while_it_goes_on_or_no_broker_was_reached() -> None:
    slow = PythonError(kind=SLOW, again=True)
    unreached = as_error(aiokafka.errors.KafkaConnectionError())
    wrapped = as_error(KafkaException(unreached))
    for error in (slow, unreached, wrapped):
        assert error.retriable()
        assert not error.txn_requires_abort()
    abortable, fenced = (
        as_error(kafka.errors.KafkaError()),
        as_error(aiokafka.errors.ProducerFenced()),
    )
    assert (abortable.retriable(), abortable.fatal(), abortable.txn_requires_abort()) == (
        False,
        False,
        True,
    )
    assert (fenced.fatal(), fenced.txn_requires_abort()) == (True, False)


def test_only_our_own_giving_up_is_no_answer() -> None:
    assert OUTCOMES.unanswered(PythonError(kind=GAVE_UP))
    assert not OUTCOMES.unanswered(error_of(kafka.errors.KafkaTimeoutError()))

"""The meaning of each documented error of kafka-python and aiokafka, one by one."""

import aiokafka.errors
import kafka.errors
import msgspec
import pytest
from confluent_kafka import KafkaException

from highwater.harness.clients.drivers import aiokafka_driver, kafka_python_driver
from highwater.harness.clients.drivers.client_driver import DriverAnswer
from highwater.harness.clients.drivers.driver_errors import (
    DriverError,
    DriverOutcomes,
    as_error,
)
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW
from highwater.harness.runs.history import FAIL, INFO

OUTCOMES = DriverOutcomes()
Captured = pytest.CaptureFixture[str]

IN_BOTH = {
    # An answer that a broker has before it appends.
    "NotEnoughReplicasError": FAIL,
    "MessageSizeTooLargeError": FAIL,
    "RecordListTooLargeError": FAIL,
    "InvalidRequiredAcksError": FAIL,
    "InvalidTimestampError": FAIL,
    "InvalidTopicError": FAIL,
    "TopicAuthorizationFailedError": FAIL,
    "ClusterAuthorizationFailedError": FAIL,
    "UnsupportedForMessageFormatError": FAIL,
    # One that it may have after that.
    "NotEnoughReplicasAfterAppendError": INFO,
    "RequestTimedOutError": INFO,
    "NotLeaderForPartitionError": INFO,
    "LeaderNotAvailableError": INFO,
    "UnknownTopicOrPartitionError": INFO,
    "KafkaStorageError": INFO,
    "UnknownError": INFO,
    # The client's own, which has no answer.
    "KafkaTimeoutError": INFO,
    "KafkaConnectionError": INFO,
    "NodeNotReadyError": INFO,
    "Cancelled": INFO,
    "CorrelationIdError": INFO,
    "KafkaProtocolError": INFO,
    "KafkaError": INFO,
}
KAFKA_PYTHON = IN_BOTH | {
    "CorruptRecordError": FAIL,
    "InvalidRecordError": FAIL,
    "UnsupportedCompressionTypeError": FAIL,
    "OutOfOrderSequenceNumberError": FAIL,
    "InvalidProducerEpochError": FAIL,
    "UnknownProducerIdError": INFO,
    "ProducerFencedError": INFO,
    "TransactionAbortableError": INFO,
    "InvalidTxnStateError": INFO,
    "NetworkExceptionError": INFO,
    "InvalidReceiveError": INFO,
    "TransactionAbortedError": INFO,
    "IllegalStateError": INFO,
}
AIOKAFKA = IN_BOTH | {
    "CorruptRecordException": FAIL,
    "OutOfOrderSequenceNumber": FAIL,
    "InvalidProducerEpoch": FAIL,
    "UnknownProducerId": INFO,
    "InvalidTxnState": INFO,
    "ProducerFenced": INFO,
    "ProducerClosed": INFO,
}
"""The outcome of a record whose client never tries again."""


def error_of(raised: Exception, captured: Captured, **words: object) -> DriverError:
    """Return the error that the driver of the exception's library answers with."""
    ours = type(raised).__module__.startswith("aiokafka")
    (aiokafka_driver if ours else kafka_python_driver).failed(1, raised, **words)
    return msgspec.json.decode(captured.readouterr().out, type=DriverAnswer).as_error()


ANSWERS = [(kafka.errors, *row) for row in KAFKA_PYTHON.items()]
ANSWERS += [(aiokafka.errors, *row) for row in AIOKAFKA.items()]


@pytest.mark.parametrize(("library", "name", "outcome"), ANSWERS)
def test_an_answer_is_certain_only_before_the_append_and_without_retries(
    library: object, name: str, outcome: str, capsys: Captured
) -> None:
    error = error_of(getattr(library, name)(), capsys)
    assert error.name() == name
    assert OUTCOMES.delivered(error, retries=False) == outcome
    assert OUTCOMES.delivered(error, retries=True) == INFO


@pytest.mark.parametrize("raised", [kafka.errors.KafkaTimeoutError(), ValueError("no partition")])
def test_what_send_raises_was_never_queued(raised: Exception, capsys: Captured) -> None:
    refused = error_of(raised, capsys, queued=False)
    assert {OUTCOMES.delivered(refused, retries=again) for again in (True, False)} == {FAIL}


def test_every_name_of_the_tables_is_an_error_of_a_library() -> None:
    before_3 = {"NoBrokersAvailable"}
    for name in kafka_python_driver.FATAL | kafka_python_driver.UNREACHED - before_3:
        assert hasattr(kafka.errors, name), name
    for name in aiokafka_driver.FATAL | aiokafka_driver.UNREACHED:
        assert hasattr(aiokafka.errors, name), name


@pytest.mark.parametrize(
    ("raised", "aborted", "outcome"),
    [
        (kafka.errors.KafkaError("an error state"), True, FAIL),
        (kafka.errors.KafkaError("an error state"), False, INFO),
        (kafka.errors.ProducerFencedError(), False, INFO),
        (kafka.errors.UnknownProducerIdError(), True, INFO),
        (kafka.errors.InvalidProducerIdMappingError(), True, INFO),
        (aiokafka.errors.TopicAuthorizationFailedError(), True, FAIL),
        (aiokafka.errors.InvalidProducerIdMapping(), True, INFO),
        (AssertionError("Invalid state transition"), False, INFO),
    ],
)
def test_a_commit_failed_for_certain_only_if_its_abort_proves_it(
    raised: Exception, aborted: bool, outcome: str, capsys: Captured
) -> None:
    assert OUTCOMES.not_committed(error_of(raised, capsys), aborted=aborted) == outcome


def test_a_commit_without_an_answer_may_have_been_done() -> None:
    assert OUTCOMES.not_committed(DriverError(kind=SLOW, again=True), aborted=False) == INFO


def test_a_call_may_be_repeated_while_it_goes_on_or_no_broker_was_reached(capsys: Captured) -> None:
    slow = DriverError(kind=SLOW, again=True)
    unreached = error_of(aiokafka.errors.KafkaConnectionError(), capsys)
    wrapped = as_error(KafkaException(unreached))
    for error in (slow, unreached, wrapped):
        assert error.retriable()
        assert not error.txn_requires_abort()
    abortable, fenced = (
        error_of(kafka.errors.KafkaError(), capsys),
        error_of(aiokafka.errors.ProducerFenced(), capsys),
    )
    assert (abortable.retriable(), abortable.fatal(), abortable.txn_requires_abort()) == (
        False,
        False,
        True,
    )
    assert (fenced.fatal(), fenced.txn_requires_abort()) == (True, False)


def test_only_our_own_giving_up_is_no_answer(capsys: Captured) -> None:
    assert OUTCOMES.unanswered(DriverError(kind=GAVE_UP))
    assert not OUTCOMES.unanswered(error_of(kafka.errors.KafkaTimeoutError(), capsys))

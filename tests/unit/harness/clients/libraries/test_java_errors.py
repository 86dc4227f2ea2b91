"""The meaning of each documented error of Kafka's Java producer, one by one."""

import pytest

from highwater.harness.clients.libraries.java_errors import (
    FATAL,
    LOST_PRODUCER,
    REFUSED_BEFORE_APPEND,
    REFUSED_BEFORE_QUEUE,
    JavaError,
    JavaOutcomes,
)
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW
from highwater.harness.runs.history import FAIL, INFO

OUTCOMES = JavaOutcomes()

ANSWERS = {
    # An answer that a broker has before it appends.
    "NotEnoughReplicasException": FAIL,
    "RecordTooLargeException": FAIL,
    "RecordBatchTooLargeException": FAIL,
    "CorruptRecordException": FAIL,
    "InvalidRequiredAcksException": FAIL,
    "InvalidTimestampException": FAIL,
    "InvalidRecordException": FAIL,
    "InvalidTopicException": FAIL,
    "TopicAuthorizationException": FAIL,
    "ClusterAuthorizationException": FAIL,
    "UnsupportedForMessageFormatException": FAIL,
    "UnsupportedCompressionTypeException": FAIL,
    "OutOfOrderSequenceException": FAIL,
    "InvalidProducerEpochException": FAIL,
    # One that it may have after that, or none at all.
    "NotEnoughReplicasAfterAppendException": INFO,
    "TimeoutException": INFO,
    "NetworkException": INFO,
    "DisconnectException": INFO,
    "NotLeaderOrFollowerException": INFO,
    "NotLeaderForPartitionException": INFO,
    "LeaderNotAvailableException": INFO,
    "UnknownTopicOrPartitionException": INFO,
    "KafkaStorageException": INFO,
    "UnknownServerException": INFO,
    "UnknownProducerIdException": INFO,
    "ProducerFencedException": INFO,
    "TransactionAbortedException": INFO,
    "TransactionAbortableException": INFO,
    "InvalidTxnStateException": INFO,
    "KafkaException": INFO,
}
"""The outcome of a record whose client never tries again."""

REFUSALS = {
    # What send itself meets before it queues.
    "TimeoutException": FAIL,
    "BufferExhaustedException": FAIL,
    "RecordTooLargeException": FAIL,
    "SerializationException": FAIL,
    "InvalidTopicException": FAIL,
    "TopicAuthorizationException": FAIL,
    "UnknownTopicOrPartitionException": FAIL,
    # What it may meet afterwards, when it adds the partition to the transaction.
    "ProducerFencedException": INFO,
    "InvalidProducerEpochException": INFO,
    "KafkaException": INFO,
    "IllegalStateException": INFO,
    "InterruptException": INFO,
}
"""The outcome of a record that ``send`` refused."""

ENDINGS = {
    # May be called again.
    "TimeoutException": "again",
    "InterruptException": "again",
    SLOW: "again",
    # To be aborted, and then it is certain.
    "KafkaException": FAIL,
    "TransactionAbortableException": FAIL,
    "RecordTooLargeException": FAIL,
    "NotEnoughReplicasException": FAIL,
    "OutOfOrderSequenceException": FAIL,
    # To be aborted, which proves nothing.
    "UnknownProducerIdException": INFO,
    "InvalidPidMappingException": INFO,
    # The producer is to be closed.
    "ProducerFencedException": "fatal",
    "InvalidProducerEpochException": "fatal",
    "AuthorizationException": "fatal",
    "AuthenticationException": "fatal",
    "UnsupportedVersionException": "fatal",
    "UnsupportedForMessageFormatException": "fatal",
    "FencedInstanceIdException": "fatal",
    "InvalidTxnStateException": "fatal",
    "IllegalStateException": "fatal",
    "ApplicationRecoverableException": "fatal",
    "InvalidConfigurationException": "fatal",
}
"""What becomes of a transaction whose commit raised that."""


def error(name: str, *above: str, queued: bool = True) -> JavaError:
    return JavaError(classes=(name, *above, "Throwable"), queued=queued)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_certain_only_before_the_append_and_without_retries(name: str) -> None:
    assert OUTCOMES.delivered(error(name), retries=False) == ANSWERS[name]
    assert OUTCOMES.delivered(error(name), retries=True) == INFO


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_certain_only_before_the_record_is_queued(name: str) -> None:
    for retries in (False, True):
        refused = error(name, queued=False)
        assert OUTCOMES.delivered(refused, retries=retries) == REFUSALS[name]


@pytest.mark.parametrize("name", ENDINGS)
def test_a_commit_that_failed_is_resumed_or_aborted_or_open_for_ever(name: str) -> None:
    raised, ending = error(name), ENDINGS[name]
    assert raised.retriable() == (ending == "again")
    assert raised.fatal() == (ending == "fatal")
    assert raised.txn_requires_abort() == (ending in (FAIL, INFO))
    assert OUTCOMES.not_committed(raised, aborted=False) == INFO
    if ending in (FAIL, INFO):
        assert OUTCOMES.not_committed(raised, aborted=True) == ending


def test_the_tables_are_those_of_the_code() -> None:
    assert {name for name, outcome in ANSWERS.items() if outcome == FAIL} == REFUSED_BEFORE_APPEND
    assert {name for name, outcome in REFUSALS.items() if outcome == FAIL} == REFUSED_BEFORE_QUEUE
    assert {name for name, ending in ENDINGS.items() if ending == "fatal"} == FATAL
    assert {name for name, ending in ENDINGS.items() if ending == INFO} == LOST_PRODUCER


def test_an_error_is_also_one_of_the_classes_above_it() -> None:
    fenced = error("TransactionalIdAuthorizationException", "AuthorizationException")
    assert fenced.fatal()
    assert not fenced.retriable()


def test_a_producer_whose_send_raises_a_plain_error_is_good_for_nothing() -> None:
    assert error("KafkaException", queued=False).fatal()
    assert not error("KafkaException").fatal()


def test_giving_up_is_no_answer() -> None:
    assert OUTCOMES.unanswered(error(GAVE_UP))
    assert OUTCOMES.delivered(error(GAVE_UP), retries=True) == INFO
    assert not OUTCOMES.unanswered(error("TimeoutException"))

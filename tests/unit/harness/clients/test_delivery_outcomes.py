import pytest
from confluent_kafka import KafkaError

from highwater.harness.clients.delivery_outcomes import (
    PURGED,
    REFUSED_LOCALLY,
    delivered,
    not_committed,
)

# error, outcome when the client may retry, outcome when it may not
TABLE = [
    ("NOT_ENOUGH_REPLICAS", "info", "fail"),
    ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "info", "info"),
    ("NOT_LEADER_FOR_PARTITION", "info", "info"),
    ("UNKNOWN_TOPIC_OR_PART", "info", "info"),
    ("REQUEST_TIMED_OUT", "info", "info"),
    ("KAFKA_STORAGE_ERROR", "info", "info"),
    ("MSG_SIZE_TOO_LARGE", "info", "fail"),
    ("TOPIC_AUTHORIZATION_FAILED", "info", "fail"),
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "info", "fail"),
    ("UNKNOWN", "info", "info"),
    ("_MSG_TIMED_OUT", "info", "info"),
    ("_TRANSPORT", "info", "info"),
    ("_FATAL", "info", "info"),
    ("_PURGE_QUEUE", "info", "info"),
    ("_PURGE_INFLIGHT", "info", "info"),
]


@pytest.mark.parametrize(("name", "with_retries", "without"), TABLE)
def test_an_error_says_what_may_have_happened(name: str, with_retries: str, without: str) -> None:
    code = getattr(KafkaError, name)
    assert delivered(code, retries=True) == with_retries
    assert delivered(code, retries=False) == without


def test_nothing_is_surely_failed_that_was_sent_more_than_once() -> None:
    codes = [code for name in dir(KafkaError) if isinstance(code := getattr(KafkaError, name), int)]
    assert len(codes) > 100
    assert {delivered(code, retries=True) for code in codes} == {"info"}


def test_only_what_the_client_refuses_to_queue_fails_as_a_matter_of_course() -> None:
    assert REFUSED_LOCALLY == "fail"


@pytest.mark.parametrize(
    ("name", "aborted", "outcome"),
    [
        ("_MSG_TIMED_OUT", True, "fail"),  # a record was not delivered: no commit was asked for
        ("_MSG_TIMED_OUT", False, "info"),
        ("COORDINATOR_NOT_AVAILABLE", False, "info"),
        ("_TIMED_OUT", False, "info"),
        ("_FENCED", False, "info"),
        ("INVALID_TXN_STATE", False, "info"),
        ("UNKNOWN_PRODUCER_ID", True, "info"),  # the abort took a new epoch, no more
        ("INVALID_PRODUCER_ID_MAPPING", True, "info"),
    ],
)
def test_a_commit_that_failed_may_have_happened_unless_an_abort_did(
    name: str, aborted: bool, outcome: str
) -> None:
    assert not_committed(getattr(KafkaError, name), aborted=aborted) == outcome


def test_giving_up_on_purpose_is_not_an_answer() -> None:
    assert {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT} == PURGED

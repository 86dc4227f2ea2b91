"""A producer that fails for good: nothing that serves its callbacks raises it, and none is lost."""

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message

from highwater.harness.clients.libraries.librdkafka import Producer

Answered = Callable[[KafkaError | None, Message], None]


def fail(producer: Producer) -> None:
    """Have librdkafka fail for good, as its own tests do (``rd_kafka_test_fatal_error``)."""
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(libraries.glob("librdkafka-*"))))
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)
    error = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert library.rd_kafka_test_fatal_error(handle, error, b"made up") == 0


@pytest.fixture
def told() -> list[tuple[str, bytes]]:
    return []


@pytest.fixture
def failed(told: list[tuple[str, bytes]]) -> Producer:
    """A producer that has failed, with five records to tell of under a lock, as ours are."""
    producer = Producer(
        {"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": True, "log_level": 0}
    )
    lock = threading.Lock()

    def answered(error: KafkaError | None, message: Message) -> None:
        with lock:
            told.append((error.name() if error else "", message.value() or b""))

    for number in range(5):
        producer.produce("events", b"%d" % number, on_delivery=answered)
    fail(producer)
    producer.purge()
    return producer


PURGED = [("_PURGE_QUEUE", b"%d" % number) for number in range(5)]


@pytest.mark.timeout(30)  # a lock that is never given back would be waited for for ever
def test_after_a_fatal_error_every_record_is_told_of(
    failed: Producer, told: list[tuple[str, bytes]]
) -> None:
    assert failed.flush(10) == 0
    assert told == PURGED


@pytest.mark.timeout(30)
def test_polls_tell_of_them_too(failed: Producer, told: list[tuple[str, bytes]]) -> None:
    while len(failed):
        failed.poll(0.1)
    assert told == PURGED


def test_what_it_refuses_says_why(failed: Producer) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match="Fatal") as refused:
        failed.produce("events", b"6")
    assert refused.value.args[0].code() == KafkaError._FATAL


def test_a_flush_ends_with_its_time() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    producer.produce("events", b"0")
    assert producer.flush(0.1) > 0
    producer.purge()

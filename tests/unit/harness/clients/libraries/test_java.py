"""A Java producer behind librdkafka's methods, with Futures of our own."""

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.clients.libraries.answers import AnsweredRecord
from highwater.harness.clients.libraries.java import JavaProducer
from highwater.harness.clients.libraries.java_errors import JavaError
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.harness.clients.libraries.java_gateway import KafkaGateway


class Answer:
    """A Future, and the metadata that it has."""

    def __init__(self) -> None:
        self.place: int | None = None

    def isDone(self) -> bool:  # noqa: N802 - Java's name
        return self.place is not None

    def get(self) -> "Answer":
        return self

    def offset(self) -> int | None:
        return self.place


class Gateway:
    """A gateway to nothing: its producer answers when told to, and blocks until then."""

    release = (4, 4, 0)

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.closed = False
        self.go_on = threading.Event()
        self.calls: list[str] = []
        self.raises: Callable[[], None] = lambda: None

    def producer(self, settings: dict[str, str]) -> "Gateway":
        assert settings["acks"] == "all"
        return self

    def record(self, *fields: object) -> object:
        return fields

    def send(self, record: object) -> Answer:
        del record
        self.raises()
        self.answers.append(Answer())
        return self.answers[-1]

    def forget(self, *objects: object) -> None:
        del objects

    def close_now(self, producer: object) -> None:
        assert producer is self
        self.closed = True

    def partitionsFor(self, topic: str) -> list[str]:  # noqa: N802 - Java's name
        self.calls.append("partitions")
        self.raises()
        return [topic]

    def commitTransaction(self) -> None:  # noqa: N802 - Java's name
        self.calls.append("commit")
        self.go_on.wait(10)
        self.raises()

    def flush(self) -> None:
        self.calls.append("flush")
        self.go_on.wait(10)

    def refusal(self, raised: Py4JError, *, queued: bool = True) -> KafkaException:
        return KafkaException(JavaError(classes=(str(raised),), queued=queued))


SETTINGS: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 1000,
    "socket.timeout.ms": 1000,
    "request.timeout.ms": 1000,
    "queue.buffering.max.kbytes": 1,
    "enable.idempotence": True,
}


def opened() -> tuple[Gateway, JavaProducer]:
    gateway = Gateway()
    return gateway, JavaProducer(cast("KafkaGateway", gateway), SETTINGS)


def raise_of_java(name: str = "ProducerFencedException") -> None:
    raise Py4JError(name)


def test_answers_come_by_poll_in_whatever_order_partitions_answer() -> None:
    gateway, producer = opened()
    seen: list[tuple[bytes, int | None]] = []

    def answered(error: JavaError | None, record: AnsweredRecord) -> None:
        assert error is None
        seen.append((record.value(), record.offset()))

    for partition, value in enumerate((b"a", b"b")):
        producer.produce("events", value, partition=partition, on_delivery=answered)
    assert len(producer) == 2
    assert producer.poll(0) == 0
    gateway.answers[1].place = 7
    assert producer.poll(1) == 1
    assert seen == [(b"b", 7)]
    gateway.answers[0].place = 3
    assert producer.flush(1) == 0
    assert seen == [(b"b", 7), (b"a", 3)]


def test_a_topic_that_is_not_known_in_time_is_asked_for_again() -> None:
    gateway, producer = opened()

    def late() -> None:
        if len(gateway.calls) < 3:
            raise_of_java("TimeoutException")

    gateway.raises = late
    producer.reach("events", limit_s=5)
    assert gateway.calls == ["partitions"] * 3
    gateway.calls.clear()
    with pytest.raises(
        WaitTimeoutError, match="cannot get the partitions of events: TimeoutException"
    ):
        producer.reach("events", limit_s=0)
    gateway.calls.clear()
    gateway.raises = lambda: raise_of_java("IllegalStateException")
    with pytest.raises(WaitTimeoutError, match="IllegalStateException"):
        producer.reach("events", limit_s=5)
    assert len(gateway.calls) == 1


def test_purge_ends_it_and_reports_what_has_no_answer() -> None:
    gateway, producer = opened()
    errors: list[str] = []
    producer.queue("events", b"a", 0, on_delivery=lambda error, _: errors.append(error.name()))
    producer.purge()
    assert gateway.closed
    assert errors == [GAVE_UP]
    assert len(producer) == 0


def test_a_refused_send_is_not_queued() -> None:
    gateway, producer = opened()
    gateway.raises = raise_of_java
    with pytest.raises(KafkaException) as raised:
        producer.produce("events", b"a", partition=0, on_delivery=lambda *_: None)
    assert not raised.value.args[0].queued
    assert len(producer) == 0


def test_a_commit_that_blocks_is_gone_on_with_and_not_called_again() -> None:
    gateway, producer = opened()
    for _ in range(3):
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(0.01)
        assert raised.value.args[0].name() == SLOW
        assert raised.value.args[0].retriable()
    gateway.go_on.set()
    producer.commit_transaction(5)
    assert gateway.calls == ["commit"]


def test_what_a_commit_raises_is_raised_once_it_has_returned() -> None:
    gateway, producer = opened()
    gateway.go_on.set()
    gateway.raises = raise_of_java
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(5)
    assert raised.value.args[0].fatal()
    gateway.raises = lambda: None
    producer.commit_transaction(5)
    assert gateway.calls == ["commit", "commit"]


def test_a_trusted_flush_is_the_answer_about_every_record() -> None:
    gateway, producer = opened()
    seen: list[tuple[bytes, int | None]] = []

    def answered(error: JavaError | None, record: AnsweredRecord) -> None:
        assert error is None
        seen.append((record.value(), record.offset()))

    for value in (b"a", b"b"):
        producer.produce("events", value, partition=0, on_delivery=answered)
    assert not producer.trust_flush(0.05)
    assert seen == []
    gateway.answers[0].place = 3
    gateway.go_on.set()
    assert producer.trust_flush(5)
    assert seen == [(b"a", 3), (b"b", None)]  # flush returned, and b has no answer
    assert gateway.calls == ["flush"]
    assert len(producer) == 0

"""The mailbox of a driver's consumer: what happened first is served first."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, cast

import pytest
from confluent_kafka import KafkaException, TopicPartition
from kafka.errors import RebalanceInProgressError

from highwater.harness.clients.drivers.client_driver import (
    ClientDriver,
    DriverAnswer,
    DriverRecord,
)
from highwater.harness.clients.drivers.driver_consumer import DriverConsumer

TOPIC = "events"
Answered = Callable[[DriverAnswer], None]


def record(offset: int, partition: int = 0) -> DriverRecord:
    return DriverRecord(partition=partition, offset=offset, value="m")


class Log:
    """A driver that does what a test says at each poll, and remembers what it was asked."""

    happened: Answered

    def __init__(self) -> None:
        self.answered: Answered
        self.asked: list[object] = []
        self.polls: list[Callable[[], None]] = []
        self.handled: dict[int, Future[None]] = {}
        self.commits: list[Future[None]] = []

    def check(self) -> None: ...

    def ask(self, op: str, answered: Answered, **words: int) -> None:
        if op == "handled":
            self.handled[words["event"]].set_result(None)
            return
        assert op == "poll"
        self.answered = answered
        if self.polls:
            threading.Thread(target=self.polls.pop(0)).start()

    def given(self, *records: DriverRecord, error: str = "") -> None:
        self.answered(DriverAnswer(id=1, records=records, error=error))

    def events(self, event: Literal["assigned", "revoked"], numbers: list[int]) -> Future[None]:
        number = len(self.handled) + 1
        self.handled[number] = Future()
        self.happened(DriverAnswer(id=number, event=event, partitions=tuple(numbers)))
        return self.handled[number]

    def fulfil(
        self, op: str, result: Callable[[DriverAnswer], object], **words: object
    ) -> Future[Any]:
        future: Future[Any] = Future()
        if op in {"seek", "commit"}:
            self.asked.append((op, words["offsets"]))
        if op == "commit":
            self.commits.append(future)
        elif op != "bounds":
            future.set_result(result(DriverAnswer(id=1)))
        return future

    def kill(self) -> None:
        self.asked.append("crash")


def opened(**settings: object) -> tuple[DriverConsumer, Log]:
    log = Log()
    return DriverConsumer(lambda _: cast("ClientDriver", log), settings), log


def place(partition: int, offset: int = -1001) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def member() -> tuple[DriverConsumer, Log, list[tuple[str, list[int]]]]:
    consumer, log = opened()
    told: list[tuple[str, list[int]]] = []

    def assigned(client: DriverConsumer, places: list[TopicPartition]) -> None:
        told.append(("assigned", [given.partition for given in places]))
        client.assign([place(given.partition, 5) for given in places])

    def revoked(_: object, places: list[TopicPartition]) -> None:
        told.append(("revoked", [given.partition for given in places]))

    consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    return consumer, log, told


def test_a_listener_waits_until_the_readers_thread_has_served_it() -> None:
    consumer, log, told = member()
    threads: list[bool] = []

    def rebalanced() -> None:
        threads.append(log.events("assigned", [0, 1]).result(5) is None)
        log.given(record(5), record(6), record(5, 1))

    log.polls.append(rebalanced)
    assert [read.offset() for read in consumer.consume(2, 1)] == [5, 6]
    assert [read.partition() for read in consumer.consume(2, 1)] == [1]
    assert (told, threads) == ([("assigned", [0, 1])], [True])
    assert log.asked[-1] == ("seek", {0: 5, 1: 5})


def test_what_was_polled_before_a_partition_was_taken_is_given_and_what_came_later_is_not() -> None:
    consumer, log, told = member()

    def assigned() -> None:
        log.events("assigned", [0])
        log.given()

    def revoked() -> None:
        log.given(record(5))
        log.events("revoked", [0])

    log.polls += [assigned, revoked, lambda: log.given(record(6))]
    assert consumer.consume(10, 1) == []
    assert [read.offset() for read in consumer.consume(10, 1)] == [5]
    assert told == [("assigned", [0])]
    assert consumer.consume(10, 1) == []
    assert told[-1] == ("revoked", [0])


def test_what_was_polled_before_a_seek_is_not_given() -> None:
    consumer, log = opened()
    consumer.assign([place(0, 0), place(1, 0)])
    assert consumer.consume(10, -0.9) == []
    log.given(record(0), record(0, 1))
    consumer.seek(place(0, 3))
    assert [read.partition() for read in consumer.consume(10, 1)] == [1]


def test_an_answer_to_a_commit_is_served_with_the_next_poll() -> None:
    answers: list[Any] = []
    consumer, log = opened(on_commit=lambda error, places: answers.append((error, places)))
    consumer.assign([place(0, 0)])
    consumer.commit(offsets=[place(0, 4)], asynchronous=True)
    consumer.commit(offsets=[place(0, 5)], asynchronous=True)
    log.commits[0].set_result(None)
    log.commits[1].set_exception(RebalanceInProgressError())
    assert answers == []
    log.polls.append(log.given)
    consumer.consume(10, 1)
    assert [error and error.name() for error, _ in answers] == [None, "RebalanceInProgressError"]
    assert [places[0].offset for _, places in answers] == [4, 5]


def test_a_commit_that_is_waited_for_raises_what_the_library_has_raised() -> None:
    consumer, log = opened()
    consumer.assign([place(0, 0)])
    threading.Timer(0.05, lambda: log.commits[0].set_exception(RebalanceInProgressError())).start()
    with pytest.raises(KafkaException) as raised:
        consumer.commit(offsets=[place(0, 4)], asynchronous=False)
    assert raised.value.args[0].name() == "RebalanceInProgressError"


def test_a_question_without_an_answer_ends() -> None:
    consumer, _ = opened()
    consumer.assign([place(0, 0)])
    with pytest.raises(KafkaException, match="no response within"):
        consumer.get_watermark_offsets(place(0), 0.01)


def test_another_error_is_one_of_no_partition() -> None:
    consumer, log = opened()
    consumer.assign([place(0, 9)])
    log.polls.append(lambda: log.given(error="RebalanceInProgressError"))
    [message] = consumer.consume(10, 1)
    assert message.error() is not None
    assert message.partition() is None


def test_a_poll_that_does_not_return_is_waited_for_the_next_time() -> None:
    consumer, log = opened()
    consumer.assign([place(0, 0)])
    assert consumer.consume(10, -0.9) == []
    log.given(record(0))
    log.polls.append(lambda: pytest.fail("a poll goes on"))
    assert [read.offset() for read in consumer.consume(10, 1)] == [0]


def test_a_consumer_that_knows_no_generation_has_none() -> None:
    consumer, _ = opened()
    assert consumer.epoch() is None

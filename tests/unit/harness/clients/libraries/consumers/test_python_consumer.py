"""The mailbox of consumers of Python's libraries: what happened first is served first."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError, RebalanceInProgressError

from highwater.harness.clients.libraries.consumers.python_consumer import (
    Events,
    Polled,
    PythonConsumer,
)
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage

TOPIC = "events"


def ended(result: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def record(offset: int, partition: int = 0) -> ReadMessage:
    return ReadMessage(partition, offset, b"m")


class Log:
    """A library that does what a test says at each poll, and remembers what it was asked."""

    def __init__(self, post: Callable[[Polled], None]) -> None:
        self.post = post
        self.asked: list[object] = []
        self.polls: list[Callable[[], None]] = []
        self.events: Events
        self.seeks: dict[int, int] = {}
        self.commits: list[Future[None]] = []

    def assign(self, topic: str, partitions: list[int]) -> None:
        self.asked.append(("assign", topic, partitions))

    def subscribe(self, topic: str, events: Events) -> None:
        self.asked.append(("subscribe", topic))
        self.events = events

    def poll(self, most: int, wait_s: float) -> None:
        del most, wait_s
        if self.polls:
            threading.Thread(target=self.polls.pop(0)).start()

    def given(self, *messages: ReadMessage) -> None:
        self.post(Polled(messages=messages, seeks=dict(self.seeks)))

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        self.asked.append(("seek", dict(offsets)))
        for partition in offsets:
            self.seeks[partition] = self.seeks.get(partition, 0) + 1
        return ended(None)

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        return ended(dict.fromkeys(partitions[:1], 5))

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        self.asked.append(("commit", dict(offsets)))
        self.commits.append(Future())
        return self.commits[-1]

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        del topic, partition
        return Future()

    def group_metadata(self) -> str:
        return "g"

    def epoch(self) -> int:
        return -1

    def leave(self) -> Future[None]:
        return ended(None)

    def crash(self) -> None:
        self.asked.append("crash")


def opened(**settings: object) -> tuple[PythonConsumer, Log]:
    made: list[Log] = []

    def make(post: Callable[[Polled], None]) -> Log:
        made.append(Log(post))
        return made[0]

    return PythonConsumer(make, settings), made[0]


def place(partition: int, offset: int = -1001) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def member() -> tuple[PythonConsumer, Log, list[tuple[str, list[int]]]]:
    consumer, log = opened()
    told: list[tuple[str, list[int]]] = []

    def assigned(client: PythonConsumer, places: list[TopicPartition]) -> None:
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
    before = dict(log.seeks)
    consumer.seek(place(0, 3))
    late = Polled(messages=[record(0), record(0, 1)], seeks=before)
    log.polls.append(lambda: log.post(late))
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
    with pytest.raises(KafkaException, match="no answer within"):
        consumer.get_watermark_offsets(place(0), 0.01)


@pytest.mark.parametrize(
    ("raised", "position"),
    [
        (OffsetOutOfRangeError({place(0): 9}), 9),
        (LogTruncationError({place(0): type("Offset", (), {"offset": 4})()}), 4),
    ],
)
def test_a_position_that_is_not_in_the_log_is_an_error_of_its_partition(
    raised: Exception, position: int
) -> None:
    consumer, log = opened()
    consumer.assign([place(0, 9)])
    log.polls.append(lambda: log.post(Polled(raised=raised, seeks={})))
    [message] = consumer.consume(10, 1)
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert (message.partition(), message.offset()) == (0, position)


def test_another_error_is_one_of_no_partition() -> None:
    consumer, log = opened()
    consumer.assign([place(0, 9)])
    log.polls.append(lambda: log.post(Polled(raised=RebalanceInProgressError(), seeks={})))
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

"""A driver's producer behind librdkafka's methods, with a driver of our own."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.drivers.client_driver import ClientDriver, DriverAnswer
from highwater.harness.clients.drivers.driver_errors import DriverError
from highwater.harness.clients.drivers.driver_producer import DriverProducer
from highwater.harness.clients.libraries.answers import AnsweredRecord
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW


class Driver:
    """A driver that answers when told to."""

    def __init__(self) -> None:
        self.answers: list[Callable[[DriverAnswer], None]] = []
        self.calls: list[tuple[str, Future[Any]]] = []
        self.ends = 0
        self.broken = False

    def check(self) -> None:
        if self.broken:
            raise HarnessError("it is broken")

    def ask(self, op: str, answered: Callable[[DriverAnswer], None], **words: object) -> None:
        assert op == "send"
        assert (words.pop("topic"), words.pop("partition")) == ("t", 2)
        assert words.pop("value")
        assert not words
        self.answers.append(answered)

    def fulfil(self, op: str, _: object, **words: object) -> Future[Any]:
        assert words in ({}, {"topic": "t", "offsets": {2: 7}, "member": "group"})
        self.calls.append((op, Future()))
        return self.calls[-1][1]

    def kill(self) -> None:
        self.ends += 1


def acknowledged(offset: int) -> DriverAnswer:
    return DriverAnswer(id=1, offset=offset)


Seen = list[tuple[str | None, int | None, bytes]]


def producer() -> tuple[DriverProducer, Driver, Seen]:
    driver = Driver()
    return DriverProducer(cast("ClientDriver", driver)), driver, []


def send(ours: DriverProducer, seen: Seen, value: bytes = b"x") -> None:
    def answered(error: DriverError | None, record: AnsweredRecord) -> None:
        assert record.partition() == 2
        name = None if error is None else error.name()
        seen.append((name, record.offset(), record.value()))

    ours.produce("t", value, partition=2, on_delivery=answered)


def test_answers_of_another_thread_wait_until_they_are_served() -> None:
    ours, driver, seen = producer()
    send(ours, seen, b"a")
    send(ours, seen, b"b")
    thread = threading.Thread(target=lambda: [answer(acknowledged(7)) for answer in driver.answers])
    thread.start()
    thread.join()
    assert (len(ours), seen) == (2, [])
    assert ours.poll(1) == 2
    assert seen == [(None, 7, b"a"), (None, 7, b"b")]
    assert (len(ours), ours.poll(0), ours.flush(0)) == (0, 0, 0)


def test_a_poll_waits_for_the_first_answer_and_no_longer() -> None:
    ours, driver, seen = producer()
    send(ours, seen)
    timer = threading.Timer(0.05, lambda: driver.answers[0](DriverAnswer(id=1, error="E")))
    timer.start()
    assert ours.poll(30) == 1
    assert seen == [("E", None, b"x")]
    assert ours.poll(0.01) == 0


def test_a_refused_record_is_not_waited_for() -> None:
    ours, driver, seen = producer()
    driver.broken = True
    with pytest.raises(HarnessError):
        send(ours, seen)
    assert (len(ours), seen) == (0, [])


def test_after_a_fatal_error_nothing_is_sent_and_the_caller_opens_another_producer() -> None:
    ours, driver, seen = producer()
    send(ours, seen)
    driver.answers[0](DriverAnswer(id=1, error="E", code=47, fatal=True))
    with pytest.raises(KafkaException) as raised:
        send(ours, seen, b"y")
    error = raised.value.args[0]
    assert (error.name(), error.fatal(), error.queued) == ("E", True, False)
    assert ours.flush(1) == 0
    assert seen == [("E", None, b"x")]


def test_a_full_queue_is_no_refusal() -> None:
    ours, driver, seen = producer()
    for _ in range(2_000):
        send(ours, seen)
    with pytest.raises(BufferError):
        send(ours, seen)
    driver.answers[0](acknowledged(1))
    ours.queue("t", b"y", 2, on_delivery=lambda *_: None)
    assert len(ours) == 2_000


def test_giving_up_ends_the_driver_and_ignores_what_comes_later() -> None:
    ours, driver, seen = producer()
    for value in (b"a", b"b"):
        send(ours, seen, value)
    driver.answers[0](acknowledged(3))
    ours.purge()
    assert seen == [(None, 3, b"a"), (GAVE_UP, None, b"b")]
    driver.answers[1](acknowledged(4))
    assert (ours.poll(0), len(ours), driver.ends) == (0, 0, 1)
    assert len(seen) == 2


def test_a_call_goes_on_where_it_stopped_until_it_has_an_end() -> None:
    ours, driver, _ = producer()
    for _ in range(2):
        with pytest.raises(KafkaException) as slow:
            ours.commit_transaction(0.001)
        assert slow.value.args[0].name() == SLOW
        assert slow.value.args[0].retriable()
    driver.calls[0][1].set_result(None)
    ours.commit_transaction(1)
    assert [name for name, _ in driver.calls] == ["commit"]


def test_a_call_that_fails_is_called_anew() -> None:
    ours, driver, _ = producer()
    timer = threading.Timer(0.05, lambda: driver.calls[0][1].set_exception(TimeoutError("late")))
    timer.start()
    with pytest.raises(KafkaException) as raised:
        ours.init_transactions(30)
    assert raised.value.args[0].name() == "TimeoutError"
    with pytest.raises(KafkaException):
        ours.init_transactions(0.001)
    assert len(driver.calls) == 2


def test_offsets_of_a_group_are_sent_once_however_often_they_are_waited_for() -> None:
    ours, driver, _ = producer()
    offsets = [TopicPartition("t", 2, 7)]
    with pytest.raises(KafkaException) as raised:
        ours.send_offsets_to_transaction(offsets, "group", 0.001)
    assert raised.value.args[0].retriable()
    driver.calls[0][1].set_result(None)
    ours.send_offsets_to_transaction(offsets, "group", 1)
    assert [name for name, _ in driver.calls] == ["offsets"]


def test_a_driver_ends_with_the_last_reference_to_its_producer() -> None:
    ours, driver, _ = producer()
    ours.drop()
    assert driver.ends == 1
    del ours
    gc.collect()
    assert driver.ends == 2

"""A producer of a Python library behind librdkafka's methods, with a client of our own."""

import gc
import threading
from collections.abc import Iterable
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.libraries.answers import AnsweredRecord
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW
from highwater.harness.clients.libraries.python_errors import PythonError
from highwater.harness.clients.libraries.python_producer import Answer, PythonProducer


class Client:
    """A client that answers when told to."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[tuple[str, Future[object]]] = []
        self.ends = 0
        self.raises: Exception | None = None

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        assert (topic, partition) == ("t", 2)
        assert value
        if self.raises is not None:
            raise self.raises
        self.answers.append(answer)

    def call(self, method: str, *words: object) -> Future[object]:
        assert words in ((), ("t",), ({("t", 2): 7}, "group"))
        self.calls.append((method, Future()))
        return self.calls[-1][1]

    def offsets(self, places: Iterable[TopicPartition]) -> object:
        return {(place.topic, place.partition): place.offset for place in places}

    def end(self) -> None:
        self.ends += 1


Seen = list[tuple[str | None, int | None, bytes]]


def producer() -> tuple[PythonProducer, Client, Seen]:
    client = Client()
    return PythonProducer(client), client, []


def send(ours: PythonProducer, seen: Seen, value: bytes = b"x") -> None:
    def answered(error: PythonError | None, record: AnsweredRecord) -> None:
        assert record.partition() == 2
        name = None if error is None else error.name()
        seen.append((name, record.offset(), record.value()))

    ours.produce("t", value, partition=2, on_delivery=answered)


def test_answers_of_another_thread_wait_until_they_are_served() -> None:
    ours, client, seen = producer()
    send(ours, seen, b"a")
    send(ours, seen, b"b")
    thread = threading.Thread(target=lambda: [answer(None, 7) for answer in client.answers])
    thread.start()
    thread.join()
    assert (len(ours), seen) == (2, [])
    assert ours.poll(1) == 2
    assert seen == [(None, 7, b"a"), (None, 7, b"b")]
    assert (len(ours), ours.poll(0), ours.flush(0)) == (0, 0, 0)


def test_a_poll_waits_for_the_first_answer_and_no_longer() -> None:
    ours, client, seen = producer()
    send(ours, seen)
    timer = threading.Timer(0.05, lambda: client.answers[0](PythonError(kind="E"), None))
    timer.start()
    assert ours.poll(30) == 1
    assert seen == [("E", None, b"x")]
    assert ours.poll(0.01) == 0


def test_a_refused_record_is_not_waited_for() -> None:
    ours, client, seen = producer()
    client.raises = KafkaException(PythonError(kind="E", queued=False))
    with pytest.raises(KafkaException):
        send(ours, seen)
    assert (len(ours), seen) == (0, [])


def test_a_full_queue_is_no_refusal() -> None:
    ours, client, seen = producer()
    for _ in range(2_000):
        send(ours, seen)
    with pytest.raises(BufferError):
        send(ours, seen)
    client.answers[0](None, 1)
    ours.queue("t", b"y", 2, on_delivery=lambda *_: None)
    assert len(ours) == 2_000


def test_giving_up_ends_the_client_and_ignores_what_comes_later() -> None:
    ours, client, seen = producer()
    for value in (b"a", b"b"):
        send(ours, seen, value)
    client.answers[0](None, 3)
    ours.purge()
    assert seen == [(None, 3, b"a"), (GAVE_UP, None, b"b")]
    client.answers[1](None, 4)
    assert (ours.poll(0), len(ours), client.ends) == (0, 0, 1)
    assert len(seen) == 2


def test_a_call_goes_on_where_it_stopped_until_it_has_an_end() -> None:
    ours, client, _ = producer()
    for _ in range(2):
        with pytest.raises(KafkaException) as slow:
            ours.commit_transaction(0.001)
        assert slow.value.args[0].name() == SLOW
        assert slow.value.args[0].retriable()
    client.calls[0][1].set_result(None)
    ours.commit_transaction(1)
    assert [name for name, _ in client.calls] == ["commit_transaction"]


def test_a_call_that_fails_is_called_anew() -> None:
    ours, client, _ = producer()
    timer = threading.Timer(0.05, lambda: client.calls[0][1].set_exception(TimeoutError("late")))
    timer.start()
    with pytest.raises(KafkaException) as raised:
        ours.init_transactions(30)
    assert raised.value.args[0].name() == "TimeoutError"
    with pytest.raises(KafkaException):
        ours.init_transactions(0.001)
    assert len(client.calls) == 2


def test_offsets_of_a_group_are_sent_once_however_often_they_are_waited_for() -> None:
    ours, client, _ = producer()
    offsets = [TopicPartition("t", 2, 7)]
    with pytest.raises(KafkaException) as raised:
        ours.send_offsets_to_transaction(offsets, "group", 0.001)
    assert raised.value.args[0].retriable()
    client.calls[0][1].set_result(None)
    ours.send_offsets_to_transaction(offsets, "group", 1)
    assert [name for name, _ in client.calls] == ["send_offsets_to_transaction"]


def test_a_client_ends_with_the_last_reference_to_its_producer() -> None:
    ours, client, _ = producer()
    ours.drop()
    assert client.ends == 1
    del ours
    gc.collect()
    assert client.ends == 2

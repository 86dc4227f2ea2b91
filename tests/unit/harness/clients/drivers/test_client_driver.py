"""A client driver, as a thread at the other end of a pipe that answers in its own way."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from io import FileIO

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.drivers import client_driver
from highwater.harness.clients.drivers.client_driver import (
    ENDED,
    ClientDriver,
    given_settings,
)
from highwater.harness.clients.drivers.driver_clients import DriverClients
from highwater.harness.clients.drivers.driver_consumer import DriverConsumer
from highwater.harness.clients.libraries.consumers.read_message import CREATE_TIME, NO_TIME
from highwater.harness.clients.libraries.interfaces import ClientError
from highwater.harness.runs.history import FAIL, INFO

SETTINGS = {"bootstrap.servers": "127.0.0.1:9", "acks": "all", "client.id": "p", "logger": object()}
Behaviour = Callable[[dict[str, object]], str]


class Process:
    """A driver that answers each request with the lines that a function returns."""

    def __init__(self, behaviour: Behaviour) -> None:
        reads, writes = os.pipe()
        self.requests = FileIO(writes, "wb")
        self._input = FileIO(reads, "rb")
        self._behaviour = behaviour
        self._ended = threading.Event()
        self.kills = 0

    def lines(self) -> Iterator[bytes]:
        begun = b""
        while chunk := self._input.read(65_536):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                answers = self._behaviour(json.loads(line))
                if answers == "end":
                    return
                yield from answers.encode().splitlines()

    def last_words(self) -> str:
        return "Traceback"

    def kill(self) -> None:
        self.kills += 1


def answers(request: dict[str, object]) -> str:
    """What a driver without faults answers."""
    words: dict[str, object] = {"id": request["id"]}
    if request["op"] == "open":
        words["library"] = "ours 1"
    if request["op"] == "send":
        words["offset"] = 7
    return json.dumps(words)


def answers_but(op: str, **words: object) -> Behaviour:
    """A driver without faults, but for its answers to one request."""
    return lambda request: (
        json.dumps({"id": request["id"], **words}) if request["op"] == op else answers(request)
    )


def wrong(behaviour: Behaviour) -> Behaviour:
    """A driver that opens, and then answers in a way of its own."""
    return lambda request: answers(request) if request["op"] == "open" else behaviour(request)


Outcome = tuple[str, int | None]


def sent(behaviour: Behaviour) -> tuple[list[Outcome], list[ClientError]]:
    """Send a record; return its outcome, and its error."""
    outcomes: list[Outcome] = []
    errors: list[ClientError] = []
    library = DriverClients(lambda: Process(behaviour))
    producer = library.producer(SETTINGS)

    def answered(error: ClientError | None, record: object) -> None:
        offset = getattr(record, "place")  # noqa: B009 - of any library's record
        if error is not None:
            errors.append(error)
        outcomes.append(
            (library.outcomes.delivered(error, retries=True) if error else "ok", offset)  # type: ignore[arg-type]
        )

    producer.produce("t", b"x", partition=2, on_delivery=answered)
    producer.flush(10)
    library.close()
    return outcomes, errors


def test_a_driver_gets_the_settings_that_are_specified() -> None:
    seen: list[dict[str, object]] = []

    def behaviour(request: dict[str, object]) -> str:
        seen.append(request)
        return answers(request)

    assert sent(behaviour) == ([("ok", 7)], [])
    given = {name: SETTINGS[name] for name in ("bootstrap.servers", "client.id", "acks")}
    assert given_settings(SETTINGS) == given
    assert seen == [
        {"id": 1, "op": "open", "protocol": 1, "role": "producer", "config": given},
        {"id": 2, "op": "send", "topic": "t", "partition": 2, "value": "x"},
    ]


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ({"error": "NOT_LEADER_OR_FOLLOWER", "code": 6}, INFO),
        ({"error": "RECORD_TOO_LARGE", "queued": False}, FAIL),
        ({"error": "TIMED_OUT"}, INFO),
    ],
)
def test_an_error_says_whether_the_record_was_sent(words: dict[str, object], outcome: str) -> None:
    [found], [error] = sent(wrong(lambda request: json.dumps({"id": request["id"], **words})))
    assert found == (outcome, None)
    assert error.name() == words["error"]
    assert error.code() == words.get("code", -1)


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (lambda _: "garbage", "not a response: 'garbage'"),
        (lambda _: '{"id": "two"}', ": Expected `int`"),
        (
            lambda _: '{"id": 9}',
            "the driver responded to request 9, which does not wait for a response",
        ),
        (lambda _: "end", "the driver ended by itself. Its last error line is: Traceback"),
    ],
)
def test_a_driver_that_breaks_the_protocol_is_ended_and_its_records_are_unknown(
    behaviour: Behaviour, says: str
) -> None:
    [found], [error] = sent(wrong(behaviour))
    assert found == (INFO, None)
    assert error.name() == ENDED
    assert says in str(error)


def test_an_answer_is_given_once() -> None:
    twice = wrong(lambda request: f"{answers(request)}\n{answers(request)}")
    process = Process(twice)
    driver = ClientDriver(process)
    driver.call("open").result(10)
    assert driver.call("send").result(10).offset == 7
    later: Future[object] = Future()
    driver.ask("send", later.set_result)
    later.result(10)
    assert driver.broken == "the driver responded to request 2, which does not wait for a response"
    assert process.kills


def test_after_that_a_send_ends_the_run() -> None:
    library = DriverClients(lambda: Process(wrong(lambda _: "garbage")))
    producer = library.producer(SETTINGS)
    producer.produce("t", b"x", partition=0, on_delivery=lambda *_: None)
    assert producer.flush(10) == 0
    with pytest.raises(HarnessError, match="cannot be used: not a response: 'garbage'"):
        producer.produce("t", b"y", partition=0, on_delivery=lambda *_: None)


def test_a_driver_that_opens_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = DriverClients(
        lambda: Process(lambda request: json.dumps({"id": request["id"], "error": "NO_ZSTD"}))
    )
    with pytest.raises(HarnessError, match="cannot open a producer: NO_ZSTD"):
        refuses.producer(SETTINGS)
    monkeypatch.setattr(client_driver, "OPENS_S", 0.1)
    silent = DriverClients(lambda: Process(lambda _: ""))
    with pytest.raises(HarnessError, match="did not respond within"):
        silent.producer(SETTINGS)


def test_its_transactions_are_requests() -> None:
    seen: list[object] = []

    def behaviour(request: dict[str, object]) -> str:
        seen.append(request["op"])
        if request["op"] == "commit" and seen.count("commit") == 1:
            return json.dumps({"id": request["id"], "error": "_TIMED_OUT", "again": True})
        if request["op"] == "abort":
            return json.dumps({"id": request["id"], "error": "FENCED", "code": 47, "fatal": True})
        return answers(request)

    producer = DriverClients(lambda: Process(behaviour)).producer(SETTINGS)
    producer.init_transactions(10)
    producer.begin_transaction()
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(10)
    assert raised.value.args[0].retriable()
    producer.commit_transaction(10)
    with pytest.raises(KafkaException) as raised:
        producer.abort_transaction(10)
    fenced = raised.value.args[0]
    assert (fenced.name(), fenced.code(), fenced.fatal()) == ("FENCED", 47, True)
    assert seen == ["open", "init", "begin", "commit", "commit", "abort"]


def test_a_group_member_is_handed_to_the_producer_as_it_is() -> None:
    member = {"group": "g", "generation": 4, "names": ["m", None]}
    seen: list[dict[str, object]] = []

    def behaviour(request: dict[str, object]) -> str:
        seen.append(request)
        return answers_but("member", member=member)(request)

    library = DriverClients(lambda: Process(behaviour))
    consumer, producer = library.consumer(SETTINGS), library.producer(SETTINGS)
    nothing = lambda *_: None  # noqa: E731 - three times the same
    consumer.subscribe(["t"], on_assign=nothing, on_revoke=nothing, on_lost=nothing)
    places = [TopicPartition("t", 0, 13), TopicPartition("t", 2, 1)]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 10)
    offsets = {"topic": "t", "offsets": {"0": 13, "2": 1}, "member": member}
    assert seen[-2:] == [{"id": 3, "op": "member"}, {"id": 2, "op": "offsets", **offsets}]


def reading(behaviour: Behaviour) -> DriverConsumer:
    """A consumer that reads partition 0 from offset 5."""
    consumer = DriverClients(lambda: Process(wrong(behaviour))).consumer(SETTINGS)
    consumer.assign([TopicPartition("t", 0, 5)])
    return consumer


def test_its_consumer_reads_from_where_it_is_told() -> None:
    seen: list[dict[str, object]] = []

    def behaviour(request: dict[str, object]) -> str:
        seen.append(request)
        words: dict[str, object] = {"id": request["id"]}
        if request["op"] == "poll":
            first = {"partition": 0, "offset": 5, "value": "x|", "epoch": 2}
            tombstone = {"partition": 0, "offset": 6, "value": None, "key": "k", "timestamp_ms": 7}
            words["records"] = [first, tombstone]
        if request["op"] == "bounds":
            words |= {"first": 3, "end": 6}
        return json.dumps(words)

    consumer = reading(behaviour)
    record, deleted = consumer.consume(10, 0.5)
    assert (record.partition(), record.offset(), record.value()) == (0, 5, b"x|")
    assert (record.leader_epoch(), record.key(), record.timestamp()) == (2, None, (NO_TIME, 0))
    assert (deleted.value(), deleted.key(), deleted.timestamp()) == (None, b"k", (CREATE_TIME, 7))
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), 10) == (3, 6)
    assert seen == [
        {"id": 2, "op": "seek", "topic": "t", "offsets": {"0": 5}},
        {"id": 3, "op": "poll", "max": 10, "wait_ms": 500},
        {"id": 4, "op": "bounds", "topic": "t", "partition": 0},
    ]


def test_records_that_were_polled_before_a_seek_are_not_passed_on() -> None:
    waiting: list[str] = []

    def behaviour(request: dict[str, object]) -> str:
        if request["op"] != "poll":
            return "\n".join([*waiting, answers(request)])
        record = {"partition": 0, "offset": 5, "value": "x|"}
        waiting.append(json.dumps({"id": request["id"], "records": [record]}))
        return ""

    consumer = reading(behaviour)
    assert not consumer.consume(10, 0.0)
    consumer.seek(TopicPartition("t", 0, 9))
    assert not consumer.consume(10, 0.0)


def test_a_position_out_of_range_is_reported_and_a_broken_consumer_ends_the_run() -> None:
    polls = iter([json.dumps({"id": 3, "out_of_range": {"0": 5}}), "garbage"])
    consumer = reading(lambda request: next(polls) if request["op"] == "poll" else answers(request))
    [found] = consumer.consume(10, 5.0)
    error = found.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert (found.partition(), found.offset()) == (0, 5)
    [found] = consumer.consume(10, 5.0)
    assert found.error() is not None
    with pytest.raises(HarnessError, match="cannot be used: not a response: 'garbage'"):
        consumer.consume(10, 5.0)


def test_a_member_waits_at_each_event_until_it_is_handled() -> None:
    seen: list[dict[str, object]] = []
    event = {"id": 1, "event": "assigned", "partitions": [0, 2], "generation": 4}

    def behaviour(request: dict[str, object]) -> str:
        seen.append(request)
        if request["op"] == "committed":
            return json.dumps({"id": request["id"], "offsets": {"2": 9}})
        if request["op"] == "poll":
            return json.dumps(event)
        return answers(request)

    assigned: list[tuple[int, int]] = []

    def on_assign(consumer: DriverConsumer, places: list[TopicPartition]) -> None:
        there = consumer.committed(places, 10)
        assigned.extend((place.partition, place.offset) for place in there)
        consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 2, 9)])

    consumer = DriverClients(lambda: Process(behaviour)).consumer({**SETTINGS, "group.id": "g"})
    nothing = lambda *_: None  # noqa: E731 - twice the same
    consumer.subscribe(["t"], on_assign=on_assign, on_revoke=nothing, on_lost=nothing)
    assert not consumer.consume(10, 0.1)
    assert assigned == [(0, -1), (2, 9)]
    assert consumer.epoch() == 4
    consumer.commit(offsets=[TopicPartition("t", 2, 12)], asynchronous=False)
    consumer.close()
    config = seen[0]["config"]
    assert isinstance(config, dict)
    assert config["group.id"] == "g"
    words = [{name: word for name, word in each.items() if name != "id"} for each in seen[1:]]
    assert words == [
        {"op": "subscribe", "topic": "t"},
        {"op": "poll", "max": 10, "wait_ms": 100},
        {"op": "committed", "topic": "t", "partitions": [0, 2]},
        {"op": "seek", "topic": "t", "offsets": {"0": 0, "2": 9}},
        {"op": "handled", "event": 1},
        {"op": "commit", "topic": "t", "offsets": {"2": 12}},
        {"op": "close"},
    ]


def test_what_a_driver_cannot_do_in_a_group_ends_the_run() -> None:
    refuses = wrong(lambda request: json.dumps({"id": request["id"], "error": "NO_GROUPS"}))
    nothing = lambda *_: None  # noqa: E731 - six times the same
    consumer = DriverClients(lambda: Process(refuses)).consumer(SETTINGS)
    with pytest.raises(HarnessError, match="cannot join the group: NO_GROUPS"):
        consumer.subscribe(["t"], on_assign=nothing, on_revoke=nothing, on_lost=nothing)
    lonely = wrong(lambda _: json.dumps({"id": 1, "event": "lost", "partitions": [0]}))
    [found], [error] = sent(lonely)
    assert found == (INFO, None)
    assert "the driver reports lost partitions, but is not in a group" in str(error)
    subscribed = answers_but("member", error="NO_SUCH_REQUEST")
    consumer = DriverClients(lambda: Process(subscribed)).consumer(SETTINGS)
    consumer.subscribe(["t"], on_assign=nothing, on_revoke=nothing, on_lost=nothing)
    with pytest.raises(
        HarnessError, match="cannot commit offsets in transactions: NO_SUCH_REQUEST"
    ):
        consumer.consumer_group_metadata()


def test_a_crash_is_its_end() -> None:
    process = Process(wrong(lambda _: ""))
    producer = DriverClients(lambda: process).producer(SETTINGS)
    errors: list[ClientError] = []
    producer.produce("t", b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.drop()
    producer.flush(10)
    assert process.kills
    assert [error.name() for error in errors] == [ENDED]
    await_condition(
        lambda: "closed" if process.requests.closed else "open",
        lambda seen: seen == "closed",
        what="the pipe of its requests to be closed",
        limit_s=10,
    )

"""A Java consumer behind librdkafka's methods, with a Java of our own."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition
from py4j.protocol import Py4JJavaError

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.consumers.java_consumer import JavaConsumer
from highwater.harness.clients.libraries.java_errors import JavaError

if TYPE_CHECKING:
    from highwater.harness.clients.libraries.consumers.java_callbacks import CallbackGateway

TOPIC = "events"
OUT = ("OffsetOutOfRangeException", "InvalidOffsetException", "KafkaException")


class Words:
    """An object of Java that is known by what it prints."""

    def __init__(self, words: str) -> None:
        self.words = words

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self.words

    def isEmpty(self) -> bool:  # noqa: N802 - Java's name
        return self.words == "[]"


class ThrownError(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """What Java has thrown."""

    def __init__(self, classes: tuple[str, ...], **words: str) -> None:
        self.classes = classes
        self.words = words
        self.java_exception = self

    def __str__(self) -> str:
        return self.classes[0]

    def offsetOutOfRangePartitions(self) -> Words:  # noqa: N802 - Java's name
        return Words(self.words["out"])

    def divergentOffsets(self) -> Words:  # noqa: N802 - Java's name
        return Words(self.words["divergent"])


class Java:
    """A gateway, and the consumer that it opens: each poll does what a test says."""

    release = (4, 4, 0)

    def __init__(self) -> None:
        self.polls: list[Callable[[], Words]] = []
        self.calls: list[tuple[object, ...]] = []
        self.listener: Any = None

    def consumer(self, settings: dict[str, str]) -> "Java":
        assert settings["auto.offset.reset"] == "none"
        return self

    def poll(self, wait: object) -> Words:
        del wait
        return self.polls.pop(0)()

    def subscribe(self, topics: object, listener: object) -> None:
        del topics
        self.listener = listener

    def text_of_all(self, records: Words) -> str:
        return records.words

    def error_of(self, raised: ThrownError) -> JavaError:
        return JavaError(classes=raised.classes)

    def seek(self, place: object, offset: int) -> None:
        self.calls.append(("seek", place, offset))

    def list(self, items: Iterable[object]) -> tuple[object, ...]:
        return tuple(items)

    def partition(self, topic: str, number: int) -> tuple[str, int]:
        return topic, number

    def duration(self, seconds: float) -> float:
        return seconds

    def forget(self, *objects: object) -> None:
        """Nothing is kept."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *words: self.calls.append((name, *words))


def printed(*places: tuple[int, int]) -> Words:
    records = (
        f"ConsumerRecord(topic = {TOPIC}, partition = {partition}, offset = {offset}, serialized"
        " key size = -1, serialized value size = 1, key = null, value = m)"
        for partition, offset in places
    )
    return Words(f"[{', '.join(records)}]")


def opened(java: Java, **settings: object) -> JavaConsumer:
    common = clients.common("127.0.0.1:9", "r", cast("Any", None), quirks={})
    ours = {**clients.consumer(common), **settings}
    return JavaConsumer(cast("CallbackGateway", java), ours)


def member(java: Java) -> tuple[JavaConsumer, list[tuple[str, list[int]]]]:
    told: list[tuple[str, list[int]]] = []

    def tell(what: str) -> Callable[[Any, list[TopicPartition]], None]:
        return lambda _, places: told.append((what, [place.partition for place in places]))

    consumer = opened(java)
    consumer.subscribe(
        [TOPIC], on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost")
    )
    return consumer, told


def test_a_poll_in_which_a_partition_is_taken_gives_the_records_of_the_others() -> None:
    java = Java()
    consumer, told = member(java)

    def poll() -> Words:
        java.listener.onPartitionsRevoked(Words("[events-1]"))
        java.listener.onPartitionsAssigned(Words("[]"))
        return printed((0, 5), (0, 6))

    java.polls += [poll]
    assert [message.offset() for message in consumer.consume(10, 1)] == [5, 6]
    assert told == [("revoked", [1]), ("assigned", [])]


def test_records_that_were_not_given_yet_go_with_their_partition() -> None:
    java = Java()
    consumer, _ = member(java)
    java.polls += [lambda: printed((0, 5), (1, 7), (0, 6))]
    assert [message.offset() for message in consumer.consume(1, 1)] == [5]
    java.listener.onPartitionsRevoked(Words("[events-1]"))
    assert [message.offset() for message in consumer.consume(10, 1)] == [6]


def test_nothing_is_told_of_nothing_taken() -> None:
    java = Java()
    _, told = member(java)
    java.listener.onPartitionsRevoked(Words("[]"))
    java.listener.onPartitionsLost(Words("[]"))
    assert told == []


def test_what_a_callback_raises_is_raised_by_the_poll() -> None:
    java = Java()
    consumer = opened(java)

    def fail(*_: object) -> None:
        raise ValueError("mine")

    consumer.subscribe([TOPIC], on_assign=fail, on_revoke=fail, on_lost=fail)

    def poll() -> Words:
        java.listener.onPartitionsAssigned(Words("[events-0]"))
        return Words("[]")

    java.polls += [poll]
    with pytest.raises(ValueError, match="mine"):
        consumer.consume(1, 1)


def test_answers_to_commits_are_told_with_their_places() -> None:
    java = Java()
    answers: list[Any] = []
    consumer = opened(java, on_commit=lambda *answer: answers.append(answer))
    consumer.subscribe(
        [TOPIC], on_assign=lambda *_: None, on_revoke=lambda *_: None, on_lost=lambda *_: None
    )
    offsets = "{events-0=OffsetAndMetadata{offset=7, leaderEpoch=null, metadata=''}}"
    java.listener.onComplete(Words(offsets), None)
    java.listener.onComplete(Words(offsets), ThrownError(("RebalanceInProgressException",)))
    assert [error and error.name() for error, _ in answers] == [
        None,
        "RebalanceInProgressException",
    ]
    assert [(place.partition, place.offset) for _, [place] in answers] == [(0, 7), (0, 7)]


@pytest.mark.parametrize(
    ("raised", "position"),
    [
        (ThrownError(OUT, out="{events-2=1000}"), 1000),
        (
            ThrownError(
                ("LogTruncationException", *OUT),
                out="{events-2=1000}",
                divergent="{events-2=OffsetAndMetadata{offset=990, leaderEpoch=3, metadata=''}}",
            ),
            990,
        ),
    ],
)
def test_a_position_that_is_not_in_the_log_is_an_error_of_its_partition(
    raised: ThrownError, position: int
) -> None:
    java = Java()
    consumer, _ = member(java)

    def poll() -> Words:
        raise raised

    java.polls += [poll]
    [message] = consumer.consume(1, 1)
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert (message.partition(), message.offset()) == (2, position)


def test_a_member_that_crashes_tells_nothing_more() -> None:
    java = Java()
    consumer, told = member(java)
    consumer.drop()
    java.listener.onPartitionsLost(Words("[events-0]"))
    assert told == []
    assert ("close_as_member", java) in java.calls

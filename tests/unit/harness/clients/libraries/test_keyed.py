"""A producer that gives records the keys in their names, and what readers make of tombstones."""

from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest

from highwater.harness.clients.libraries.keyed import (
    KeyedProducer,
    NamedProducer,
    read_values,
)
from highwater.harness.runs.history import record_value
from highwater.harness.runs.topics.record_keys import parts

TOPIC = "t"


@pytest.fixture
def producer() -> KeyedProducer:
    """A producer without brokers: what it is asked to send is purged."""
    return KeyedProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("k5=p0-17", b"k5", b"k5=p0-17|......"),
        ("fence-0-1", b"fence-0-1", b"fence-0-1|....."),
        ("k5~p1-17", b"k5", b"k5~p1-17|......"),
    ],
)
def test_a_delivery_report_names_its_record(
    producer: KeyedProducer, name: str, key: bytes, value: bytes
) -> None:
    reports: list[Any] = []
    producer.produce(
        TOPIC,
        record_value(name, 15),
        partition=0,
        on_delivery=lambda error, message: reports.append((error, message)),
    )
    producer.purge()
    producer.flush(5)
    [(error, message)] = reports
    assert error.code() == confluent_kafka.KafkaError._PURGE_QUEUE
    assert message.value() == value
    assert message.partition() == 0
    inner = getattr(message, "message", message)
    assert inner.key() == key
    assert (inner.value() is None) == ("~" in name)


def test_a_record_of_the_users_has_its_name_as_key() -> None:
    reports: list[Any] = []
    names = {b'{"id": 7}': "7"}
    own = NamedProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, names)
    own.produce(
        TOPIC, b'{"id": 7}', partition=0, on_delivery=lambda *report: reports.append(report)
    )
    own.purge()
    own.flush(5)
    [(_, message)] = reports
    assert (message.key(), message.value()) == (b"7", b'{"id": 7}')


def test_readers_name_tombstones_by_their_timestamps() -> None:
    named = parts("k5~p1-17")
    assert named is not None
    messages = [_message(b"k5", b"k5=p0-1", 7), _message(b"k5", None, named.timestamp_ms)]
    assert read_values(cast("Any", messages)) == [b"k5=p0-1", b"k5~p1-17"]
    assert read_values(cast("Any", [_message(None, None, 0)])) == [None]


def _message(key: bytes | None, value: bytes | None, time_ms: int) -> SimpleNamespace:
    return SimpleNamespace(
        key=lambda: key, value=lambda: value, timestamp=lambda: (1, time_ms), offset=lambda: 0
    )

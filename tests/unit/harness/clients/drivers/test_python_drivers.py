"""The drivers of kafka-python and aiokafka: settings as librdkafka has them, and positions."""

import inspect
import json
import logging
import math

import aiokafka
import kafka
import pytest
from kafka.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata, TopicPartition

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.drivers import aiokafka_driver, kafka_python_driver
from highwater.harness.clients.drivers.client_driver import given_settings
from highwater.harness.runs.plan import Plan, Workload


def settings(**workload: object) -> clients.Settings:
    plan = Plan(kafka="4.4.0", workload=Workload(**workload))  # type: ignore[arg-type]
    common = clients.common("127.0.0.1:1,[::1]:2", "p", logging.getLogger("test"), quirks={})
    return given_settings(clients.producer(plan, common), every=True)


@pytest.mark.parametrize("more", [{}, {"batch.size": 1, "retries": 0, "message.max.bytes": 9}])
def test_each_library_knows_every_setting(more: clients.Settings) -> None:
    ours = {**settings(idempotence=True), **more, "transactional.id": "t"}
    names = set(inspect.signature(aiokafka.AIOKafkaProducer).parameters)
    assert set(aiokafka_driver.producing(ours)) <= names
    assert set(kafka_python_driver.producing(ours)) <= set(kafka.KafkaProducer.DEFAULT_CONFIG)
    for theirs in (aiokafka_driver.producing(ours), kafka_python_driver.producing(ours)):
        assert {"client_id", "linger_ms", "retry_backoff_ms", "transactional_id"} <= set(theirs)
        assert {"metadata_max_age_ms", "request_timeout_ms", "transaction_timeout_ms"} & set(theirs)
        assert theirs.get("max_request_size", 9) == more.get("message.max.bytes", 9)


def test_a_producer_waits_as_long_as_with_librdkafka() -> None:
    ours = kafka_python_driver.producing(settings())
    assert (ours["delivery_timeout_ms"], ours["request_timeout_ms"]) == (30_000, 10_000)
    assert ours["bootstrap_servers"] == ["127.0.0.1:1", "[::1]:2"]
    assert aiokafka_driver.producing(settings())["request_timeout_ms"] == 10_000


@pytest.mark.parametrize("timeout_s", [0.5, 1.0, 3.0, 60.0])
@pytest.mark.parametrize("rate", [0.0, 200.0, 5000.0])
def test_a_delivery_takes_as_long_as_a_request_and_its_linger(
    timeout_s: float, rate: float
) -> None:
    """Or kafka-python refuses its settings."""
    ours = kafka_python_driver.producing(settings(delivery_timeout_s=timeout_s, rate=rate))
    assert ours["delivery_timeout_ms"] >= ours["request_timeout_ms"] + ours["linger_ms"]


@pytest.mark.parametrize(("acks", "number"), [("0", 0), ("1", 1), ("all", "all")])
@pytest.mark.parametrize("idempotence", [False, True])
def test_idempotence_is_never_left_to_a_default(
    acks: str, number: object, idempotence: bool
) -> None:
    for make in (kafka_python_driver.producing, aiokafka_driver.producing):
        ours = make(settings(acks=acks, idempotence=idempotence))
        assert ours["acks"] == number
        assert ours["enable_idempotence"] is (idempotence and acks == "all")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_compression_is_none(codec: str) -> None:
    for make in (kafka_python_driver.producing, aiokafka_driver.producing):
        expected = None if codec == "none" else codec
        assert make(settings(compression=codec))["compression_type"] == expected


def test_each_library_knows_every_setting_of_a_consumer() -> None:
    common = clients.common("127.0.0.1:1,[::1]:2", "r", logging.getLogger("test"), quirks={})
    ours = given_settings(clients.consumer(common, group="g"), member=True, every=True)
    names = set(inspect.signature(aiokafka.AIOKafkaConsumer).parameters)
    both = aiokafka_driver.reading(ours), kafka_python_driver.reading(ours)
    assert set(both[0]) <= names
    assert set(both[1]) <= set(kafka.KafkaConsumer.DEFAULT_CONFIG)
    for made in both:
        assert (made["auto_offset_reset"], made["enable_auto_commit"]) == ("none", False)
        assert (made["group_id"], made["session_timeout_ms"]) == ("g", 2_000)
        assert made["isolation_level"] == "read_committed"


def test_a_group_without_members_has_a_name_only() -> None:
    member = kafka.ConsumerGroupMetadata("g", 4, "m")
    assert kafka_python_driver.metadata("g") == "g"
    assert kafka_python_driver.metadata([*member]) == member


def test_a_reader_is_let_in_as_librdkafka_is() -> None:
    access = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    common = clients.common("127.0.0.1:1", "r", logging.getLogger("test"), quirks=access)
    ours = kafka_python_driver.reading(given_settings(clients.consumer(common), every=True))
    assert set(ours) <= set(kafka.KafkaConsumer.DEFAULT_CONFIG)
    named = ("security_protocol", "sasl_mechanism", "sasl_plain_username", "ssl_cafile")
    assert [ours[name] for name in named] == ["SASL_SSL", "SCRAM-SHA-512", "u", "/ca.pem"]
    assert (ours["sasl_plain_password"], ours["ssl_check_hostname"]) == ("p", False)


@pytest.mark.parametrize(
    ("raised", "position"),
    [
        (OffsetOutOfRangeError({TopicPartition("t", 0): 9}), 9),
        (LogTruncationError({TopicPartition("t", 0): OffsetAndMetadata(4, "", 1)}), 4),
        (LogTruncationError({TopicPartition("t", 0): None}), 7),
    ],
)
def test_a_position_that_is_not_in_the_log_is_an_answer_of_its_partition(
    raised: Exception, position: int
) -> None:
    class Log:
        def poll(self, **_: object) -> None:
            raise raised

    consumer = kafka_python_driver.KafkaPythonConsumer({"bootstrap.servers": "127.0.0.1:1"})
    consumer.serve(0.0, {"id": 1, "op": "seek", "topic": "t", "offsets": {"0": 7}})
    consumer.client = Log()
    polled = consumer.calls["poll"]({"id": 2, "op": "poll", "wait_ms": 1, "max": 1})
    assert polled == {"out_of_range": {0: position}}


def test_what_arrives_while_a_send_waits_in_vain_is_refused_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else each of two thousand would wait for five seconds, one after the other."""
    opened: list[object] = []

    def unreached(**config: object) -> None:
        opened.append(config)
        raise KafkaTimeoutError

    monkeypatch.setattr(kafka, "KafkaProducer", unreached)
    producer = kafka_python_driver.KafkaPythonProducer(settings())
    for number, arrived in enumerate((0.0, 0.0, math.inf)):
        record = {"topic": "t", "partition": 0, "value": "x"}
        producer.serve(arrived, {"id": number, "op": "send", **record})
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert {(answer["error"], answer["queued"]) for answer in answers} == {
        ("KafkaTimeoutError", False)
    }
    assert len(opened) == 2


def test_an_old_kafka_python_refuses_what_it_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not kafka_python_driver.missing(settings(idempotence=True) | {"group.id": "g"})
    monkeypatch.setattr(kafka_python_driver, "WRITES", {"client_id": ""})
    monkeypatch.setattr(kafka_python_driver, "Listener", object)
    assert "idempotent" in kafka_python_driver.missing(settings(idempotence=True))
    assert not kafka_python_driver.missing(settings())
    assert "join a group" in kafka_python_driver.missing({"group.id": "g"})

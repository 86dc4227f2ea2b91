"""Settings of kafka-python and aiokafka say the same as those of librdkafka."""

import inspect
import logging

import aiokafka
import kafka
import pytest

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries import python_settings
from highwater.harness.runs.plan import Plan, Workload


def settings(**workload: object) -> clients.Settings:
    plan = Plan(kafka="4.4.0", workload=Workload(**workload))  # type: ignore[arg-type]
    common = clients.common("127.0.0.1:1,[::1]:2", "p", logging.getLogger("test"), quirks={})
    return clients.producer(plan, common)


@pytest.mark.parametrize("more", [{}, {"batch.size": 1, "retries": 0, "message.max.bytes": 9}])
def test_each_library_knows_every_setting(more: clients.Settings) -> None:
    ours = {**settings(idempotence=True), **more, "transactional.id": "t"}
    names = set(inspect.signature(aiokafka.AIOKafkaProducer).parameters)
    assert set(python_settings.aiokafka(ours)) <= names
    assert set(python_settings.kafka_python(ours)) <= set(kafka.KafkaProducer.DEFAULT_CONFIG)


def test_a_producer_waits_as_long_as_with_librdkafka() -> None:
    ours = python_settings.kafka_python(settings())
    assert (ours["delivery_timeout_ms"], ours["request_timeout_ms"]) == (30_000, 10_000)
    assert ours["bootstrap_servers"] == ["127.0.0.1:1", "[::1]:2"]
    assert python_settings.aiokafka(settings())["request_timeout_ms"] == 10_000


@pytest.mark.parametrize("timeout_s", [0.5, 1.0, 3.0, 60.0])
@pytest.mark.parametrize("rate", [0.0, 200.0, 5000.0])
def test_a_delivery_takes_as_long_as_a_request_and_its_linger(
    timeout_s: float, rate: float
) -> None:
    """Or kafka-python refuses its settings."""
    ours = python_settings.kafka_python(settings(delivery_timeout_s=timeout_s, rate=rate))
    assert ours["delivery_timeout_ms"] >= ours["request_timeout_ms"] + ours["linger_ms"]


@pytest.mark.parametrize(("acks", "number"), [("0", 0), ("1", 1), ("all", "all")])
@pytest.mark.parametrize("idempotence", [False, True])
def test_idempotence_is_never_left_to_a_default(
    acks: str, number: object, idempotence: bool
) -> None:
    for make in (python_settings.kafka_python, python_settings.aiokafka):
        ours = make(settings(acks=acks, idempotence=idempotence))
        assert ours["acks"] == number
        assert ours["enable_idempotence"] is (idempotence and acks == "all")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_compression_is_none(codec: str) -> None:
    for make in (python_settings.kafka_python, python_settings.aiokafka):
        expected = None if codec == "none" else codec
        assert make(settings(compression=codec))["compression_type"] == expected


def test_each_library_knows_every_setting_of_a_consumer() -> None:
    common = clients.common("127.0.0.1:1,[::1]:2", "r", logging.getLogger("test"), quirks={})
    ours = clients.consumer(common, group="g")
    names = set(inspect.signature(aiokafka.AIOKafkaConsumer).parameters)
    both = python_settings.aiokafka_consumer(ours), python_settings.kafka_python_consumer(ours)
    assert set(both[0]) <= names
    assert set(both[1]) <= set(kafka.KafkaConsumer.DEFAULT_CONFIG)
    for made in both:
        assert (made["auto_offset_reset"], made["enable_auto_commit"]) == ("none", False)
        assert (made["group_id"], made["session_timeout_ms"]) == ("g", 2_000)
        assert made["isolation_level"] == "read_committed"


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
    ours = python_settings.kafka_python_consumer(clients.consumer(common))
    assert set(ours) <= set(kafka.KafkaConsumer.DEFAULT_CONFIG)
    named = ("security_protocol", "sasl_mechanism", "sasl_plain_username", "ssl_cafile")
    assert [ours[name] for name in named] == ["SASL_SSL", "SCRAM-SHA-512", "u", "/ca.pem"]
    assert (ours["sasl_plain_password"], ours["ssl_check_hostname"]) == ("p", False)

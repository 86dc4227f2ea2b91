"""Settings of Java's producers say the same as those of librdkafka."""

import logging

import pytest

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries import java_settings
from highwater.harness.runs.plan import Plan, Workload


def settings(**workload: object) -> clients.Settings:
    plan = Plan(kafka="4.4.0", workload=Workload(**workload))  # type: ignore[arg-type]
    common = clients.common("127.0.0.1:1", "producer-0", logging.getLogger("test"), quirks={})
    return clients.producer(plan, common)


def test_a_member_of_a_share_group_asks_for_the_same() -> None:
    common = clients.common("127.0.0.1:1", "share-0", logging.getLogger("test"), quirks={})
    ours = clients.share_consumer(common, group="g", explicit=True, most=100)
    java = java_settings.share_consumer(ours)
    assert java["share.acknowledgement.mode"] == "explicit"
    assert (java["group.id"], java["max.poll.records"], java["check.crcs"]) == ("g", "100", "true")
    assert java["request.timeout.ms"] == java["default.api.timeout.ms"] == "10000"
    assert java["fetch.max.wait.ms"] == "100"
    assert not [name for name, value in java.items() if "None" in value]


def test_a_producer_waits_as_long_as_with_librdkafka() -> None:
    java = java_settings.producer(settings(), (4, 4, 0))
    assert java["delivery.timeout.ms"] == "30000"
    assert java["request.timeout.ms"] == "10000"
    assert java["retries"] == str(2**31 - 1)
    assert java["bootstrap.servers"] == "127.0.0.1:1"
    assert java["client.id"] == "producer-0"
    assert java["linger.ms"] == "0"
    assert not [name for name, value in java.items() if "None" in value]


@pytest.mark.parametrize("timeout_s", [0.5, 1.0, 3.0, 60.0])
@pytest.mark.parametrize("rate", [0.0, 200.0, 5000.0])
def test_a_delivery_takes_as_long_as_a_request_and_its_linger(
    timeout_s: float, rate: float
) -> None:
    """Or KafkaProducer refuses its settings."""
    java = java_settings.producer(settings(delivery_timeout_s=timeout_s, rate=rate), (4, 4, 0))
    least = int(java["request.timeout.ms"]) + int(java["linger.ms"])
    assert int(java["delivery.timeout.ms"]) >= least


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("idempotence", [False, True])
def test_idempotence_is_never_left_to_a_default(acks: str, idempotence: bool) -> None:
    java = java_settings.producer(settings(acks=acks, idempotence=idempotence), (4, 4, 0))
    assert java["enable.idempotence"] == str(idempotence and acks == "all").lower()


def test_the_first_idempotent_producer_sends_one_request_at_a_time() -> None:
    ours = settings(idempotence=True)
    key = "max.in.flight.requests.per.connection"
    assert java_settings.producer(ours, (0, 11, 0, 3))[key] == "1"
    assert java_settings.producer(ours, (1, 0, 2))[key] == "5"
    assert java_settings.producer(settings(), (0, 11, 0, 3))[key] == "5"


def reading(
    reset: str = "error", group: str | None = None, protocol: str = "classic"
) -> clients.Settings:
    common = clients.common("127.0.0.1:1", "reader", logging.getLogger("test"), quirks={})
    return clients.consumer(common, reset=reset, group=group, protocol=protocol)


def test_a_consumer_is_moved_by_nobody_and_leaves_when_it_is_told() -> None:
    java = java_settings.consumer(reading())
    assert java["auto.offset.reset"] == "none"
    assert java["enable.auto.commit"] == "false"
    assert java["internal.leave.group.on.close"] == "false"
    assert java["isolation.level"] == "read_committed"
    assert java["session.timeout.ms"] == "2000"
    assert int(java["request.timeout.ms"]) > int(java["session.timeout.ms"])
    assert java_settings.consumer(reading(reset="earliest"))["auto.offset.reset"] == "earliest"
    assert not [name for name, value in java.items() if "None" in value]


def test_a_member_of_kip_848_says_nothing_of_sessions() -> None:
    """Or KafkaConsumer refuses its settings."""
    java = java_settings.consumer(reading(group="g", protocol="consumer"))
    assert (java["group.id"], java["group.protocol"]) == ("g", "consumer")
    assert not {"session.timeout.ms", "heartbeat.interval.ms"} & set(java)

"""What librdkafka is told, held against librdkafka itself: it refuses what contradicts itself."""

import logging

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer

from highwater.harness.clients import client_config
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.runs.plan import Plan, Workload


@pytest.mark.parametrize("delivery_s", [1, 8, 30, 120])
def test_a_transactional_producer_may_give_up_early(delivery_s: float) -> None:
    workload = Workload(
        delivery_timeout_s=delivery_s, transactions=True, idempotence=True, acks="all"
    )
    plan = Plan(kafka="4.3.1", workload=workload)
    base = client_config.common("127.0.0.1:1", "test", logging.getLogger("test"), quirks={})
    config = client_config.transactional(plan, base, "me")
    assert config["socket.timeout.ms"] <= config["transaction.timeout.ms"]
    Producer(config)


@pytest.mark.parametrize("reset", ["error", "earliest", "latest"])
def test_a_member_of_a_group_may_begin_as_applications_do(reset: str) -> None:
    base = client_config.common("127.0.0.1:1", "test", logging.getLogger("test"), quirks={})
    config = client_config.consumer(base, group="g", reset=reset)
    assert config["auto.offset.reset"] == reset
    config |= GroupMembership(group="g", reset=reset, refresh_s=7).settings()
    assert config["topic.metadata.refresh.interval.ms"] == 7_000
    Consumer(config)


@pytest.mark.parametrize(("explicit", "mode"), [(False, "implicit"), (True, "explicit")])
def test_a_member_of_a_share_group_is_one_of_librdkafkas(*, explicit: bool, mode: str) -> None:
    base = client_config.common("127.0.0.1:1", "test", logging.getLogger("test"), quirks={})
    config = client_config.share_consumer(base, group="g", explicit=explicit, most=7)
    assert (config["group.id"], config["max.poll.records"]) == ("g", 7)
    assert config["share.acknowledgement.mode"] == mode
    ShareConsumer(config)

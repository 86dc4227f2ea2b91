"""What librdkafka is told, held against librdkafka itself: it refuses what contradicts itself."""

import logging

import pytest
from confluent_kafka import Producer

from highwater.harness.clients import client_config
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

"""A broker that restarts gives a topic the settings of a deleted topic with the same name.

docs/findings/inherited-settings.md describes this.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import SteadyCondition, await_condition
from highwater.harness.releases.catalogue import MODERN, release

ORDERS = "orders"
RECORDS = 10
BROKERS = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
AFFECTED = ((MODERN, True), ("3.9.2", True), ("3.7.0", False))
"""Releases, and whether a broker that restarts takes a deleted topic's settings."""

OFTEN_S = 45.0
"""Longer than the 30 s after which a broker that cannot set this checks retention first."""


def ends(cluster: RealCluster, consumer: Consumer) -> Callable[[], Any]:
    """Return a function that returns the first offset and the end of the topic's only partition."""
    place = TopicPartition(ORDERS, 0)
    return lambda: await_condition(
        lambda: consumer.get_watermark_offsets(place, timeout=5),
        what=f"a leader of {ORDERS}-0 on {cluster.bootstrap}",
        limit_s=60,
        passing=(KafkaException,),
    )


def first_offset_at_last(cluster: RealCluster, settings: dict[str, str]) -> int:
    """Return the first offset after a restart, in a topic whose predecessor had these settings."""
    cluster.create_topic(ORDERS, [[1, 2, 3]], settings)
    cluster.delete_topic(ORDERS)
    cluster.create_topic(ORDERS, [[1, 2, 3]], {"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    errors: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            ORDERS, f"m{number}".encode(), on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    assert errors == [None] * RECORDS
    with (
        contextlib.closing(cluster.probe()) as probe,
        contextlib.closing(
            Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
        ) as consumer,
    ):
        look = ends(cluster, consumer)
        assert look() == (0, RECORDS)
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        await_condition(
            lambda: probe.partition(ORDERS, 0),
            lambda state: len(state.isr) == len(cluster.brokers),
            what="every replica to be in sync",
            limit_s=120,
        )
        cluster.move_leader(ORDERS, 0, 1)
        calm = SteadyCondition[Any](lambda _: True, for_s=OFTEN_S)
        first, end = await_condition(
            look,
            lambda seen: seen[0] > 0 or calm(seen),
            what="retention",
            limit_s=3 * OFTEN_S,
        )
    assert end == RECORDS
    return int(first)


@pytest.mark.nightly
@pytest.mark.parametrize(("kafka", "affected"), AFFECTED)
def test_a_topic_made_anew_loses_records_by_the_retention_of_the_deleted_one(
    kafka: str,
    affected: bool,
    tmp_path: Path,
) -> None:
    kept = {"retention.ms": "-1"}
    brief = {"retention.ms": "1000"}
    for settings, lost in ((brief, RECORDS if affected else 0), (kept, 0)):
        folder = tmp_path / settings["retention.ms"]
        opened = open_cluster(
            release(kafka), folder, brokers=3, broker_config=BROKERS, driver="local"
        )
        with contextlib.closing(opened) as cluster:
            assert first_offset_at_last(cluster, settings) == lost

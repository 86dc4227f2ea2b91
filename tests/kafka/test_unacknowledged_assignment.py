"""What a member says that is being given partitions, when its group's coordinator has moved.

A member of KIP-848 tells a new coordinator all that it knows in a "full" heartbeat. While its
application is being given partitions, it has not acknowledged them, and names none of them; the
coordinator takes them for free, and gives them to another member (docs/findings/full-heartbeat.md).
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import ClientLibrary
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.group_protocols import CONSUMER
from highwater.harness.runs.plan import Plan, Topic
from highwater.runtime.client_libraries import open_library

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
PLACED = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
GROUP, OFFSETS = "given", "__consumer_offsets"
LIMIT_S = 60.0
RECORDS = 3_000
MOVES = 5
READ_TWICE = ("librdkafka",)
"""Libraries that go on with the old assignment until an answer about it has come."""

LONG_S = 8.0
"""Several heartbeats, each after a second."""


@pytest.fixture(scope="module", params=["4.1.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[RealCluster]:  # noqa: ANN401 - of pytest
    settings = {
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
    }
    opened = open_cluster(
        release(request.param), tmp_path_factory.mktemp("given"), brokers=3, broker_config=settings
    )
    with contextlib.closing(opened):
        yield opened


class Member(threading.Thread):
    """A member whose application takes what it is given once it may."""

    def __init__(self, library: ClientLibrary, settings: clients.Settings, topic: str) -> None:
        super().__init__(daemon=True)
        self.may_take = threading.Event()
        self.told, self.ended = threading.Event(), threading.Event()
        self.owned: set[int] = set()
        self.read: set[tuple[int, int]] = set()
        self._library, self._settings = library, settings
        self._topic = topic

    def run(self) -> None:
        consumer: Any = self._library.consumer(self._settings)
        consumer.subscribe(
            [self._topic], on_assign=self._take, on_revoke=self._give_up, on_lost=self._give_up
        )
        while not self.ended.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error() is None:
                    self.read.add((message.partition(), message.offset()))
        consumer.close()

    def _take(self, consumer: Any, places: list[TopicPartition]) -> None:  # noqa: ANN401 - of a library
        if places:
            self.told.set()
            self.may_take.wait(LIMIT_S * 2)
        begins = [TopicPartition(place.topic, place.partition, 0) for place in places]
        consumer.incremental_assign(begins)
        self.owned |= {place.partition for place in places}

    def _give_up(self, consumer: Any, places: list[TopicPartition]) -> None:  # noqa: ANN401 - as well
        self.owned -= {place.partition for place in places}
        consumer.incremental_unassign(places)


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("name", ["librdkafka", "java"])
def test_a_member_that_is_being_given_partitions_loses_them_to_another(
    cluster: RealCluster, tmp_path: Path, name: str, *, moves: bool
) -> None:
    topic, group = f"{name}-{moves}", f"{GROUP}-{name}-{moves}"
    cluster.create_topic(topic, PLACED, {})
    log = logging.getLogger("members")
    plan = Plan(kafka=cluster.release.name, topic=Topic(name=topic), client=name)
    common = clients.common(cluster.bootstrap, "member", log, quirks={})
    settings = clients.consumer(common, group=group, reset="earliest", protocol=CONSUMER)
    opened = open_library(plan, tmp_path)
    first, second = (Member(opened.library, settings, topic) for _ in range(2))
    second.may_take.set()
    _fill(cluster, topic)
    with contextlib.ExitStack() as ending:
        ending.callback(opened.close)
        for member in (first, second):
            ending.callback(member.join, LIMIT_S)
            ending.callback(member.ended.set)
            ending.callback(member.may_take.set)
        first.start()
        assert first.told.wait(LIMIT_S)
        second.start()
        coordinator = _coordinator_of_two(cluster, group)
        if moves:
            coordinator = _move_until_told(cluster, coordinator, second)
            await_condition(lambda: second.read, bool, what="its records", limit_s=LIMIT_S)
            cluster.brokers[coordinator].pause()
            ending.callback(cluster.brokers[coordinator].resume)
        else:
            assert not second.told.wait(3 * LONG_S)
        first.may_take.set()
        assert second.told.wait(LIMIT_S)
        if moves and name in READ_TWICE:
            await_condition(
                lambda: first.read & second.read, bool, what="records read twice", limit_s=LIMIT_S
            )
        await_condition(
            lambda: first.owned & second.owned or len(first.owned | second.owned) < len(PLACED),
            lambda wrong: not wrong,
            what="each partition to have one owner",
            limit_s=LIMIT_S,
        )
        assert bool(first.read & second.read) is (moves and name in READ_TWICE)


def _move_until_told(cluster: RealCluster, coordinator: int, member: Member) -> int:
    """Move the coordinator until a member is told of its share; return where it is.

    By librdkafka's source, a member that hears of the new coordinator before its heartbeat fails
    sends no full one. Then it takes another move.
    """
    for _ in range(MOVES):
        coordinator = next(b for b in cluster.brokers if b != coordinator)
        cluster.move_leader(OFFSETS, 0, coordinator)
        if member.told.wait(2 * LONG_S):
            return coordinator
    raise WaitTimeoutError(f"nobody was told after {MOVES} moves")


def _fill(cluster: RealCluster, topic: str) -> None:
    """Write records to every partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % len(PLACED))
    assert producer.flush(LIMIT_S) == 0


def _coordinator_of_two(cluster: RealCluster, group: str) -> int:
    """Wait until two members are in a group; return the broker that coordinates it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = await_condition(
        lambda: admin.describe_consumer_groups([group])[group].result(10),
        lambda seen: len(seen.members) == 2,
        what="two members",
        limit_s=LIMIT_S,
        passing=(Exception,),
    )
    return int(described.coordinator.id)

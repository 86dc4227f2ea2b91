"""Loops that read, transform and write in one transaction, with the clients of each library."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import ClientLibrary, ReadRecord
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.clients.transactional_producer import (
    TransactionalProducer,
    TransactionTimeouts,
)
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import AIOKAFKA, JAVA, KAFKA_PYTHON, LIBRDKAFKA
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.runtime.client_libraries import open_libraries

pytestmark = pytest.mark.kafka
LOG: Final = logging.getLogger("test")
LOOPS: Final = Workload(idempotence=True, transactions=True, transform=True)
COUNT: Final = 3
INTERVAL_MS: Final = 3_000
"""After so long without a poll a consumer leaves its group by itself."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    settings = Plan(kafka=MODERN, brokers=1, workload=LOOPS).broker_settings()
    directory = tmp_path_factory.mktemp("loops")
    opened = open_cluster(release(MODERN), directory, brokers=1, broker_config=settings)
    with contextlib.closing(opened):
        yield opened


class Loop:
    """A member of the group of a topic, and the producer of its transactions."""

    def __init__(self, cluster: RealCluster, library: ClientLibrary, topic: str, name: str) -> None:
        common = clients.common(cluster.bootstrap, name, LOG, quirks={})
        plan = Plan(kafka=MODERN, workload=LOOPS)
        patience = TransactionTimeouts(threading.Event(), 30.0, lambda: 30.0)
        settings = clients.transactional(plan, common, f"{topic}-{name}")
        self._name = name
        self._topic = topic
        self._session = TransactionalProducer(settings, patience, library)
        assert self._session.open()
        settings = {**clients.consumer(common, group=topic), "max.poll.interval.ms": INTERVAL_MS}
        self._reader = TrackedConsumer(settings, topic, 1, lambda *_, **__: None, library=library)
        self._reader.subscribe()

    def transform(self) -> list[ReadRecord]:
        """Wait for all records, and write each to the other topic, in a transaction."""
        given: list[ReadRecord] = []

        def polled() -> int:
            given.extend(self._reader.poll(COUNT, 0.2))
            return len(given)

        await_condition(polled, lambda count: count == COUNT, what="the records", limit_s=60)
        assert self._session.begin()
        for record in given:
            value = record.value() + f" by {self._name}".encode()
            self._session.client.queue(f"{self._topic}-out", value, 0, on_delivery=lambda *_: None)
        self._session.flush()
        return given

    def end(self, given: list[ReadRecord]) -> str:
        """Put the offsets into the transaction, and commit, or abort when that is refused."""
        group = self._reader.client.consumer_group_metadata()
        ready = self._session.offsets(self._reader.after(given), group)
        return (self._session.commit() if ready else self._session.abort()).outcome

    def drop(self) -> None:
        self._reader.drop()
        self._session.drop()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("word", "second"),
    [(LIBRDKAFKA, "fail"), (JAVA, "fail"), (KAFKA_PYTHON, "ok"), (AIOKAFKA, "ok")],
)
def test_a_member_that_was_put_out_commits_with_clients_that_do_not_say_who_they_are(
    cluster: RealCluster, tmp_path: Path, word: str, second: str
) -> None:
    """A transaction takes longer than ``max.poll.interval.ms``; meanwhile another member does it.

    Brokers refuse offsets of a member that was put out (KIP-447), if they are told whose they are.
    """
    topic = f"in-{word}"
    for name in (topic, f"{topic}-out"):
        cluster.create_topic(name, [[1]], Topic(name=name).settings())
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(COUNT):
        producer.produce(topic, f"r{number}".encode(), partition=0)
    assert producer.flush(30) == 0
    libraries = open_libraries(
        Plan(kafka=MODERN, client=word, reader_client=word, workload=LOOPS), tmp_path
    )
    with contextlib.closing(libraries):
        late, next_owner = (Loop(cluster, libraries.producers, topic, name) for name in "ab")
        by_late = late.transform()
        by_next = next_owner.transform()
        assert [record.offset() for record in by_next] == [record.offset() for record in by_late]
        assert next_owner.end(by_next) == "ok"
        assert late.end(by_late) == second
        late.drop()
        next_owner.drop()
    values = committed(cluster, f"{topic}-out")
    once = [f"r{number} by b" for number in range(COUNT)]
    twice = [f"r{number} by a" for number in range(COUNT)] if second == "ok" else []
    assert sorted(values) == sorted(once + twice)


def committed(cluster: RealCluster, topic: str) -> list[str]:
    """Return the values that a reader of committed records finds."""
    common = clients.common(cluster.bootstrap, "reader", LOG, quirks={})
    reader = Consumer({**clients.consumer(common), "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := reader.poll(30.0)) is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    reader.close()
    return values

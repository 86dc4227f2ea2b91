"""Readers that are paused while an unclean election truncates their log: which notice (KIP-320)?

A reader has read five records when the only replica with the last three of them dies. The new
leader writes other records at these offsets. A reader that compares leader epochs goes back to the
first of them. A reader that compares offsets only skips all three, and reports nothing.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest
from confluent_kafka import TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import RecordConsumer
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Plan
from highwater.runtime.client_libraries import open_library
from tests.kafka.test_cluster import await_isr, await_leader, send
from tests.kafka.test_python_clients import QUIET
from tools.client_drivers import LIBRARIES, SOURCES, build, lacks

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]

TOPIC, LIMIT_S = "cut", 60.0
OLD, LOST = ["m0", "m1"], ["m2", "m3", "m4"]
NEW = ["n2", "n3", "n4", "n5", "n6"]
NOTICES: Final = {
    "librdkafka": True,
    "java": True,
    "java:2.8.2": True,
    "java:2.1.1": False,
    "kafka-python": True,
    "aiokafka": False,
    "franz-go": True,
    "sarama": False,
}
"""Other libraries of ``tools.client_drivers`` read in groups only."""


class Reader:
    """A library's reader of the topic, in processes of its own, which can be paused."""

    def __init__(self, client: RecordConsumer, others: set[psutil.Process]) -> None:
        self._client = client
        self.values: list[str] = []
        client.assign([TopicPartition(TOPIC, 0, 0)])
        self.read_to(LOST[-1])
        self.pids = processes() - others

    def read_to(self, last: str) -> None:
        await_condition(
            self._poll,
            lambda _: last in self.values,
            what=f"a reader to get {last}",
            limit_s=LIMIT_S,
        )

    def _poll(self) -> None:
        for message in self._client.consume(100, 0.2):
            if (error := message.error()) is None:
                self.values.append((message.value() or b"").decode())
            elif message.partition() is not None:
                place = TopicPartition(TOPIC, 0, message.offset() or 0)
                self.values.append(f"{error.name()} at {place.offset}")
                low, high = self._client.get_watermark_offsets(place, timeout=LIMIT_S)
                place.offset = min(max(place.offset, low), high)
                self._client.assign([place])


def processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


def commands(folder: Path) -> dict[str, str]:
    """Return the word of ``--client`` for each library that this machine can play."""
    words = {"librdkafka": f"{sys.executable} {SOURCES / 'librdkafka.py'}"}
    for name in NOTICES:
        if name in LIBRARIES:
            if not lacks(name):
                words[name] = str(build(name, folder))
        else:
            words.setdefault(name, name)
    return words


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    opened = open_cluster(release(MODERN), tmp_path / "cluster", brokers=2, broker_config={})
    with contextlib.closing(opened):
        yield opened


def test_only_some_readers_notice_that_records_are_gone(
    cluster: RealCluster, tmp_path: Path
) -> None:
    cluster.create_topic(TOPIC, [[1, 2]], {"unclean.leader.election.enable": "true"})
    with contextlib.closing(cluster.probe()) as probe, contextlib.ExitStack() as opened:
        await_isr(probe, TOPIC, {1, 2})
        send(cluster, TOPIC, *OLD)
        cluster.brokers[2].stop()
        await_isr(probe, TOPIC, {1})
        send(cluster, TOPIC, *LOST)
        readers = {}
        for name, word in commands(tmp_path).items():
            logs = tmp_path / f"{name}-logs"
            logs.mkdir()
            before = processes()
            library = open_library(Plan(kafka=MODERN, client=word), logs)
            opened.callback(library.close)
            common = clients.common(cluster.bootstrap, name, QUIET, quirks={})
            readers[name] = Reader(library.library.consumer(clients.consumer(common)), before)
        paused = [each for reader in readers.values() for each in reader.pids]
        for each in paused:
            opened.callback(resume, each)
            each.suspend()
        cluster.brokers[1].kill()
        cluster.brokers[2].start()
        await_leader(probe, TOPIC, 2)
        send(cluster, TOPIC, *NEW)
        cluster.brokers[1].start()  # the only broker that many readers know
        await_isr(probe, TOPIC, {1, 2})
        for each in paused:
            resume(each)
        for reader in readers.values():
            reader.read_to(NEW[-1])
    after = {name: reader.values[len(OLD + LOST) :] for name, reader in readers.items()}
    assert {name: "n2" in values for name, values in after.items()} == {
        name: NOTICES[name] for name in readers
    }, after
    skipped = [values for name, values in after.items() if not NOTICES[name]]
    assert all(values == ["n5", "n6"] for values in skipped), after

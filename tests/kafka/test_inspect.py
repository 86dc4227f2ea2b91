"""Log directories frozen from real brokers, and what ``highwater inspect`` says of them."""

import contextlib
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.inspection.report_types import InspectedPartition, Inspection
from highwater.checkers.spark.session import spark
from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark"), pytest.mark.timeout(900)]

CLEANER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
APART_MS = 50
REPLICAS = [[1, 2, 3]]


def write(cluster: Cluster, topic: str, first: int, count: int, keys: int | None = None) -> None:
    """Records from number ``first`` on, each acknowledged by every in-sync replica.

    Each says that it is younger by ``APART_MS`` than the one before, which is what rolls segments.
    """
    began_ms = int(time.time() * 1000)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 60_000}
    )
    for number in range(first, first + count):
        key = f"k{number % keys if number % 7 else -number}" if keys else None  # some stay
        producer.produce(
            topic,
            key=key,
            value=f"{topic}-{number}|....",
            partition=0,
            timestamp=began_ms + (number - first) * APART_MS,
        )
        if number % 10 == 9:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def transact(cluster: Cluster, topic: str) -> None:
    """Two transactions that commit, one that aborts, and one that is left open."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number, end in enumerate([True, False, True, None]):
        producer.begin_transaction()
        for record in range(3):
            producer.produce(topic, value=f"t{number}-{record}", partition=0)
        assert producer.flush(60) == 0
        if end is not None:
            (producer.commit_transaction if end else producer.abort_transaction)(60)


def compact(cluster: Cluster, topic: str) -> None:
    """Write the same few keys until every broker's cleaner has been at them."""
    number = 0

    def not_cleaned() -> list[int]:
        nonlocal number
        write(cluster, topic, number, 20, keys=5)
        number += 20
        return [broker for broker in cluster.brokers if not _cleaned(cluster, broker, topic)]

    await_condition(
        not_cleaned, lambda brokers: not brokers, what="every broker's cleaner", limit_s=120
    )


def _cleaned(cluster: Cluster, broker: int, topic: str) -> bool:
    path = cluster.directory / "replicas" / str(broker) / "cleaner-offset-checkpoint"
    return path.exists() and f"{topic} 0 " in path.read_text()


def make(name: str, directory: Path) -> Path:
    """A cluster of one release with every kind of topic, frozen while broker 3 is behind."""
    opened = open_cluster(release(name), directory, brokers=3, broker_config=CLEANER)
    with contextlib.closing(opened) as cluster:
        for topic in ("healthy", "behind"):
            cluster.create_topic(topic, REPLICAS, {})
            write(cluster, topic, 0, 50)
        cluster.create_topic("compacted", REPLICAS, COMPACTED)
        compact(cluster, "compacted")
        if cluster.release.idempotence:
            cluster.create_topic("transactional", REPLICAS, {})
            transact(cluster, "transactional")
        cluster.brokers[3].kill()
        write(cluster, "behind", 50, 20)
        return cluster.freeze()


def of(found: Inspection, topic: str) -> InspectedPartition:
    return next(each for each in found.partitions if each.topic == topic)


def copied(frozen: Path, target: Path, topic: str, broker: int) -> tuple[Path, Path]:
    """A copy of the frozen directories, and one replica's last segment that has records in it."""
    shutil.copytree(frozen, target)
    logs = sorted((target / str(broker) / f"{topic}-0").glob("*.log"))
    return target, next(each for each in reversed(logs) if each.stat().st_size)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["0.10.2.2", "1.1.1", "3.9.2", MODERN])
def test_healthy_compacted_transactional_behind_flipped_and_torn(name: str, tmp_path: Path) -> None:
    frozen = make(name, tmp_path / "cluster")
    found = inspect([frozen], spark())
    said = {each.topic: each.verdict for each in found.partitions}
    expected = {"behind": "lag", "compacted": "agree", "healthy": "agree"}
    if release(name).idempotence:
        expected["transactional"] = "agree"
        one = of(found, "transactional").replicas[0]
        assert (one.committed, one.aborted) == (2, 1)
        opened = [each.offset for each in one.findings if each.kind == "open-transaction"]
        assert opened == [one.last_stable_offset]
    assert said == expected, [each.says for each in found.partitions]
    assert not [
        each
        for one in found.partitions
        for side in one.replicas
        for each in side.findings
        if each.severity != "note"
    ]
    behind = of(found, "behind")
    assert [each.leo for each in behind.replicas] == [70, 70, 50]
    compacted = of(found, "compacted").replicas[0]
    assert compacted.records < compacted.leo - compacted.start  # holes, and no findings

    disks, segment = copied(frozen, tmp_path / "flipped", "healthy", 2)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x10
    segment.write_bytes(data)
    flipped = of(inspect([disks], spark()), "healthy")
    assert (flipped.verdict, flipped.divergent_offsets) == ("corrupt", ())
    assert [each.broker for each in flipped.replicas if each.findings] == [2]

    disks, segment = copied(frozen, tmp_path / "torn", "healthy", 1)
    segment.write_bytes(segment.read_bytes()[:-7])
    torn = of(inspect([disks], spark()), "healthy")
    assert torn.verdict == "lag", torn.says
    assert "torn-tail" in [each.kind for each in torn.replicas[0].findings]

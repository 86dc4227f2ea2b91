"""A group that builds a table from a compacted topic keeps a deleted key: it missed the tombstone.

The cleaner removes a tombstone ``delete.retention.ms`` after it has first cleaned past it
(KIP-534). A group that has read the value, and is away for longer, is never given the tombstone.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import admin as kafka_admin

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
KAFKA: Any = kafka_admin
TIMES: Final = 10
LIMIT_S: Final = 90.0
KEY: Final = b"key"
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1000",
    "segment.ms": "500",
}


@pytest.fixture(scope="module", params=["3.9.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[RealCluster]:  # noqa: ANN401 - of pytest
    settings = {"log.cleaner.backoff.ms": "200"}
    opened = open_cluster(
        release(request.param), tmp_path_factory.mktemp("table"), brokers=1, broker_config=settings
    )
    with contextlib.closing(opened):
        yield opened


def table(access: dict[str, str], group: str, topic: str, end: int) -> dict[bytes, bytes | None]:
    """Read on as a group until an offset, commit, and return what the reader has now."""
    reader = Consumer({**access, "group.id": group, "auto.offset.reset": "earliest"})
    rows: dict[bytes, bytes | None] = {}
    with contextlib.closing(reader):
        reader.subscribe([topic])
        at = -1
        while at < end:
            message = reader.poll(LIMIT_S)
            assert message is not None
            assert message.error() is None
            rows[message.key() or b""] = message.value()
            at = message.offset() or 0
        reader.commit(asynchronous=False)
    return rows


def whole(access: dict[str, str], topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return all records of the topic."""
    reader = Consumer({**access, "group.id": "whole", "enable.partition.eof": True})
    records: list[tuple[bytes, bytes | None]] = []
    with contextlib.closing(reader):
        reader.assign([TopicPartition(topic, 0, 0)])
        while (message := reader.poll(LIMIT_S)) is not None and message.error() is None:
            records.append((message.key() or b"", message.value()))
    return records


@pytest.mark.parametrize(("kept_ms", "gone"), [("100", True), ("86400000", False)])
def test_a_table_keeps_a_deleted_key_whose_tombstone_is_gone(
    cluster: RealCluster, kept_ms: str, *, gone: bool
) -> None:
    access = {"bootstrap.servers": cluster.bootstrap}
    topics = [f"table-{kept_ms}-{number}" for number in range(TIMES)]
    config = {**COMPACTED, "delete.retention.ms": kept_ms}
    admin = KAFKA.AdminClient(access)
    made = admin.create_topics([KAFKA.NewTopic(name, 1, 1, config=config) for name in topics])
    for future in made.values():
        future.result(LIMIT_S)
    writer = Producer({**access, "acks": "all"})

    def write(key: bytes, value: bytes | None) -> None:
        for topic in topics:
            writer.produce(topic, value, key, partition=0)
        writer.flush(LIMIT_S)

    write(KEY, b"value")
    tables = {topic: table(access, f"of-{topic}", topic, 0) for topic in topics}
    assert all(rows == {KEY: b"value"} for rows in tables.values())
    write(KEY, None)
    ends = 1

    def look() -> list[list[bytes | None]]:
        """Write what the cleaner will spare, and return the values of the key by topic."""
        nonlocal ends
        write(b"other", b"more")
        ends += 1
        return [[value for key, value in whole(access, name) if key == KEY] for name in topics]

    await_condition(
        look,
        lambda values: all(left == ([] if gone else [None]) for left in values),
        what="the cleaner to have cleaned every topic",
        limit_s=LIMIT_S,
        every_s=1.0,
    )
    for topic in topics:
        tables[topic] |= table(access, f"of-{topic}", topic, ends)
        tables[topic] = {key: value for key, value in tables[topic].items() if value is not None}
    kept = [topic for topic, rows in tables.items() if KEY in rows]
    assert len(kept) == (TIMES if gone else 0), "tables with the deleted key"

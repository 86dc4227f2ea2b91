"""Readers of every library on real brokers: they read everything; a step over a record is found."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from highwater.api import perform
from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.libraries.interfaces import ReadRecord
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run, Store
from highwater.runtime.workload import RunningWorkload

pytestmark = pytest.mark.kafka
PARTITIONS: Final = 3
PLACED: Final = [[1], [1], [1]]
OTHERS: Final = ("java", "kafka-python", "aiokafka")
DRIVER: Final = (
    f"{sys.executable} {Path(__file__).parents[2]}/harness/clients/drivers/librdkafka_driver.py"
)
OTHER: Final = "librdkafka:2.10.0"
SENT: Final = Workload(idempotence=True, transactions=True, rate=300.0)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("readers")
    settings = Plan(kafka=MODERN, brokers=1, workload=SENT).broker_settings()
    opened = open_cluster(release(MODERN), directory, brokers=1, broker_config=settings)
    with contextlib.closing(opened):
        yield opened


def reads(run: Run, process: str) -> list[Row]:
    rows = [row for batch in read_stream(run.stream("history/ops")) for row in batch.to_pylist()]
    return [row for row in rows if row["kind"] == "read" and row["process"] == process]


@pytest.mark.parametrize(
    ("name", "client", "reader"),
    [
        pytest.param("java", "librdkafka", "java", id="java"),
        pytest.param("driver", DRIVER, DRIVER, id="driver"),
        pytest.param("other", *[OTHER] * 2, id="librdkafka-2.10.0", marks=pytest.mark.nightly),
        *(pytest.param(name, "librdkafka", name, marks=pytest.mark.nightly) for name in OTHERS[1:]),
    ],
)
def test_a_reader_of_each_library_reads_everything(
    cluster: RealCluster, tmp_path: Path, name: str, client: str, reader: str
) -> None:
    """Also what was sent in transactions, of which it gets no aborted record."""
    topic = Topic(name=f"read-{name}", partitions=PARTITIONS)
    cluster.create_topic(topic.name, PLACED, topic.settings())
    plan = Plan(kafka=MODERN, topic=topic, workload=SENT, client=client, reader_client=reader)
    run = Run(tmp_path)
    with Recorder(run, Clock()) as recorder:
        running = RunningWorkload(plan, cluster.bootstrap, recorder, run)
        with running:
            await_condition(
                lambda: len(reads(run, "consumer-0")),
                lambda count: count >= 600,
                what="records that were read",
                limit_s=90,
            )
            running.stop()
            ends = running.final_read(limit_s=60)
    assert all(end.complete for end in ends)
    final: dict[int, dict[int, str]] = {}
    for row in reads(run, "reader"):
        final.setdefault(row["partition"], {})[row["offset"]] = row["value"]
    for partition, records in final.items():
        read = [row for row in reads(run, "consumer-0") if row["partition"] == partition]
        offsets = [row["offset"] for row in read]
        assert offsets == [offset for offset in sorted(records) if offset <= offsets[-1]]
        assert [row["value"] for row in read] == [records[offset] for offset in offsets]
        assert {row["leader_epoch"] for row in read} <= {None, 0}


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("library", OTHERS)
def test_a_step_over_a_record_is_found(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = TrackedConsumer.poll
    left_out: list[int] = []

    def step_over(self: TrackedConsumer, most: int, wait_s: float) -> list[ReadRecord]:
        messages = poll(self, most, wait_s)
        for message in messages[1:-1]:
            if not left_out and message.partition() == 0:
                left_out.append(message.offset() or 0)
                return [other for other in messages if other is not message]
        return messages

    monkeypatch.setattr(TrackedConsumer, "poll", step_over)
    workload = Workload(rate=500.0)
    plan = Plan(kafka=MODERN, workload=workload, duration_s=15.0, reader_client=library)
    [judged] = perform([plan], Store(tmp_path))
    assert left_out
    found = {name: count for name, count in judged.verdict.counts.items() if count}
    assert set(found) <= {"poll-skip", "int-poll-skip"}
    assert sum(found.values()) == 1

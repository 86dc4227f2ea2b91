"""Readers fetch from the broker in their own rack, which follows, and not from the leader."""

import threading
from pathlib import Path
from typing import Final

import pytest

from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.history import FETCHES_TABLE
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.runtime.runner import execute

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

AT_NIGHT: Final = ("2.4.1", "3.9.2-zk")


@pytest.mark.parametrize(
    "kafka", [MODERN, *(pytest.param(name, marks=pytest.mark.nightly) for name in AT_NIGHT)]
)
def test_each_reader_fetches_from_the_broker_in_its_rack(tmp_path: Path, kafka: str) -> None:
    plan = Plan(
        kafka=kafka,
        brokers=2,
        racks=2,
        topic=Topic(partitions=2, replication_factor=2),
        workload=Workload(consumers=2, producers=1),
        duration_s=4,
    )
    run = execute(plan, Store(tmp_path), stop=threading.Event())
    rows = [row for row in run.table(FETCHES_TABLE).to_pylist() if not row["moved"]]
    sources = {
        process: {row["broker"] for row in rows if row["process"] == process and row["records"]}
        for process in ("consumer-0", "consumer-1")
    }
    assert sources == {"consumer-0": {1}, "consumer-1": {2}}
    for broker, process in enumerate(sources, start=1):
        fetched = [row for row in rows if row["process"] == process and row["broker"] == broker]
        followed = sum(row["records"] for row in fetched if row["leader"] != broker)
        assert followed > sum(row["records"] for row in fetched) / 10, "a follower gave few records"
    assert not run.status().problems

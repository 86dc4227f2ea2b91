"""Compacted topics on real brokers: the cleaner cleans, and what is taken from disks is found."""

import threading
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.api import JudgedRun, judge_all
from highwater.checkers.kafka_files.reader import read_partition
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs import manifest
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.record_keys import parts
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.faults import disk_damage
from highwater.runtime.cluster_pool import ClusterPool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]

RELEASES: Final = ("0.10.2.2", "2.8.2", MODERN)
ALONE: Final = "3"
"""The broker from whose disk some records are removed."""

EACH: Final = 4


def planned(
    kafka: str, *steps: FaultStep, keys: int = 40, seconds: float = 15, lag_ms: int = 0
) -> Plan:
    """A run of one compacted partition, at a rate at which every record is a batch of its own."""
    return with_settings(
        Plan(
            kafka=kafka,
            topic=Topic(config={"min.compaction.lag.ms": str(lag_ms)}),
            workload=Workload(keys=keys, rate=60.0, tombstones=0.2),
            steps=steps,
            duration_s=seconds,
        )
    )


def performed(plan: Plan, path: Path) -> JudgedRun:
    """The run, judged."""
    with ClusterPool(path / "fleet") as fleet:
        run = fleet.execute(plan, Store(path), stop=threading.Event())
    [judged] = judge_all([run], spark())
    return judged


def _records(folder: Path) -> dict[int, str]:
    batches = list(read_partition(folder))
    rows = pa.Table.from_batches(batches).select(["offset", "record_id"]).to_pylist()
    return {row["offset"]: row["record_id"] for row in rows if row["offset"] is not None}


def _single(folder: Path) -> set[int]:
    """The offsets of batches of one record."""
    return {
        batch.first
        for segment in disk_damage.segments(folder)
        for batch in disk_damage.batches(segment)
        if batch.first == batch.last
    }


def _remove(folder: Path, offsets: set[int]) -> None:
    """Rewrite segments without some batches; their indexes are made anew when they are loaded."""
    for segment in disk_damage.segments(folder):
        batches = list(disk_damage.batches(segment))
        kept = [batch for batch in batches if batch.first not in offsets]
        if len(kept) < len(batches):
            data = segment.read_bytes()
            segment.write_bytes(b"".join(data[batch.position : batch.end] for batch in kept))
            for suffix in (".index", ".timeindex"):
                segment.with_suffix(suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("kafka", RELEASES)
def test_what_is_removed_from_a_frozen_disk_is_found_exactly(kafka: str, tmp_path: Path) -> None:
    judged = performed(planned(kafka), tmp_path)
    assert judged.verdict.verdict == "valid", judged.verdict.reasons
    assert judged.verdict.ledger.replaced > 0
    run, folder = judged.run, f"{judged.run.plan().topic.name}-0"
    disks = {each.name: each / folder for each in run.replicas.iterdir() if each.name.isdigit()}
    removed = _last_values([_records(disk) for disk in disks.values()], _single(disks[ALONE]))
    assert len(removed) >= EACH
    rows = manifest.rows(run)
    _remove(disks[ALONE], set(removed))
    digest = manifest.record(run, rows)
    run.write_struct("status.json", msgspec.structs.replace(run.status(), manifest=digest))
    [again] = judge_all([run], spark())
    found = {each.value for each in again.verdict.anomalies if each.kind == "stale-replica"}
    assert found == set(removed.values())
    assert again.verdict.counts["stale-replica"] == len(found)


def _last_values(disks: list[dict[int, str]], single: set[int]) -> dict[int, str]:
    """The last values of some keys, each in a batch of its own, which every disk has."""
    end = min(max(records) for records in disks) - EACH
    last: dict[str, tuple[int, str]] = {}
    for records in disks:
        for offset, name in records.items():
            if (named := parts(name)) is not None:
                last[named.key] = max((offset, name), last.get(named.key, (-1, "")))
    return {
        offset: name
        for offset, name in last.values()
        if "=" in name and offset < end and offset in single and all(offset in d for d in disks)
    }


@pytest.mark.parametrize("kafka", RELEASES)
def test_a_broker_that_dies_while_it_cleans_keeps_the_last_values(
    kafka: str, tmp_path: Path
) -> None:
    steps = [
        FaultStep(
            fault="cleaner-kill",
            at_s=3.0 + 4 * turn,
            lasts_s=0.5,
            target=str(turn + 1),
            choice=turn / 3,
        )
        for turn in range(3)
    ]
    judged = performed(planned(kafka, *steps), tmp_path)
    assert judged.verdict.verdict == "valid", judged.verdict.reasons
    assert judged.verdict.ledger.replaced > 0
    rows = pq.read_table(judged.run.parquet("events/faults")).to_pylist()
    killed = [row["says"] for row in rows if row["phase"] == "inject"]
    assert len(killed) == 3, killed

"""Compacted topics on real brokers: the cleaner cleans, and what is taken from disks is found."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.api import JudgedRun, judge_all
from highwater.checkers.kafka_files.reader import read_partition
from highwater.checkers.spark.session import spark
from highwater.clusters.core.interfaces import Cluster
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.faults.steps import FaultStep
from highwater.harness.runs.history import OK, OPERATIONS_TABLE, SEND
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.record_keys import parts
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.faults import disk_damage, registry
from highwater.nemesis.faults.registry import Fault, FaultTarget
from highwater.runtime.cluster_pool import ClusterPool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]

RELEASES: Final = ("0.10.2.2", "2.8.2", MODERN)
REMOVAL: Final = "record-removed"
ALONE: Final = 3
"""The broker from whose disk alone some records are removed."""

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


@dataclass(slots=True)
class Removal:
    """A fault that removes single records from the disks of brokers that are stopped.

    Attributes:
        values: records that were the last ones of their keys, removed everywhere.
        tombstones: the same, of keys that have a value on every disk; by the name of that value.
        alone: the last records of their keys, removed from one disk.
    """

    values: list[str] = field(default_factory=list)
    tombstones: dict[str, str] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)

    def body(self, cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
        """Stop every broker, remove records, and start them again."""
        for target in cluster.brokers.values():
            target.stop()
        try:
            folders = {
                target.id: target.directory / f"{aim.topic.name}-0"
                for target in cluster.brokers.values()
            }
            self._choose({broker: _records(folder) for broker, folder in folders.items()}, folders)
            yield "records are removed from disks"
        finally:
            for target in cluster.brokers.values():
                target.start()

    def _choose(self, disks: dict[int, dict[int, str]], folders: dict[int, Path]) -> None:
        single = set.intersection(*(_single(folder) for folder in folders.values()))
        end = min(max(records) for records in disks.values()) - 5
        everywhere = set.intersection(*(set(records) for records in disks.values()))
        by_key: dict[str, list[int]] = defaultdict(list)
        for offset, name in sorted(disks[ALONE].items()):
            if (named := parts(name)) is not None:
                by_key[named.key].append(offset)
        gone: list[int] = []
        gone_alone: list[int] = []
        for offsets in by_key.values():
            last, name = offsets[-1], disks[ALONE][offsets[-1]]
            if last not in single or last not in everywhere or last >= end:
                continue
            earlier = next((at for at in reversed(offsets[:-1]) if at in everywhere), None)
            value = None if earlier is None else disks[ALONE][earlier]
            if "~" in name:
                if value and "=" in value and len(self.tombstones) < EACH:
                    self.tombstones[name] = value
                    gone.append(last)
            elif len(self.values) < EACH:
                self.values.append(name)
                gone.append(last)
            elif len(self.alone) < EACH:
                self.alone.append(name)
                gone_alone.append(last)
        for broker, folder in folders.items():
            _remove(folder, {*gone, *(gone_alone if broker == ALONE else ())})


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
def test_what_is_removed_from_disks_is_found_exactly(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removal = Removal()
    registry.faults()
    fault = Fault(name=REMOVAL, family="storage", summary="", scope="cluster", body=removal.body)
    monkeypatch.setitem(registry._registry, REMOVAL, fault)
    step = FaultStep(fault=REMOVAL, at_s=16)  # deleted values of the last 6 s are there
    judged = performed(planned(kafka, step, keys=150, lag_ms=6000), tmp_path)
    assert not judged.run.status().problems
    assert len(removal.values) == len(removal.alone) == EACH
    assert removal.tombstones
    verdict = judged.verdict
    assert verdict.ledger.replaced > 0
    later = _written_later(judged)
    lost = {name for name in (*removal.values, *removal.tombstones) if not later[name]}
    found = defaultdict(set)
    for anomaly in verdict.anomalies:
        found[anomaly.kind].add(anomaly.value)
    # The broker that lacks some records alone may lead in the end, and then readers lack them.
    assert lost <= found["lost-write"] <= lost | set(removal.alone)
    values = {value for name, value in removal.tombstones.items() if not later[name]}
    assert found["resurrected-value"] == values
    assert found["stale-replica"] == {name for name in removal.alone if not later[name]}
    assert verdict.counts["stale-replica"] == len(found["stale-replica"])
    assert lost
    assert values
    assert found["stale-replica"]


def _written_later(judged: JudgedRun) -> dict[str, bool]:
    """For each acknowledged record, whether a later one of its key may stand."""
    rows = pq.read_table(judged.run.parquet(OPERATIONS_TABLE)).to_pylist()
    sends = [row for row in rows if row["kind"] == SEND and row["outcome"] != "fail"]
    last: dict[str, int] = {}
    for row in sends:
        if (named := parts(row["value"])) is not None:
            place = row["offset"] if row["outcome"] == OK else 1 << 60
            last[named.key] = max(place, last.get(named.key, -1))
    return {
        row["value"]: last[named.key] > row["offset"]
        for row in sends
        if row["outcome"] == OK and (named := parts(row["value"])) is not None
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

"""What real controllers decide is on their disks, and what is changed there is found."""

import shutil
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from highwater.api import judge_all
from highwater.checkers.core.anomaly_kinds import LOST_DECISION, METADATA_DIVERGENCE
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import release
from highwater.harness.runs import manifest
from highwater.harness.runs.history import DECISIONS_TABLE, QUORUM_TABLE
from highwater.harness.runs.plan import Plan, Workload
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import Verdict
from highwater.runtime.runner import execute
from tests.support.logdirs import reseal

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

FAULTS: Final = ("kill", "move-leader", "reassign", "set-compression")
OF_CONTROLLERS: Final = ("controller-kill", "controller-pause")
OURS: Final = (METADATA_DIVERGENCE, LOST_DECISION)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((kafka, controllers), id=f"{kafka}-{controllers}")
        for kafka, controllers in (
            *(("4.4.0", 3), ("2.8.2", 1), ("3.7.2", 1), ("4.4.0", 1), ("3.9.2", 3)),
        )
    ],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that asks controllers for something: ZooKeeper's, the oldest KRaft's, the newest's."""
    kafka, controllers = request.param
    plan = Plan(
        kafka=kafka,
        controllers=controllers,
        nemesis=FAULTS + (OF_CONTROLLERS if controllers > 1 else ()),
        duration_s=12,
        seed=5,
        workload=Workload(rate=100.0, producers=1),
    )
    return execute(plan, Store(tmp_path_factory.mktemp("store")), stop=threading.Event())


def verdict(run: Run) -> Verdict:
    """What the judge says of a run."""
    [judged] = judge_all([run], spark())
    return judged.verdict


def batches(log: bytes) -> Iterator[tuple[int, int, int]]:
    """Each batch's offset, its place in a segment, and where the next one begins."""
    at = 0
    while at < len(log):
        offset, length = struct.unpack_from(">qi", log, at)
        yield offset, at, at + 12 + length
        at += 12 + length


def copy_of(run: Run, where: Path) -> Run:
    """A copy of a run, whose files can be changed."""
    shutil.copytree(run.path, where)
    return Run(where)


def verdict_of_all_files(run: Run) -> Verdict:
    """What the judge says where changed files are what was recorded, and none is missing."""
    digest = manifest.record(run, manifest.rows(run))
    run.write_struct("status.json", msgspec.structs.replace(run.status(), manifest=digest))
    return verdict(run)


def test_what_was_acknowledged_is_there(run: Run) -> None:
    judged = verdict(run)
    assert {name: judged.checkers[name] for name in OURS} == dict.fromkeys(OURS, "held")
    assert not judged.unread
    rows = run.table(DECISIONS_TABLE).to_pylist()
    kinds = {row["kind"] for row in rows if row["evidence"] == "answered"}
    assert {"topic", "setting", "replicas"} <= kinds
    quorum, at_the_end = run.table(QUORUM_TABLE), [row for row in rows if row["evidence"] == "end"]
    if release(run.plan().kafka).coordination == "kraft":
        assert {*quorum["node"].to_pylist()} == run.metadata_logs.keys()
        assert not at_the_end
    else:
        assert not len(quorum)
        assert {"topic", "setting", "replicas", "leader"} == {row["kind"] for row in at_the_end}


def test_a_log_that_was_cut_has_lost_what_was_decided(run: Run, tmp_path: Path) -> None:
    if not run.metadata_logs:
        pytest.skip("ZooKeeper's log is not read")
    changed = copy_of(run, tmp_path / "cut")
    cuts = []
    for log in changed.metadata_logs.values():
        segment = log / f"{0:020d}.log"
        data = segment.read_bytes()
        everything = [*batches(data)]
        offset, at, _ = everything[len(everything) // 3]
        segment.write_bytes(data[:at])
        cuts.append(offset)
    judged = verdict_of_all_files(changed)
    assert judged.verdict == "invalid"
    places = [anomaly.offset for anomaly in judged.anomalies if anomaly.kind == METADATA_DIVERGENCE]
    assert Counter(places) == Counter(cuts)
    assert judged.counts[LOST_DECISION]


def test_a_record_that_was_rewritten_is_found(run: Run, tmp_path: Path) -> None:
    if len(run.metadata_logs) < 2:
        pytest.skip("there is nothing to compare")
    changed = copy_of(run, tmp_path / "rewritten")
    segment = changed.metadata_logs[101] / f"{0:020d}.log"
    data = segment.read_bytes()
    everything = [*batches(data)]
    offset, at, end = everything[len(everything) * 2 // 3]
    batch = bytearray(data[at:end])
    batch[-2] ^= 1
    segment.write_bytes(data[:at] + reseal(batch) + data[end:])
    judged = verdict_of_all_files(changed)
    assert judged.verdict == "invalid"
    [anomaly] = [found for found in judged.anomalies if found.kind in OURS]
    assert anomaly.kind == METADATA_DIVERGENCE
    assert anomaly.offset is not None
    assert offset <= anomaly.offset
    assert "controller 101: " in anomaly.sentence

"""A remote tier on real brokers: what a new leader deletes, and what the judge reads of it."""

import threading
from pathlib import Path

import pytest

from highwater.api import judge_all
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.remote_tier import remote_segment
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.prediction_check import as_predicted

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]


def test_a_new_leader_deletes_what_retention_covers_up_to_4_3(tmp_path: Path) -> None:
    """On 4.3.1 the two oldest of six records are lost in both tiers, and on 4.4.0 none is."""
    runs = []
    with ClusterPool(tmp_path / "fleet") as fleet:
        for kafka in ("4.3.1", MODERN):
            plan = find_story("tiered-new-leader").plan(kafka)
            runs.append(fleet.execute(plan, Store(tmp_path), stop=threading.Event()))
    lossy, sound = judge_all(runs, spark())
    for judged in (lossy, sound):
        assert judged.run.status().problems == ()
        assert as_predicted(judged.run, judged.verdict), judged.verdict.reasons
        assert judged.verdict.counts["remote-divergence"] == 0
        assert judged.verdict.checkers["remote-divergence"] == "held"
        assert judged.model is not None
        assert judged.model.status == "explained", judged.model.findings
        jars = judged.run.environment().digests
        assert any(name.endswith("-test.jar") for name in jars)
    assert lossy.verdict.verdict == "invalid"
    assert sound.verdict.verdict == "valid"
    for anomaly in lossy.verdict.anomalies:
        if anomaly.kind == "lost-write":
            assert {"expired", "log-start"} <= {witness.what for witness in anomaly.witnesses}
            assert "of the remote tier by retention" in anomaly.sentence
    for judged, first in ((lossy, 2), (sound, 0)):
        names = {path.name for path in judged.run.remote_tier.glob("*/*.log")}
        assert min(remote_segment(name) or 0 for name in names) == first


@pytest.mark.parametrize("kafka", ["3.9.2", "4.1.2"])
def test_older_releases_delete_it_too(kafka: str, tmp_path: Path) -> None:
    plan = find_story("tiered-new-leader").plan(kafka)
    assert not find_story("tiered-new-leader").why_not(release(kafka))
    with ClusterPool(tmp_path / "fleet") as fleet:
        run = fleet.execute(plan, Store(tmp_path), stop=threading.Event())
    (judged,) = judge_all([run], spark())
    assert as_predicted(judged.run, judged.verdict), judged.verdict.reasons
    assert judged.verdict.ledger.lost == 2


def test_both_tiers_together_hold_every_record_of_a_random_run(tmp_path: Path) -> None:
    """Disks alone do not: what the remote tier has is deleted from them after two seconds."""
    plan = with_settings(
        Plan(
            kafka=MODERN,
            nemesis=("kill", "pause"),
            duration_s=20,
            seed=5,
            topic=Topic(partitions=1),
            tiered=True,
        )
    )
    with ClusterPool(tmp_path / "fleet") as fleet:
        run = fleet.execute(plan, Store(tmp_path), stop=threading.Event())
    (judged,) = judge_all([run], spark())
    assert judged.verdict.verdict == "valid", judged.verdict.reasons
    assert judged.verdict.ledger.read == judged.verdict.ledger.acknowledged > 0
    assert judged.verdict.checkers["remote-divergence"] == "held"
    remote = {remote_segment(path.name) for path in judged.run.remote_tier.glob("*/*.log")}
    assert len(remote) > 1
    assert min(base for base in remote if base is not None) == 0
    for replica in judged.run.replicas.glob("*/*-0/"):
        assert min(int(path.stem) for path in replica.glob("*.log")) > 0

"""A remote tier on real brokers: what a new leader deletes, and what the judge reads of it."""

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.api import judge_all
from highwater.checkers.spark.session import spark
from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.derived_settings import TIERED_BROKERS, TIERED_TOPIC
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.remote_tier import remote_segment
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.prediction_check import as_predicted
from tests.kafka.test_faults import Ring
from tests.support.schedule_contexts import NotedFaults

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]

TOPIC: Final = Topic(name="faults", config=dict(TIERED_TOPIC))


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


@pytest.fixture(params=["3.9.2", MODERN])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ring]:
    config = dict(TIERED_BROKERS)
    options, kafka = NodeOptions(tiered=True), release(request.param)
    opened = open_cluster(kafka, tmp_path, brokers=3, broker_config=config, options=options)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[1, 2, 3]], TOPIC.settings())
        common = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0}
        yield Ring(cluster, probe, Producer(common | dict(cluster.release.client)))


def test_a_tier_that_is_away_gets_no_copy_and_gives_no_record(ring: Ring) -> None:
    """The newest segment stays on disks as no copy is made; the first record is in the tier."""
    config = {"bootstrap.servers": ring.cluster.bootstrap, "group.id": "tier"}
    reader = Consumer({**ring.cluster.release.client, **config, "auto.offset.reset": "error"})

    def local() -> list[int]:
        ring.send(1)
        return [int(segment.stem) for segment in ring.segments()]

    def first() -> bytes | None:
        reader.assign([TopicPartition(TOPIC.name, 0, 0)])
        message = reader.poll(5)
        return None if message is None or message.error() else message.value()

    await_local = partial(await_condition, local, limit_s=60, every_s=1)
    await_local(lambda bases: bases[0] > 0, what="a segment in the tier alone")
    notes = NotedFaults()
    nemesis = Nemesis(ring.cluster, notes, TOPIC)
    nemesis.inject("tier-outage")
    try:
        assert notes.says[-1].startswith("the remote tier fails for ")
        *_, newest = local()
        later = await_local(
            lambda bases: len(bases) > 2 and bases[-3] > newest, what="three segments more"
        )
        assert newest in later
        assert first() is None
    finally:
        nemesis.heal_all()
    await_local(lambda bases: bases[0] > newest, what="copies again")
    assert await_condition(first, lambda value: value is not None, what="a read", limit_s=60)
    reader.close()


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

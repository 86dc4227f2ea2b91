"""A power failure empties what was not flushed: 3.7 does not start on that, later ones flush it."""

import contextlib
from pathlib import Path

import pytest

from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Topic
from highwater.nemesis.injector import Nemesis
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(300)]

TOPIC = Topic(name="events", replication_factor=1)


@pytest.mark.parametrize(("kafka", "at_risk"), [("3.7.2", True), (MODERN, False)])
def test_power_fails_twice(tmp_path: Path, kafka: str, *, at_risk: bool) -> None:
    """At each start 3.7 replaces the epochs of all logs, and does not flush them (KAFKA-16541)."""
    options = NodeOptions(trace_flushes=True)
    opened = open_cluster(release(kafka), tmp_path, brokers=1, broker_config={}, options=options)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[1]], TOPIC.settings())
        notes = NotedFaults()
        nemesis = Nemesis(cluster, notes, TOPIC)
        nemesis.inject("torn-files", 1, choice=0.3)
        nemesis.heal_all()
        assert "no small file was unflushed" in notes.says[0]
        nemesis.inject("torn-files", 1, choice=0.3)
        nemesis.heal_all()
        _, _, injected, *rest = notes.says
        if at_risk:
            assert "__cluster_metadata-0/leader-epoch-checkpoint has zeros alone" in injected
            assert "ends until they are removed: " in rest[0]
            assert "Malformed line in checkpoint file" in rest[0]
        else:
            assert "no small file was unflushed" in injected
        await_condition(
            lambda: probe.replica(1, TOPIC.name, 0).leo,
            lambda leo: leo == 0,
            what="an empty replica that is served",
            limit_s=30,
        )

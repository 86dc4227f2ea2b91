"""Tests that processes and containers pass alike; ``--highwater-driver=docker`` chooses containers.

What they expect follows from the release alone, so passing on both means the same verdicts on both.
``make test`` has containers without a story (test_cluster.py), the nightly all.
"""

import pytest

from highwater import Case, KafkaRun, PromiseBroken
from highwater.clusters.core.interfaces import Cluster
from highwater.harness.releases.catalogue import MODERN

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(300)]


@pytest.mark.kafka("0.10.2.2", MODERN)
def test_the_loss_story_ends_as_the_release_predicts(
    kafka_run: KafkaRun, highwater_case: Case
) -> None:
    result = kafka_run(story="loss", check=False)
    assert result.as_predicted
    result.assert_explained()
    if highwater_case.release.cuts_to_hw:
        result.assert_loses("m3")
        with pytest.raises(PromiseBroken, match="lost 1 of 4 acknowledged records"):
            result.assert_as_promised()
    else:
        result.assert_loses()
        result.assert_as_promised()


@pytest.mark.kafka(MODERN)
def test_a_paused_leader_costs_nothing_that_all_replicas_acknowledged(kafka_run: KafkaRun) -> None:
    result = kafka_run(nemesis="pause", duration="6s", seed=3, min_isr=2)
    assert result.acknowledged > 100
    assert result.lost == 0


@pytest.mark.kafka("0.10.2.2")
def test_a_cluster_that_a_test_broke_is_no_other_tests(
    kafka_cluster: Cluster, highwater_case: Case, request: pytest.FixtureRequest
) -> None:
    laboratory = request.getfixturevalue("_highwater_laboratory")()
    assert [broker.state for broker in kafka_cluster.brokers.values()] == ["running"] * 3
    assert laboratory.cluster(highwater_case) is kafka_cluster
    kafka_cluster.create_topic("mine", [[1, 2, 3]], {"min.insync.replicas": "2"})
    kafka_cluster.brokers[2].kill()
    following = laboratory.cluster(highwater_case)
    assert following is not kafka_cluster
    assert [broker.state for broker in following.brokers.values()] == ["running"] * 3
    following.create_topic("mine", [[1, 2, 3]], {"min.insync.replicas": "2"})

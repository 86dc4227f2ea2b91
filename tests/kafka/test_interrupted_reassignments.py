"""Reassignments that an operator replaces while a new replica copies (KIP-455): what KRaft does.

docs/findings/cancelled-reassignment.md tells of them.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.protocol.admin import ListPartitionReassignmentsRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import Cluster, UnreachableError
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(300)]

Adding = tuple[list[int], list[int]]
"""Replicas that are added, and replicas that are removed."""


@contextlib.contextmanager
def opened(kafka: str, path: Path) -> Iterator[Cluster]:
    """A cluster of three brokers with a topic whose replicas are the brokers 1 and 2."""
    with contextlib.closing(
        open_cluster(release(kafka), path, brokers=3, broker_config={})
    ) as cluster:
        cluster.create_topic("t", [[1, 2]], {})
        yield cluster


def in_progress(cluster: Cluster) -> list[Adding]:
    """The reassignment of the topic that is under way, if any."""
    place = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
        name="t", partition_indexes=[0]
    )
    request = ListPartitionReassignmentsRequest(version=0, timeout_ms=5000, topics=[place])
    brokers = {1: Address.parse(cluster.brokers[1].address)}
    with contextlib.closing(ProtocolClient(brokers, timeout_s=10)) as client:
        [answer] = client.ask(1, request)
    return [
        (partition.adding_replicas, partition.removing_replicas)
        for topic in answer.topics
        for partition in topic.partitions
    ]


def replace(cluster: Cluster, *requests: list[int]) -> None:
    """Ask for one assignment after the other, while broker 3 does not copy."""
    cluster.brokers[3].pause()
    try:
        for replicas in requests:
            cluster.reassign("t", 0, replicas, awaited=False)
    finally:
        cluster.brokers[3].resume()


def await_end(cluster: Cluster, *, limit_s: float = 60.0) -> None:
    await_condition(
        lambda: in_progress(cluster),
        lambda rows: not rows,
        what="the reassignment to end",
        limit_s=limit_s,
        passing=(UnreachableError,),
    )


def await_isr(cluster: Cluster, *replicas: int) -> None:
    with contextlib.closing(cluster.probe()) as probe:
        await_condition(
            lambda: set(probe.partition("t", 0).isr),
            lambda isr: isr == set(replicas),
            what=f"the ISR {replicas}",
            limit_s=60,
            passing=(UnreachableError,),
        )


@pytest.mark.parametrize(("kafka", "stuck"), [("3.9.2", False), ("4.3.1", True), ("4.4.0", True)])
def test_a_request_for_the_old_replicas_ends_no_reassignment(
    kafka: str, tmp_path: Path, *, stuck: bool
) -> None:
    with opened(kafka, tmp_path) as cluster:
        replace(cluster, [1, 2, 3], [1, 2])
        if stuck:
            await_isr(cluster, 1, 2, 3)
            with pytest.raises(WaitTimeoutError):
                await_end(cluster, limit_s=15)
            assert in_progress(cluster) == [([3], [3])]
            cluster.cancel_reassignment("t", 0)
        await_end(cluster)
        await_isr(cluster, 1, 2)


@pytest.mark.parametrize(
    ("kafka", "replicas"), [("2.8.2", (1, 2, 3)), ("3.9.2", (1, 3)), ("4.4.0", (1, 3))]
)
def test_a_replica_that_a_later_request_keeps_is_removed(
    kafka: str, replicas: tuple[int, ...], tmp_path: Path
) -> None:
    with opened(kafka, tmp_path) as cluster:
        replace(cluster, [1, 3], [1, 2, 3])
        if cluster.release.coordination == "kraft":
            await_end(cluster)
        await_isr(cluster, *replicas)

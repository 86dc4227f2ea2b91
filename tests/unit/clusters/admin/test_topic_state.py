"""What ZooKeeper has of a topic, as the nodes of 0.9 to 3.9 say it."""

from typing import Any, Final

import pytest

from highwater.clusters.admin.metadata import ZooKeeperView
from highwater.clusters.core.interfaces import PartitionState, TopicState, UnreachableError

STATE: Final = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 4, "isr": [2, 1]}
NODES: Final[dict[str, Any]] = {
    "/brokers/topics/events": {"version": 2, "partitions": {"0": [1, 2], "10": [2, 1]}},
    "/brokers/topics/events/partitions/0/state": STATE,
    "/brokers/topics/events/partitions/10/state": STATE,
    "/config/topics/events": {"version": 1, "config": {"retention.ms": "7"}},
}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The nodes that every view reads."""
    there = dict(NODES)

    def read(_: ZooKeeperView, path: str) -> object:
        if path not in there:
            raise UnreachableError(f"ZooKeeper has no node {path}")
        return there[path]

    monkeypatch.setattr(ZooKeeperView, "read", read)
    monkeypatch.setattr(ZooKeeperView, "exists", lambda _, path: path in there)
    return there


def view() -> ZooKeeperView:
    made: ZooKeeperView = object.__new__(ZooKeeperView)
    return made


@pytest.mark.usefixtures("nodes")
def test_a_topic_with_all_its_nodes() -> None:
    state = PartitionState(leader=2, leader_epoch=4, isr=(2, 1))
    assert view().topic_state("events") == TopicState(
        settings={"retention.ms": "7"},
        replicas={0: (1, 2), 10: (2, 1)},
        partitions={0: state, 10: state},
    )


def test_a_topic_without_settings(nodes: dict[str, Any]) -> None:
    del nodes["/config/topics/events"]
    topic = view().topic_state("events")
    assert topic is not None
    assert topic.settings == {}


def test_no_topic(nodes: dict[str, Any]) -> None:
    del nodes["/brokers/topics/events"]
    assert view().topic_state("events") is None


def test_a_partition_without_a_state_is_no_evidence(nodes: dict[str, Any]) -> None:
    del nodes["/brokers/topics/events/partitions/10/state"]
    with pytest.raises(UnreachableError):
        view().topic_state("events")

"""Faults of controllers: which are hit, what is said of it, and how they come back."""

import contextlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.clusters.core.interfaces import Cluster
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import release
from highwater.nemesis.faults.registry import FaultTarget, find_fault


class Controller:
    """Remembers what was done to it."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.done: list[str] = []

    def kill(self) -> None:
        self.done.append("kill")

    def pause(self) -> None:
        self.done.append("pause")

    def resume(self) -> None:
        self.done.append("resume")

    def start(self) -> None:
        self.done.append("start")

    def lose_disk(self, *, renewed: bool = False) -> None:
        self.done.append("another disk" if renewed else "lose disk")


def cluster(kafka: str, count: int) -> Cluster:
    controllers = {id_: Controller(id_) for id_ in range(100, 100 + count)}
    made = SimpleNamespace(
        release=release(kafka),
        controllers=controllers,
        add_voter=lambda id_: controllers[id_].done.append("add"),
        remove_voter=lambda id_: controllers[id_].done.append("remove"),
    )
    return cast("Cluster", made)


def done(of: Cluster) -> dict[int, list[str]]:
    return {id_: cast("Controller", one).done for id_, one in of.controllers.items()}


@pytest.mark.parametrize(
    ("name", "kafka", "count", "hit", "says", "before", "after"),
    [
        ("controller-kill", "2.8.2", 1, [100], "ZooKeeper is killed", ["kill"], ["start"]),
        (
            "controller-kill",
            "4.4.0",
            1,
            [100],
            "the KRaft controller is killed",
            ["kill"],
            ["start"],
        ),
        ("controller-pause", "4.4.0", 3, [101], "controller 101 is paused", ["pause"], ["resume"]),
        (
            "controller-pause",
            "2.8.2",
            3,
            [100, 102],
            "ZooKeepers 100, 102 are paused",
            ["pause"],
            ["resume"],
        ),
        (
            "controller-disk-loss",
            "4.4.0",
            3,
            [102],
            "controller 102 is killed, with an empty disk",
            ["kill", "lose disk"],
            ["start"],
        ),
        (
            "controller-leave",
            "3.9.0",
            3,
            [100],
            "controller 100 is removed from the voters",
            ["remove"],
            ["add"],
        ),
        (
            "controller-replace",
            "4.4.0",
            5,
            [101, 103],
            "controllers 101, 103 are killed, and removed from the voters",
            ["kill", "remove", "another disk"],
            ["start", "add"],
        ),
    ],
)
def test_controllers_are_hit_and_come_back(
    name: str,
    kafka: str,
    count: int,
    hit: Sequence[int],
    says: str,
    before: list[str],
    after: list[str],
) -> None:
    stage = cluster(kafka, count)
    body = contextlib.contextmanager(find_fault(name).body)
    with body(stage, FaultTarget(controllers=tuple(hit))) as effect:
        assert effect == says
        assert done(stage) == {id_: before if id_ in hit else [] for id_ in stage.controllers}
    assert done(stage) == {id_: before + after if id_ in hit else [] for id_ in stage.controllers}


def test_a_fault_of_several_controllers_must_be_aimed() -> None:
    stage = cluster("4.4.0", 3)
    body = contextlib.contextmanager(find_fault("controller-kill").body)
    with pytest.raises(HarnessError, match="the step names none"), body(stage, FaultTarget()):
        pass
    assert done(stage) == {100: [], 101: [], 102: []}


@pytest.mark.parametrize("name", ["controller-leave", "controller-replace"])
def test_voters_change_from_3_9_on_kraft(name: str) -> None:
    why_not = find_fault(name).why_not
    assert [why_not(release(kafka), "docker") for kafka in ("3.9.0", "4.4.0")] == ["", ""]
    for kafka in ("2.8.2", "3.7.2", "3.9.2-zk"):
        assert "only KRaft from 3.9 on can add and remove voters" in why_not(
            release(kafka), "local"
        )

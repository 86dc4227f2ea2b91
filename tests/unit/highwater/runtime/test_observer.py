"""The observer records what a quorum's leader says, once, and goes on when nobody answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.clusters.core.interfaces import (
    Cluster,
    NotQueriedError,
    PartitionState,
    Probe,
    QuorumState,
    ReplicaState,
    UnreachableError,
)
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.history import QUORUM_TABLE
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.observer import Observer


def quorum(hw: int, voters: Mapping[int, int], observers: Mapping[int, int] = {}) -> QuorumState:
    return QuorumState(leader=101, epoch=3, hw=hw, voters=voters, observers=observers)


@dataclass
class FakeCluster:
    """A cluster, and its probe: each look at the quorum gives the next state, in the end None."""

    states: list[QuorumState | None]
    coordination: str = "kraft"
    brokers: dict[int, object] = field(default_factory=dict)
    looks: int = 0

    @property
    def release(self) -> object:
        return SimpleNamespace(coordination=self.coordination)

    def probe(self) -> "FakeCluster":
        return self

    def controller(self) -> int:
        return 101

    def partition(self, _topic: str, _partition: int) -> PartitionState:
        raise UnreachableError("no broker answers")

    def quorum(self) -> QuorumState:
        self.looks += 1
        state = self.states[min(self.looks, len(self.states)) - 1]
        if state is None:
            raise UnreachableError("the quorum has no leader")
        return state

    def close(self) -> None:
        """Nothing is open."""


def observed(folder: Path, cluster: FakeCluster, looks: int) -> list[tuple[object, ...]]:
    run = Run(folder)
    with Recorder(run, Clock()) as recorder:
        with Observer(cast("Cluster", cluster), recorder, Topic()) as observer:
            await_condition(
                lambda: cluster.looks,
                lambda made: made >= looks,
                what=f"{looks} looks at the quorum",
                limit_s=60,
            )
        observer.check()
    names = ("node", "voter", "leo", "leader", "epoch", "hw")
    return [tuple(row[name] for name in names) for row in run.table(QUORUM_TABLE).to_pylist()]


def test_a_row_for_each_change_of_a_controller(tmp_path: Path) -> None:
    states = [
        quorum(5, {100: 5, 101: 6}),
        quorum(5, {100: 5, 101: 6}),
        None,
        quorum(5, {100: 6, 101: 6}),
        quorum(5, {100: 6, 101: 6}, {102: 2}),
    ]
    assert observed(tmp_path, FakeCluster(states), len(states)) == [
        (100, True, 5, 101, 3, 5),
        (101, True, 6, 101, 3, 5),
        (100, True, 6, 101, 3, 5),
        (102, False, 2, 101, 3, 5),
    ]


def test_a_change_has_the_last_query_with_the_response_before(tmp_path: Path) -> None:
    """The clock counts calls: each query takes one, and so does each row."""

    class Counter(Clock):
        now = 0

        def __call__(self) -> int:
            self.now += 1
            return self.now

    states = [ReplicaState(leo=1, hw=1)] * 3 + [None, ReplicaState(leo=2, hw=1)]
    looks = iter(states)

    class Broker(FakeCluster):
        def replica(self, *_: object) -> ReplicaState:
            state = next(looks, states[-1])
            if state is None:
                raise UnreachableError("broker 1 does not answer")
            return state

    run, recorder = Run(tmp_path), Recorder(Run(tmp_path), Counter())
    with recorder:
        observer = Observer(cast("Cluster", Broker([None])), recorder, Topic(partitions=1))
        look = observer._replica_look(1)
        for _ in states:
            look(cast("Probe", Broker([None])))
    rows = run.table("events/replicas").to_pylist()
    assert [(row["time_ns"], row["leo"], row["unchanged_ns"]) for row in rows] == [
        (2, 1, None),
        (6, None, 4),
        (8, 2, 5),
    ]


def test_a_broker_that_was_not_queried_is_not_silent(tmp_path: Path) -> None:
    """A pause after a failed query: the other partition was silent then, and nobody asked later."""
    refusals = iter([UnreachableError("late"), *[NotQueriedError("shortly before")] * 3])

    class Broker(FakeCluster):
        def replica(self, *_: object) -> ReplicaState:
            raise next(refusals)

    run = Run(tmp_path)
    with Recorder(run, Clock()) as recorder:
        observer = Observer(cast("Cluster", Broker([None])), recorder, Topic(partitions=2))
        look = observer._replica_look(1)
        look(cast("Probe", Broker([None])))
        with pytest.raises(NotQueriedError):
            look(cast("Probe", Broker([None])))
    rows = run.table("events/replicas").to_pylist()
    assert [(row["partition"], row["leo"]) for row in rows] == [(0, None), (1, None)]


def test_zookeepers_quorum_is_not_asked_for(tmp_path: Path) -> None:
    cluster = FakeCluster([None], coordination="zookeeper")
    assert observed(tmp_path, cluster, 0) == []
    assert cluster.looks == 0

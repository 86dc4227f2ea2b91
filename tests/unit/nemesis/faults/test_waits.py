"""Faults that would wait for what another fault holds up do not begin, or wait for less."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.clusters.core.interfaces import Cluster, PartitionState, Probe, UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults import leadership, process, upgrades
from highwater.nemesis.faults.registry import FaultTarget, NothingDoneError


class Made:
    """Three brokers as a cluster and as a probe; who is in sync and who is awake is told."""

    def __init__(
        self,
        isr: tuple[int, ...],
        *,
        kafka: str = "kraft",
        asleep: int = 0,
        in_sync_after: int | None = None,
    ) -> None:
        states = {one: "paused" if one == asleep else "running" for one in (1, 2, 3)}
        self.brokers = {one: SimpleNamespace(id=one, state=states[one]) for one in states}
        for node in self.brokers.values():
            node.pause = partial(setattr, node, "state", "paused")
            node.resume = partial(setattr, node, "state", "running")
        self.release = SimpleNamespace(coordination=kafka)
        self.isr = isr
        self.looks_left = in_sync_after
        self.assigned: list[tuple[int | str, ...]] = []

    def probe(self) -> "Made":
        return self

    def close(self) -> None:
        pass

    def live_brokers(self) -> frozenset[int]:
        return frozenset(self.brokers)

    def partition(self, *_: object) -> PartitionState:
        if self.looks_left is not None:
            self.looks_left -= 1
            self.isr = self.isr if self.looks_left > 0 else (1, 2, 3)
        return PartitionState(leader=1, leader_epoch=0, isr=self.isr)

    def controller(self) -> int:
        return 2

    def reassign(self, *move: Any, awaited: bool = True) -> None:  # noqa: ANN401 - a topic, a partition, its replicas
        self.assigned.append((*move[-1], *(() if awaited else ("not awaited",))))

    def cancel_reassignment(self, *_: object) -> None:
        paused = [node.id for node in self.brokers.values() if node.state == "paused"]
        self.assigned.append(("cancelled while paused", *paused))


def test_no_replica_is_taken_away_while_one_in_sync_is_paused() -> None:
    """Kafka would wait for it, and whoever is to wake it for Kafka."""
    aim = FaultTarget(broker=None, topic=Topic(), partition=0, choice=0.0)
    whole, asleep = Made((1, 2, 3)), Made((1, 2, 3), asleep=3)
    assert len(list(leadership.reassign(cast("Cluster", whole), aim))) == 1
    assert len(whole.assigned) == 2
    with pytest.raises(NothingDoneError, match="events has replicas that are not in sync"):
        list(leadership.reassign(cast("Cluster", asleep), aim))
    assert not asleep.assigned


def test_a_return_is_cancelled_while_the_broker_is_paused_and_never_on_the_controller() -> None:
    aim = FaultTarget(broker=None, topic=Topic(), partition=0, choice=0.0)
    whole = Made((1, 2, 3))
    assert len(list(leadership.cancel_reassign(cast("Cluster", whole), aim))) == 1
    cancelled: list[tuple[int | str, ...]] = [
        (1, 2, 3, "not awaited"),
        ("cancelled while paused", 3),
    ]
    assert whole.assigned == [(1, 2), *cancelled, (1, 2, 3)]
    assert whole.brokers[3].state == "running"


def test_a_broker_is_decommissioned_when_its_replicas_are_in_sync_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aim = FaultTarget(broker=3, topic=Topic(partitions=1))
    soon, never = Made((1, 2), in_sync_after=2), Made((1, 2))
    monkeypatch.setattr(leadership, "_IN_SYNC_LIMIT_S", 0.2)
    for broker in soon.brokers.values():
        broker.stop = broker.start = lambda: None
    assert len(list(leadership.decommission(cast("Cluster", soon), aim))) == 1
    assert [*map(set, soon.assigned)] == [{1, 2}, {1, 2, 3}]
    with pytest.raises(NothingDoneError, match="events has replicas that are not in sync"):
        list(leadership.decommission(cast("Cluster", never), aim))
    assert not never.assigned


class Restarted(Made):
    """Brokers that can be restarted, after which a partition is behind for some looks."""

    def __init__(self, looks: int = 0) -> None:
        super().__init__((1, 2, 3))
        self.done: list[str] = []
        self.behind_for = 0
        for broker in self.brokers.values():
            broker.restart = lambda one=broker: self.restart(one.id, looks)

    def restart(self, broker: int, looks: int) -> None:
        assert not self.behind_for
        self.done.append(str(broker))
        self.behind_for = looks

    def behind(self) -> list[str]:
        self.behind_for = max(0, self.behind_for - 1)
        return ["theirs-0 (in sync: [1] of [1, 2])"] if self.behind_for else []


def rolled(
    monkeypatch: pytest.MonkeyPatch,
    made: Restarted,
    fault: Callable[..., Iterator[object]] = process.rolling_in_sync,
    *,
    stopped_after: int = 9,
) -> list[object]:
    monkeypatch.setattr(process, "ReplicationView", lambda _: made)
    aim = FaultTarget(stopped=lambda: len(made.done) >= stopped_after)
    return list(fault(cast("Cluster", made), aim))


@pytest.mark.slow
def test_the_next_broker_is_restarted_when_every_topic_is_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Restarted(looks=2)
    assert len(rolled(monkeypatch, made)) == 1
    assert made.done == ["1", "2", "3"]


@pytest.mark.slow
def test_a_cluster_that_stays_behind_is_left_with_what_lags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_IN_SYNC_LIMIT_S", 0.05)
    made = Restarted(looks=1000)
    message = r"in sync after the restart of broker 1; last seen: \[theirs-0 \(in sync"
    with pytest.raises(WaitTimeoutError, match=message):
        rolled(monkeypatch, made)
    assert made.done == ["1"]
    made = Restarted()
    made.behind_for = 1000
    with pytest.raises(WaitTimeoutError, match="in sync before the first restart"):
        rolled(monkeypatch, made)
    assert not made.done


@pytest.mark.parametrize("fault", [process.rolling_in_sync, process.rolling_restart])
def test_a_run_that_is_stopped_restarts_no_further_broker(
    fault: Callable[..., Iterator[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Restarted()
    with pytest.raises(HarnessError, match="stopped during the rolling restart"):
        rolled(monkeypatch, made, fault, stopped_after=1)
    assert made.done == ["1"]


@pytest.mark.parametrize(
    ("kafka", "error"), [("kraft", UnreachableError), ("zookeeper", WaitTimeoutError)]
)
def test_a_session_s_end_may_be_heard_of_by_nobody_on_kraft(
    monkeypatch: pytest.MonkeyPatch, kafka: str, error: type[Exception]
) -> None:
    """There it is brokers that tell, and those that are awake may be cut off."""
    monkeypatch.setattr(process, "_SESSION_LIMIT_S", 0.05)
    with pytest.raises(error):
        process._await_end(cast("Cluster", Made((1, 2, 3), kafka=kafka)), 2)


@pytest.mark.parametrize(("now", "waits"), [((1, 3), False), ((1, 2, 3), False), ((1,), True)])
def test_an_upgrade_waits_for_those_that_were_in_sync_before(
    monkeypatch: pytest.MonkeyPatch, now: tuple[int, ...], *, waits: bool
) -> None:
    """Not for a replica that another fault has taken away."""
    monkeypatch.setattr(upgrades, "_ISR_LIMIT_S", 0.05)
    made = Made((1, 3))
    whole = upgrades._in_sync(cast("Probe", made), Topic())
    made.isr = now

    def go_on() -> None:
        upgrades._await_whole(
            cast("Cluster", made), cast("Probe", made), lambda *_: None, Topic(), whole
        )

    if waits:
        with pytest.raises(WaitTimeoutError, match="in sync before the next broker"):
            go_on()
    else:
        go_on()

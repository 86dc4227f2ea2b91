"""Heartbeats for paused brokers: they begin, and end before a session is ended."""

import threading
from typing import cast

import pytest

from highwater.clusters.core.interfaces import Cluster, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.model_replay import session_keeper
from highwater.nemesis.model_replay.session_keeper import SessionKeeper


class Sessions:
    """A cluster that counts heartbeats; the coordination answers only while it is ``there``."""

    def __init__(self, *, kraft: bool = True) -> None:
        self.kraft = kraft
        self.there = True
        self.calls: list[tuple[str, int]] = []
        self.beaten = threading.Semaphore(0)

    def keep_session(self, broker: int) -> bool:
        self.calls.append(("keep", broker))
        self.beaten.release()
        if not self.there:
            raise UnreachableError("no controller responds")
        return self.kraft

    def end_session(self, broker: int) -> None:
        self.calls.append(("end", broker))

    def await_beats(self, count: int) -> None:
        for _ in range(count):
            assert self.beaten.acquire(timeout=30), "no heartbeat came"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "_EVERY_S", 0.001)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("there", [True, False])
def test_no_heartbeat_comes_after_the_end_of_a_session(*, there: bool) -> None:
    cluster = Sessions()
    cluster.there = there
    keeper = SessionKeeper(cast("Cluster", cluster))
    for broker in (1, 2):
        keeper.keep(broker)
    cluster.await_beats(6)
    keeper.end(1)
    keeper.release(2)
    keeper.keep(3)
    await_condition(
        lambda: [*cluster.calls],
        lambda calls: ("keep", 3) in calls,
        what="a heartbeat of broker 3",
        limit_s=30,
    )
    keeper.close()
    assert ("keep", 1) not in cluster.calls[cluster.calls.index(("end", 1)) :]


@pytest.mark.usefixtures("quick")
def test_with_zookeeper_nothing_is_kept() -> None:
    cluster = Sessions(kraft=False)
    keeper = SessionKeeper(cast("Cluster", cluster))
    keeper.keep(1)
    cluster.await_beats(1)
    keeper.close()
    assert cluster.calls == [("keep", 1)]


def test_a_keeper_of_nobody_ends_at_once() -> None:
    keeper = SessionKeeper(cast("Cluster", Sessions()))
    keeper.release(1)
    keeper.close()

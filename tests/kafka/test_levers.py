"""What a schedule can do to real brokers: move a leader, end a session, find out who leads."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

import pytest

from highwater.clusters.admin.leadership import ZooKeeperMover
from highwater.clusters.admin.metadata import ZooKeeperView
from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.core.interfaces import Cluster, PartitionState, Probe, UnreachableError
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.nemesis.model_replay.schedule_replay import KRAFT_SESSION_S, ZOOKEEPER_SESSION_S
from highwater.nemesis.model_replay.session_keeper import SessionKeeper

pytestmark = pytest.mark.kafka

LEVERS = (
    *(pytest.param(name, marks=pytest.mark.nightly) for name in ("0.10.2.2", "2.1.1", "2.8.2")),
    MODERN,
)
"""One release of each way to lead, to cut and to keep metadata."""

AS_REPLAYED = {
    "zookeeper.session.timeout.ms": str(int(ZOOKEEPER_SESSION_S * 1000)),
    "broker.session.timeout.ms": str(int(KRAFT_SESSION_S * 1000)),
    "request.timeout.ms": "2500",
}
SOON_S = 9.0
"""Half a session, so that a busy machine is no session that went by itself."""


@pytest.fixture(scope="module", params=LEVERS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("levers")
    opened = open_cluster(release(request.param), directory, brokers=3, broker_config=AS_REPLAYED)
    with contextlib.closing(opened):
        yield opened


@pytest.fixture
def probe(cluster: Cluster) -> Iterator[Probe]:
    with contextlib.closing(cluster.probe()) as opened:
        yield opened


def test_leadership_moves_and_nobody_leaves_the_isr(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("moves", [[1, 2, 3]], {})
    for leader in (2, 3, 1):
        cluster.move_leader("moves", 0, leader)
        assert set(_state(probe, "moves", leader).isr) == {1, 2, 3}
        _await_alone(probe, leader)


def test_leadership_moves_to_a_frozen_broker(cluster: Cluster, probe: Probe) -> None:
    """The controller decides; whoever is frozen need not know."""
    frozen, *others = _controller_last(cluster, probe)
    cluster.create_topic("frozen", [[*others, frozen]], {})
    cluster.brokers[frozen].pause()
    try:
        cluster.move_leader("frozen", 0, frozen)
        _state(probe, "frozen", frozen)
    finally:
        cluster.brokers[frozen].resume()


@pytest.mark.nightly  # by day all replicas are in sync, or one is frozen
def test_leadership_moves_while_a_replica_is_out_of_the_isr(cluster: Cluster, probe: Probe) -> None:
    with _out_of_the_isr(cluster, probe, "alone") as others:
        for leader in (others[1], others[0]):
            cluster.move_leader("alone", 0, leader)
            assert set(_state(probe, "alone", leader).isr) == set(others)


def test_leadership_moves_just_after_an_election(cluster: RealCluster, probe: Probe) -> None:
    """A controller that was elected a moment ago does not watch its node again yet."""
    _require_zookeeper(cluster)
    with _out_of_the_isr(cluster, probe, "elected") as others:
        with contextlib.closing(cluster._view()) as view:
            assert isinstance(view, ZooKeeperView)
            _elect_controller(view)
        cluster.move_leader("elected", 0, others[1])
        _state(probe, "elected", others[1])


def test_leadership_moves_when_no_broker_stood_for_election(
    cluster: RealCluster, probe: Probe
) -> None:
    """Nodes that are deleted at once: in the end each broker may wait for a new one."""
    _require_zookeeper(cluster)
    with _out_of_the_isr(cluster, probe, "nobody") as others:
        with contextlib.closing(cluster._view()) as view:
            assert isinstance(view, ZooKeeperView)
            for _ in range(6):
                with contextlib.suppress(UnreachableError, WaitTimeoutError):
                    _elect_controller(view, limit_s=3)
                    view.delete("/controller")
            mover = ZooKeeperMover(view, lambda *_: contextlib.nullcontext())
            assert mover.await_controller(0) in others
        cluster.move_leader("nobody", 0, others[1])
        _state(probe, "nobody", others[1])


def test_the_heir_is_chosen(cluster: Cluster, probe: Probe) -> None:
    leader, *heirs = _controller_last(cluster, probe)
    cluster.create_topic("heirs", [[leader, *heirs]], {})
    cluster.set_next_leader("heirs", 0, heirs[1])
    assert _state(probe, "heirs", leader) == PartitionState(
        leader=leader, leader_epoch=0, isr=(leader, *heirs)
    )
    cluster.brokers[leader].kill()
    try:
        cluster.end_session(leader)
        state = await_condition(  # a new controller may first write that no broker leads
            partial(probe.partition, "heirs", 0),
            lambda state: state.leader not in {leader, -1},
            what="another leader",
            limit_s=4 * KRAFT_SESSION_S,
            passing=(UnreachableError,),
        )
        assert state.leader == heirs[1]
    finally:
        cluster.brokers[leader].start()
    _await_live(probe, set(cluster.brokers), limit_s=60)


@pytest.mark.nightly  # by day the session of a killed leader is ended, and another is the heir
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_silent_brokers_session_ends_at_once(cluster: Cluster, probe: Probe, how: str) -> None:
    victim, *_ = _controller_last(cluster, probe)
    broker = cluster.brokers[victim]
    broker.kill() if how == "kill" else broker.pause()
    try:
        cluster.end_session(victim)
        _await_live(probe, set(cluster.brokers) - {victim}, limit_s=SOON_S)
    finally:
        broker.start() if how == "kill" else broker.resume()
    _await_live(probe, set(cluster.brokers), limit_s=60)


@pytest.mark.nightly
def test_a_paused_brokers_session_lasts_while_heartbeats_come(
    cluster: Cluster, probe: Probe
) -> None:
    if cluster.release.coordination != "kraft":
        pytest.skip("with ZooKeeper no other client can keep a session")
    victim, *_ = _controller_last(cluster, probe)
    keeper = SessionKeeper(cluster)
    cluster.brokers[victim].pause()
    keeper.keep(victim)
    until = time.monotonic() + 2 * KRAFT_SESSION_S
    try:
        await_condition(
            lambda: (probe.live_brokers(), time.monotonic()),
            lambda seen: victim not in seen[0] or seen[1] > until,
            what="two session timeouts to pass",
            limit_s=4 * KRAFT_SESSION_S,
            passing=(UnreachableError,),
        )
        assert victim in probe.live_brokers()
        keeper.end(victim)
        _await_live(probe, set(cluster.brokers) - {victim}, limit_s=SOON_S)
    finally:
        keeper.close()
        cluster.brokers[victim].resume()
    _await_live(probe, set(cluster.brokers), limit_s=60)


def _require_zookeeper(cluster: Cluster) -> None:
    if cluster.release.coordination != "zookeeper":
        pytest.skip("brokers do not stand for election; another test moves leaders all the same")


def _state(probe: Probe, topic: str, leader: int) -> PartitionState:
    """What a move has come to: not every broker need answer, or know it yet on a busy machine."""
    return await_condition(
        partial(probe.partition, topic, 0),
        lambda state: state.leader == leader,
        what=f"broker {leader} to lead {topic}",
        limit_s=60,
        passing=(UnreachableError,),
    )


def _controller_last(cluster: Cluster, probe: Probe) -> list[int]:
    controller = await_condition(
        probe.controller,
        what="an answer on the controller",
        limit_s=60,
        passing=(UnreachableError,),
    )
    return sorted(cluster.brokers, key=lambda one: one == controller)


def _await_alone(probe: Probe, leader: int) -> None:
    await_condition(
        lambda: [one for one in (1, 2, 3) if probe.leads(one, "moves", 0)],
        lambda leaders: leaders == [leader],
        what=f"broker {leader} alone to take itself for the leader",
        limit_s=60,
        passing=(UnreachableError,),
    )


@contextlib.contextmanager
def _out_of_the_isr(cluster: Cluster, probe: Probe, topic: str) -> Iterator[list[int]]:
    """A topic whose first replica, not the controller's, is dead; yields the other brokers."""
    out, *others = _controller_last(cluster, probe)
    cluster.create_topic(topic, [[out, *others]], {})
    cluster.brokers[out].kill()
    try:
        cluster.end_session(out)
        _await_isr(probe, topic, set(others))
        yield others
    finally:
        cluster.brokers[out].start()
    _await_live(probe, set(cluster.brokers), limit_s=60)


def _elect_controller(view: ZooKeeperView, limit_s: float = 20) -> None:
    epoch = view.read("/controller_epoch")
    view.delete("/controller")
    await_condition(
        lambda: view.read("/controller_epoch"),
        lambda now: now > epoch,
        what="another controller",
        limit_s=limit_s,
        every_s=0.001,
    )


def _await_isr(probe: Probe, topic: str, brokers: set[int]) -> None:
    await_condition(
        lambda: set(probe.partition(topic, 0).isr),
        lambda isr: isr == brokers,
        what=f"the ISR of {topic} to be {brokers}",
        limit_s=4 * KRAFT_SESSION_S,
        passing=(UnreachableError,),
    )


def _await_live(probe: Probe, brokers: set[int], *, limit_s: float) -> None:
    await_condition(
        probe.live_brokers,
        lambda live: live == brokers,
        what=f"brokers {sorted(brokers)} alone to have sessions",
        limit_s=limit_s,
        passing=(UnreachableError,),
    )

"""What is done to processes and containers strikes and heals alike; the HW-lag window opens."""

import pytest
from confluent_kafka import Producer

from highwater.clusters.admin.sessions import await_sessions
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.history import FAULTS
from highwater.nemesis.hw_lag_window import await_window
from highwater.nemesis.injector import Nemesis
from tests.support.settled import await_settled

pytestmark = pytest.mark.kafka

STRUCK = {"kill": "down", "pause": "paused", "stop": "down", "power-failure": "down"}


class Silence:
    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        assert set(fields) <= set(FAULTS.names)
        assert name
        assert phase in ("inject", "heal")
        assert says
        assert broker


@pytest.mark.parametrize("names", [("kill", "pause"), ("stop", "power-failure")], ids="-".join)
def test_faults_strike_and_heal_side_by_side(
    cluster: Cluster, probe: Probe, names: tuple[str, str]
) -> None:
    nemesis = Nemesis(cluster, Silence())
    struck = dict(zip((1, 3), names, strict=True))
    for broker, name in struck.items():
        nemesis.inject(name, broker)
    try:
        assert nemesis.broken_brokers == {1, 3}
        for broker, name in struck.items():
            assert cluster.brokers[broker].state == STRUCK[name]
        await_condition(
            probe.live_brokers,
            lambda live: live == {2},
            what=f"the sessions of brokers 1 and 3 to end after {names}",
            limit_s=60,
            passing=(UnreachableError,),
        )
    finally:
        nemesis.heal_all()
    assert {broker.state for broker in cluster.brokers.values()} == {"running"}
    await_condition(
        probe.live_brokers,
        lambda live: live == {1, 2, 3},
        what="every broker to be back",
        limit_s=60,
        passing=(UnreachableError,),
    )


def test_who_ended_by_itself_is_started_again(cluster: Cluster, probe: Probe) -> None:
    started: list[int | None] = []
    cluster.brokers[3].kill()  # no nemesis knows of it
    what = "every broker to have a session"
    await_sessions(
        cluster, probe, what=what, limit_s=90, note=lambda _says, broker: started.append(broker)
    )
    assert started == [3]
    assert cluster.brokers[3].state == "running"
    assert probe.live_brokers() == {1, 2, 3}


def test_a_zombie_needs_somebody_who_can_tell(cluster: Cluster) -> None:
    if cluster.release.coordination != "kraft":
        pytest.skip("ZooKeeper can tell")
    nemesis = Nemesis(cluster, Silence())
    nemesis.inject("pause", 1)
    nemesis.inject("pause", 2)
    try:
        with pytest.raises(UnreachableError, match="no broker is left"):
            nemesis.inject("zombie", 3)
        assert cluster.brokers[3].state == "running"
    finally:
        nemesis.heal_all()


def test_the_window_opens_on_an_ack_and_shuts_by_itself(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("window", [[1, 2, 3]], {"min.insync.replicas": "1"})
    acked: list[int | None] = []
    common = {"bootstrap.servers": cluster.bootstrap, "acks": "all"}
    producer = Producer(common | dict(cluster.release.client))
    producer.produce(
        "window", b"m0", partition=0, on_delivery=lambda _, m: acked.append(m.offset())
    )
    await_condition(
        lambda: producer.poll(0.005), lambda _: bool(acked), what="an ack", limit_s=30, every_s=0
    )
    seen = await_window(probe, "window", 0, (2, 3), offset=0, limit_s=0.4)
    assert all((state.leo, state.hw) == (1, 0) for state in seen.values())
    assert await_settled(probe, "window", 0, (1, 2, 3), offset=1, limit_s=60) == 1
    with pytest.raises(WaitTimeoutError, match=r"2, 3 to hold window-0@0 above their HW.*hw=1"):
        await_window(probe, "window", 0, (2, 3), offset=0, limit_s=0.2)

"""Faults of a broker's clock and disk on real brokers: seen from outside, and healed."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Producer

from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.machine import BUMPS_S
from highwater.nemesis.injector import Nemesis
from highwater.runtime.broker_log_parser import log_lines
from tests.kafka.test_faults import Ring
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(400)]

RELEASES: Final = ("2.8.2", "3.9.2", "4.4.0")
TOPIC: Final = Topic(name="faults", config={"message.timestamp.type": "LogAppendTime"})
LEADER: Final = 2
CLOSE_S: Final = 3.0
HANGS_S: Final = 2.0


@pytest.fixture(scope="module")
def ring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ring]:
    directory, options = tmp_path_factory.mktemp("machine"), NodeOptions(clocks=True)
    kafka = release(request.param)
    opened = open_cluster(kafka, directory, brokers=3, broker_config={}, options=options)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[LEADER, 1, 3]], TOPIC.settings())
        common = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0}
        yield Ring(cluster, probe, Producer(common | dict(cluster.release.client)))


def ahead_s(ring: Ring) -> float:
    """How far the clock of the leader is ahead, by the timestamp that it gives to a record."""
    answers: list[float] = []
    ring.producer.produce(
        TOPIC.name,
        b"when",
        partition=0,
        on_delivery=lambda error, message: answers.append(
            float("nan") if error else message.timestamp()[1] / 1000 - time.time()
        ),
    )
    ring.producer.flush(60)
    return answers[0]


def about(offset_s: float) -> Callable[[float], bool]:
    return lambda seen_s: abs(seen_s - offset_s) < CLOSE_S


@contextlib.contextmanager
def injected(ring: Ring, name: str, choice: float) -> Iterator[str]:
    """A fault of the leader, whose sentence this is; it is healed at the end, and all are whole."""
    if ring.state().leader != LEADER:
        ring.cluster.move_leader(TOPIC.name, 0, LEADER)
    ring.await_state(lambda state: state.leader == LEADER, "the first replica to lead")
    ring.send(1)
    notes = NotedFaults()
    nemesis = Nemesis(ring.cluster, notes, TOPIC)
    nemesis.inject(name, LEADER, choice=choice)
    try:
        yield notes.says[-1]
    finally:
        nemesis.heal_all()
    ring.await_whole()


def moved(ring: Ring, offset_s: float) -> None:
    await_condition(
        lambda: ahead_s(ring), about(offset_s), what=f"a clock {offset_s} s ahead", limit_s=20
    )


each_release = pytest.mark.parametrize("ring", RELEASES, indirect=True, scope="module")


@each_release
@pytest.mark.parametrize("offset_s", [-86_400, 3600, 8 * 86_400])
def test_a_clock_jumps_and_is_set_right(ring: Ring, offset_s: int) -> None:
    choice = (BUMPS_S.index(offset_s) + 0.5) / len(BUMPS_S)
    moved(ring, 0)
    with injected(ring, "clock-bump", choice) as says:
        assert f"the clock of broker {LEADER} is {abs(offset_s)} s " in says
        moved(ring, offset_s)
    moved(ring, 0)


@each_release
def test_a_clock_jumps_again_and_again(ring: Ring) -> None:
    with injected(ring, "clock-strobe", 0.99):
        for _ in range(2):
            moved(ring, 3600)
            moved(ring, 0)
    moved(ring, 0)


@each_release
def test_a_clock_drifts(ring: Ring) -> None:
    with injected(ring, "clock-drift", 0.99):
        await_condition(
            lambda: ahead_s(ring), lambda seen: seen > 10, what="a fast clock", limit_s=40
        )
    moved(ring, 0)


@each_release
def test_lines_of_a_moved_clock_get_the_time_of_this_machine(ring: Ring) -> None:
    begun_ns = time.time_ns()
    with injected(ring, "clock-bump", 0.99):  # 8 days
        ring.cluster.brokers[LEADER].kill()
        ring.cluster.brokers[LEADER].start()
    rows = [
        row
        for row in log_lines(ring.log.parent, TOPIC.name, started_at_ns=begun_ns)
        if row["broker"] == LEADER and row["kind"] in {"start", "loaded"}
    ]
    late = [row for row in rows if 0 < int(str(row["time_ns"])) < time.time_ns() - begun_ns]
    assert {row["kind"] for row in late} == {"start", "loaded"}


@each_release
def test_a_stalled_disk_lets_writes_wait(ring: Ring) -> None:
    with injected(ring, "disk-stall", 0.0):
        ring.producer.produce(TOPIC.name, b"waits", partition=0)
        assert ring.producer.flush(HANGS_S) == 1
        assert ring.cluster.brokers[LEADER].state == "running"
    assert ring.producer.flush(60) == 0


@each_release
def test_a_slow_disk_delays_writes(ring: Ring) -> None:
    with injected(ring, "disk-slow", 0.45):
        begun = time.monotonic()
        ring.send(5)
        assert time.monotonic() - begun > 5 * 0.1


@each_release
@pytest.mark.parametrize(("choice", "kind"), [(0.0, "write"), (0.5, "flush"), (0.99, "read")])
def test_a_call_fails_once(ring: Ring, choice: float, kind: str) -> None:
    with sending(ring), injected(ring, "disk-eio", choice) as says:
        assert f"a {kind} of broker {LEADER} has failed (EIO)" in says


@contextlib.contextmanager
def sending(ring: Ring) -> Iterator[None]:
    """Records are under way all the time, so that the broker writes, flushes and reads."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.05):
            ring.producer.produce(TOPIC.name, b"more", partition=0)
            ring.producer.poll(0)
        ring.producer.flush(60)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@each_release
def test_a_file_of_a_segment_is_gone(ring: Ring) -> None:
    with injected(ring, "files-lost", 0.0) as says:
        assert "has no longer faults-0/00000000000000000000." in says


@each_release
def test_a_disk_is_as_it_was(ring: Ring) -> None:
    with sending(ring), injected(ring, "disk-restored", 0.0) as says:
        assert f"the disk of broker {LEADER} is restored from a snapshot: faults-0 lost" in says
        assert ring.leo_on_disk() < ring.replica(1).leo

"""Faults of a broker's clock and disk on real brokers: seen from outside, and healed."""

import concurrent.futures
import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError
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
CONTAINERS: Final = "docker 4.4.0"
TOPIC: Final = Topic(name="faults", config={"message.timestamp.type": "LogAppendTime"})
LEADER: Final = 2
CLOSE_S: Final = 3.0
HANGS_S: Final = 2.0


@pytest.fixture(scope="module")
def ring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ring]:
    directory, options = tmp_path_factory.mktemp("machine"), NodeOptions(clocks=True)
    driver, _, name = request.param.rpartition(" ")
    if driver == "docker":
        request.getfixturevalue("docker")
    opened = open_cluster(
        release(name),
        directory,
        brokers=3,
        broker_config={},
        options=options,
        driver=driver or "local",
    )
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
    """A fault of the leader or of the controller, and its sentence; healed at the end."""
    if ring.state().leader != LEADER:
        ring.cluster.move_leader(TOPIC.name, 0, LEADER)
    ring.await_state(lambda state: state.leader == LEADER, "the first replica to lead")
    ring.send(1)
    notes = NotedFaults()
    nemesis = Nemesis(ring.cluster, notes, TOPIC)
    nemesis.inject(name, None if name.startswith("controller") else LEADER, choice=choice)
    try:
        yield notes.says[-1]
    finally:
        nemesis.heal_all()
    ring.await_whole()


def moved(ring: Ring, offset_s: float) -> None:
    await_condition(
        lambda: ahead_s(ring), about(offset_s), what=f"a clock {offset_s} s ahead", limit_s=20
    )


in_containers = pytest.param(CONTAINERS, marks=pytest.mark.docker)
each_release = pytest.mark.parametrize(
    "ring", [*RELEASES, in_containers], indirect=True, scope="module"
)
contained = pytest.mark.parametrize("ring", [in_containers], indirect=True, scope="module")


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
        assert "has lost faults-0/00000000000000000000." in says


@each_release
def test_a_disk_is_as_it_was(ring: Ring) -> None:
    with sending(ring), injected(ring, "disk-restored", 0.0) as says:
        assert f"the disk of broker {LEADER} is restored from a snapshot: faults-0 lost" in says
        assert ring.leo_on_disk() < ring.replica(1).leo


@each_release
@pytest.mark.parametrize("choice", [0.0, 0.25, 0.5, 0.75])
def test_a_disk_that_lies_loses_what_it_promised(ring: Ring, choice: float) -> None:
    """The topic is flushed at each record, so that a power failure alone would lose none."""
    ring.cluster.configure(TOPIC.name, {"flush.messages": "1"})
    try:
        with sending(ring), injected(ring, "disk-lies", choice) as says:
            assert re.search(r"lost its power after [1-9]\d* flushes without effect", says)
            assert "faults-0 lost" in says
            assert ring.leo_on_disk() < ring.replica(1).leo
    finally:
        ring.cluster.configure(TOPIC.name, {"flush.messages": None})


@each_release
def test_a_broker_without_descriptors_takes_no_connection(ring: Ring) -> None:
    with injected(ring, "no-descriptors", 0.0):
        late = Producer({"bootstrap.servers": ring.cluster.brokers[LEADER].address})
        with pytest.raises(KafkaException):
            late.list_topics(timeout=HANGS_S)


@each_release
def test_a_broker_is_decommissioned_and_copies_its_replica_anew(ring: Ring) -> None:
    with injected(ring, "decommission", 0.0) as says:
        assert says == f"broker {LEADER} has no replica of faults, and is shut down"
        assert set(ring.state().isr) == {1, 3}
        assert ring.cluster.brokers[LEADER].state == "down"
        ring.send(1)
    assert ring.leo_on_disk() == ring.replica(1).leo


@each_release
def test_the_clock_of_a_controller_jumps(ring: Ring) -> None:
    log = controller_log(ring)
    with injected(ring, "controller-clock-bump", 0.99):  # 8 days
        ring.cluster.controllers[100].kill()
        ring.cluster.controllers[100].start()
        ahead = time.strftime("%Y-%m-%d", time.gmtime(time.time() + BUMPS_S[-1]))
        assert re.search(rf"(?m)^\[?{ahead}", log.read_text("utf-8"))


@each_release
def test_a_stalled_disk_of_a_controller_lets_changes_wait(ring: Ring) -> None:
    with injected(ring, "controller-disk-stall", 0.0):
        admin = AdminClient({"bootstrap.servers": ring.cluster.bootstrap})
        [answer] = admin.create_topics([NewTopic("late", 1)]).values()
        with pytest.raises(concurrent.futures.TimeoutError):
            answer.result(HANGS_S)
    answer.result(60)
    ring.cluster.delete_topic("late")


@each_release
def test_a_flush_of_a_controller_fails(ring: Ring) -> None:
    with sending(ring), changing(ring), injected(ring, "controller-disk-eio", 0.5) as says:
        assert "a flush of " in says


@contextlib.contextmanager
def changing(ring: Ring) -> Iterator[None]:
    """Settings change all the time, so that a controller writes and flushes."""
    ended = threading.Event()

    def change() -> None:
        while not ended.wait(0.1):
            with contextlib.suppress(HarnessError, KafkaException):
                ring.cluster.configure(TOPIC.name, {"retention.bytes": "-1"})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def controller_log(ring: Ring) -> Path:
    [log] = [
        path
        for path in ring.log.parent.glob("*.log")
        if path.name.startswith(("controller", "zookeeper"))
    ]
    return log


@contained
def test_a_container_has_a_share_of_a_processor(ring: Ring) -> None:
    with injected(ring, "cpu-starved", 0.0) as says:
        assert says == f"broker {LEADER} has 2 % of a processor"
        begun = time.monotonic()
        ring.send(5)
        assert time.monotonic() - begun > 1


@contained
def test_a_container_runs_out_of_memory(ring: Ring) -> None:
    with injected(ring, "memory-starved", 0.0) as says:
        assert says == f"broker {LEADER} has 1 MB of memory left"
        with sending(ring):
            ring.await_(
                lambda: ring.cluster.brokers[LEADER].state, lambda state: state == "down", "its end"
            )


@contained
def test_packets_to_a_container_are_lost(ring: Ring) -> None:
    with injected(ring, "packets-lost", 1.0) as says:
        assert says == f"broker {LEADER} loses 50% of the packets that reach it"
        begun = time.monotonic()
        ring.send(10)
        assert time.monotonic() - begun > 1


@contained
def test_the_disk_of_a_container_is_full(ring: Ring) -> None:
    with sending(ring), injected(ring, "disk-full", 0.0):
        ring.await_(
            lambda: ring.cluster.brokers[LEADER].state, lambda state: state == "down", "its end"
        )

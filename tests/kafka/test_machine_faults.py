"""Faults of the machine under a broker on real brokers: seen from outside, and healed."""

import concurrent.futures
import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.clusters.brokers.real_cluster import RealBroker
from highwater.clusters.containers.daemon import Client, connected
from highwater.clusters.containers.ownership import LABEL
from highwater.clusters.core.addresses import PEERS_PORT
from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import open_cluster
from highwater.clusters.nodes.broker_names import hosts_file
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
TOPIC: Final = Topic(name="faults", config={"message.timestamp.type": "LogAppendTime"})
LEADER: Final = 2
CLOSE_S: Final = 3.0
HANGS_S: Final = 2.0
LARGE_BYTES: Final = 40_000_000
HEALED: Final[list[Callable[[str], None]]] = []
"""What a test does with the name of a fault that it has healed."""


@pytest.fixture(scope="module")
def ring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ring]:
    directory, options = tmp_path_factory.mktemp("machine"), NodeOptions(clocks=True, names=True)
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


@pytest.fixture(autouse=True)
def _shown(
    request: pytest.FixtureRequest, ring: Ring, record_property: Callable[[str, object], None]
) -> None:
    """The names of the test's faults are in its report, with the release and the driver."""
    driver, _, _ = request.node.callspec.params["ring"].rpartition(" ")
    place = f"{ring.cluster.release.name} {driver or 'local'}"
    HEALED[:] = [lambda fault: record_property("fault", f"{fault} {place}")]


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
    HEALED[0](name)


def moved(ring: Ring, offset_s: float) -> None:
    await_condition(
        lambda: ahead_s(ring), about(offset_s), what=f"a clock {offset_s} s ahead", limit_s=20
    )


CONTAINERS: Final = [pytest.param(f"docker {name}", marks=pytest.mark.docker) for name in RELEASES]
each_release = pytest.mark.parametrize(
    "ring", [*RELEASES, *CONTAINERS], indirect=True, scope="module"
)
contained = pytest.mark.parametrize("ring", CONTAINERS, indirect=True, scope="module")


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

    def kinds() -> set[object]:
        """The kinds of the leader's lines about its restart."""
        return {
            row["kind"]
            for row in log_lines(ring.log.parent, TOPIC.name, started_at_ns=begun_ns)
            if row["broker"] == LEADER
            and row["kind"] in {"start", "loaded"}
            and 0 < int(str(row["time_ns"])) < time.time_ns() - begun_ns
        }

    with injected(ring, "clock-bump", 0.99):  # 8 days
        ring.cluster.brokers[LEADER].kill()
        ring.cluster.brokers[LEADER].start()
        ring.await_(kinds, lambda seen: seen == {"start", "loaded"}, "lines about the restart")


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
def test_a_broker_that_resolves_no_name_copies_nothing(ring: Ring) -> None:
    begun = ring.log.stat().st_size
    with injected(ring, "dns-fails", 0.0) as says:
        assert says == f"broker {LEADER} has restarted, and resolves no other broker's name"
        ring.await_(
            lambda: ring.log.read_bytes()[begun:],
            lambda text: b"UnknownHostException" in text,
            "a lookup to fail",
        )
        ring.send(5)
        assert set(ring.state().isr) == {1, 3}
        assert reached(ring).isdisjoint({host_of(ring, 1), host_of(ring, 3)})


@each_release
def test_a_broker_reaches_the_wrong_brokers(ring: Ring) -> None:
    with injected(ring, "dns-lies", 0.0) as says:
        looks = f"looks for broker 1 at broker 3, 3 at broker {LEADER}"
        assert says == f"broker {LEADER} has restarted, and {looks}"
        leads = ring.await_state(lambda state: state.leader in {1, 3}, "a leader").leader
        wrong = host_of(ring, 3 if leads == 1 else LEADER)
        ring.await_(partial(reached, ring), lambda at: wrong in at, "a wrong connection")
        ring.send(5)
        assert set(ring.state().isr) == {1, 3}
        assert host_of(ring, 1) not in reached(ring)


def host_of(ring: Ring, broker: int) -> str:
    """Where other brokers reach it, by its own hosts file."""
    hosts = hosts_file(ring.cluster.directory / "coordination", broker).read_text().split()
    return hosts[hosts.index(f"broker-{broker}") - 1]


def reached(ring: Ring) -> set[str]:
    """The hosts to whose port for brokers the leader has connections, by the kernel's table."""
    broker = ring.cluster.brokers[LEADER]
    assert isinstance(broker, RealBroker)
    process = Path("/proc") / str(broker.pids[0])
    files = []
    for path in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            files.append(str(path.readlink()))
    rows = [line.split() for line in (process / "net" / "tcp").read_text().splitlines()[1:]]
    remote = [row[2].split(":") for row in rows if f"socket:[{row[9]}]" in files]
    return {
        socket.inet_ntoa(bytes.fromhex(host)[::-1])
        for host, port in remote
        if int(port, 16) == PEERS_PORT
    }


@each_release
def test_a_broker_whose_jvm_is_held_loses_its_session(ring: Ring) -> None:
    broker = ring.cluster.brokers[LEADER]
    assert isinstance(broker, RealBroker)
    with injected(ring, "jvm-pause", 0.0) as says:
        assert says == f"no Java thread of broker {LEADER} runs"
        ring.await_(
            ring.probe.live_brokers,
            lambda live: LEADER not in live,
            "the session of the broker to end",
        )
        status = Path(f"/proc/{broker.pids[0]}/status").read_text("ascii")
        assert "State:\tS" in status  # its threads wait; SIGSTOP would be T
        assert broker.state == "running"
    assert not [*Path(f"/proc/{broker.pids[0]}/root/tmp").glob(".highwater-*")]


@each_release
def test_a_broker_gets_no_memory_for_a_large_record(ring: Ring) -> None:
    """Java reads from a socket into memory outside of its heap, as much as the request has."""
    begun, large = ring.log.stat().st_size, bytes(LARGE_BYTES)
    ring.cluster.configure(TOPIC.name, {"max.message.bytes": str(2 * LARGE_BYTES)})
    try:
        with injected(ring, "no-memory", 0.0) as says:
            assert says == f"broker {LEADER} can allocate 1 MB more"
            late = Producer(
                {"bootstrap.servers": ring.cluster.bootstrap, "message.max.bytes": 2 * LARGE_BYTES}
            )
            late.produce(TOPIC.name, large, partition=0)
            ring.await_(
                lambda: ring.log.read_bytes()[begun:],
                lambda text: b"OutOfMemoryError" in text or b"insufficient memory" in text,
                "an allocation to fail",
            )
            late.purge()
    finally:
        ring.cluster.configure(TOPIC.name, {"max.message.bytes": None})


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
    if ring.cluster.release.coordination == "zookeeper":
        assert answer.exception(60) is None or "Unknown broker error" in str(answer.exception())
        return  # the broker has lost its session while it waited for ZooKeeper
    answer.result(60)
    ring.cluster.delete_topic("late")


@each_release
def test_a_write_or_flush_of_a_controller_fails(ring: Ring) -> None:
    """ZooKeepers of tests never flush (``forceSync``)."""
    on_kraft = ring.cluster.release.coordination == "kraft"
    kind, choice = ("flush", 0.5) if on_kraft else ("write", 0.0)
    with sending(ring), changing(ring), injected(ring, "controller-disk-eio", choice) as says:
        assert f"a {kind} of " in says


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


def container(ring: Ring, client: Client) -> Any:  # noqa: ANN401 - docker ships no types
    """The leader's container: the one that mounts its log directory."""
    folder = str(ring.cluster.brokers[LEADER].directory)
    running = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    [own] = [one for one in running if folder in {mount["Source"] for mount in one.attrs["Mounts"]}]
    return own


def throttled_s(ring: Ring) -> float:
    """How long the kernel has kept the leader's threads from running (cpu.stat)."""
    with connected() as client:
        usage = container(ring, client).stats(stream=False)["cpu_stats"]
    return int(usage["throttling_data"]["throttled_time"]) / 1e9


@contained
def test_a_container_has_a_share_of_a_processor(ring: Ring) -> None:
    before_s = throttled_s(ring)
    with injected(ring, "cpu-starved", 0.0) as says:
        assert says == f"broker {LEADER} has 2 % of a processor"
        ring.send(10)
    healed_s = throttled_s(ring)
    assert healed_s - before_s > 1
    ring.send(50)
    assert throttled_s(ring) == healed_s


@contained
def test_a_container_runs_out_of_memory(ring: Ring) -> None:
    with injected(ring, "memory-starved", 0.0) as says:
        assert says == f"broker {LEADER} has 1 MB of memory left"
        with sending(ring):
            ring.await_(
                lambda: ring.cluster.brokers[LEADER].state, lambda state: state == "down", "its end"
            )
        with connected() as client:
            assert container(ring, client).attrs["State"]["OOMKilled"]


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

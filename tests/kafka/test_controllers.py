"""Several KRaft controllers or ZooKeepers: a majority goes on, and what comes back catches up."""

import contextlib
import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from highwater.api import judge_all, load
from highwater.campaigns.soak_results import Soak, SoakFolder
from highwater.campaigns.soak_run import Bounds, perform
from highwater.checkers.core.anomaly_kinds import LOST_DECISION, METADATA_DIVERGENCE
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import quorum_request, zookeeper_status
from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.core.interfaces import (
    Cluster,
    NodeOptions,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import Store
from highwater.nemesis.injector import Nemesis
from highwater.runtime.runner import execute
from tests.kafka.test_cluster import await_isr, await_replicas, send
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RELEASES: Final = ("2.8.2", "4.4.0")
AT_NIGHT: Final = pytest.mark.nightly
on_both = pytest.mark.parametrize(
    "trio",
    [pytest.param("2.8.2", marks=AT_NIGHT), "4.4.0"],
    indirect=True,
    scope="module",
)
on_dynamic = pytest.mark.parametrize(
    "trio",
    [pytest.param("3.9.2", marks=AT_NIGHT), "4.4.0"],
    indirect=True,
    scope="module",
)
OF_CONTROLLERS: Final = (METADATA_DIVERGENCE, LOST_DECISION)
_DIRECTORY: Final = re.compile(r"^directory.id=(.+)$", re.MULTILINE)
_ZXID: Final = re.compile(rb"Zxid: 0x([0-9a-f]+)")


@pytest.fixture(scope="module")
def trio(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Three brokers and three controllers, with the wire, which can cut them apart.

    Voters of a KRaft quorum can be added and removed, as far as the release has that.
    """
    kafka = release(request.param)
    opened = open_cluster(
        kafka,
        tmp_path_factory.mktemp("trio"),
        brokers=3,
        broker_config={},
        wired=True,
        options=NodeOptions(controllers=3, dynamic_quorum=kafka.number >= (3, 9)),
    )
    with contextlib.closing(opened):
        yield opened


@pytest.fixture
def probe(trio: RealCluster) -> Iterator[Probe]:
    with contextlib.closing(trio.probe()) as opened:
        yield opened


@pytest.fixture
def nemesis(trio: RealCluster) -> Iterator[Nemesis]:
    opened = Nemesis(trio, NotedFaults())
    yield opened
    opened.heal_all()


def leader_of(probe: Probe, but: tuple[int, ...] = ()) -> int:
    """The quorum's leader, once it has one, and none of these.

    A ZooKeeper that was elected in a round that the other has left already waits for it in vain,
    for ``initLimit`` (10 s), before both vote anew.
    """
    return await_condition(
        probe.quorum_leader,
        lambda leader: leader not in but,
        what="the controllers to elect a leader",
        limit_s=60,
        passing=(UnreachableError,),
    )


def end_of_log(cluster: RealCluster, probe: Probe, controller: int) -> int:
    """How far a controller's log goes, or the last transaction of a ZooKeeper."""
    if cluster.release.coordination == "zookeeper":
        match = _ZXID.search(zookeeper_status(cluster.address_of(controller)))
        if match is None:
            raise UnreachableError(f"ZooKeeper {controller} serves no requests")
        return int(match[1], 16)
    leader = probe.quorum_leader()
    with contextlib.closing(ProtocolClient({leader: cluster.address_of(leader)})) as client:
        [response] = client.ask(leader, quorum_request(version=1))
    [state] = response.topics[0].partitions
    [voter] = [voter for voter in state.current_voters if voter.replica_id == controller]
    return int(voter.log_end_offset)


def await_caught_up(cluster: RealCluster, probe: Probe, controller: int) -> None:
    """Wait until a controller has all that the leader had at this moment."""
    end = await_condition(
        lambda: end_of_log(cluster, probe, leader_of(probe)),
        what="the leader to tell how long its log is",
        limit_s=60,
        passing=(UnreachableError,),
    )
    await_condition(
        partial(end_of_log, cluster, probe, controller),
        lambda seen: seen >= end,
        what=f"controller {controller} to have the log up to {end}",
        limit_s=60,
        passing=(UnreachableError,),
    )


def create(cluster: Cluster, name: str, replicas: list[int]) -> str:
    """Create a topic after an election of controllers, and return its name.

    A broker's session of 2 s may have ended meanwhile, and on ZooKeeper it refuses the request that
    it was handling then.
    """
    names = (f"{name}-{number}" for number in itertools.count())

    def created() -> str:
        topic = next(names)
        cluster.create_topic(topic, [replicas], {})
        return topic

    return await_condition(
        created, what=f"{name} to be created", limit_s=60, passing=(HarnessError,)
    )


@on_both
def test_another_leads_when_the_leader_is_killed(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    before = create(trio, "before", [1, 2, 3])
    first = leader_of(probe)
    nemesis.inject("controller-kill", controllers=[first])
    assert trio.controllers[first].state == "down"
    assert leader_of(probe, but=(first,)) != first
    send(trio, before, "m1")
    meanwhile = create(trio, "meanwhile", [3, 1, 2])
    nemesis.heal_all()
    assert {controller.state for controller in trio.controllers.values()} == {"running"}
    await_caught_up(trio, probe, first)
    send(trio, meanwhile, "m1")


@on_both
def test_without_a_majority_nothing_is_decided(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    topic = create(trio, "majority", [2, 3, 1])
    leader = leader_of(probe)
    other = next(controller for controller in trio.controllers if controller != leader)
    nemesis.inject("controller-pause", controllers=[leader, other])
    nemesis.inject("kill", 2)
    with pytest.raises(WaitTimeoutError):  # a session is 2 s
        await_condition(
            lambda: probe.partition(topic, 0).leader,
            lambda leader: leader != 2,
            what="a leader to be elected",
            limit_s=5,
            passing=(UnreachableError,),
        )
    nemesis.heal_fault("controller-pause")
    await_condition(
        lambda: probe.partition(topic, 0).leader,
        lambda leader: leader in {1, 3},
        what=f"another leader of {topic}, now that there is a majority",
        limit_s=30,
        passing=(UnreachableError,),
    )
    nemesis.heal_all()
    send(trio, create(trio, "healed", [2, 3, 1]), "m1")


@AT_NIGHT  # by day a majority is paused
@on_both
def test_a_majority_that_was_killed_comes_back_together(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    leader = leader_of(probe)
    other = next(controller for controller in trio.controllers if controller != leader)
    nemesis.inject("controller-kill", controllers=[leader, other])
    with pytest.raises(UnreachableError), contextlib.closing(trio.probe()) as fresh:
        fresh.quorum_leader()
    nemesis.heal_all()
    create(trio, "together", [1, 2, 3])
    assert leader_of(probe) in trio.controllers


@on_both
def test_a_controller_without_its_disk_catches_up(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    leader = leader_of(probe)
    victim = next(controller for controller in trio.controllers if controller != leader)
    folder = next((trio.directory / "coordination").glob(f"*-{victim}"))
    nemesis.inject("controller-disk-loss", controllers=[victim])
    left = {path.name for path in folder.iterdir()}
    assert left in ({"myid"}, {"meta.properties", "bootstrap.checkpoint"})
    create(trio, "disk", [1, 2, 3])
    nemesis.heal_all()
    await_caught_up(trio, probe, victim)
    assert {path.name for path in folder.iterdir()} > left


@on_both
def test_a_leader_that_is_cut_off_gives_way(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    apart = create(trio, "apart", [1, 2, 3])
    leader = leader_of(probe)
    nemesis.inject("controller-isolate", controllers=[leader])
    assert leader_of(probe, but=(leader,)) != leader
    send(trio, apart, "m1")
    nemesis.heal_all()
    send(trio, create(trio, "again", [1, 2, 3]), "m1")
    await_caught_up(trio, probe, leader)


def voters(probe: Probe) -> set[int]:
    """The controllers that vote, as the leader has it."""
    quorum = await_condition(
        probe.quorum,
        what="a leader to tell who votes",
        limit_s=60,
        passing=(UnreachableError,),
    )
    assert quorum is not None
    return {*quorum.voters}


@pytest.mark.nightly
@on_dynamic
def test_a_leader_that_is_removed_gives_way_and_votes_again(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    leader = leader_of(probe)
    nemesis.inject("controller-leave", controllers=[leader])
    assert leader_of(probe, but=(leader,)) != leader
    assert voters(probe) == {*trio.controllers} - {leader}
    assert trio.controllers[leader].state == "running"
    send(trio, create(trio, "left", [1, 2, 3]), "m1")
    nemesis.heal_all()
    assert voters(probe) == {*trio.controllers}
    await_caught_up(trio, probe, leader)


@pytest.mark.nightly
@on_dynamic
def test_a_controller_is_replaced_by_one_with_another_disk(
    trio: RealCluster, probe: Probe, nemesis: Nemesis
) -> None:
    victim = leader_of(probe)
    properties = trio.directory / "coordination" / f"controller-{victim}" / "meta.properties"
    before = _DIRECTORY.findall(properties.read_text("ascii"))
    nemesis.inject("controller-replace", controllers=[victim])
    assert voters(probe) == {*trio.controllers} - {victim}
    replaced = create(trio, "replaced", [1, 2, 3])
    nemesis.heal_all()
    assert voters(probe) == {*trio.controllers}
    after = _DIRECTORY.findall(properties.read_text("ascii"))
    assert (len(before), len(after)) == (1, 1)
    assert before != after
    await_caught_up(trio, probe, victim)
    send(trio, replaced, "m1")


@pytest.mark.docker
@pytest.mark.nightly
@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.usefixtures("docker")
def test_containers_have_a_quorum_too(kafka: str, tmp_path: Path) -> None:
    dynamic = release(kafka).number >= (3, 9)
    opened = open_cluster(
        release(kafka),
        tmp_path,
        brokers=1,
        broker_config={},
        options=NodeOptions(controllers=3, dynamic_quorum=dynamic),
        driver="docker",
    )
    with contextlib.closing(opened), contextlib.closing(opened.probe()) as probe:
        leader = leader_of(probe)
        opened.controllers[leader].kill()
        assert leader_of(probe, but=(leader,)) != leader
        if dynamic:
            opened.remove_voter(leader)
            opened.controllers[leader].lose_disk(renewed=True)
        create(opened, "contained", [1])
        opened.controllers[leader].start()
        if dynamic:
            opened.add_voter(leader)
            assert voters(probe) == {*opened.controllers}


@pytest.mark.docker
@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("docker")
def test_containers_are_upgraded_and_their_voters_changed(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The store's path has a ``..``, which Docker takes out of the paths of its mounts."""
    faults = ("upgrade", "controller-leave", "controller-replace")
    plan = Plan(
        kafka="3.9.2",
        driver="docker",
        to=(MODERN,),
        controllers=3,
        nemesis=("upgrade=3", *faults[1:]),
        duration_s=50.0,
        topic=Topic(partitions=2, min_insync_replicas=2),
        seed=39,  # draws jars, another disk, features, and a leave
    )
    (tmp_path / "beside").mkdir()
    store = Store(tmp_path / "beside" / ".." / "store")
    [judged] = judge_all([execute(plan, store, stop=threading.Event())], spark)
    verdict, table = judged.verdict, load(judged.run.path).table("faults")
    assert {*table[table.phase == "inject"].fault} == {*faults}
    assert verdict.verdict == "valid", verdict.reasons
    assert verdict.ledger.acknowledged > 100
    assert [verdict.checkers[name] for name in OF_CONTROLLERS] == ["held", "held"]


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_soak_has_three_controllers_and_goes_on_as_it_began(tmp_path: Path) -> None:
    """Seed 3 draws a pause and another disk of controllers, and then a kill of theirs."""
    soak = Soak(seed=3, kafkas=(MODERN,), controllers=3, each_s=12.0)
    folder, bounds = SoakFolder(tmp_path / "soak"), Bounds(seconds=600, runs=1, keep_all=True)
    perform(folder, soak, bounds, spark=SparkOptions())
    rows = perform(folder, soak, replace(bounds, runs=2), spark=SparkOptions())
    assert [row.number for row in rows] == [0, 1]
    assert {row.state for row in rows} <= {"kept", "explained"}, rows
    for run in (folder.runs.open(row.run) for row in rows):
        assert run.plan().controllers == 3
        checkers = run.verdict().checkers
        assert [checkers[name] for name in OF_CONTROLLERS] == ["held", "held"]


@pytest.mark.nightly
@pytest.mark.parametrize(("kafka", "hw"), [("3.6.2", 1), ("4.4.0", 0)])
def test_what_joins_is_not_in_sync_while_no_controller_answers(
    kafka: str, hw: int, tmp_path: Path
) -> None:
    """The HW waits for the controller; up to 3.6 it rises below min.insync.replicas anyway.

    The follower lags by its lag limit and keeps its session, so the leader may ask for it at once.
    """
    settings = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "15000"}
    opened = open_cluster(release(kafka), tmp_path, brokers=2, broker_config=settings)
    with contextlib.closing(opened), contextlib.closing(opened.probe()) as probe:
        opened.create_topic("t", [[1, 2]], {"min.insync.replicas": "2"})
        [controller] = opened.controllers.values()
        opened.brokers[2].pause()
        assert _refused(opened, acks="1") is None
        await_isr(probe, "t", {1})
        controller.pause()
        opened.brokers[2].resume()
        await_replicas(probe, "t", ReplicaState(leo=1, hw=hw), brokers=(1, 2))
        assert probe.live_brokers() == {1, 2}
        assert _refused(opened, acks="all") == "_MSG_TIMED_OUT"
        await_replicas(probe, "t", ReplicaState(leo=1, hw=hw), brokers=(1, 2))
        controller.resume()
        await_isr(probe, "t", {1, 2})
        await_replicas(probe, "t", ReplicaState(leo=1, hw=1), brokers=(1, 2))


def _refused(cluster: Cluster, acks: str) -> str | None:
    """Send a record for two seconds; return the error's name, None if it was acknowledged."""
    errors: list[str | None] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "message.timeout.ms": 2000 if acks == "all" else 20_000,
            **cluster.release.client,
        }
    )
    producer.produce(
        "t", "m", on_delivery=lambda error, _: errors.append(error.name() if error else None)
    )
    assert producer.flush(30) == 0
    [error] = errors
    return error

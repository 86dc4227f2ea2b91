"""Every fault on real brokers, one after the other: it took effect, seen from outside, and healed.

One release of each coordination, as processes. Each fault strikes one of them, two of three the old
one, which starts faster. Where HIGHWATER_EVERY_FAULT is set, each strikes on more releases, and in
containers. ``test_cluster`` has what is done to a process or a container itself.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    CheckpointError,
    parse_offsets,
    read_epochs,
    read_offsets,
)
from highwater.checkers.kafka_files.reader import read_partition, read_segment
from highwater.clusters.brokers.real_cluster import RealBroker
from highwater.clusters.core.interfaces import (
    Cluster,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.steps import ROLLING
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import CONTROLLERS, faults
from highwater.nemesis.injector import Nemesis
from tests.kafka.test_cluster import STRUCK
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC: Final = Topic(name="faults")
VICTIM: Final = 2
BROKERS: Final = frozenset((1, 2, 3))
STARTED: Final = re.compile(
    r" INFO .*started \(kafka\.server\.Kafka(?:Raft)?Server\)$", re.MULTILINE
)
BEGUN: Final = re.compile(
    r" INFO (?:.*starting \(kafka\.server\.KafkaServer\)|Registered signal handlers .*)$",
    re.MULTILINE,
)
"""What a process of 0.10 writes first, or one of KRaft: killed at once it writes no more."""
EARLIER: Final = "Registered kafka:type=kafka.Log4jController MBean"
"""What a process of 1.1 to 3.9 writes before that."""
_Seen = TypeVar("_Seen")


@dataclass(slots=True)
class Ring:
    """A cluster with a topic of which every broker has a replica, and who sends to it.

    Attributes:
        leader: who led the partition before the fault, in which epoch.
        log_bytes: how long the victim's log was before it.
    """

    cluster: Cluster
    probe: Probe
    producer: Producer
    leader: int = 0
    epoch: int = 0
    log_bytes: int = 0

    @property
    def log(self) -> Path:
        """Of the victim's."""
        return self.cluster.directory / "logs" / f"broker-{VICTIM}.log"

    def mark(self) -> None:
        """Note how everything is before a fault."""
        state = self.state()
        self.leader, self.epoch = state.leader, state.leader_epoch or 0
        self.log_bytes = self.log.stat().st_size

    def log_since(self) -> str:
        """What the victim has logged since the fault."""
        return self.log.read_bytes()[self.log_bytes :].decode("utf-8", "replace")

    def state(self) -> PartitionState:
        """Of the partition, by the controller's word."""
        return await_condition(
            partial(self.probe.partition, TOPIC.name, 0),
            what="an answer on the leader of",
            limit_s=60,
            passing=(UnreachableError,),
        )

    def replica(self, broker: int) -> ReplicaState:
        """Of a broker, once it tells."""
        return await_condition(
            partial(self.probe.replica, broker, TOPIC.name, 0),
            what=f"broker {broker} to tell LEO and HW",
            limit_s=60,
            passing=(UnreachableError,),
        )

    def send(self, count: int = 5) -> None:
        """Send records that all replicas acknowledge."""
        failed: list[object] = []

        def send(value: bytes) -> None:
            try:
                self.producer.produce(
                    TOPIC.name,
                    value,
                    partition=0,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                    raise
                self.producer.poll(0.1)  # who has just started may not know the topic yet
                raise NotYetError(str(error)) from error
            assert self.producer.flush(60) == 0

        for number in range(count):
            await_condition(
                partial(send, f"m{number}".encode() * 20), what="a record to be sent", limit_s=60
            )
        assert not failed

    def segments(self) -> list[Path]:
        """Of the victim's replica."""
        return disk_damage.segments(self.cluster.brokers[VICTIM].directory / f"{TOPIC.name}-0")

    def leo_on_disk(self) -> int:
        """Of the victim's replica."""
        held = [one for segment in self.segments() for one in disk_damage.batches(segment)]
        return held[-1].last + 1 if held else 0

    def pids(self) -> list[tuple[int, ...]]:
        """Of every broker."""
        brokers = self.cluster.brokers.values()
        return [one.pids for one in brokers if isinstance(one, RealBroker)]

    def await_(
        self,
        look: Callable[[], _Seen],
        until: Callable[[_Seen], bool],
        what: str,
        limit_s: float = 60,
    ) -> _Seen:
        return await_condition(look, until, what=what, limit_s=limit_s, passing=(UnreachableError,))

    def await_state(self, until: Callable[[PartitionState], bool], what: str) -> PartitionState:
        return self.await_(partial(self.probe.partition, TOPIC.name, 0), until, what)

    def await_whole(self) -> None:
        """Everything runs and is in sync, as it was before the fault."""
        self.await_(
            self.probe.live_brokers, lambda live: live == BROKERS, "every broker to have a session"
        )
        self.await_state(lambda state: set(state.isr) == BROKERS, "a whole ISR")
        self.send(1)
        self.await_(self.ends, _alike, "every replica to end alike, and the leader to know it")

    def ends(self) -> tuple[int, bool, dict[int, int]]:
        """Who leads, whether it knows, and where each replica ends.

        Asked anew at each look: five seconds after its election a controller moves leadership to
        the first of the assignment, which may be while this waits.
        """
        leader = self.probe.partition(TOPIC.name, 0).leader
        ends = {one: self.probe.replica(one, TOPIC.name, 0).leo for one in BROKERS}
        return leader, self.probe.leads(leader, TOPIC.name, 0), ends


def _alike(seen: tuple[int, bool, dict[int, int]]) -> bool:
    _, knows, ends = seen
    return knows and len(set(ends.values())) == 1


@pytest.fixture(scope="module")
def ring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ring]:
    directory = tmp_path_factory.mktemp("faults")
    driver, _, name = request.param.rpartition(" ")
    driver = driver or "local"
    opened = open_cluster(release(name), directory, brokers=3, broker_config={}, driver=driver)
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[1, 2, 3]], TOPIC.settings())
        common = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0}
        yield Ring(cluster, probe, Producer(common | dict(cluster.release.client)))


def down(ring: Ring) -> None:
    assert ring.cluster.brokers[VICTIM].state == "down"


def silent(ring: Ring) -> None:
    assert ring.cluster.brokers[VICTIM].state == "paused"
    ring.await_(
        ring.probe.live_brokers,
        lambda live: VICTIM not in live,
        "the session of a paused broker to end",
    )


def emptied(ring: Ring) -> None:
    down(ring)
    left = [one.name for one in ring.cluster.brokers[VICTIM].directory.iterdir()]
    assert left in (["meta.properties"], [])


def without_tail(ring: Ring) -> None:
    down(ring)
    assert ring.leo_on_disk() < ring.replica(1).leo


def checkpoint_gone(ring: Ring) -> None:
    down(ring)
    assert not (ring.cluster.brokers[VICTIM].directory / HIGH_WATERMARK).exists()


def epochs_gone(ring: Ring) -> None:
    down(ring)
    assert not (ring.segments()[0].parent / "leader-epoch-checkpoint").exists()


def no_segment(ring: Ring) -> None:
    down(ring)
    assert ring.segments() == []


def no_index(ring: Ring) -> None:
    down(ring)
    assert not [*ring.segments()[0].parent.glob("*index")]


def flipped(ring: Ring) -> None:
    """A checksum on the victim's disk is wrong, and none was before."""
    down(ring)
    rows = [row for part in read_partition(ring.segments()[0].parent) for row in part.to_pylist()]
    assert [row["crc_ok"] for row in rows if row["damage"] == "corrupt"] == [False]


def checkpoint_stale(ring: Ring) -> None:
    down(ring)
    hw = hw_on_disk(ring)
    assert hw is not None
    assert hw < ring.replica(1).hw


def hw_on_disk(ring: Ring) -> int | None:
    """By the victim's checkpoint."""
    with contextlib.suppress(FileNotFoundError):
        text = ring.cluster.brokers[VICTIM].read(HIGH_WATERMARK)
        return parse_offsets(text, Path(HIGH_WATERMARK)).get((TOPIC.name, 0))
    return None


def await_checkpoint(ring: Ring) -> None:
    """Wait until all that the victim has is below the HW that it has written down."""
    leo = ring.replica(VICTIM).leo
    ring.await_(partial(hw_on_disk, ring), lambda hw: hw == leo, f"HW {leo} to be on disk", 20)


def checkpoint_garbage(ring: Ring) -> None:
    down(ring)
    with pytest.raises(CheckpointError):
        read_offsets(ring.cluster.brokers[VICTIM].directory / HIGH_WATERMARK)


def epochs_garbage(ring: Ring) -> None:
    down(ring)
    with pytest.raises(CheckpointError):
        read_epochs(ring.segments()[0].parent / "leader-epoch-checkpoint")


def started(ring: Ring) -> None:
    """The victim's log says once that it has started."""
    ring.await_(
        lambda: STARTED.findall(ring.log_since()),
        lambda lines: len(lines) == 1,
        "the victim to have started once",
    )


def begun(ring: Ring) -> None:
    """The victim's log says three times that it begins."""
    ring.await_(
        lambda: re.findall(EARLIER, ring.log_since()) or BEGUN.findall(ring.log_since()),
        lambda lines: len(lines) == 3,
        "the victim to have begun 3 times",
    )


def registered_anew(ring: Ring) -> None:
    """The session that was ended is not the victim's last one."""
    ring.await_(
        lambda: [line for line in ring.log_since().splitlines() if "egister" in line],
        lambda lines: any(
            "re-registering broker info in ZK for broker 2" in line
            or "Registered broker 2 at path" in line  # from 1.1 on
            for line in lines
        ),
        "the victim to register again",
    )
    ring.await_(ring.probe.live_brokers, lambda live: VICTIM in live, "the victim to be back")


def applied(setting: str, value: str, ring: Ring) -> None:
    """The victim says that it has taken the topic's setting on."""
    says = re.compile(rf"{TOPIC.name}\b.*\b{re.escape(setting)}(=| -> ){value}\b")
    ring.await_(
        lambda: [line for line in ring.log_since().splitlines() if TOPIC.name in line],
        lambda lines: any(map(says.search, lines)),
        f"the victim to have {setting}={value}",
    )


def configured(setting: str, value: str, ring: Ring) -> None:
    """The topic has another value before, because KRaft logs no setting that stays as it is."""
    ring.cluster.configure(TOPIC.name, {setting: value})
    applied(setting, value, ring)


def all_or_none(ring: Ring) -> None:
    """While one of three replicas is down, what is sent with acks=all is refused."""
    ring.cluster.brokers[VICTIM].stop()
    errors: list[KafkaError] = []
    settings = {"acks": "all", "retries": 0, "bootstrap.servers": ring.cluster.bootstrap}
    producer = Producer({**ring.cluster.release.client, **settings})

    def send() -> list[str]:
        errors.clear()
        producer.produce(
            TOPIC.name,
            b"refused",
            partition=0,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        assert producer.flush(60) == 0
        return [error.name() for error in errors]

    refused = {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
    try:
        ring.await_(send, lambda names: {*names} <= refused and bool(names), "a refusal")
    finally:
        ring.cluster.brokers[VICTIM].start()


def full(ring: Ring) -> None:
    """What is sent makes the broker end itself, and the others go on."""
    ring.send(1)
    ring.await_(
        lambda: ring.cluster.brokers[VICTIM].state,
        lambda state: state == "down",
        "a broker without disk to die",
    )


def no_coordinator(ring: Ring) -> None:
    assert {one.state for one in ring.cluster.controllers.values()} <= {"down", "paused"}
    with contextlib.closing(ring.cluster.probe()) as probe, pytest.raises(UnreachableError):
        probe.controller()


def another_leads(ring: Ring) -> None:
    ring.await_state(
        lambda state: state.leader in BROKERS - {ring.leader}, "another broker to lead"
    )


def one_less(ring: Ring) -> None:
    ring.await_state(lambda state: len(state.isr) == 2, "an ISR of two")


def cancelled(ring: Ring) -> None:
    """The removal and the cancellation each began a leader epoch, and nothing is left to cancel."""
    one_less(ring)
    assert (ring.state().leader_epoch or 0) >= ring.epoch + 2
    with pytest.raises(HarnessError, match=r"refuses to cancel the reassignment for .*: error 85"):
        ring.cluster.cancel_reassignment(TOPIC.name, 0)


def one_more(ring: Ring) -> None:
    look = partial(ring.probe.partition, TOPIC.name, TOPIC.partitions)
    await_condition(look, what="a new partition", limit_s=60, passing=(UnreachableError,))


def begins_later(ring: Ring) -> None:
    assert all(ring.probe.log_start(broker, TOPIC.name, 0) > 0 for broker in BROKERS)


def a_neighbour(ring: Ring) -> None:
    assert ring.probe.partition(f"{TOPIC.name}-neighbour", 0).leader in BROKERS


def without_replica(ring: Ring) -> None:
    one_less(ring)
    assert VICTIM not in ring.state().isr
    assert ring.cluster.brokers[VICTIM].state == "down"


def another_rules(ring: Ring) -> None:
    """Who led until then is down, and another leads."""
    assert ring.cluster.brokers[ring.leader].state == "down"
    leader = ring.await_state(lambda state: state.leader >= 0, "anybody to lead").leader
    assert ring.cluster.brokers[leader].state == "running"
    assert [one.state for one in ring.cluster.brokers.values()].count("down") == 1


def more_segments(ring: Ring) -> None:
    """A second after the last record the next one begins a segment."""
    before = len(ring.segments())

    def again() -> int:
        ring.send(1)
        return len(ring.segments())

    await_condition(
        again, lambda count: count > before, what="a new segment", limit_s=60, every_s=1.1
    )


def compressed(ring: Ring) -> None:
    """The victim's newest batch is in gzip, which its producer did not ask for."""

    def again() -> str:
        ring.send(1)  # on ZooKeeper brokers learn of a setting a little later
        leo = ring.replica(ring.state().leader).leo
        ring.await_(ring.leo_on_disk, lambda end: end == leo, "the victim to hold the record")
        newest = ring.segments()[-1]
        [*_, row] = [row for batch in read_segment(newest) for row in batch.to_pylist()]
        return str(row["compression"])

    await_condition(again, lambda codec: codec == "gzip", what="a batch in gzip", limit_s=60)


EFFECTS: Final[dict[str, Callable[[Ring], None]]] = {
    "restart": started,
    "crash-loop": begun,
    "zombie": silent,
    "rolling-restart": started,
    "power-failure": without_tail,
    "wipe": emptied,
    "segment-deleted": no_segment,
    "index-deleted": no_index,
    "bit-flip": flipped,
    "hw-missing": checkpoint_gone,
    "hw-stale": checkpoint_stale,
    "hw-garbage": checkpoint_garbage,
    "epochs-missing": epochs_gone,
    "epochs-garbage": epochs_garbage,
    "disk-full": full,
    "controller-kill": no_coordinator,
    "controller-pause": no_coordinator,
    "session-expiry": registered_anew,
    "move-leader": another_leads,
    "reassign": one_less,
    "cancel-reassign": cancelled,
    "decommission": without_replica,
    "add-partitions": one_more,
    "delete-records": begins_later,
    "recreate-topic": a_neighbour,
    "unclean-election": another_rules,
    "set-min-isr": all_or_none,
    "set-retention": partial(applied, "retention.ms", "604800000"),
    "set-segment": more_segments,
    "set-compression": compressed,
    "set-format": partial(applied, "message.format.version", "0.10.0"),
    "set-unclean": partial(applied, "unclean.leader.election.enable", "false"),
}
"""What can be seen of a fault while it is open."""

BEFORE: Final[dict[str, Callable[[Ring], None]]] = {
    "hw-stale": await_checkpoint,
    "set-unclean": partial(configured, "unclean.leader.election.enable", "true"),
}
"""What has to be so before a fault, for its effect to be told from what was there."""

RELEASES: Final = ("0.10.2.2", MODERN)
MORE: Final = ("2.8.2", "3.9.2", "docker 2.8.2", "docker 3.9.2", f"docker {MODERN}")
RESTARTS: Final = {
    "restart": [VICTIM],
    "decommission": [VICTIM],
    "crash-loop": [VICTIM],
    "rolling-restart": [1, 2, 3],
}


def cases() -> Iterator[tuple[str, str]]:
    """Releases (in containers: ``docker RELEASE``) and faults, those of one release together."""
    every = os.environ.get("HIGHWATER_EVERY_FAULT")
    for place in (*RELEASES, *(MORE if every else ())):
        driver, _, kafka = place.rpartition(" ")
        for turn, name in enumerate(EFFECTS):
            able = [one for one in RELEASES if not faults()[name].why_not(release(one), "local")]
            chosen = kafka == (able[0] if len(able) == 1 else RELEASES[turn % 3 // 2])
            possible = not faults()[name].why_not(release(kafka), driver or "local")
            if possible and (chosen or every):
                yield place, name


def test_every_fault_is_tested() -> None:
    others = {
        "network",
        "clients",
        "messages",
        "upgrades",
        "program",
    }  # test_wire, test_upgrades, test_programs
    elsewhere = {
        one.name
        for one in faults().values()
        if one.family in others or one.needs == CONTROLLERS  # test_controllers
    }
    elsewhere |= {"torn-files", "log-dir-failure"}  # test_torn_files, test_log_dirs
    elsewhere |= {one.name for one in faults().values() if one.family == "machine"}
    elsewhere |= {"files-lost", "disk-restored"}  # test_machine_faults
    elsewhere |= {ROLLING}  # test_rolling
    elsewhere |= {"cleaner-kill"}  # test_compaction
    elsewhere |= {"tier-outage"}  # test_stories, by failed-copies
    elsewhere |= {"move-txn-coordinator", "move-group-coordinator"}  # test_transactions
    assert set(EFFECTS) | set(STRUCK) | elsewhere == set(faults())
    assert {name for _, name in cases()} == set(EFFECTS)


@pytest.mark.parametrize(("ring", "name"), [*cases()], indirect=["ring"], scope="module")
def test_a_fault_strikes_and_heals(
    ring: Ring,
    name: str,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    fault = faults()[name]
    driver, _, kafka = request.node.callspec.params["ring"].rpartition(" ")
    record_property("fault", f"{name} {kafka} {driver or 'local'}")
    ring.send()
    if name in BEFORE:
        BEFORE[name](ring)
    ring.mark()
    notes, before = NotedFaults(), ring.pids()
    nemesis = Nemesis(ring.cluster, notes, TOPIC)
    nemesis.inject(name, VICTIM if fault.scope == "broker" else None)
    try:
        EFFECTS[name](ring)
    finally:
        nemesis.heal_all()
    for broker in RESTARTS.get(name, ()):
        assert ring.pids()[broker - 1] != before[broker - 1]
    assert {phase for _, phase, _ in notes.rows} <= {"inject", "heal"}
    assert {broker for *_, broker in notes.rows} <= {VICTIM, None}
    ring.await_whole()

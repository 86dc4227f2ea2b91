"""Every fault on real brokers, one after the other: it took effect, seen from outside, and healed.

One release of each coordination, as processes; each fault on one of them in turn, and on both where
HIGHWATER_EVERY_FAULT is set. ``test_nemesis`` has what is done to a process or a container itself.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from highwater.checkers.kafka_files.checkpoints import HIGH_WATERMARK
from highwater.checkers.kafka_files.reader import read_segment
from highwater.clusters.brokers.real_cluster import RealBroker
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.clusters.local.driver import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.faults.steps import ROLLING
from highwater.harness.runs.history import FAULTS
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import CONTROLLERS, faults
from highwater.nemesis.injector import Nemesis
from tests.kafka.test_nemesis import STRUCK

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC: Final = Topic(name="faults")
VICTIM: Final = 2


class Ring(NamedTuple):
    """A cluster with a topic of which every broker has a replica, and who sends to it."""

    cluster: Cluster
    probe: Probe
    producer: Producer

    def send(self, count: int = 5) -> None:
        """Send records that all replicas acknowledge."""
        failed: list[object] = []

        def send(value: bytes) -> bool:
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
                return False
            return self.producer.flush(60) == 0

        for number in range(count):
            self.await_(partial(send, f"m{number}".encode() * 20), "a record to be sent")
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

    def silent(self) -> bool:
        """Whether the victim's session has ended."""
        return VICTIM not in self.probe.live_brokers()

    def await_(self, look: Callable[[], bool], what: str, limit_s: float = 60) -> None:
        await_condition(look, bool, what=what, limit_s=limit_s, passing=(UnreachableError,))

    def await_whole(self) -> None:
        """Everything runs and is in sync, as it was before the fault."""
        self.await_(
            lambda: self.probe.live_brokers() == {1, 2, 3}, "every broker to have a session"
        )
        self.await_(
            lambda: set(self.probe.partition(TOPIC.name, 0).isr) == {1, 2, 3}, "a whole ISR"
        )
        self.send(1)
        leader = self.probe.partition(TOPIC.name, 0).leader
        self.await_(
            lambda: (
                len({self.probe.replica(one, TOPIC.name, 0).leo for one in (1, 2, 3)}) == 1
                and self.probe.leads(leader, TOPIC.name, 0)
            ),
            "every replica to end alike",
        )


@pytest.fixture(scope="module")
def ring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ring]:
    directory = tmp_path_factory.mktemp("faults")
    opened = open_cluster(release(request.param), directory, brokers=3, broker_config={})
    with contextlib.closing(opened) as cluster, contextlib.closing(cluster.probe()) as probe:
        cluster.create_topic(TOPIC.name, [[1, 2, 3]], TOPIC.settings())
        common = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0}
        yield Ring(cluster, probe, Producer(common | dict(cluster.release.client)))


class Silence:
    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        assert set(fields) <= set(FAULTS.names)
        assert name
        assert phase in {"inject", "heal"}
        assert says
        assert broker in {VICTIM, None}


def down(ring: Ring) -> None:
    assert ring.cluster.brokers[VICTIM].state == "down"


def silent(ring: Ring) -> None:
    assert ring.cluster.brokers[VICTIM].state == "paused"
    ring.await_(ring.silent, "the session of a paused broker to end")


def emptied(ring: Ring) -> None:
    down(ring)
    left = [one.name for one in ring.cluster.brokers[VICTIM].directory.iterdir()]
    assert left in (["meta.properties"], [])


def without_tail(ring: Ring) -> None:
    down(ring)
    assert ring.leo_on_disk() < ring.probe.replica(1, TOPIC.name, 0).leo


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


def full(ring: Ring) -> None:
    """What is sent makes the broker end itself, and the others go on."""
    ring.send(1)
    ring.await_(
        lambda: ring.cluster.brokers[VICTIM].state == "down", "a broker without disk to die"
    )


def no_coordinator(ring: Ring) -> None:
    assert {one.state for one in ring.cluster.controllers.values()} <= {"down", "paused"}
    with contextlib.closing(ring.cluster.probe()) as probe, pytest.raises(UnreachableError):
        probe.controller()


def another_leads(ring: Ring) -> None:
    assert ring.probe.partition(TOPIC.name, 0).leader in {1, 2, 3}


def one_less(ring: Ring) -> None:
    assert len(ring.probe.partition(TOPIC.name, 0).isr) == 2


def another_rules(ring: Ring) -> None:
    """Who led until then is down, and another leads."""
    leader = ring.probe.partition(TOPIC.name, 0).leader
    assert ring.cluster.brokers[leader].state == "running"
    assert [one.state for one in ring.cluster.brokers.values()].count("down") == 1


def more_segments(ring: Ring) -> None:
    """A second after the last record the next one begins a segment."""
    before = len(ring.segments())

    def another() -> bool:
        ring.send(1)
        return len(ring.segments()) > before

    await_condition(another, bool, what="a new segment", limit_s=20, every_s=1.1)


def compressed(ring: Ring) -> None:
    """The victim's newest batch is in gzip, which its producer did not ask for."""

    def again() -> str:
        ring.send(1)  # on ZooKeeper brokers learn of a setting a little later
        leader = ring.probe.partition(TOPIC.name, 0).leader
        leo = ring.probe.replica(leader, TOPIC.name, 0).leo
        ring.await_(lambda: ring.leo_on_disk() == leo, "the victim to hold the record")
        newest = ring.segments()[-1]
        [*_, row] = [row for batch in read_segment(newest) for row in batch.to_pylist()]
        return str(row["compression"])

    await_condition(again, lambda codec: codec == "gzip", what="a batch in gzip", limit_s=20)


def nothing(_: Ring) -> None:
    """What it did is over when it is injected; ``before`` and ``after`` tell."""


EFFECTS: Final[dict[str, Callable[[Ring], None]]] = {
    "restart": nothing,
    "crash-loop": nothing,
    "zombie": silent,
    "rolling-restart": nothing,
    "power-failure": without_tail,
    "wipe": emptied,
    "segment-deleted": no_segment,
    "index-deleted": no_index,
    "bit-flip": down,
    "hw-missing": checkpoint_gone,
    "hw-stale": down,
    "hw-garbage": down,
    "epochs-missing": epochs_gone,
    "epochs-garbage": down,
    "disk-full": full,
    "controller-kill": no_coordinator,
    "controller-pause": no_coordinator,
    "session-expiry": nothing,
    "move-leader": another_leads,
    "reassign": one_less,
    "unclean-election": another_rules,
    "set-min-isr": nothing,
    "set-retention": nothing,
    "set-segment": more_segments,
    "set-compression": compressed,
    "set-format": nothing,
    "set-unclean": nothing,
}
"""What can be seen of a fault while it is open."""

RELEASES: Final = ("0.10.2.2", MODERN)
RESTARTS: Final = {"restart": [VICTIM], "crash-loop": [VICTIM], "rolling-restart": [1, 2, 3]}


def cases() -> Iterator[tuple[str, str]]:
    """Releases and faults, those of one release together."""
    for kafka in RELEASES:
        for turn, name in enumerate(EFFECTS):
            able = [one for one in RELEASES if not faults()[name].why_not(release(one), "local")]
            chosen = kafka == (able[0] if len(able) == 1 else RELEASES[turn % len(RELEASES)])
            if kafka in able and (chosen or os.environ.get("HIGHWATER_EVERY_FAULT")):
                yield kafka, name


def test_every_fault_is_tested() -> None:
    others = {"network", "clients", "messages", "upgrades"}  # test_wire, test_upgrades
    elsewhere = {
        one.name
        for one in faults().values()
        if one.family in others or one.needs == CONTROLLERS  # test_controllers
    }
    elsewhere |= {"torn-files", "log-dir-failure"}  # test_torn_files, test_log_dirs
    elsewhere |= {ROLLING}  # test_rolling
    elsewhere |= {"cleaner-kill"}  # test_compaction
    elsewhere |= {"move-txn-coordinator", "move-group-coordinator"}  # test_transactions
    assert set(EFFECTS) | set(STRUCK) | elsewhere == set(faults())
    assert {name for _, name in cases()} == set(EFFECTS)


@pytest.mark.parametrize(("ring", "name"), [*cases()], indirect=["ring"], scope="module")
def test_a_fault_strikes_and_heals(ring: Ring, name: str) -> None:
    fault = faults()[name]
    ring.send()
    nemesis, before = Nemesis(ring.cluster, Silence(), TOPIC), ring.pids()
    nemesis.inject(name, VICTIM if fault.scope == "broker" else None)
    try:
        EFFECTS[name](ring)
    finally:
        nemesis.heal_all()
    for broker in RESTARTS.get(name, ()):
        assert ring.pids()[broker - 1] != before[broker - 1]
    ring.await_whole()

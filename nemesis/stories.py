"""The two stories: schedules that turn the HW-lag window into a lost or a forked record.

Both need three brokers A, B and C of one partition. A leads, B is next in line, and C is to outlive
them, so on ZooKeeper C is the controller. The sessions of A and B must end one after the other: the
controller then makes B, which is dead already, the leader for a moment, and C follows it.
Up to 0.10.2 C cuts its log to its own HW there and then (Partition.makeFollower); from 0.11 on it
first asks the leader where its epoch ended (KIP-101), gets no answer, and keeps the record.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkers.segments.checkpoints import HIGH_WATERMARK, CheckpointError, parse_offsets
from clusters.cluster import Cluster, Probe, UnreachableError
from clusters.versions import Release
from harness.errors import UsageError, WaitTimeoutError
from harness.plan import Acks, Plan, Topic, Workload
from harness.suggest import nearest
from harness.waiting import await_condition
from nemesis.scene import MissedError, Scene
from nemesis.window import await_settled, await_window, widen

SESSION_MS: Final = 2000
"""Session of a broker, in ZooKeeper or with the KRaft controller. Heartbeats come at least every
third of it, so a killed broker's session ends 1.33 to 2 s later (and up to a tick after that)."""

GAP_S: Final = 1.1
"""From the kill of A to that of B: late enough that B's session ends more than a tick after A's
(1.1 s - 0.67 s > 0.2 s), early enough that A's is still alive (1.1 s < 1.33 s)."""

SETTLED: Final = ("m0", "m1", "m2")
VICTIM: Final = "m3"
SUCCESSOR: Final = "m4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a story does to a release, by that release's rules.

    Attributes:
        lost: ids of the acknowledged records that are gone at the end.
        forked: offsets at which in-sync replicas hold different records at the end.
    """

    lost: frozenset[str] = frozenset()
    forked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A scripted schedule, its settings, and the rule by which it must end."""

    name: str
    summary: str
    play: Callable[[Scene], None]
    broker_config: Mapping[str, str]
    outcome: Callable[[Release, Plan], Prediction]

    def predict(self, release: Release, plan: Plan) -> Prediction:
        """What becomes of the records on this release under the plan's settings."""
        return self.outcome(release, plan)

    def plan(
        self,
        kafka: str,
        *,
        seed: int = 0,
        acks: Acks = "all",
        unclean: bool = False,
        driver: str = "local",
    ) -> Plan:
        """The run of this story on a release: its own records and one reader, nothing else."""
        return Plan(
            kafka=kafka,
            driver=driver,
            story=self.name,
            seed=seed,
            topic=Topic(partitions=1, unclean_leader_election=unclean),
            workload=Workload(producers=0, consumers=1, acks=acks),
            broker_config=dict(self.broker_config),
        )


STORIES: dict[str, Story] = {}
"""Every story, by name."""


def find_story(name: str) -> Story:
    """The story of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return STORIES[name]
    except KeyError:
        raise UsageError(f"no story is called {name!r}", hint=nearest(name, STORIES)) from None


def cast(cluster: Cluster, probe: Probe) -> tuple[int, int, int]:
    """Choose A, B and C: on ZooKeeper the controller is C, since it must outlive the other two."""
    first, second, third = sorted(cluster.brokers)[:3]
    controller = probe.controller()
    survivor = controller if controller in (first, second) else third
    a, b = (broker for broker in (first, second, third) if broker != survivor)
    return a, b, survivor


def _story(
    name: str, *, broker_config: Mapping[str, str], outcome: Callable[[Release, Plan], Prediction]
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    def register(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
        summary = (play.__doc__ or "").partition("\n")[0]
        STORIES[name] = Story(
            name=name,
            summary=summary,
            play=play,
            broker_config={**_SESSIONS, **broker_config},
            outcome=outcome,
        )
        return play

    return register


_SESSIONS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": str(SESSION_MS // 4),
}


def _lost_by_cutting(release: Release, _: Plan) -> Prediction:
    return Prediction(lost=frozenset({VICTIM})) if release.cuts_to_hw else Prediction()


def _forked_by_cutting(release: Release, _: Plan) -> Prediction:
    if not release.cuts_to_hw:
        return Prediction()
    return Prediction(lost=frozenset({VICTIM}), forked=frozenset({len(SETTLED)}))


@_story("loss", broker_config=widen(1.5), outcome=_lost_by_cutting)
def loss(scene: Scene) -> None:
    """An acks=all record is lost under clean elections: C cuts it off, then leads."""
    offset = _acknowledge_victim(scene)
    _fail_over_to_survivor(scene, offset)


@_story(
    "divergence",
    broker_config={**widen(3.0), "replica.high.watermark.checkpoint.interval.ms": "300"},
    outcome=_forked_by_cutting,
)
def divergence(scene: Scene) -> None:
    """Two acknowledged records stand at one offset: A comes back with a HW that spares its own."""
    a, _, survivor = scene.replicas
    offset = _acknowledge_victim(scene)
    _await_hw_on_disk(scene, a, offset + 1)
    _fail_over_to_survivor(scene, offset)
    successor = scene.send(SUCCESSOR)
    scene.note(f"{SUCCESSOR} is acknowledged at offset {successor} by broker {survivor}", survivor)
    scene.nemesis.heal(a)
    scene.await_in_sync(a, limit_s=60)
    scene.note(f"broker {a} is back in the ISR", a)


def _acknowledge_victim(scene: Scene) -> int:
    """Settle every replica, then send the record that the story is about; returns its offset."""
    for value in SETTLED:
        scene.send(value)
    settled = await_settled(
        scene.probe, scene.topic, 0, scene.replicas, offset=len(SETTLED), limit_s=30
    )
    scene.note(f"every replica stands at LEO = HW = {settled}")
    return scene.send(VICTIM)


def _await_hw_on_disk(scene: Scene, broker: int, hw: int) -> None:
    """Wait until a broker has written its HW to replication-offset-checkpoint."""

    def checkpointed() -> int:
        text = scene.cluster.brokers[broker].read(HIGH_WATERMARK)
        return parse_offsets(text, Path(HIGH_WATERMARK)).get((scene.topic, 0), 0)

    await_condition(
        checkpointed,
        lambda found: found >= hw,
        what=f"broker {broker} to have HW {hw} of {scene.topic}-0 on disk",
        limit_s=2.5,
        every_s=0.02,
        passing=(FileNotFoundError, CheckpointError),
    )
    scene.note(f"broker {broker} has HW {hw} on disk", broker)


def _fail_over_to_survivor(scene: Scene, offset: int) -> None:
    """Kill A, and B before A's session has ended; wait until C leads."""
    a, b, survivor = scene.replicas
    scene.nemesis.inject("kill", a)
    try:
        seen = await_window(scene.probe, scene.topic, 0, (b, survivor), offset=offset, limit_s=0.5)
    except WaitTimeoutError as error:
        raise MissedError(f"the HW-lag window was missed: {error.message}") from error
    for broker, state in seen.items():
        scene.note(
            f"broker {broker} holds {VICTIM} at offset {offset} above its HW:"
            f" LEO {state.leo}, HW {state.hw}",
            broker,
        )
    scene.hold(GAP_S)
    if a not in scene.probe.live_brokers():
        raise MissedError(f"the session of broker {a} ended before broker {b} could be killed")
    scene.nemesis.inject("kill", b)
    _await_turns(scene, b, survivor)


def _await_turns(scene: Scene, b: int, survivor: int) -> None:
    """Wait until C leads, and make sure that B, dead, was the leader in between.

    Raises:
        MissedError: both sessions ended in one go, so C never followed B.
    """
    led: set[int] = set()

    def look() -> int:
        leader = scene.probe.partition(scene.topic, 0).leader
        led.add(leader)
        return leader

    with contextlib.suppress(UnreachableError):
        look()
    await_condition(
        look,
        lambda leader: leader == survivor,
        what=f"broker {survivor} to lead {scene.topic}-0",
        limit_s=30,
        every_s=0.02,
        passing=(UnreachableError,),
    )
    if b not in led:
        raise MissedError(f"broker {b} was never made leader before broker {survivor} was")

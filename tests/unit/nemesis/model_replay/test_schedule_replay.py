"""A schedule is played step by step: who is held is frozen, and what is expected is waited for."""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from highwater.checkers.model.schedules.schedule import Action, Expect, Schedule, ScheduleStep
from highwater.clusters.core.interfaces import (
    Cluster,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.relay.rules import RelayRule
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.clients.record_sender import SendOutcome
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.missed_step import MissedStep, StateDifference, StateDifferences
from highwater.harness.runs.plan import Plan
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.model_replay import step_player as player_module
from highwater.nemesis.model_replay.schedule_replay import Replay, plan, play, settings
from highwater.nemesis.model_replay.script_lookup import find_script
from highwater.reports.sections.settings import facts
from highwater.runtime.preflight import check_plan
from tests.support.schedule_contexts import NotedFaults, schedule_context
from tests.support.schedules import LOSS, A, B, C, two_moves

ADDRESS = "127.0.0.1:909{}"


class Actor:
    def __init__(self, stage: "Stage", identity: int) -> None:
        self.id = identity
        self.address = ADDRESS.format(identity)
        self.state = "running"
        self._stage = stage

    def _do(self, verb: str, state: str) -> None:
        self._stage.done.append(f"{verb} {self.id}")
        self.state = state

    @property
    def log_directories(self) -> tuple[Path, ...]:
        return (self._stage.disk,)

    def kill(self) -> None:
        self._do("kill", "down")

    def stop(self) -> None:
        """Shut down; on KRaft not before every broker has heard that another one leads."""
        if self._stage.release.coordination == "kraft":
            self._stage.leader = 3
            self._stage.isr = (3, 4)
            assert self._stage.all_awake.wait(5)
        self._do("stop", "down")

    def start(self) -> None:
        self._do("start", "running")
        self._stage.live.add(self.id)

    def pause(self) -> None:
        self._do("pause", "paused")

    def resume(self) -> None:
        if self.state == "paused":
            self._do("resume", "running")
            if all(other.state != "paused" for other in self._stage.brokers.values()):
                self._stage.all_awake.set()


class Stage:
    """A cluster, its probe, its keeper and its client, of which every operation is noted."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.done: list[str] = []
        self.noted = NotedFaults()
        self.brokers = {one: Actor(self, one) for one in (1, 2, 3, 4)}
        self.live = {1, 2, 3, 4}
        self.tested = ("events", 0)
        self.release = release("0.10.2.2")
        self.all_awake = threading.Event()
        self.leader = 2
        self.isr: tuple[int, ...] = (2, 3, 4)
        self.leo = dict.fromkeys((1, 2, 3), 0)
        self.answers: dict[str, SendOutcome | None] = {}
        self.clock = 0.0
        self.network = Wire(self)
        self.context: ScheduleContext | None = (
            None  # kept, because a nemesis that is forgotten heals
        )

    def controller(self) -> int:
        return 1

    def live_brokers(self) -> frozenset[int]:
        return frozenset(self.live)

    def partition(self, topic: str, partition: int) -> PartitionState:
        assert (topic, partition) == self.tested
        return PartitionState(leader=self.leader, leader_epoch=0, isr=self.isr)

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        assert (topic, partition) == self.tested
        if self.brokers[broker].state != "running":
            raise UnreachableError(f"broker {broker} does not answer")
        return ReplicaState(leo=7, hw=5)

    def leads(self, broker: int, topic: str, partition: int) -> bool:
        assert (topic, partition) == self.tested
        return broker == self.leader

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        assert (topic, partition) == self.tested
        self.done.append(f"move {broker}")
        self.leader = broker

    def set_next_leader(self, topic: str, partition: int, broker: int) -> None:
        assert (topic, partition) == self.tested
        self.done.append(f"line up {broker}")
        self.leader = broker

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], *, awaited: bool
    ) -> None:
        assert not awaited
        self.done.append(f"reassign {topic}-{partition} to {replicas}")

    def cancel_reassignment(self, topic: str, partition: int) -> None:
        self.done.append(f"cancel {topic}-{partition}")

    def end_session(self, broker: int) -> None:
        self.done.append(f"end {broker}")
        self.live.discard(broker)

    def keep_session(self, _broker: int) -> bool:
        return False

    def send(self, identity: str, partition: int, *, address: str) -> None:
        self.send_batch((identity,), partition, address=address)

    def send_batch(self, identities: Sequence[str], partition: int, *, address: str) -> None:
        self.done.append(f"send {' '.join(identities)}-{partition} to {address}")
        self.answers |= dict.fromkeys(identities, SendOutcome(outcome="ok", offset=0))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    monkeypatch.setattr(player_module, "STEP_LIMIT_S", 0.05)
    return Stage(tmp_path)


class Wire:
    """A relay's network that notes its rules; while they are in force, the observer goes round."""

    brokers = frozenset({1, 2, 3, 4})

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.rounds = 0

    @contextlib.contextmanager
    def under(self, *rules: RelayRule) -> Iterator[None]:
        self._stage.done.append(" ".join(f"{rule.kind} {len(rule.links)}" for rule in rules))
        yield
        self._stage.done.append(f"free after {self.rounds}")

    def observed(self) -> tuple[int, ...]:
        self.rounds += 1
        return self.rounds, self.rounds + 5


def context(stage: Stage, schedule: Schedule) -> ScheduleContext:
    cluster = cast("Cluster", stage)

    def clock() -> float:
        stage.clock += 0.5
        return stage.clock

    return schedule_context(
        plan=plan(schedule, "0.10.2.2"),
        cluster=cluster,
        probe=stage,
        nemesis=Nemesis(cluster, stage.noted),
        fault_log=stage.noted,
        direct=stage,
        replicas=(2, 3, 4),
        observed=stage.network.observed,
        clock=clock,
    )


def step(
    action: Action,
    broker: int | None = None,
    *,
    held: Iterable[int] = (),
    **fields: Any,  # noqa: ANN401
) -> ScheduleStep:
    return ScheduleStep(action=action, broker=broker, held=frozenset(held), **fields)


def played(stage: Stage, *steps: ScheduleStep) -> list[str]:
    schedule = Schedule(kafka="0.10.2.2", steps=steps)
    stage.context = context(stage, schedule)
    play(stage.context, schedule)
    return stage.done


PLAYED: dict[str, tuple[tuple[ScheduleStep, ...], list[str]]] = {
    "a held broker is frozen, and woken when it is not held": (
        (step("move", B, held={B, A}), step("read", held={B}), step("read")),
        ["pause 2", "pause 3", "move 3", "resume 2", "resume 3"],
    ),
    "a paused broker stays so until it is resumed": (
        (
            step("pause", B),
            step("read", held={B}),
            step("read"),
            step("resume", B, held={B}),
            step("read"),
        ),
        ["pause 3", "resume 3"],
    ),
    "the dead come back": (
        (
            step("stop", A),
            step("kill", B),
            step("expire", B, expect=Expect(alive=frozenset({A, C}))),
            step("start", B, expect=Expect(leo={B: 7})),
        ),
        ["stop 2", "kill 3", "end 3", "start 3", "end 2"],
    ),
    "on ZooKeeper the held stay so while a broker shuts down": (
        (step("stop", A, held={B}),),
        ["pause 3", "stop 2", "end 2"],
    ),
    "the broker that the schedule has elected is next in line": (
        (step("kill", A), step("expire", A, expect=Expect(leader=C))),
        ["kill 2", "line up 4", "end 2", "end 2"],
    ),
    "a record goes to the leader, or to the broker that it names": (
        (
            step("send", record="m1", expect=Expect(acked=frozenset({"m1"}))),
            step("send", C, record="m2", expect=Expect(refused=frozenset())),
        ),
        ["send m1-0 to 127.0.0.1:9092", "send m2-0 to 127.0.0.1:9094"],
    ),
    "a session that was to end may": (
        (step("expire", B, held={B}),),
        ["pause 3", "end 3"],
    ),
}


@pytest.mark.parametrize(("steps", "done"), PLAYED.values(), ids=PLAYED)
def test_what_is_done_for_each_step(
    stage: Stage, steps: tuple[ScheduleStep, ...], done: list[str]
) -> None:
    assert played(stage, *steps) == done


def test_in_a_situation_all_respond_and_nothing_is_replicated(stage: Stage) -> None:
    stage.release = release("4.4.0")
    steps = step("read", held={B}), step("observe", expect=Expect(leo={B: 7}, hw={B: 5}))
    assert played(stage, *steps) == [
        *("pause 3", "cut 12 hold 4", "resume 3", "pause 3", "reset 16", "free after 4"),
        "free after 4",
    ]


def test_a_situation_that_does_not_occur_is_noted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player_module, "_SITUATION_LIMIT_S", 0.05)
    done = played(stage, step("observe", expect=Expect(leo={B: 8})), step("kill", B))
    assert done == ["cut 12", "reset 12", "free after 0", "free after 0", "kill 3", "end 3"]
    assert any(says.startswith("not observed in the situation") for says in stage.noted.says)


def test_the_leader_is_frozen_first(stage: Stage) -> None:
    stage.leader = 4
    assert played(stage, step("read", held={A, C})) == [
        "pause 4",
        "pause 2",
    ]


def test_replicas_are_asked_for_and_not_awaited(stage: Stage) -> None:
    steps = (step("reassign", replicas=(C, A), held={B}), step("cancel", A, held={B}))
    schedule = Schedule(kafka="0.10.2.2", partition=1, steps=steps)
    stage.context = context(stage, schedule)
    stage.tested = ("events", 1)
    play(stage.context, schedule)
    assert stage.done == ["pause 3", "reassign events-1 to [4, 2]", "cancel events-1"]
    made = plan(schedule, "4.4.0")
    assert (made.topic.partitions, made.brokers) == (2, 3)


def test_the_disk_of_a_broker_that_is_down_is_emptied(stage: Stage) -> None:
    (stage.disk / "meta.properties").write_text("node.id=3\n")
    (stage.disk / "events-0").mkdir()
    (stage.disk / "replication-offset-checkpoint").write_text("0\n0\n")
    done = played(
        stage,
        step("stop", B),
        step("wipe", B),
        step("start", B),
    )
    assert done == ["stop 3", "start 3"]
    assert [entry.name for entry in stage.disk.iterdir()] == ["meta.properties"]
    says = "the disk of broker 3 is empty: it was empty before"
    assert ("wipe", "inject", 3, says) in stage.noted.notes


def test_one_broker_more_tells_what_is_decided_while_all_replicas_are_down() -> None:
    steps = tuple(step("kill", number) for number in (A, B))
    schedule = Schedule(kafka="4.4.0", replicas=2, order=(0, 1), steps=steps)
    assert plan(schedule, "4.4.0").brokers == 3
    again = (steps[0], step("start", A), steps[1])
    assert plan(msgspec.structs.replace(schedule, steps=again), "4.4.0").brokers == 2


def test_a_held_broker_is_killed_as_it_is(stage: Stage) -> None:
    done = played(
        stage,
        step("read", held={B}),
        step("kill", B),
    )
    assert done == ["pause 3", "kill 3", "end 3"]
    assert [row for row in stage.noted.rows if row[0] != "step"] == [
        ("pause", "inject", 3),
        ("pause", "heal", 3),
        ("kill", "inject", 3),
    ]


def test_on_kraft_the_held_are_woken_so_that_a_broker_can_shut_down(stage: Stage) -> None:
    stage.release = release("4.3.1")
    done = played(
        stage,
        step("stop", A, held={B}, expect=Expect(leader=B)),
    )
    assert done == ["pause 3", "line up 3", "resume 3", "stop 2", "end 2"]


def test_nothing_is_sent_while_a_fetch_of_the_held_may_be_parked(stage: Stage) -> None:
    played(stage, step("read", held={B}))
    idle = stage.clock
    stage.clock = 0.0
    stage.done.clear()
    played(stage, step("send", record="m1", held={B}))
    assert stage.clock - idle >= 1.5


def test_nobody_can_be_sent_to_while_nobody_leads(stage: Stage) -> None:
    stage.leader = -1
    with pytest.raises(ScheduleNotFollowedError, match="no broker leads events-0"):
        played(stage, step("send", record="m1"))


def test_a_broker_learns_what_the_controller_decided(stage: Stage) -> None:
    played(stage, step("learn", A), step("learn", B))
    with pytest.raises(
        ScheduleNotFollowedError, match="broker 3 is paused or dead, and cannot learn the decision"
    ):
        played(stage, step("learn", B, held={B}))


def test_a_step_that_does_not_come_true_says_what_was_seen(stage: Stage) -> None:
    expect = Expect(leader=B, isr=frozenset({A}), leo={A: 6}, hw={A: 5}, acked=frozenset({"m1"}))
    with pytest.raises(ScheduleNotFollowedError) as missed:
        played(
            stage,
            step("read"),
            step("elect", says="B is elected", expect=expect),
        )
    message = missed.value.message
    assert message.startswith("step 2 of 2: B is elected: waited 0.05 s")
    for difference in (
        "leader 0 instead of 1",
        "ISR [0, 1, 2] instead of [0]",
        "LEO of 0 7 instead of 6",
        "acknowledged [] instead of [m1]",
    ):
        assert difference in message
    assert missed.value.missed == MissedStep(
        number=2,
        differences=StateDifferences(
            (
                StateDifference("leader", None, 0, 1),
                StateDifference("ISR", None, (0, 1, 2), (0,)),
                StateDifference("acknowledged", None, (), ("m1",)),
                StateDifference("LEO", 0, 7, 6),
            )
        ),
    )
    assert "HW" not in message


def test_of_who_is_silent_no_offset_is_awaited(stage: Stage) -> None:
    played(
        stage,
        step("read", held={A}, expect=Expect(leo={A: 99}, hw={A: 99})),
    )


def test_a_hold_that_cost_a_session_is_a_missed_step(stage: Stage) -> None:
    stage.live.discard(3)
    with pytest.raises(
        ScheduleNotFollowedError, match="broker 3 was paused for so long that its session ended"
    ):
        played(stage, step("read", held={B}))


def test_the_end_of_the_run_is_no_missed_step(stage: Stage) -> None:
    schedule = Schedule(kafka="0.10.2.2", steps=(step("read"),))
    ended = context(stage, schedule)
    ended.stop.set()
    with pytest.raises(HarnessError, match="the run was ended early") as raised:
        play(ended, schedule)
    assert not isinstance(raised.value, ScheduleNotFollowedError)


def test_replicas_go_by_the_order_of_the_assignment(stage: Stage) -> None:
    steps = (step("pause", 2),)
    schedule = Schedule(kafka="0.10.2.2", order=(2, 0, 1), steps=steps)
    stage.context = context(stage, schedule)
    play(stage.context, schedule)
    assert stage.done == ["pause 2"]


def test_the_controller_plays_no_replica(stage: Stage) -> None:
    cluster, probe = cast("Cluster", stage), cast("Probe", stage)
    assert Replay(LOSS).cast(cluster, probe) == (2, 3, 4)


def test_a_replay_is_a_plan_with_a_broker_to_spare_on_zookeeper() -> None:
    found = plan(two_moves(), "0.10.2.2", seed=3)
    assert (found.brokers, found.topic.replication_factor, found.seed) == (4, 3, 3)
    assert plan(two_moves(), "4.3.1").brokers == 3
    assert Plan.from_json(found.to_json()) == found
    assert found.command() == "highwater model replay schedule.json --kafka 0.10.2.2 --seed 3"
    assert find_script(found) == Replay(two_moves())
    check_plan(found)


def test_a_report_names_the_schedule() -> None:
    fact = facts(plan(two_moves(), "4.3.1"), None)[1]
    assert (fact.value, fact.means) == ("two moves", "a replay of the model's schedule")


def test_a_plan_with_a_broken_schedule_is_refused() -> None:
    found = msgspec.structs.replace(plan(LOSS, "4.3.1"), schedule={"kafka": "4.3.1"})
    with pytest.raises(UsageError, match="no schedule"):
        check_plan(found)
    both = msgspec.structs.replace(plan(LOSS, "4.3.1"), story="loss")
    with pytest.raises(UsageError, match="neither a story nor a nemesis"):
        check_plan(both)


def test_settings_follow_from_what_is_waited_for() -> None:
    interval, lag = "replica.high.watermark.checkpoint.interval.ms", "replica.lag.time.max.ms"
    calm = settings(LOSS)
    assert (calm[interval], calm[lag]) == ("3600000", "30000")
    steps = (step("checkpoint", A), step("shrink"))
    busy = settings(Schedule(kafka="4.3.1", steps=steps, settings={"log.dirs": "elsewhere"}))
    assert (busy[interval], busy[lag], busy["log.dirs"]) == ("1000", "4000", "elsewhere")

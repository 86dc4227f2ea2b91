"""Steps: put together, checked, taken on time, recorded as they were taken, and found again."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.clusters.core.interfaces import Cluster, PartitionState, UnreachableError
from highwater.harness.base.errors import HarnessError, StoreError, UsageError
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.steps import FaultStep, end_of, overlap, sequence, stagger
from highwater.harness.runs.store import Run, RunStatus, Store
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults import registry as fault_module
from highwater.nemesis.faults.registry import FaultTarget, aimed, fault
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.schedules import generator, step_executor
from highwater.runtime.executed_steps import ExecutedSteps, executed_steps, whole_steps
from highwater.runtime.preflight import check_plan
from highwater.shrinking.replay import as_taken, plan_again
from tests.support.schedule_contexts import NotedFaults, schedule_context

KILL = FaultStep(fault="kill", at_s=1, lasts_s=2, target="1")
PAUSE = FaultStep(fault="pause", at_s=0.5, lasts_s=4, target="2")
some_steps = st.lists(
    st.builds(
        FaultStep,
        fault=st.sampled_from(["kill", "pause"]),
        at_s=st.integers(0, 50).map(float),
        lasts_s=st.integers(0, 9).map(float),
    ),
    max_size=5,
).map(tuple)


def plan(*steps: FaultStep, **settings: Any) -> Plan:  # noqa: ANN401 - of a plan
    return Plan(kafka="4.3.1", steps=steps, topic=Topic(partitions=3), **settings)


def test_schedules_are_put_one_after_the_other_side_by_side_and_staggered() -> None:
    both = sequence([KILL], [PAUSE], gap_s=2)
    assert [(one.fault, one.at_s) for one in both] == [("kill", 1), ("pause", 5.5)]
    assert [one.fault for one in overlap([KILL], [PAUSE])] == ["pause", "kill"]
    assert [one.at_s for one in stagger([KILL], [KILL], [KILL], every_s=1.5)] == [1, 2.5, 4]


@given(some_steps, some_steps)
def test_a_sequence_never_begins_before_the_one_before_has_ended(
    first: tuple[FaultStep, ...], second: tuple[FaultStep, ...]
) -> None:
    done = sequence(first, second, gap_s=1)
    assert len(done) == len(first) + len(second)
    assert end_of(done) >= end_of(first)
    late = [one for one in done if one.at_s >= end_of(first)]
    assert len(late) >= len(second)


@given(some_steps)
def test_a_plan_with_steps_is_the_same_when_it_is_read_back(many: tuple[FaultStep, ...]) -> None:
    assert Plan.from_json(plan(*many).to_json()) == plan(*many)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (plan(msgspec.structs.replace(KILL, target="7")), "step 1: there is no broker 7"),
        (plan(msgspec.structs.replace(KILL, target="boss")), "'boss' is not a target of a fault"),
        (plan(msgspec.structs.replace(KILL, fault="kil")), "no fault is called 'kil'"),
        (
            plan(KILL, msgspec.structs.replace(KILL, partition=3)),
            "step 2: 3 as the partition of the fault",
        ),
        (
            plan(msgspec.structs.replace(KILL, at_s=-1.0)),
            "-1 seconds before the fault: out of range",
        ),
        (plan(msgspec.structs.replace(KILL, lasts_s=float("nan"))), "nan seconds of the fault"),
        (
            plan(KILL, msgspec.structs.replace(PAUSE, target="1")),
            "pause and kill would both hit broker 1 at 1 s",
        ),
        (
            plan(KILL, FaultStep(fault="rolling-restart", at_s=2, lasts_s=1)),
            "kill and rolling-restart would both hit broker 1 at 2 s",
        ),
        (
            plan(*[FaultStep(fault="controller-kill", at_s=at, lasts_s=3) for at in (1, 2)]),
            "would both hit the coordination at 2 s",
        ),
        (
            plan(FaultStep(fault="session-expiry", at_s=1)),
            "session-expiry is not available on Kafka 4.3.1",
        ),
        (plan(KILL, nemesis=("kill",)), "cannot be combined with a story or a nemesis"),
        (plan(budget={"kil": 3}), "no fault is called 'kil'"),
        (plan(budget={"brokers": 0}), "the budget brokers=0 is out of range"),
        (plan(overlap=0), "0 sequences of random faults at the same time: out of range"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(wrong: Plan, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_plan(wrong)


def test_steps_that_touch_or_strike_others_are_fine() -> None:
    check_plan(plan(KILL, PAUSE, FaultStep(fault="pause", at_s=3, lasts_s=1, target="1")))


class Brokers:
    """Three brokers that are always well, as a cluster and as a probe."""

    def __init__(self) -> None:
        self.brokers = {id_: SimpleNamespace(state="running") for id_ in (1, 2, 3)}
        self.controllers = {id_: SimpleNamespace(state="running") for id_ in (100, 101, 102)}
        self.broken: list[int] = []

    def quorum_leader(self) -> int:
        return 101

    def live_brokers(self) -> frozenset[int]:
        return frozenset(self.brokers)

    def partition(self, topic: str, partition: int) -> PartitionState:
        assert topic == "events"
        return PartitionState(leader=partition + 1, leader_epoch=0, isr=(1, 2, 3))


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    """And faults that take no real ones."""
    made = Brokers()

    @fault("itch")
    def itch(_: Cluster, broker: int) -> Iterator[str]:
        """Make a broker scratch."""
        made.broken.append(broker)
        yield f"broker {broker} itches"
        made.broken.remove(broker)

    @fault("slow-itch")
    def slow(_: Cluster, broker: int) -> Iterator[str]:
        """Heal slowly."""
        yield f"broker {broker} itches"
        time.sleep(0.3)  # what is waited for here is time itself

    @fault("stumble")
    def stumble(_: Cluster, broker: int) -> Iterator[str]:
        """Fail to break anything."""
        if broker:
            raise HarnessError(f"broker {broker} would not stumble")
        yield ""

    @aimed("fog", at="topic")
    def fog(*_: object) -> Iterator[str]:
        """Strike nobody."""
        yield "fog"

    @aimed("hush", at="coordination")
    def hush(_: Cluster, aim: FaultTarget) -> Iterator[str]:
        """Silence controllers."""
        made.broken.extend(aim.controllers)
        yield f"controllers {aim.controllers} are silent"
        for controller in aim.controllers:
            made.broken.remove(controller)

    yield made
    for name in ("itch", "slow-itch", "stumble", "fog", "hush"):
        del fault_module._registry[name]


class Waited(threading.Event):
    """A clock of its own that goes on only while it is waited for; for schedules of one thread."""

    now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()

    def seconds(self) -> float:
        return self.now_s

    def nanoseconds(self) -> int:
        return int(self.now_s * 1e9)


@contextlib.contextmanager
def context(
    brokers: Brokers, tmp_path: Path, of: Plan, waited: Waited | None = None
) -> Iterator[tuple[ScheduleContext, Run]]:
    """A run that records steps, and nothing else."""
    run = Store(tmp_path).create(of, now=cast("Any", SimpleNamespace(strftime=lambda _: "now")))
    cluster, noted = cast("Cluster", brokers), NotedFaults()
    with Recorder(run, waited.nanoseconds if waited else Clock()) as recorder:
        yield (
            schedule_context(
                plan=of,
                cluster=cluster,
                probe=brokers,
                nemesis=Nemesis(cluster, noted),
                fault_log=noted,
                stop=waited or threading.Event(),
                log=recorder,
                clock=waited.seconds if waited else time.monotonic,
            ),
            run,
        )
    assert {broker for _, _, broker in noted.rows} <= {None, 1, 2, 3}


@pytest.mark.slow
def test_steps_are_taken_at_their_time_and_recorded_exactly(
    brokers: Brokers, tmp_path: Path
) -> None:
    asked = (
        FaultStep(fault="itch", at_s=0.1, lasts_s=2.5, target="leader", partition=1),
        FaultStep(fault="itch", at_s=0.3, lasts_s=2, target="3", choice=0.5),
        FaultStep(fault="fog", at_s=0.5, lasts_s=0.1),
        FaultStep(fault="itch", at_s=0.8, lasts_s=0.1, target="all"),
    )
    with context(brokers, tmp_path, plan(*asked)) as (on, run):
        step_executor.play(on, asked)
        whole = executed_steps(run)  # as of a run that is killed now
    run.seal()
    assert executed_steps(run) == whole
    assert ExecutedSteps.from_json(msgspec.json.encode(whole)) == whole
    assert [(one.fault, one.target, one.broker) for one in whole.taken] == [
        ("itch", "leader", 2), ("itch", "3", 3), ("fog", "any", None), ("itch", "all", 1),
    ]  # fmt: skip
    for one, step in zip(whole.taken, asked, strict=True):
        assert step.at_s <= one.at_s + 0.01 < step.at_s + 1
        assert one.lasts_s is not None
        assert step.lasts_s <= one.lasts_s + 0.01 < step.lasts_s + 1
    assert brokers.broken == []
    again = whole.steps()
    assert [step.target for step in again] == ["2", "3", "any", "1"]
    assert [step.target for step in whole.steps("role")] == ["leader", "3", "any", "1"]
    assert [(step.partition, step.choice) for step in again[:2]] == [(1, 0), (0, 0.5)]
    with pytest.raises(UsageError, match="no fault is called"):
        check_plan(plan(FaultStep(fault="itched", at_s=1)))


@pytest.mark.slow
def test_controllers_that_were_hit_are_recorded_and_one_is_hit_again_by_its_id(
    brokers: Brokers, tmp_path: Path
) -> None:
    asked = (
        FaultStep(fault="hush", at_s=0.0, lasts_s=0.1, target="leader"),
        FaultStep(fault="hush", at_s=0.5, lasts_s=0.1, target="majority"),
        FaultStep(fault="itch", at_s=0.5, lasts_s=0.1, target="2"),
        FaultStep(fault="hush", at_s=0.9, lasts_s=0.1, target="109"),
    )
    with context(brokers, tmp_path, plan(*asked, controllers=3)) as (on, run):
        step_executor.play(on, asked)
    run.seal()
    whole = executed_steps(run)
    hits = {(step.fault, step.target): step.controllers for step in whole.taken}
    assert hits == {
        ("hush", "leader"): (101,),
        ("hush", "majority"): (100, 101),
        ("itch", "2"): None,
    }
    assert [(step.target, step.why) for step in whole.left_out] == [
        ("109", "no node matches the target 109 now")
    ]
    assert ExecutedSteps.from_json(msgspec.json.encode(whole)) == whole
    assert brokers.broken == []
    assert {step.target for step in whole.steps()} == {"101", "majority", "2"}
    assert {step.target for step in whole.steps("role")} == {"leader", "majority", "2"}


@pytest.mark.slow
def test_a_reason_to_leave_steps_out_is_noted_once_and_recorded_each_time(
    brokers: Brokers, tmp_path: Path
) -> None:
    asked = [FaultStep(fault="hush", at_s=n / 10, target="109") for n in range(3)]
    with context(brokers, tmp_path, plan(*asked, controllers=3)) as (on, run):
        step_executor.play(on, asked)
    run.seal()
    assert [step.why for step in executed_steps(run).left_out] == [
        "no node matches the target 109 now"
    ] * 3
    notes = cast("NotedFaults", on.fault_log).notes
    assert [says for *_, says in notes] == ["hush is skipped: no node matches the target 109 now"]


@pytest.mark.slow
def test_a_step_waits_for_a_target_that_still_heals_and_no_longer(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_executor, "_TURN_S", 0.6)
    asked = (
        FaultStep(fault="slow-itch", at_s=0, lasts_s=0.1, target="1"),
        FaultStep(fault="itch", at_s=0.1, lasts_s=1.6, target="1"),
        FaultStep(fault="fog", at_s=0.2, lasts_s=0),
        FaultStep(fault="itch", at_s=0.6, lasts_s=0, target="1"),
    )
    with context(brokers, tmp_path, plan(*asked)) as (on, run):
        step_executor.play(on, asked)
    found = executed_steps(run)
    first, late = (one for one in found.taken if one.fault != "fog")
    assert (first.fault, late.fault) == ("slow-itch", "itch")
    assert late.at_s >= 0.4  # 0.1 s of the first, and 0.3 s of its healing
    [left_out] = found.left_out
    assert (left_out.broker, left_out.why) == (1, "it would overlap with an open fault")


def test_a_fault_that_fails_ends_the_schedule(brokers: Brokers, tmp_path: Path) -> None:
    asked = (
        FaultStep(fault="itch", at_s=0, lasts_s=60, target="1"),
        FaultStep(fault="stumble", at_s=0.1, target="2"),
    )
    began = time.monotonic()
    with context(brokers, tmp_path, plan(*asked)) as (on, _):
        with pytest.raises(HarnessError, match="broker 2 would not stumble"):
            step_executor.play(on, asked, duration_s=60)
        on.nemesis.heal_all()
    assert brokers.broken == []
    assert time.monotonic() - began < 10


def test_a_budget_limits_faults_and_brokers(brokers: Brokers, tmp_path: Path) -> None:
    asked = (
        FaultStep(fault="itch", at_s=0, lasts_s=0.3, target="all"),
        FaultStep(fault="itch", at_s=0.6, lasts_s=0, target="1"),
        FaultStep(fault="itch", at_s=0.8, lasts_s=0, target="1"),
    )
    limited = plan(*asked, budget={"itch": 3, "brokers": 2})
    with context(brokers, tmp_path, limited) as (on, run):
        step_executor.play(on, asked)
    found = executed_steps(run)
    assert len(found.taken) == 3
    assert sorted(one.why for one in found.left_out) == [
        "the budget allows faults on 2 brokers at the same time",
        "the fault was injected 3 times, which is the budget's limit",
    ]


def test_a_step_that_was_left_out_is_not_counted_by_the_budget(
    brokers: Brokers, tmp_path: Path
) -> None:
    unanswered = iter([UnreachableError("no answer")])

    @fault("shy")
    def shy(_: Cluster, broker: int) -> Iterator[str]:
        """Get no answer at first."""
        for error in unanswered:
            raise error
        yield f"broker {broker} is shy"

    asked = tuple(
        FaultStep(fault="shy", at_s=at_s, lasts_s=0.1, target="1") for at_s in (0, 0.5, 1)
    )
    with context(brokers, tmp_path, plan(*asked, budget={"shy": 1}), Waited()) as (on, run):
        step_executor.play_in_turn(on, asked, duration_s=9)
    del fault_module._registry["shy"]
    found = executed_steps(run)
    assert len(found.taken) == 1
    assert [one.why for one in found.left_out] == [
        "no answer",
        "the fault was injected 1 times, which is the budget's limit",
    ]


def test_groups_of_steps_are_recorded_too(brokers: Brokers, tmp_path: Path) -> None:
    drawn = Plan(kafka="4.3.1", nemesis=("itch",), topic=Topic(partitions=3), duration_s=2)
    groups = [
        FaultStep(fault="itch", at_s=at_s, lasts_s=0.2, target="leader", partition=partition)
        for at_s, partition in ((0.1, 0), (0.4, 2))
        for _ in range(2)
    ]
    with context(brokers, tmp_path, drawn, Waited()) as (on, run):
        step_executor.play_in_turn(on, groups, duration_s=2)
    found = executed_steps(run)
    # If the leader has a fault already, another broker is the target.
    assert [one.broker for one in found.taken] == [1, 2, 3, 1]
    assert all(one.lasts_s and one.lasts_s > 0.15 for one in found.taken)


def test_the_first_bout_is_played_even_if_it_takes_all_the_time(
    brokers: Brokers, tmp_path: Path
) -> None:
    drawn = Plan(
        kafka="4.3.1",
        nemesis=("itch",),
        topic=Topic(partitions=3),
        duration_s=generator.LEAST_S,
    )
    with context(brokers, tmp_path, drawn, Waited()) as (on, run):
        step_executor.play_in_turn(on, generator.draw(drawn), duration_s=drawn.duration_s)
    assert executed_steps(run).taken


def test_a_step_in_turn_without_a_target_is_left_out(brokers: Brokers, tmp_path: Path) -> None:
    drawn = Plan(kafka="4.3.1", nemesis=("itch",), topic=Topic(partitions=3), duration_s=2)
    group = [FaultStep(fault="itch", at_s=0, lasts_s=0.1, target="1")] * 2
    with context(brokers, tmp_path, drawn, Waited()) as (on, run):
        step_executor.play_in_turn(on, group, duration_s=0.2)
    found = executed_steps(run)
    assert len(found.taken) == 1
    assert [one.why for one in found.left_out] == ["no node matches the target 1 now"]


UNKNOWN = 10**9


@pytest.mark.parametrize(
    ("seed", "worked", "at_s"),
    [
        (0, {0.0: UNKNOWN, 1.0: 0, 1.5: 3}, [2.5]),  # brokers tell nothing until its group is there
        (0, {0.0: UNKNOWN}, [121.0, 123.9]),
        (0, {0.0: 0, 0.5: 3, 2.5: 9}, [1.5, 2.6]),
        (1, {0.0: 0, 0.5: 3, 1.5: 9}, [1, 2.5]),
        (1, {0.0: 0, 0.5: 3, 2.5: 9}, [1, 3.4]),
        (1, {0.0: 0, 1.5: 3}, [1.5]),
        (0, {0.0: 0, 1.5: 3}, [2.5]),
        (1, {0.0: 0, 0.5: 3, 3.25: 9}, [1]),
        (0, {0.0: 0, 0.5: 3, 3.25: 9}, [1.5, 3.25]),
        (0, {0.0: 0}, []),
        (0, {0.0: 0, 30.0: 3}, [31.0]),
        (1, {0.0: 0, 30.0: 3}, [30.0]),
        (0, {0.0: 0, 30.0: 3, 31.5: 9}, [31.0, 32.0]),  # a slow start takes no time from the run
        (0, {0.0: 0, 0.5: 3, 1.5: UNKNOWN}, [1.5, 4.4]),
    ],
)
def test_a_program_is_hit_again_only_when_it_has_worked_at_once_or_after_the_pause(
    brokers: Brokers, tmp_path: Path, seed: int, worked: dict[float, int], at_s: list[float]
) -> None:
    @aimed("app-itch", at="program")
    def itch(*_: object) -> Iterator[str]:
        """Make a program scratch."""
        yield "the program itches"

    drawn = Plan(kafka="4.3.1", nemesis=("app-itch",), topic=Topic(partitions=3), duration_s=4)
    drawn = msgspec.structs.replace(drawn, seed=seed)
    asked = [FaultStep(fault="app-itch", at_s=at_s, lasts_s=0.1) for at_s in (1.0, 2.0)]
    waited = Waited()

    def work() -> int | None:
        count = worked[max(at_s for at_s in worked if at_s <= waited.now_s)]
        return None if count == UNKNOWN else count

    with context(brokers, tmp_path, drawn, waited) as (quiet, run):
        on = dataclasses.replace(quiet, work=work)
        step_executor.play_in_turn(on, asked, duration_s=4)
    del fault_module._registry["app-itch"]
    taken = [one.at_s for one in executed_steps(run).taken]
    assert taken == pytest.approx(at_s, abs=0.3)


def test_sequences_overlap_and_the_first_is_as_without_the_others() -> None:
    of = Plan(kafka="4.3.1", nemesis=("kill", "pause"), seed=3, duration_s=60, overlap=2)
    both = generator.draw_lanes(of)
    alone = generator.draw_lanes(msgspec.structs.replace(of, overlap=1))
    assert set(alone) < set(both)
    assert len(both) > len(alone) + 3
    assert end_of(both) <= 60


def test_a_run_becomes_a_plan_of_its_steps(brokers: Brokers, tmp_path: Path) -> None:
    drawn = plan(KILL, PAUSE)
    with context(
        brokers, tmp_path, msgspec.structs.replace(drawn, steps=(), nemesis=("kill",))
    ) as (
        on,
        run,
    ):
        on.log.step("begin")
        on.log.step("strike", step=1, fault="kill", target="any", broker=3, partition=2, choice=0.5)
        on.log.step("struck", step=1)
    taken = as_taken(run, by="broker")
    assert taken.nemesis == ()
    [step] = taken.steps
    assert (step.fault, step.target, step.partition, step.choice) == ("kill", "3", 2, 0.5)
    run.write("plan.json", taken.to_json())
    assert plan_again(str(run.path / "plan.json"), Store(tmp_path), by="role") == taken


def test_what_is_no_run_or_never_began_is_refused(brokers: Brokers, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with context(brokers, tmp_path, plan(nemesis=("kill",))) as (_, run):
        pass
    run.write_struct("status.json", RunStatus(phase="booting"))
    with pytest.raises(UsageError, match="ended before its schedule began"):
        plan_again(run.name, store, by="broker")
    run.stream("events/steps").unlink()
    with pytest.raises(UsageError, match="did not record its steps"):
        whole_steps(run)
    with pytest.raises(StoreError, match="nobody is not a run directory"):
        plan_again("nobody", store, by="broker")
    (tmp_path / "torn.json").write_text('{"schema": 1, "kafka"')
    with pytest.raises(UsageError, match=r"torn.json is no plan"):
        plan_again(str(tmp_path / "torn.json"), store, by="broker")
    (tmp_path / "odd.json").write_text('{"schema": 1, "kafka": "4.3.1", "stepz": []}')
    with pytest.raises(UsageError, match="stepz"):
        plan_again(str(tmp_path / "odd.json"), store, by="broker")
    (tmp_path / "away.json").write_bytes(plan(KILL).to_json())
    with pytest.raises(UsageError, match=r"'4\.9\.9' is not in the catalogue"):
        plan_again(str(tmp_path / "away.json"), store, by="broker", kafka="4.9.9")

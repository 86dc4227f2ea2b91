"""What shrinking asks, takes for an answer and writes; brokers are for tests/kafka."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.cli.options import replay
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.runs.plan import (
    PROGRAM_WORKLOAD,
    External,
    Plan,
    ProgramPlan,
    Topic,
    Workload,
)
from highwater.harness.runs.steps import FaultStep, end_of
from highwater.harness.runs.store import Store
from highwater.harness.runs.verdict import Anomaly, Ledger, Verdict
from highwater.runtime.preflight import check_plan
from highwater.shrinking.candidates import alone, shorter_steps, tight, waits, with_steps
from highwater.shrinking.exported_test import brief_json, module_of
from highwater.shrinking.replay import plan_again
from highwater.shrinking.search import Search
from highwater.shrinking.shrinker import ShrinkResult, Size, shrink, shrink_run
from highwater.shrinking.trials import (
    Attempt,
    Goal,
    HitThreshold,
    TimeIsUpError,
    Trials,
    read_attempts,
)

ONE_OF_THREE = HitThreshold(tries=3, hits=1)
LOST = Goal(verdict="invalid", kinds=("lost-write",))
seconds = st.integers(0, 200).map(lambda tenths: tenths / 10)
some_steps = st.lists(
    st.builds(FaultStep, fault=st.sampled_from(["kill", "pause"]), at_s=seconds, lasts_s=seconds),
    max_size=6,
)


def schedule(*faults: str, **settings: Any) -> Plan:  # noqa: ANN401 - of a plan
    """A fault every ten seconds for five, each on a broker of its own turn."""
    steps = tuple(
        FaultStep(fault=fault, at_s=10.0 * (place + 1), lasts_s=5.0, target=str(place % 3 + 1))
        for place, fault in enumerate(faults)
    )
    whole_s = 10.0 * len(faults) + 15
    return Plan(
        kafka="0.10.2.2", topic=Topic(partitions=3), steps=steps, duration_s=whole_s, **settings
    )


def verdict(word: str = "invalid", *, breaks: Sequence[str] = (), **counts: int) -> Verdict:
    found = {kind.replace("_", "-"): count for kind, count in counts.items()}
    anomalies = tuple(
        Anomaly(
            kind=kind, topic="events", partition=1, offset=3, value="p0-1", sentence="It is gone.",
            breaks=kind in breaks,
        )
        for kind in found
    )  # fmt: skip
    return Verdict(
        run="r", kafka="0.10.2.2", acks="all", verdict=cast("Any", word), reasons=(), promise="",
        headline="Something was found", counts=found, anomalies=anomalies, checkers={},
        ledger=Ledger(sent=9, acknowledged=9, failed=0, unknown=0, read=8, lost=1, unseen=0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (verdict(breaks=("lost-write",), lost_write=3, duplicate=7), ("lost-write",)),
        (verdict(breaks=("duplicate",), lost_write=3, duplicate=7), ("duplicate",)),
        (verdict(breaks=("divergence", "poll-skip"), divergence=1, poll_skip=7), ("divergence",)),
        (verdict("valid", duplicate=1, lost_write=3), ("lost-write",)),
    ],
)
def test_the_worst_of_a_run_is_what_has_to_stay(found: Verdict, kinds: tuple[str, ...]) -> None:
    goal = Goal.of(found)
    assert goal == Goal(verdict=found.verdict, kinds=kinds)
    assert goal.reached_by(found)
    assert not goal.reached_by(verdict("unknown", lost_write=1, duplicate=1, divergence=1))
    assert not goal.reached_by(verdict(found.verdict, lost_write=0, unseen=4))


def test_a_run_without_anomalies_cannot_be_shrunk() -> None:
    with pytest.raises(UsageError, match="r has no anomaly to keep"):
        Goal.of(verdict("valid", lost_write=0))
    with pytest.raises(UsageError, match="no anomaly is called 'lost'"):
        Goal.of(verdict(breaks=("lost-write",), lost_write=1), ["lost"])
    with pytest.raises(UsageError, match="r has no divergence"):
        Goal.of(verdict(breaks=("lost-write",), lost_write=1), ["divergence"])
    both = verdict(breaks=("lost-write",), lost_write=1, divergence=1)
    assert Goal.of(both, ["divergence"]).kinds == ("divergence",)


def test_who_would_shrink_a_story_is_told_what_to_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    told = Plan(kafka="0.10.2.2", story="loss", workload=Workload(producers=0))
    story = store.create(told, now=datetime.now(UTC), name="story")
    story.write("analysis/verdict.json", verdict(breaks=("lost-write",), lost_write=1).to_json())
    with pytest.raises(UsageError, match="a story is one script") as refused:
        shrink_run(story)
    assert "run --nemesis kill,pause makes" in refused.value.hint
    store.create(schedule("kill"), now=datetime.now(UTC), name="random")
    with pytest.raises(UsageError) as refused:
        shrink_run(story)
    assert refused.value.hint == f"Name a run of random faults, such as {tmp_path / 'random'}."


@given(some_steps, seconds)
def test_waits_are_cut_and_nothing_else(steps: list[FaultStep], most_s: float) -> None:
    closer = tight(steps, most_s)
    assert [one.lasts_s for one in closer] == [
        one.lasts_s for one in sorted(steps, key=lambda step: step.at_s)
    ]
    assert max(waits(closer), default=0) <= most_s + 0.002
    assert end_of(closer) <= end_of(steps) + 0.002
    if max(waits(steps), default=0) <= most_s:
        assert {one.at_s for one in closer} == {one.at_s for one in steps}


def test_a_shorter_step_lets_the_later_ones_come_earlier() -> None:
    plan = schedule("kill", "pause", "kill")
    [half, *_] = shorter_steps(plan, 1)
    assert [(one.at_s, one.lasts_s) for one in half.plan.steps] == [(10, 5), (20, 0.5), (25.5, 5)]
    assert half.plan.duration_s - end_of(half.plan.steps) == plan.duration_s - 35
    assert [one.says for one in shorter_steps(half.plan, 1)] == []


def test_an_upgrade_that_is_left_out_leads_nowhere() -> None:
    plan = schedule("kill", "upgrade", to=("0.11.0.3",))
    check_plan(plan)
    assert with_steps(plan, plan.steps[1:], 1).to == ("0.11.0.3",)
    without = with_steps(plan, plan.steps[:1], 1)
    assert without.to == ()
    check_plan(without)


def test_one_partition_keeps_who_led_it() -> None:
    """Partition p begins on broker p + 1, and the only one on broker 1."""
    plan = schedule("kill", "kill", "kill")
    one = alone(plan, 1)
    assert one.topic.partitions == 1
    assert [step.target for step in one.steps] == ["3", "1", "2"]
    assert {step.partition for step in one.steps} == {0}
    roles = [msgspec.structs.replace(step, target="leader", partition=1) for step in plan.steps]
    assert alone(msgspec.structs.replace(plan, steps=tuple(roles)), 1).steps[0].target == "leader"


class Oracle:
    """Trials that ask a function instead of brokers."""

    def __init__(self, folder: Path, does: Callable[[Plan], bool]) -> None:
        self.folder, self.does = folder, does
        self.asked: list[Plan] = []
        self.rule = ONE_OF_THREE
        self.deadline = float("inf")
        self.progress = lambda _: None

    def holds(self, plan: Plan, says: str, *, rule: HitThreshold | None) -> Attempt:
        assert rule in {None, HitThreshold(tries=3, hits=2)}
        check_plan(plan)
        self.asked.append(plan)
        does = self.does(plan)
        if len(self.asked) > 300:
            raise TimeIsUpError
        return Attempt(
            number=len(self.asked), says=says, key="", runs=1, hits=int(does), holds=does,
            seconds=0, partitions=(1,), sent=7 * len(plan.steps),
        )  # fmt: skip


def work(oracle: Oracle, plan: Plan) -> Search:
    return Search(trials=cast("Trials", oracle), best=plan, sent=1000)


def test_only_what_is_needed_stays(tmp_path: Path) -> None:
    """It takes a pause of 1.5 s after a kill, and 40 records a second."""

    def does(plan: Plan) -> bool:
        faults = [step.fault for step in plan.steps]
        long = [step.lasts_s for step in plan.steps if step.fault == "pause"]
        after = "kill" in faults and "pause" in faults[faults.index("kill") :]
        return after and max(long) >= 1.5 and plan.workload.rate >= 40

    oracle = Oracle(tmp_path, does)
    done = work(oracle, schedule("stop", "kill", "stop", "restart", "pause", "stop", "kill"))
    assert done.until_ended() == "smallest"
    best = done.best
    assert [(step.fault, step.lasts_s) for step in best.steps] == [("kill", 0.5), ("pause", 2)]
    assert best.steps[0].at_s == 0.5
    assert waits(best.steps) == [0.5, 0.5]
    assert (best.workload.rate, best.workload.producers, best.workload.consumers) == (50, 1, 0)
    assert best.topic.partitions == 1
    assert best.duration_s == end_of(best.steps)
    assert len(oracle.asked) < 40
    assert Plan.from_json((tmp_path / "plan.json").read_bytes()) == best


def test_of_a_programs_instances_one_stays_if_that_is_enough(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(
        schedule("app-kill", "app-kill", workload=PROGRAM_WORKLOAD),
        kafka="4.4.0",
        program=ProgramPlan(command=("sleep", "60"), instances=3),
    )
    done = work(Oracle(tmp_path, lambda plan: bool(plan.steps)), plan)
    assert done.until_ended() == "smallest"
    assert done.best.program is not None
    assert (done.best.program.instances, len(done.best.steps)) == (1, 1)


def test_what_does_not_come_again_is_said_so(tmp_path: Path) -> None:
    oracle = Oracle(tmp_path, lambda _: False)
    assert work(oracle, schedule("kill", "kill")).until_ended() == "not-reproduced"
    assert len(oracle.asked) == 1
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    ("error", "ended"), [(TimeIsUpError, "time"), (KeyboardInterrupt, "interrupted")]
)
def test_who_is_ended_early_has_the_best_so_far(
    tmp_path: Path, error: type[BaseException], ended: str
) -> None:
    def does(plan: Plan) -> bool:
        if len(plan.steps) == 2:
            raise error
        return len(plan.steps) > 2

    done = work(Oracle(tmp_path, does), schedule("kill", "pause", "kill", "pause"))
    assert done.until_ended() == ended
    assert len(done.best.steps) == 4
    assert max(waits(done.best.steps)) == 0.5


class Warm:
    """A fleet whose runs do it or not, as they are told, or cannot be performed."""

    def __init__(self, *outcomes: bool | None) -> None:
        self.outcomes = list(outcomes)

    def execute(self, plan: Plan, store: Any, **_: object) -> Any:  # noqa: ANN401 - a run
        from datetime import UTC, datetime  # noqa: PLC0415

        run = store.create(plan, now=datetime.now(UTC))
        if self.outcomes[0] is None:
            del self.outcomes[0]
            raise HarnessError("no Java is here")
        return run


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trials]:
    def made(
        *outcomes: bool | None, rule: HitThreshold = ONE_OF_THREE, limit_s: float = 60
    ) -> Trials:
        fleet = Warm(*outcomes)

        def judge(runs: Sequence[Any], *_: object, **__: object) -> list[Verdict]:
            lost = [int(bool(fleet.outcomes.pop(0))) for _ in runs]
            return [verdict("invalid" if one else "valid", lost_write=one) for one in lost]

        monkeypatch.setattr("highwater.shrinking.trials.judge", judge)
        return Trials(
            goal=LOST, rule=rule, folder=tmp_path, fleet=cast("Any", fleet),
            session=lambda: cast("Any", None), deadline=time.monotonic() + limit_s,
            tell=lambda _: None, progress=lambda _: None,
        )  # fmt: skip

    return made


@pytest.mark.parametrize(
    ("rule", "outcomes", "runs", "hits", "holds"),
    [
        (HitThreshold(tries=3, hits=1), (True,), 1, 1, True),
        (HitThreshold(tries=3, hits=1), (False, False, True), 3, 1, True),
        (HitThreshold(tries=3, hits=1), (False, True, True), 3, 2, True),
        (HitThreshold(tries=3, hits=1), (False, False, False), 3, 0, False),
        (HitThreshold(tries=3, hits=2), (False, False), 2, 0, False),
        (HitThreshold(tries=4, hits=3), (True, False, True, True), 4, 3, True),
        (HitThreshold(tries=4, hits=3), (True, False, False), 3, 1, False),
        (HitThreshold(tries=3, hits=1), (None, None, True), 3, 1, True),
    ],
)
def test_a_plan_is_run_until_it_is_decided(
    trials: Callable[..., Trials],
    tmp_path: Path,
    rule: HitThreshold,
    outcomes: tuple[bool | None, ...],
    runs: int,
    hits: int,
    holds: bool,
) -> None:
    asked = trials(*outcomes, rule=rule).holds(schedule("kill"), "1 fault")
    assert (asked.runs, asked.hits, asked.holds) == (runs, hits, holds)
    assert len(list((tmp_path / "runs").glob("*/plan.json"))) >= hits * holds
    assert read_attempts(tmp_path / "attempts.jsonl") == [msgspec.structs.replace(asked, number=0)]


def test_what_was_answered_is_not_asked_again_unless_the_question_is_another(
    trials: Callable[..., Trials], tmp_path: Path
) -> None:
    first = trials(False, False, True).holds(schedule("kill"), "1 fault")
    with (tmp_path / "attempts.jsonl").open("ab") as file:
        file.write(b'{"number":1,"says":"to')  # what a kill leaves
    again = trials()
    assert again.holds(schedule("kill"), "1 fault") == first
    assert again.ran == 0
    stricter = trials(False, False, rule=HitThreshold(tries=3, hits=2))
    assert not stricter.holds(schedule("kill"), "1 fault").holds


def test_a_machine_that_cannot_run_anything_is_no_answer(trials: Callable[..., Trials]) -> None:
    with pytest.raises(HarnessError, match="no Java"):
        trials(None, None, None, rule=HitThreshold(tries=5)).holds(schedule("kill"), "1 fault")
    with pytest.raises(TimeIsUpError):
        trials(True, limit_s=-1).holds(schedule("kill"), "1 fault")


def test_a_story_cannot_be_shrunk(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a story is one script"):
        shrink(Plan(kafka="4.3.1", story="loss"), LOST, tmp_path)


def test_a_cluster_of_somebody_else_is_not_broken_again(tmp_path: Path) -> None:
    theirs = External(inventory="staging.toml", cluster_id="wkHM", brokers=(1, 2, 3), commands=())
    plan = msgspec.structs.replace(schedule("kill"), driver="external", external=theirs)
    with pytest.raises(
        UsageError, match="cluster wkHM is external, and you confirmed it for one run only"
    ):
        shrink(plan, LOST, tmp_path)
    (tmp_path / "plan.json").write_bytes(plan.to_json())
    with pytest.raises(
        UsageError, match="cluster wkHM is external, and you confirmed it for one run only"
    ):
        plan_again(str(tmp_path / "plan.json"), Store(tmp_path), by="broker")


def test_a_brief_plan_is_the_same_plan() -> None:
    plan = schedule("kill", "pause", workload=Workload(acks="1", rate=0.0), seed=3)
    text = brief_json(plan)
    assert Plan.from_json(text) == plan
    assert b"record_bytes" not in text
    assert Plan.from_json(brief_json(Plan(kafka="4.3.1"))) == Plan(kafka="4.3.1")


def test_the_test_to_paste_is_python_that_holds_the_plan() -> None:
    plan = schedule("kill", "pause")
    module: dict[str, Any] = {}
    exec(compile(module_of(plan, LOST, 4, 5), "test_shrunk.py", "exec"), module)  # noqa: S102
    assert plan == module["PLAN"]
    assert "4 of 5 runs" in module["__doc__"]
    [mark] = module["test_no_lost_write"].pytestmark
    assert (mark.name, mark.args) == ("kafka", ("0.10.2.2",))


def test_a_person_reads_from_how_much_to_how_little(tmp_path: Path) -> None:
    plan = schedule("kill")
    found = ShrinkResult(
        plan=plan, goal=LOST, ended="smallest", before=Size.of(schedule(*["kill"] * 9), 9070),
        after=Size.of(with_steps(plan, plan.steps, 1), 12), hits=4, runs=5, attempts=20, ran=41,
        seconds=612.3,
    )  # fmt: skip
    said = replay.summary(found, tmp_path)
    assert "lost-write: from 9 faults, 105 s, 3 partitions, 4 clients, 9,070 records" in said
    assert "to 1 fault, 8 s, 3 partitions, 4 clients, 12 records" in said
    assert "4 of 5 runs had the anomaly. 20 plans tried, 41 runs, 612 s." in said
    assert "10 s: kill 1 for 5 s" in said
    of_program = schedule("app-kill", workload=PROGRAM_WORKLOAD)
    said = replay.summary(msgspec.structs.replace(found, plan=of_program), tmp_path)
    assert "10 s: app-kill for 5 s" in said  # no broker is hit
    gone = replay.summary(msgspec.structs.replace(found, ended="not-reproduced"), tmp_path)
    assert gone.startswith("Not reproduced: lost-write did not happen again.")

"""A run without an injected fault, though some were planned, is never a pass, and says so."""

import html
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Verdict
from highwater.reports.pages.run import page
from highwater.reports.run_evidence import gather
from highwater.reports.sections.assumptions import assumptions
from tests.support.run_builder import RunBuilder

pytestmark = pytest.mark.spark

M012 = [(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2")]
CALM = Plan(kafka="4.3.1")
ASKED = {
    "nemesis": msgspec.structs.replace(CALM, nemesis=("kill",), duration_s=8),
    "steps": msgspec.structs.replace(CALM, steps=(FaultStep(fault="kill", at_s=1),)),
    "story": msgspec.structs.replace(CALM, story="loss"),
    "schedule": msgspec.structs.replace(CALM, schedule={"name": "moves"}),
}


def kept(path: Path, plan: Plan, change: Callable[[RunBuilder], None] = lambda _: None) -> Run:
    """Every record is there, on every replica, unless something is changed."""
    run = RunBuilder(path, kafka="4.3.1")
    run.plan = plan
    run.leader(1, 0, [1, 2, 3])
    run.everywhere(M012)
    change(run)
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    return run.write()


def _note(run: RunBuilder) -> None:
    run.fault("step", None, "every replica holds m0, m1, m2", phase="note")


def _moved(run: RunBuilder) -> None:
    for number in (1, 2):
        says = f"step {number} of 2: leadership is moved"
        run.fault("step", number, says, phase="note")


def _killed(run: RunBuilder) -> None:
    run.fault("kill", 1, "broker 1 is killed")
    run.tick(3000)
    run.fault("kill", 1, "broker 1 is healed", phase="heal")


def _forked(run: RunBuilder) -> None:
    run.disks[3, 0][-1:] = []
    run.disk([3], [(2, 0, "other")])


def _cut(run: RunBuilder) -> None:
    run.status = msgspec.structs.replace(run.status, phase="running")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("struck")
    made = {name: kept(folder / name, plan, _note) for name, plan in ASKED.items()}
    made["calm"] = kept(folder / "calm", CALM)
    made["struck"] = kept(folder / "struck", ASKED["nemesis"], _killed)
    program = ProgramPlan(command=("service",), out="payments")
    mixed = ("kill@leader", "app-kill=2")
    hit = msgspec.structs.replace(ASKED["nemesis"], program=program, nemesis=mixed)
    made["program"] = kept(folder / "program", hit, _killed)
    made["moved"] = kept(folder / "moved", ASKED["schedule"], _moved)
    made["forked"] = kept(folder / "forked", ASKED["nemesis"], _forked)
    made["cut"] = kept(folder / "cut", ASKED["nemesis"], _cut)
    made["unrecorded"] = kept(folder / "unrecorded", ASKED["nemesis"])
    made["unrecorded"].parquet("events/faults").unlink()
    return made


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, runs: dict[str, Run]) -> dict[str, Verdict]:
    return dict(zip(runs, judge(list(runs.values()), spark), strict=True))


@pytest.mark.parametrize("asked", ASKED)
def test_it_is_unknown_and_says_so_everywhere(
    asked: str, runs: dict[str, Run], verdicts: dict[str, Verdict]
) -> None:
    verdict = verdicts[asked]
    assert verdict.verdict == "unknown"
    assert verdict.headline == (
        "Kafka 4.3.1 kept all 3 acknowledged records, and no fault was injected"
        " (acks=all, clean elections)"
    )
    assert [reason for reason in verdict.reasons if reason.startswith("No fault was injected")]
    assert verdict.happened.startswith("nothing (no fault was injected; planned: ")
    printed = json.loads(json.dumps(verdict.summary(None)))
    assert printed["verdict"] == "unknown"
    assert printed["happened"] == verdict.happened
    assert any("No fault was injected" in reason for reason in printed["reasons"])
    text = page(runs[asked])
    assert "<title>unknown: Kafka 4.3.1, no fault was injected, acks=all</title>" in text
    assert "<dt>What happened</dt><dd><b>nothing</b> <span>no fault was injected; planned: " in text
    assert verdict.headline in text
    assert html.escape(verdict.reasons[0]).replace("&#x27;", "&#39;") in text


def test_what_the_verdict_rests_on_did_not_hold(
    runs: dict[str, Run], verdicts: dict[str, Verdict]
) -> None:
    words = {}
    for name in ("nemesis", "calm", "moved"):
        run = runs[name]
        found = assumptions(run, run.plan(), None, verdicts[name], gather(run), [])
        words[name] = found[0].word
    assert words == {"nemesis": "not held", "calm": "held", "moved": "held"}


def test_a_calm_run_is_valid_and_called_calm(
    runs: dict[str, Run], verdicts: dict[str, Verdict]
) -> None:
    verdict = verdicts["calm"]
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert "kept all 3 acknowledged records in a run without faults (" in verdict.headline
    assert verdict.happened == "nothing (a calm run)"
    text = page(runs["calm"])
    assert "<dt>What happened</dt><dd><b>nothing</b> <span>a calm run</span>" in text
    assert "Kafka 4.3.1, calm, acks=all</title>" in text


def test_one_fault_is_enough_and_what_it_was_is_told(
    runs: dict[str, Run], verdicts: dict[str, Verdict]
) -> None:
    verdict = verdicts["struck"]
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert verdict.happened == "kill once, over 3.0 s (planned: kill at random for 8 s)"
    assert "<b>kill once, over 3.0 s</b>" in page(runs["struck"])


def test_a_fault_that_was_to_hit_a_program_and_did_not_is_named(
    verdicts: dict[str, Verdict],
) -> None:
    says = "The program was not tested against app-kill: no such fault was injected."
    assert [name for name, of in verdicts.items() if says in of.reasons] == ["program"]


def test_leadership_moved_by_plan_counts_as_done(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["moved"].verdict == "valid"
    assert "2 steps taken" in verdicts["moved"].happened


def test_a_broken_promise_stays_one_and_the_rest_is_said_too(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["forked"]
    assert verdict.verdict == "invalid"
    assert "and no fault was injected" in verdict.headline
    assert any(reason.startswith("No fault was injected") for reason in verdict.reasons)


@pytest.mark.parametrize("name", ["cut", "unrecorded"])
def test_nothing_is_claimed_of_a_run_that_did_not_end_or_has_no_table(
    name: str, verdicts: dict[str, Verdict]
) -> None:
    verdict = verdicts[name]
    assert verdict.verdict == "unknown"
    assert "no fault was injected" not in verdict.headline
    assert not any("No fault was injected" in reason for reason in verdict.reasons)

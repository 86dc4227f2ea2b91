"""Predicted against observed, step by step; and a counterexample in the drawing of the stories."""

from pathlib import Path

import msgspec
import pytest

from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.harness.runs.missed_step import MissedStep, StateDifference
from highwater.harness.runs.store import Run, RunStatus
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.model_frames import model_frames, subject
from highwater.reports.pages.counterexample import write as write_counterexample
from highwater.reports.pages.run import write
from highwater.reports.run_evidence import gather
from highwater.reports.sections.replay_steps import ReplayStep, cast, foreseen
from tests.browser.lineage import forked, lost
from tests.browser.sample import Sample
from tests.browser.samples import SAMPLES
from tests.support.html_pages import words
from tests.support.schedules import LOSS

MISSED = 6
OLD_PROBLEM = (
    f"step {MISSED} of {len(LOSS.steps)}: C follows B: waited 3 s for what must follow; last seen:"
    " {'LEO of 2': '2 instead of 1', 'leader': '0 instead of 1', 'ISR': '[0, 2] instead of [1, 2]'}"
)
"""As a run up to 0.2 has it, without the step in its status."""
PROBLEM = f"step {MISSED} of {len(LOSS.steps)}: C follows B: waited 3 s for what must follow"
STEP = MissedStep(
    number=MISSED,
    differences=(
        StateDifference("LEO", 2, 2, 1),
        StateDifference("leader", None, 0, 1),
        StateDifference("ISR", None, (0, 2), (1, 2)),
    ),
)


def replayed(
    steps: int, problem: str = "", schedule: Schedule = LOSS, missed: MissedStep | None = None
) -> Sample:
    """The loss sample as a replay of a schedule, of which so many steps were seen as predicted."""
    sample = SAMPLES["loss"]()
    sample.plan = msgspec.structs.replace(sample.plan, story=None, schedule=schedule.plain())
    total = len(schedule.steps)
    sample.faults += [
        (5.0 + n / 10, "step", "note", None, f"step {n} of {total}: {step.says}")
        for n, step in enumerate(schedule.steps[:steps], start=1)
    ]
    problems = (problem,) if problem else ()
    sample.status = RunStatus(phase="frozen", quiesced=True, problems=problems, missed=missed)
    return sample


def told(run: Run) -> tuple[ReplayStep, ...]:
    return foreseen(run.plan(), run.status(), gather(run))


def test_every_step_that_was_noted_was_as_foretold(tmp_path: Path) -> None:
    run = replayed(len(LOSS.steps)).write(tmp_path)
    found = told(run)
    assert [one.word for one in found] == ["as predicted"] * len(LOSS.steps)
    assert found[0].time_ns == 5_100_000_000
    assert found[1].predicted == (
        "A leads", "ISR A B C", "LEO A 2, B 2, C 2", "HW A 2, B 1, C 1", "acknowledged m1 m2",
    )  # fmt: skip
    shown = words(write(run))
    assert f"showed all that was predicted, after each of {len(LOSS.steps)} steps" in shown
    assert "A is broker 1, B is broker 2, C is broker 3." in shown
    assert "first difference" not in shown


@pytest.mark.parametrize(("problem", "missed"), [(OLD_PROBLEM, None), (PROBLEM, STEP)])
def test_the_first_disagreement_is_marked_and_told_in_names(
    tmp_path: Path, problem: str, missed: MissedStep | None
) -> None:
    run = replayed(MISSED - 1, problem, missed=missed).write(tmp_path)
    found = told(run)
    assert [one.word for one in found[MISSED - 2 :]] == [
        "as predicted", "otherwise", *["not taken"] * (len(LOSS.steps) - MISSED),
    ]  # fmt: skip
    assert found[MISSED - 1].seen == (
        "LEO of C 2 instead of 1; leader A instead of B; ISR [A, C] instead of [B, C]"
    )
    page = write(run)
    assert f"Model and brokers first differ at step {MISSED}." in words(page)
    assert page.read_text("utf-8").count("first difference") == 1


@pytest.mark.parametrize("schedule", [None, {"format": 99}, {"steps": "none"}])
def test_a_run_without_a_schedule_of_ours_foretells_nothing(
    schedule: dict[str, object] | None, tmp_path: Path
) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    changed = msgspec.structs.replace(run.plan(), story=None, schedule=schedule)
    assert foreseen(changed, None, gather(run)) == ()
    assert cast(changed, gather(run)) == ""


def test_a_problem_without_differences_is_told_as_it_is(tmp_path: Path) -> None:
    problem = f"step 1 of {len(LOSS.steps)}: m1 is sent: no broker leads"
    assert told(replayed(0, problem).write(tmp_path))[0].seen == "m1 is sent: no broker leads"


@pytest.mark.parametrize("found", [lost(), forked()], ids=["lost", "forked"])
def test_a_counterexample_is_drawn_as_a_story_is(found: Counterexample) -> None:
    drawn = [step.frame for step in model_frames(found)]
    steps = found.steps
    assert [frame.title for frame in drawn] == [step.says for step in steps]
    for frame, step in zip(drawn, steps, strict=True):
        for lane, replica in zip(frame.lanes, step.after.replicas, strict=True):
            held = [cell.value for cell in lane.cells if cell.state not in {"none", "gone"}]
            assert held == [entry.record for entry in replica.log]
            epochs = [cell.epoch for cell in lane.cells if cell.state not in {"none", "gone"}]
            assert epochs == [entry.epoch for entry in replica.log]
            assert (lane.leo, lane.hw) == (replica.leo, replica.hw)
            assert lane.in_isr == (lane.broker in step.after.isr)
        assert "A (" in frame_strip.frame(frame, subject(found), "m1")
    assert any(lane.cut for frame in drawn for lane in frame.lanes)
    assert "subject" in {cell.state for cell in drawn[-2].lanes[1].cells}


def test_what_brokers_did_stands_at_the_steps_of_its_own_counterexample(tmp_path: Path) -> None:
    found = lost()
    runs = [
        replayed(1, schedule=msgspec.structs.replace(LOSS, name=name)).write(tmp_path / f"{number}")
        for number, name in enumerate([*["another"] * 4, found.name])
    ]
    for replays, shown in ((runs[:4], 0), (runs, 1)):  # four of its own are shown at most
        html = write_counterexample(found, tmp_path / "page.html", replays).read_text("utf-8")
        assert html.count("Kafka 0.10.2.2: as predicted") == shown

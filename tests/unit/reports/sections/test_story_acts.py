"""A story's course as the model has it beside what was observed: acts, times, differences."""

import re
from pathlib import Path

import msgspec
import pytest

from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.schedules.script import ScriptError, ScriptSettings
from highwater.checkers.model.schedules.script_trace import course, recast
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan
from highwater.nemesis.stories.registry import STORIES, find_story
from highwater.reports.drawings.replica_frames import places
from highwater.reports.pages.run import write
from highwater.reports.replica_contents import read_holdings
from highwater.reports.run_evidence import gather
from highwater.reports.sections.story_acts import StoryAct, acts, subject
from tests.browser.sample import TOPIC, Sample
from tests.browser.samples import SAMPLES

BROKERS = ("1", "2", "3")


def with_course(name: str, kafka: str, **changed: object) -> Sample:
    """A sample of a story with the course that a release's rules give it."""
    sample = SAMPLES[name]()
    assert sample.model is not None
    plan = find_story(sample.plan.story or "").plan(kafka)
    beats = find_story(sample.plan.story or "").rehearse(release(kafka), plan)
    sample.model = msgspec.structs.replace(sample.model, course=recast(beats, BROKERS), **changed)
    return sample


def found(sample: Sample, store: Path) -> list[StoryAct]:
    run = sample.write(store)
    said = sample.model
    about = subject(said, TOPIC)
    assert said is not None
    assert about is not None
    sent = {record for beat in said.course for log in beat.logs.values() for record in log}
    evidence = gather(run, values=sent, places=places([about]))
    return acts(said.course, about, evidence, read_holdings(run, (TOPIC, 0), []))


@pytest.mark.parametrize("name", [name for name in STORIES if STORIES[name].script])
def test_every_story_has_a_course_on_every_kind_of_release(name: str) -> None:
    story = find_story(name)
    for kafka in ("0.10.2.2", "4.3.1"):
        plan = story.plan(kafka)
        try:
            outcome = story.modelled(release(kafka), plan)
        except ScriptError as error:  # a step that these rules do not have
            with pytest.raises(ScriptError, match=re.escape(error.message)):
                story.rehearse(release(kafka), plan)
            continue
        beats = story.rehearse(release(kafka), plan)
        assert beats[-1].line == story.script.strip().splitlines()[-1].strip()
        assert beats[-1].logs == outcome.logs


def test_a_course_has_everybody_after_each_line() -> None:
    script = "settle m0\n send m1 to A\n fetch B\n kill A"
    beats = course(script, ScriptSettings(rules=rules_of("4.3.1")))
    assert [beat.line for beat in beats] == ["settle m0", "send m1 to A", "fetch B", "kill A"]
    assert [len(beats[2].logs[name]) for name in "ABC"] == [2, 2, 1]
    assert (beats[0].leader, beats[0].isr, beats[3].down) == ("A", ("A", "B", "C"), ("A",))
    cast = recast(beats, ("7", "8", "9"))
    assert (cast[3].down, cast[0].leader, cast[2].logs["8"]) == (("7",), "7", ("m0", "m1"))


def test_the_loss_goes_as_the_model_has_it_act_by_act(tmp_path: Path) -> None:
    told = found(with_course("loss", "0.10.2.2"), tmp_path)
    assert [one.word for one in told if one.word != "not observed"] == ["as predicted"] * (
        len(told) - sum(one.word == "not observed" for one in told)
    )
    assert sum(one.word == "as predicted" for one in told) >= 4
    assert [one.title for one in told][2:4] == [
        "broker 1 and broker 2 killed",
        "the session of broker 1 ends, and broker 2 must lead; time for broker 3 to act",
    ]
    assert any("LEO 4 → 3" in one.model and "LEO 4 → 3" in (one.brokers or "") for one in told)


def test_rules_of_another_release_part_from_the_brokers_where_the_log_is_cut(
    tmp_path: Path,
) -> None:
    sample = with_course("loss", "4.3.1", status="unexplained")
    told = found(sample, tmp_path)
    first = next(one for one in told if one.word == "otherwise")
    assert first.differs == ("broker 3 holds nothing instead of m3",)
    assert "session of broker 1 ends" in first.title
    html = write(next(iter([sample.write(tmp_path / "page")]))).read_text("utf-8")
    assert f"Model and brokers first differ at step {first.number}." in html
    assert html.count("first difference") == 1


def test_what_was_not_observed_is_not_claimed(tmp_path: Path) -> None:
    sample = with_course("loss", "0.10.2.2")
    sample.faults = []
    told = found(sample, tmp_path)
    struck = next(one for one in told if "killed" in one.title)
    assert (struck.word, struck.brokers) == ("not observed", None)


def test_nobody_knows_who_played_whom(tmp_path: Path) -> None:
    sample = with_course("loss", "0.10.2.2")
    said = sample.model
    assert said is not None

    beats = find_story("loss").rehearse(release("0.10.2.2"), Plan(kafka="0.10.2.2"))
    sample.model = msgspec.structs.replace(said, course=beats)
    assert found(sample, tmp_path) == []


def test_a_run_without_a_course_has_no_subject() -> None:
    said = SAMPLES["loss"]().model
    assert said is not None
    assert subject(msgspec.structs.replace(said, course=()), TOPIC) is None
    assert subject(None, TOPIC) is None

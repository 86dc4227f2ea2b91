"""A script is played by the rules of a release; what it cannot do, it says."""

import pytest

from highwater.checkers.model.protocol.rules_by_release import RELEASES, rules_of
from highwater.checkers.model.schedules.script import ScriptError, ScriptSettings, play
from highwater.harness.releases.catalogue import release
from highwater.nemesis.stories.registry import STORIES, Story

OLD = ScriptSettings(rules=rules_of("0.10.2.2"))
NEW = ScriptSettings(rules=rules_of("4.3.1"))
SCRIPTED = {name: story for name, story in STORIES.items() if story.script}


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("story", SCRIPTED.values(), ids=SCRIPTED)
def test_every_story_ends_at_rest_on_every_release(kafka: str, story: Story) -> None:
    if story.why_not(release(kafka)):
        with pytest.raises(ScriptError, match="cannot take this step"):
            play(story.script, ScriptSettings(rules=rules_of(kafka)))
        return
    found = play(story.script, ScriptSettings(rules=rules_of(kafka)))
    lengths = {len(log) for log in found.logs.values()}
    assert len(lengths) == 1
    assert bool(found.forked) == (len(set(found.logs.values())) > 1)


def test_a_fork_is_there_record_by_record() -> None:
    found = play(STORIES["divergence"].script, OLD)
    assert found.logs == {
        "A": ("m0", "m1", "m2", "m3"),
        "B": ("m0", "m1", "m2", "m4"),
        "C": ("m0", "m1", "m2", "m4"),
    }
    assert (found.lost, found.forked) == (("m3",), (3,))


def test_a_retry_is_sent_only_where_no_answer_came() -> None:
    script = "settle m0\n send m1 to A\n let B C\n retry m1 to A\n heal"
    assert play(script, NEW).logs["A"] == ("m0", "m1")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sing m0", "the model knows no command or broker 'sing'"),
        ("kill D", "the model knows no command or broker 'D'"),
        ("send m0 to B", "the model cannot take this step in its present state"),
        ("start A", "the model cannot take this step in its present state"),
        ("settle a b c d e f g", "records"),
    ],
)
def test_what_the_model_cannot_do_it_says(line: str, says: str) -> None:
    with pytest.raises(Exception, match=says) as caught:
        play(line, NEW)
    assert caught.type.__name__ in {"ScriptError", "UsageError"}


def test_decisions_without_end_are_refused() -> None:
    last = "kill B C\nexpire B\nexpire C\nlet A"
    again = "kill A\nexpire A\nstart A\nlet A"
    with pytest.raises(ScriptError, match=r"more decisions than"):
        play("\n".join(["settle m0", last, *[again] * 6]), NEW)

"""docs/hazards.md: its counts come from what was recorded, and each hazard is there once."""

import re

import pytest

from highwater.checkers.hazards.catalogue import HAZARDS, find_hazard
from tools.hazards_page import hazards
from tools.model_tables import MeasuredReplay
from tools.story_runs import StoryRuns


def line(page: str, hazard: str, head: str) -> str:
    section = page.partition(f"### {hazard}\n")[2].partition("\n#")[0]
    found = re.search(rf"^- \*\*{head}\*\*: (.*)$", section, re.MULTILINE)
    return found[1] if found else ""


def runs(story: str, kafka: str, broken: int, **others: object) -> StoryRuns:
    facts = {"acks": "all", "min_isr": 1, "unclean": False, "day": "2026-11-29", **others}
    return StoryRuns(story=story, kafka=kafka, runs=9, as_predicted=9, broken=broken, **facts)  # type: ignore[arg-type]


def test_each_hazard_has_a_section_or_a_row() -> None:
    page = hazards()
    for hazard in HAZARDS:
        sections = re.findall(rf"^### {hazard.id}$", page, re.MULTILINE)
        rows = re.findall(rf"^\| {hazard.id} \|", page, re.MULTILINE)
        assert len(sections) + len(rows) == 1, hazard.id
        assert bool(rows) == (hazard.end <= (3, 0)), hazard.id


def test_a_hazard_was_reproduced_last_on_the_newest_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = (
        runs("late-answer", "3.9.0", 9),
        runs("late-answer", "4.0.0", 8),
        runs("late-answer", "4.0.1", 0),
        runs("late-answer", "3.9.0", 0, client="java"),
        runs("late-produce", "4.4.0", 9, client="aiokafka"),
        runs("power-failure", "4.1.2", 9),
        runs("power-failure", "3.9.2", 9, min_isr=2),
        runs("replaced-disk", "3.4.1", 9),
    )
    monkeypatch.setattr("tools.story_runs.read", lambda: recorded)
    page = hazards()
    assert line(page, "KAFKA-18991", "Reproduced") == (
        "8/9 on 4.0.0, 2026-11-29; never on 3.9.0 (java), 4.0.1:"
        " `highwater run --kafka 3.9.0 --story late-answer`"
    )
    assert line(page, "partial-commit", "Reproduced").startswith("9/9 on 4.4.0 (aiokafka), ")
    assert line(page, "last-replica", "Reproduced").startswith("9/9 on 4.1.2, 2026-11-29: ")
    assert line(page, "no-elr-before-4.0", "Reproduced").startswith("9/9 on 3.9.2, ")
    assert not line(page, "upgrade-without-elr", "Reproduced")
    assert line(page, "KAFKA-14139", "Reproduced")
    assert not line(page, "KAFKA-15221", "Reproduced")


def test_replays_count_where_no_story_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = MeasuredReplay(
        counterexample=find_hazard("elected-again").counterexample,
        kafka="4.4.0",
        runs=7,
        reproduced=7,
        day="2026-11-25",
    )

    class Recorded:
        replays = (replay,)

    monkeypatch.setattr("tools.story_runs.read", lambda: ())
    monkeypatch.setattr("tools.model_tables.read", Recorded)
    page = hazards()
    assert line(page, "elected-again", "Reproduced").startswith("7/7 on 4.4.0, 2026-11-25: ")
    assert not line(page, "late-produce", "Reproduced")
    assert line(page, "late-produce", "Command").endswith("--story late-produce`")

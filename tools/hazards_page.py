"""docs/hazards.md: the catalogue of hazards, with what was measured about each of them.

Replays of counterexamples are in docs/model-results.json, runs of stories in
docs/story-results.json.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.checkers.hazards.evaluate import default_command
from highwater.checkers.hazards.hazard import EVIDENCE, Hazard
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import HazardEnding
from tools import story_runs
from tools.model_tables import RESULTS, MeasuredReplay, Results, table

_INTRO: Final = """\
Every way in which this project has seen Kafka lose, fork or wrongly keep acknowledged records: in
which releases, under which conditions, what makes it safe, and the command that shows it on your
machine. `highwater hazards` lists them, `highwater hazards show ID` prints one, and
[`highwater advise`](advise.md) holds a running cluster against all of them.
[findings.md](findings.md) explains the mechanisms.

- A hazard applies if **all** its conditions hold. Settings are those of a topic, in force.
- The releases and the conditions are data in `checkers/hazards/catalogue.py`. A test compares them
  with the model: with the rules of every release of the catalogue, and with the outcome of the
  stories for each of them under acks, min.insync.replicas and unclean elections.
- *Replayed* is measured (`docs/model-results.json`): runs on real brokers in which the
  counterexample came true, of all runs. *Played* is measured as well (`docs/story-results.json`):
  runs of the story, in how many of them a promise was broken, in how many all was as the catalogue
  or the model says, and the day of the last run. Where they are missing, nothing was counted.
"""


def hazards() -> str:
    """docs/hazards.md."""
    results = msgspec.json.decode(RESULTS.read_bytes(), type=Results)
    rows = [
        (f"[{hazard.id}](#{_anchor(hazard)})", hazard.title, hazard.affected) for hazard in HAZARDS
    ]
    return "\n".join(
        [
            "# Hazards\n",
            "<!-- Written by `make docs` from the code. -->\n",
            _INTRO,
            table(("id", "what happens", "releases"), rows),
            *(_section(hazard, results.replays) for hazard in HAZARDS),
        ]
    )


def _anchor(hazard: Hazard) -> str:
    return hazard.id.lower().replace(".", "")


def _section(hazard: Hazard, replays: Sequence[MeasuredReplay]) -> str:
    conditions = "; ".join(hazard.other_conditions) or "none"
    measured = [replay for replay in replays if replay.counterexample == hazard.counterexample]
    rows = [
        ("loses", hazard.loses),
        ("releases", hazard.affected),
        ("other conditions", conditions),
        ("how", hazard.schedule),
        ("cure", hazard.cure),
        ("what the cure costs", hazard.cost),
        *([("Kafka's source", hazard.source)] if hazard.source else []),
        *([("also called", ", ".join(hazard.aliases))] if hazard.aliases else []),
        *([("replayed", _counted(measured))] if measured else []),
        *_played(hazard),
    ]
    evidence = f"Shown by {EVIDENCE[hazard.evidence]}:\n\n    {default_command(hazard)}\n"
    return f"## {hazard.id}\n\n{hazard.title}\n\n{table(('', ''), rows)}\n{evidence}"


def _played(hazard: Hazard) -> list[tuple[str, str]]:
    """Return a row for each story of a hazard that was played."""
    words = default_command(hazard).split()
    by_command = {words[words.index("--story") + 1]} if hazard.evidence == "story" else set()
    stories = [story.name for story in STORIES.values() if _is_of(story.harm, hazard)]
    rows = []
    for name in dict.fromkeys([*stories, *sorted(by_command)]):
        runs = sorted(
            (runs for runs in story_runs.read() if runs.story == name),
            key=lambda runs: (release(runs.kafka).number, runs.kafka, runs.setting),
        )
        if runs and (name in stories or not stories):
            rows.append((f"played: `{name}`", "; ".join(map(_sentence, runs))))
    return rows


def _is_of(harm: HazardEnding | None, hazard: Hazard) -> bool:
    return harm is not None and harm.hazard == hazard.id


def _sentence(runs: story_runs.StoryRuns) -> str:
    min_isr = f", min.insync.replicas={runs.min_isr}" if runs.min_isr > 1 else ""
    client = "" if runs.client == LIBRDKAFKA else f" with {runs.client}"
    counts = f"broken {runs.broken} of {runs.runs}, as predicted {runs.as_predicted}"
    return f"{runs.kafka}{min_isr}{client}: {counts} ({runs.day})"


def _counted(replays: Sequence[MeasuredReplay]) -> str:
    return ", ".join(f"{replay.where}: {replay.reproduced} of {replay.runs}" for replay in replays)

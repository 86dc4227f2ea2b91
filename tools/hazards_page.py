"""docs/hazards.md: the catalogue of hazards, with the runs of their stories."""

from collections.abc import Iterator, Sequence
from typing import Final

from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.checkers.hazards.evaluate import default_command
from highwater.checkers.hazards.hazard import Evidence, Hazard
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import HazardEnding
from tools import story_runs

_LOSES: Final = "An acknowledged record; only a reader that knows what was sent notices."
_COST: Final = "An upgrade."
_HEADS: Final[dict[Evidence, str]] = {"source": "Not played itself; nearest to it"}

_FINDINGS: Final = {
    "elected-again": "elected-again",
    "missed-decisions": "missed-decisions",
    "old-format": "old-message-format",
    "KAFKA-18991": "late-answer",
    "last-replica": "power-failure",
    "power-of-all": "power-failure",
    "upgrade-without-elr": "upgrade-without-elr",
    "one-controller": "one-controller",
    "KAFKA-14139": "replaced-disk",
    "KAFKA-20732": "tiered-new-leader",
    "KAFKA-17754": "torn-transaction",
    "KAFKA-19446": "late-marker",
    "KAFKA-14402": "hanging-transaction",
    "late-produce": "reused-sequence",
    "reused-sequence": "reused-sequence",
    "KAFKA-19012": "wrong-topic",
    "KAFKA-20539": "added-partition",
    "KAFKA-20742": "added-partition",
}
"""Hazards whose course is on a page in docs/findings/."""

_UNCLEAN_ON_KRAFT: Final = " (on KRaft before 3.9 it is always false)"

_INTRO: Final = """\
Every way in which this project has seen Kafka lose, fork or wrongly keep acknowledged records: the
releases, the conditions, the fix, and the command that shows it on your machine. `highwater
hazards` lists them, `highwater hazards show ID` prints one with the classes of Kafka's source, and
[`highwater advise`](advise.md) holds a running cluster against all of them.

- A hazard applies if **all** its conditions hold. Settings are those of a topic, in force; on KRaft
  before 3.9 `unclean.leader.election.enable` is always false.
- Unless *loses* says otherwise, an acknowledged record is lost, and only a reader that knows what
  was sent notices. Unless *costs* says otherwise, a fix costs an upgrade.
- *Played* counts runs on real brokers in which a story's promise was broken
  (`docs/story-results.json`): all as predicted, unless it says otherwise. Replays of
  counterexamples are in [model-results.md](model-results.md#on-real-brokers).
"""


def hazards() -> str:
    """docs/hazards.md."""
    return "\n".join(
        [
            "# Hazards\n",
            "<!-- Written by `make docs` from the code. -->\n",
            _INTRO,
            *_sections(),
        ]
    )


def _sections() -> Iterator[str]:
    """Yield a section for each hazard; what two topics of Kafka's have in common only once."""
    known_lines: dict[str, str] = {}
    for hazard in HAZARDS:
        texts: dict[str, list[str]] = {}
        for name, text in _lines(hazard):
            line = _after(known_lines, hazard, text) if hazard.topic else text
            texts.setdefault(line, []).append(name)
        heads = {text: ", ".join(names).capitalize() for text, names in texts.items()}
        says = "\n".join(f"- **{heads[text]}**: {text}" for text in texts)
        yield f"\n## {hazard.id}\n\n{hazard.title}\n\n{says}"


def _after(known_lines: dict[str, str], hazard: Hazard, text: str) -> str:
    """Return a line of a topic of Kafka's; what another topic's has already only by a link."""
    general = text.replace(hazard.topic, "its topic")
    for line, first in known_lines.items():
        if first != hazard.id and general.startswith(line):
            more = general.removeprefix(line)
            return f"as [{first}](#{first}), of `{hazard.topic}`{more and f'.{more}'}"
    known_lines.setdefault(general, hazard.id)
    return text


def _lines(hazard: Hazard) -> list[tuple[str, str]]:
    """Return what is known about a hazard, each by its name."""
    page = _FINDINGS.get(hazard.id, "")
    releases = hazard.affected  # they alone differ between Kafka's own topics
    where = "; ".join(
        hazard.other_conditions if hazard.topic else (releases, *hazard.other_conditions)
    )
    shown_names = {page, *(story.name for story in STORIES.values())}
    lines = [
        ("Releases", releases if hazard.topic else ""),
        ("Where", where.replace(_UNCLEAN_ON_KRAFT, "")),
        ("How", f"[{page}](findings/{page}.md)" if page else hazard.schedule),
        ("Loses", "" if page or hazard.loses == _LOSES else hazard.loses),
        ("Fix", hazard.cure),
        ("Costs", "" if hazard.cost == _COST else hazard.cost),
        ("Also called", ", ".join(name for name in hazard.aliases if name not in shown_names)),
        *_played(hazard),
        (_HEADS.get(hazard.evidence, "Run"), f"`{default_command(hazard)}`"),
    ]
    return [(name, text) for name, text in lines if text]


def _played(hazard: Hazard) -> list[tuple[str, str]]:
    """Return a line for each story of a hazard that was played."""
    words = default_command(hazard).split()
    by_command = {words[words.index("--story") + 1]} if hazard.evidence == "story" else set()
    stories = [story.name for story in STORIES.values() if _is_of(story.harm, hazard)]
    lines = []
    for name in dict.fromkeys([*stories, *sorted(by_command)]):
        runs = sorted(
            (runs for runs in story_runs.read() if runs.story == name),
            key=lambda runs: (release(runs.kafka).number, runs.kafka, runs.setting),
        )
        if runs and (name in stories or not stories):
            lines.append((f"Played, `{name}`", _broken(runs)))
    return lines


def _is_of(harm: HazardEnding | None, hazard: Hazard) -> bool:
    return harm is not None and harm.hazard == hazard.id


def _broken(runs: Sequence[story_runs.StoryRuns]) -> str:
    """Return in how many runs a story's promise was broken, and where all was not as predicted."""
    releases: dict[tuple[int, int, str], list[str]] = {}
    for count in runs:
        key = (count.broken, count.runs, _setting(count))
        releases.setdefault(key, []).append(count.kafka)
    broken = "; ".join(
        f"{hits} of {tries}{setting} on {', '.join(names)}"
        for (hits, tries, setting), names in releases.items()
    )
    others = [count for count in runs if count.as_predicted < count.runs]
    apart = "".join(
        f"; {count.kafka}{_setting(count)}: {count.as_predicted} of {count.runs} as predicted"
        for count in others
    )
    return f"{broken}{apart}"


def _setting(runs: story_runs.StoryRuns) -> str:
    min_isr = f" with min.insync.replicas={runs.min_isr}" if runs.min_isr > 1 else ""
    client = "" if runs.client == LIBRDKAFKA else f" with {runs.client}"
    return f"{min_isr}{client}"

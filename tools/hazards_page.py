"""docs/hazards.md: the catalogue of hazards, with their reproductions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from highwater.checkers.hazards.catalogue import HAZARDS, NOT_SHOWN
from highwater.checkers.hazards.conditions import END, NEWEST
from highwater.checkers.hazards.evaluate import default_command
from highwater.checkers.hazards.hazard import Evidence, Hazard
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.releases.cluster_facts import dotted
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import Prediction
from tools import model_tables, story_runs

_LOSES: Final = "An acknowledged record. Only a reader that knows the sent records notices."
_KAFKAS: Final = re.compile(r"KAFKA-|KIP-")
_NEAREST: Final[tuple[Evidence, ...]] = ("hand", "source")
"""The kinds of evidence that no command repeats: the hazard's command runs another schedule."""
_OLD: Final = (3, 0)
"""Hazards that were fixed before this release are only in a table."""

_SHORTER: Final = (
    (" (on KRaft before 3.9 it is always false)", ""),
    ("; replicas >= 2", ""),
    ("from ", "since "),
    (f" to {dotted(NEWEST)}", ""),
    ("power = shared or separate", "power≠safe"),
    (" >= ", "≥"),
    (" ≥ ", "≥"),
    (" = ", "="),
    (" < ", "<"),
)
"""Texts of conditions, with their shorter form on the page."""

_INTRO: Final = """\
A hazard is a way in which Kafka loses or forks acknowledged records, or keeps records wrongly. In
brackets: the finder and the year; a year alone is that of Kafka's issue. `highwater hazards show
ID` prints more. [`highwater advise`](advise.md) checks a cluster, and
[`highwater hazards --to`](upgrade.md) an upgrade.

- **Conditions**: all of them must hold, with at least two replicas. A range ends before its second
  release. On KRaft before 3.9 `unclean.leader.election.enable` is always false.
- **Loses**: without this line, an acknowledged record is lost, and no client notices.
- **Reproduced**: runs with the loss, and all runs, on the newest release that had it; after *never
  on* the releases without it. `docs/story-results.json` and the
  [replays](model-results.md#on-real-brokers) have all runs.
- **Command**: a command whose runs were not counted. Without a command, `show` has a similar one.
"""


_REPLAYED: Final = (
    "[Replays](model-results.md#on-real-brokers) reproduced all of these,"
    " except downgraded-format.\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """The runs of a story, or of a counterexample, on one release with one client.

    Attributes:
        hits: number of runs with a loss.
    """

    kafka: str
    client: str
    day: str
    runs: int
    hits: int

    @property
    def where(self) -> str:
        """The release, and the client if it is not librdkafka."""
        return self.kafka if self.client == LIBRDKAFKA else f"{self.kafka} ({self.client})"


def hazards() -> str:
    """Return the text of docs/hazards.md."""
    today = [hazard for hazard in HAZARDS if hazard.end == END]
    ended = [hazard for hazard in HAZARDS if _OLD < hazard.end < END]
    old = [hazard for hazard in HAZARDS if hazard.end <= _OLD]
    return "\n".join(
        [
            "# Hazards\n",
            "<!-- Written by `make docs` from the code. -->\n",
            _INTRO,
            f"\n## In {dotted(NEWEST)}",
            *_sections(today),
            "\n## Ended since 3.0",
            *_sections(ended),
            "\n## Ended before 3.0\n",
            _REPLAYED,
            _table(old),
            "\n## Studied and not shown\n",
            "| | what prevents it |",
            "|---|---|",
            *(f"| {issue} | {why} |" for issue, why in NOT_SHOWN.items()),
            "",
        ]
    )


def _table(old: Iterable[Hazard]) -> str:
    lines = ["| | what happens | introduced | fixed |", "|---" * 4 + "|"]
    for hazard in old:
        first, fixed = ", ".join(hazard.introduced), ", ".join(hazard.fixed)
        cells = [hazard.id, _titled(hazard), first, fixed]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _sections(listed: Iterable[Hazard]) -> Iterator[str]:
    """Yield a section for each hazard; later hazards refer to the equal lines of an earlier one."""
    known_lines: dict[str, str] = {}
    for hazard in listed:
        texts: dict[str, list[str]] = {}
        for name, text in _lines(hazard):
            line = _after(known_lines, hazard, text) if hazard.topic else text
            texts.setdefault(line, []).append(name)
        heads = {text: ", ".join(names).capitalize() for text, names in texts.items()}
        says = "\n".join(f"- **{heads[text]}**: {text}" for text in texts)
        yield f"\n### {hazard.id}\n\n{_titled(hazard)}\n\n{says}"


def _titled(hazard: Hazard) -> str:
    """Return the hazard's title, its discovery, links to its pages, and other names."""
    first, *others = hazard.findings or ("",)
    discovery = hazard.discovery.removeprefix("Kafka's issue, ")
    names = [
        f"[{discovery}](findings/{first}.md)" if first else discovery,
        *(f"[{other}](findings/{other}.md)" for other in others),
        *(name for name in hazard.aliases if _KAFKAS.match(name) and name != hazard.found_by),
    ]
    return f"{hazard.title} ({'; '.join(names)})"


def _after(known_lines: dict[str, str], hazard: Hazard, text: str) -> str:
    """Return a line, or a link if the hazard of another internal topic has the same line."""
    general = text.replace(hazard.topic, "its topic")
    first = known_lines.setdefault(general, hazard.id)
    return text if first == hazard.id else f"as for [{first}](#{first}), with `{hazard.topic}`"


def _lines(hazard: Hazard) -> list[tuple[str, str]]:
    """Return the facts about a hazard by name."""
    releases = hazard.affected.replace("every release", "")  # they alone differ between own topics
    others = "; ".join(hazard.other_conditions)
    where = others if hazard.topic else "; ".join(filter(None, (releases, others)))
    reproduced = _reproduced(hazard)
    command = f"`{default_command(hazard)}`"
    lines = [
        ("Releases", _short(releases) if hazard.topic else ""),
        ("Conditions", _short(where)),
        ("Loses", "" if hazard.findings or hazard.loses == _LOSES else hazard.loses),
        ("Fix", hazard.cure),
        ("Reproduced", reproduced and f"{reproduced}: {command}"),
        ("Command", "" if reproduced or hazard.evidence in _NEAREST else command),
    ]
    return [(name, text) for name, text in lines if text]


def _short(where: str) -> str:
    where = re.sub(r"(?:from )?(\S+) to before ", r"\1 to ", where)
    for long, short in _SHORTER:
        where = where.replace(long, short)
    return where


def _reproduced(hazard: Hazard) -> str:
    """Return the last reproduction: ``10/10 on 4.4.0, 2026-11-25; never on 2.8.2``; or ""."""
    played = list(_stories(hazard))
    if not any(runs.hits for runs in played):
        played = list(_replays(hazard))
    hits = [runs for runs in played if runs.hits]
    if not hits:
        return ""
    last = max(hits, key=lambda runs: (release(runs.kafka).number, runs.runs, runs.day))
    harmed = {runs.where for runs in hits}
    unharmed = dict.fromkeys(runs.where for runs in _by_release(played) if runs.where not in harmed)
    day = f", {last.day}" if last.day else ""
    never = f"; never on {', '.join(unharmed)}" if unharmed else ""
    return f"{last.hits}/{last.runs} on {last.where}{day}{never}"


def _by_release(played: Iterable[_Played]) -> Sequence[_Played]:
    return sorted(played, key=lambda runs: (release(runs.kafka).number, runs.where))


def _stories(hazard: Hazard) -> Iterator[_Played]:
    """Yield the recorded runs of a hazard's stories, or of its command."""
    names = {
        story.name
        for story in STORIES.values()
        if story.harm and story.harm.hazard == hazard.id and story.harm.ending != Prediction()
    }
    by_command = hazard.evidence == "story" and not names
    for runs in story_runs.read():
        if runs.story in names or (by_command and _is_command(runs, hazard)):
            yield _Played(
                kafka=runs.kafka,
                client=runs.client,
                day=runs.day,
                runs=runs.runs,
                hits=runs.broken,
            )


def _is_command(runs: story_runs.StoryRuns, hazard: Hazard) -> bool:
    """Return whether recorded runs have the settings of a hazard's command."""
    words = default_command(hazard).split()
    options = {
        "--story": runs.story,
        "--acks": runs.acks,
        "--min-isr": str(runs.min_isr),
        "--client": runs.client,
    }
    plain = {"--acks": "all", "--min-isr": "1", "--client": LIBRDKAFKA}
    stated = {at: value for at, value in pairwise(words) if at in options}
    return (
        not {"--protocol", "--format"} & set(words)
        and runs.unclean == ("--unclean" in words)
        and plain | stated == options
    )


def _replays(hazard: Hazard) -> Iterator[_Played]:
    """Yield the recorded replays of a hazard's counterexample."""
    for replay in model_tables.read().replays:
        if replay.counterexample == hazard.counterexample:
            yield _Played(
                kafka=replay.kafka,
                client=replay.client,
                day=replay.day,
                runs=replay.runs,
                hits=replay.reproduced,
            )

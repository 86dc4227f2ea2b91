"""The page of a finding: steps, replays on real brokers, and rules that prevent the finding."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from highwater.campaigns.model_schedules import Source, Tally, check_finding
from highwater.checkers.model.protocol.rules_by_release import SWITCHES
from highwater.checkers.model.search.breadth_first import Limits, half_of_free_memory
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import play
from highwater.checkers.model.search.result import SearchAnswer, search
from highwater.cli.model_rules import says, source
from highwater.cli.options.model import bounds, holdings, settings
from highwater.harness.base.wording import count
from highwater.reports.markdown import table
from highwater.reports.pages.counterexample import write

_SECONDS: Final = 120.0
"""The time limit of a search with one changed rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRule:
    """A rule that the release lacks, and the result of a search with this rule in the same bounds.

    Attributes:
        answer: the result; None if the same steps break the guarantee even with the rule.
    """

    rule: str
    answer: SearchAnswer[Counterexample] | None


def tried_rules(counterexample: Counterexample) -> tuple[TriedRule, ...]:
    """Return, for each rule that the release lacks, the result of a search with this rule.

    If the same steps break the guarantee even with the rule, no search is necessary.
    """
    setting, tried = counterexample.settings, list[TriedRule]()
    for rule in SWITCHES:
        # ``kraft`` is no rule of replication: it decides which rules hold.
        if getattr(setting.rules(), rule) or rule == "kraft":
            continue
        other = replace(setting, switched={**setting.switched, rule: True})
        answer = None
        if not _breaks(counterexample, other):
            limits = Limits(memory=half_of_free_memory(), seconds=_SECONDS)
            (answer,) = search(other, [counterexample.invariant], limits=limits)
        tried.append(TriedRule(rule=rule, answer=answer))
    return tuple(tried)


def _breaks(counterexample: Counterexample, setting: ModelSettings) -> bool:
    """Return whether a counterexample's steps also break the guarantee with other rules."""
    machine = setting.machine()
    moves = [step.numbers() for step in counterexample.steps]
    return play(machine, moves, counterexample.breach(machine)) is not None


def write_finding(
    file: Source, tallies: Sequence[Tally], tried: Sequence[TriedRule], folder: Path
) -> Path:
    """Write the page ``finding.md``, and a drawing of the counterexample; return the page's path.

    Raises:
        UsageError: the file is no counterexample of the replication model.
    """
    counterexample = check_finding(file)
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("counterexample.json").write_bytes(counterexample.to_json())
    write(counterexample, folder / "counterexample.svg")
    page = folder / "finding.md"
    page.write_text(text(counterexample, tallies, tried), "utf-8")
    return page


def text(
    counterexample: Counterexample, tallies: Sequence[Tally], tried: Sequence[TriedRule]
) -> str:
    """Return the page as Markdown."""
    scope = counterexample.scope
    steps = count(len(counterexample.steps), "step")
    fewest = ", the fewest possible," if counterexample.shortest else ""
    parts = [
        f"# {counterexample.invariant} on Kafka {counterexample.kafka}",
        f"{counterexample.says} A search found {steps}{fewest} that break this guarantee.",
        f"Settings: {settings(scope)}. Scope: {bounds(scope)}; a step is a {scope.by}.",
        "## Steps",
        "\n".join(
            f"{number}. {step.says}.\n   `{holdings(step.after)}`"
            for number, step in enumerate(counterexample.steps, start=1)
        ),
        "![The replicas after each step](counterexample.svg)",
        "## On real brokers",
        _replays(tallies),
        "## Rules that prevent it",
        "Each rule that the release lacks was switched on alone, and the search was repeated.",
        _rules_table(tried),
    ]
    return "\n\n".join(parts) + "\n"


def _replays(tallies: Sequence[Tally]) -> str:
    if not tallies:
        return "Not replayed."
    rows = [
        (tally.kafka, f"{tally.reproduced} of {tally.runs}", f"{tally.kept} of {tally.runs}")
        for tally in tallies
    ]
    return table(("Kafka", "lost or forked, as predicted", "kept, as predicted"), rows).rstrip()


def _rules_table(tried: Sequence[TriedRule]) -> str:
    rows = [
        (f"`{row.rule}`", _effect(row.answer), says(row.rule), source(row.rule))
        for row in sorted(tried, key=_rank)
    ]
    return table(("rule", "with it", "what it is", "source"), rows).rstrip()


def _rank(row: TriedRule) -> int:
    return 2 if row.answer is None else int(row.answer.holds is not True)


def _effect(answer: SearchAnswer[Counterexample] | None) -> str:
    if answer is None:
        return "the same steps break it"
    if answer.holds:
        return f"**holds in {count(answer.states, 'state')}**"
    if answer.counterexample is not None:
        return f"{count(len(answer.counterexample.steps), 'step')} break it"
    return f"not known after {count(answer.states, 'state')}"

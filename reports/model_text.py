"""What the reference model says of a run, for a page, a terminal and a script."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, Rules, rules_of
from highwater.checkers.model.report_types import (
    ExplanationLink,
    ModelFinding,
    PartitionOutcome,
    Reconciliation,
)
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.wording import count
from highwater.harness.runs.store import Run

Colour = Literal["valid", "invalid", "unknown"]

WORDS: Final[Mapping[str, str]] = {
    "as-predicted": "as predicted",
    "explained": "explained",
    "unexplained": "unexplained",
    "not-reproduced": "not reproduced",
    "unknown": "not known",
}
COLOURS: Final[Mapping[str, Colour]] = {
    "as-predicted": "valid",
    "explained": "valid",
    "unexplained": "invalid",
    "not-reproduced": "unknown",
    "unknown": "unknown",
}
GOOD: Final[frozenset[str]] = frozenset({"as-predicted", "explained"})
"""Statuses of a run that the model has understood."""

FINDINGS_MAX: Final = 10
"""Findings whose chain is shown; the others are counted."""
OFFSETS_MAX: Final = 16
"""Offsets of the logs that are shown, up to the end of the longest."""


def read(run: Run) -> Reconciliation | None:
    """What the model says of a judged run; None when it was not asked.

    Raises:
        StoreError: ``analysis/model.json`` is broken or of another format.
    """
    path = run.analysis / "model.json"
    try:
        return Reconciliation.from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def sentence(found: Reconciliation) -> str:
    """The answer in one sentence."""
    rules = f"the rules of {found.software}"
    total = found.explained + found.unexplained
    if found.status == "as-predicted" and found.predicted is not None:
        return f"By {rules}, {_outcome(found.predicted)}. So it was."
    if found.status in GOOD:
        if not total:
            return f"Nothing happened that {rules} do not allow."
        return f"{_all(total)} from {rules}."
    if found.status == "unexplained":
        return f"{found.unexplained:,} of {count(total, 'finding')} cannot follow from {rules}."
    why = " ".join(found.reasons or found.absent) or "The model was not told enough."
    if found.status == "not-reproduced" and found.predicted is not None:
        missed = f"The run did not go as planned, and shows nothing: {why}"
        absent = f"By {rules}, {_outcome(found.predicted)}. That did not happen."
        return missed if found.reasons else absent
    return why


def _all(number: int) -> str:
    return "The one finding follows" if number == 1 else f"All {number:,} findings follow"


def _outcome(found: PartitionOutcome) -> str:
    """``m3 is lost and offset 3 forks``, or ``nothing is lost and nothing forks``."""
    offsets = [str(offset) for offset in found.forked]
    lost = f"{listed(found.lost)} {'is' if len(found.lost) == 1 else 'are'} lost"
    plural = "s" * (len(offsets) > 1)
    forked = f"offset{plural} {listed(offsets)} fork{'' if plural else 's'}"
    return (
        f"{lost if found.lost else 'nothing is lost'} and {forked if offsets else 'nothing forks'}"
    )


def listed(words: Iterable[str]) -> str:
    """``m1``, ``m1 and m2``, ``m1, m2 and m3``."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCell:
    """One offset of one log: what is there (None: nothing), and ``odd`` where the model differs."""

    value: str | None
    odd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of every replica in one account, a row a broker."""

    title: str
    offsets: tuple[int, ...]
    rows: tuple[tuple[str, tuple[LogCell, ...]], ...]
    lost: tuple[str, ...]
    forked: tuple[int, ...]


def side_by_side(found: Reconciliation) -> tuple[Logs, ...]:
    """The predicted and the observed logs, over the same offsets; empty when none were compared."""
    if found.predicted is None or not found.predicted.logs:
        return ()
    both = (("The model's logs", found.predicted), ("The brokers' logs", found.observed))
    longest = max(len(log) for _, one in both for log in (*one.logs.values(), ()))
    offsets = tuple(range(max(0, longest - OFFSETS_MAX), longest))
    odd = {(str(one.broker), one.offset) for one in found.differences}
    return tuple(_logs(title, outcome, offsets, odd) for title, outcome in both)


def _logs(
    title: str, outcome: PartitionOutcome, offsets: tuple[int, ...], odd: set[tuple[str, int]]
) -> Logs:
    rows = tuple(
        (
            broker,
            tuple(
                LogCell(value=log[o] if o < len(log) else None, odd=(broker, o) in odd)
                for o in offsets
            ),
        )
        for broker, log in sorted(outcome.logs.items(), key=lambda one: one[0].zfill(9))
    )
    return Logs(title=title, offsets=offsets, rows=rows, lost=outcome.lost, forked=outcome.forked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the page of a run shows of the model."""

    found: Reconciliation
    word: str
    colour: Colour
    sentence: str
    logs: tuple[Logs, ...]
    findings: tuple[ModelFinding, ...]
    more: int


def section(found: Reconciliation) -> Section:
    """The view of an answer; what is unexplained comes first."""
    ordered = sorted(found.findings, key=lambda one: one.verdict == "explained")
    return Section(
        found=found,
        word=WORDS[found.status],
        colour=COLOURS[found.status],
        sentence=sentence(found),
        logs=side_by_side(found),
        findings=tuple(ordered[:FINDINGS_MAX]),
        more=sum(one.count for one in ordered[FINDINGS_MAX:]),
    )


def told(findings: Sequence[ModelFinding]) -> list[str]:
    """Findings with their chains as lines of text, for a terminal."""
    return [line for one in findings for line in (heading(one), *map(_line, one.because))]


def heading(finding: ModelFinding) -> str:
    """``unexplained lost-write m3 at events-0, offset 3``."""
    where = finding.topic if finding.partition is None else f"{finding.topic}-{finding.partition}"
    where += "" if finding.offset is None else f", offset {finding.offset}"
    more = f", {count(finding.count, 'time')}" if finding.count > 1 else ""
    words = (finding.verdict, finding.kind, finding.record)
    return " ".join(filter(None, words)) + f" at {where}{more}"


def _line(link: ExplanationLink) -> str:
    return f"  [{link.rule}] {link.says}"


def rule_word(name: str, found: Reconciliation) -> str:
    """A rule by its name, and ``off`` where it is a switch that did not hold in the run."""
    if name not in SWITCHES or found.kafka not in RELEASES:
        return name
    try:
        rules = rules_of(found.kafka, protocol=found.protocol, written=found.written)
    except UsageError:  # model.json has other words than ours there
        return name
    return name if getattr(rules, name) else f"{name}: off"


def rule_says(name: str) -> str:
    """What a switch of the model is about and where it comes from; empty for a plain name."""
    field = Rules.__dataclass_fields__.get(name)
    return f"{field.metadata['says']} ({field.metadata['source']})" if field else ""

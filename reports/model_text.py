"""Format the reference model's explanation of a run as text."""

from collections.abc import Mapping, Sequence
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
from highwater.harness.base.wording import count, joined
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
"""The statuses of runs that the model explains."""

FINDINGS_MAX: Final = 10
"""Maximum number of findings with a shown causal chain; the rest is only counted."""
OFFSETS_MAX: Final = 16
"""Maximum number of offsets that are shown; they are the last ones of the longest log."""


def read(run: Run) -> Reconciliation | None:
    """Read the model's explanation of a judged run; None if the run has none."""
    path = run.analysis / "model.json"
    try:
        return Reconciliation.from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def sentence(reconciliation: Reconciliation) -> str:
    """Return the model's verdict in one sentence."""
    rules = f"the rules of {reconciliation.software}"
    total = sum(finding.count for finding in reconciliation.findings)
    if reconciliation.status == "as-predicted" and reconciliation.predicted is not None:
        return f"By {rules}, {_outcome(reconciliation.predicted)}. So it was."
    if reconciliation.status in GOOD:
        if not total:
            return f"Nothing happened that {rules} do not allow."
        return f"{_all(total)} from {rules}."
    if reconciliation.status == "unexplained":
        unknown = reconciliation.number_of("unknown")
        unexplained = f"{reconciliation.number_of('unexplained'):,} of {count(total, 'finding')}"
        hidden = f" {unknown:,} more are not known: too little was observed."
        return f"{unexplained} cannot follow from {rules}.{hidden * (unknown > 0)}"
    why = (
        " ".join(reconciliation.reasons or reconciliation.absent) or "The model lacks observations."
    )
    if reconciliation.status == "not-reproduced" and reconciliation.predicted is not None:
        missed = f"The run did not go as planned, and proves nothing: {why}"
        absent = f"By {rules}, {_outcome(reconciliation.predicted)}. That did not happen."
        return missed if reconciliation.reasons else absent
    return why


def _all(number: int) -> str:
    return "The one finding follows" if number == 1 else f"All {number:,} findings follow"


def _outcome(outcome: PartitionOutcome) -> str:
    """Return ``m3 is lost and offset 3 forks``, or ``nothing is lost and nothing forks``."""
    offsets = [str(offset) for offset in outcome.forked]
    lost = f"{joined(outcome.lost)} {'is' if len(outcome.lost) == 1 else 'are'} lost"
    plural = "s" * (len(offsets) > 1)
    forked = f"offset{plural} {joined(offsets)} fork{'' if plural else 's'}"
    lost = lost if outcome.lost else "nothing is lost"
    return f"{lost} and {forked if offsets else 'nothing forks'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCell:
    """One offset of one log: its record, or None.

    ``odd`` means that model and brokers differ at this offset.
    """

    value: str | None
    odd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The predicted or the observed logs of all replicas, one row for each broker."""

    title: str
    offsets: tuple[int, ...]
    rows: tuple[tuple[str, tuple[LogCell, ...]], ...]
    lost: tuple[str, ...]
    forked: tuple[int, ...]


def side_by_side(reconciliation: Reconciliation) -> tuple[Logs, ...]:
    """Return the predicted and observed logs at the same offsets; empty without predicted logs."""
    if reconciliation.predicted is None or not reconciliation.predicted.logs:
        return ()
    both = (
        ("The model's logs", reconciliation.predicted),
        ("The brokers' logs", reconciliation.observed),
    )
    longest = max(len(log) for _, outcome in both for log in (*outcome.logs.values(), ()))
    offsets = tuple(range(max(0, longest - OFFSETS_MAX), longest))
    odd = {(str(difference.broker), difference.offset) for difference in reconciliation.differences}
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
        for broker, log in sorted(
            outcome.logs.items(), key=lambda broker_log: broker_log[0].zfill(9)
        )
    )
    return Logs(title=title, offsets=offsets, rows=rows, lost=outcome.lost, forked=outcome.forked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The section about the model on the page of a run."""

    reconciliation: Reconciliation
    word: str
    colour: Colour
    sentence: str
    logs: tuple[Logs, ...]
    findings: tuple[ModelFinding, ...]
    more: int


def section(reconciliation: Reconciliation) -> Section:
    """Return the page section about the model's verdict, with unexplained findings first."""
    order = ("unexplained", "unknown", "explained")
    ordered = sorted(reconciliation.findings, key=lambda finding: order.index(finding.verdict))
    return Section(
        reconciliation=reconciliation,
        word=WORDS[reconciliation.status],
        colour=COLOURS[reconciliation.status],
        sentence=sentence(reconciliation),
        logs=side_by_side(reconciliation),
        findings=tuple(ordered[:FINDINGS_MAX]),
        more=sum(finding.count for finding in ordered[FINDINGS_MAX:]),
    )


def sentences(findings: Sequence[ModelFinding]) -> list[str]:
    """Return findings and their causal chains as lines of text, for a terminal."""
    return [
        line for finding in findings for line in (heading(finding), *map(_line, finding.because))
    ]


def heading(finding: ModelFinding) -> str:
    """Return a line such as ``unexplained lost-write m3 at events-0, offset 3``."""
    where = finding.topic if finding.partition is None else f"{finding.topic}-{finding.partition}"
    where += "" if finding.offset is None else f", offset {finding.offset}"
    more = f", {count(finding.count, 'time')}" if finding.count > 1 else ""
    words = (WORDS[finding.verdict], finding.kind, finding.record)
    return " ".join(filter(None, words)) + f" at {where}{more}"


def _line(link: ExplanationLink) -> str:
    return f"  [{link.rule}] {link.says}"


def rule_word(name: str, reconciliation: Reconciliation) -> str:
    """Return a rule's name, with ``: off`` if the rule is a switch that was off in the run."""
    if name not in SWITCHES or reconciliation.kafka not in RELEASES:
        return name
    try:
        rules = rules_of(
            reconciliation.kafka, protocol=reconciliation.protocol, written=reconciliation.written
        )
    except UsageError:  # model.json names a protocol or a format that is not known here
        return name
    return name if getattr(rules, name) else f"{name}: off"


def rule_says(name: str) -> str:
    """Return the description and source of a rule; empty if the rule is no switch of releases."""
    field = Rules.__dataclass_fields__.get(name)
    return f"{field.metadata['says']} ({field.metadata['source']})" if field else ""

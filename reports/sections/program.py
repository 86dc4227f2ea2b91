"""The section about a program under test, with its inputs, mistakes and instances."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from highwater.checkers.core.anomaly_kinds import (
    ABORTED_INPUT,
    DOUBLED_INPUT,
    DOUBLED_OUTPUT,
    HALF_INPUT,
    LOST_INPUT,
    LOST_OUTPUT,
    MISTAKE,
    OF_PROGRAMS,
    REPEATED_INPUT,
    STRANGE_OUTPUT,
    UNFINISHED_TRANSACTION,
    UNREACHED_INPUT,
)
from highwater.harness.base.errors import StoreError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Anomaly, Verdict

ONCE: Final = "once"
_COUNTED: Final = {
    LOST_INPUT: "lost: the input's position was committed, but it has no output",
    HALF_INPUT: "half: the input's position was committed, but some outputs are missing",
    DOUBLED_INPUT: "doubled: the input has too many outputs",
    REPEATED_INPUT: "doubled after the input's position was committed",
    UNREACHED_INPUT: "not reached: the input was not processed by the end",
    STRANGE_OUTPUT: "outputs that name an input that was never sent",
    ABORTED_INPUT: "processed, although it was aborted",
    UNFINISHED_TRANSACTION: "transactions that their coordinator ended",
}
_WRITTEN: Final = {
    LOST_OUTPUT: "lost: the record was acknowledged, but is not in the topic",
    DOUBLED_OUTPUT: "doubled: the record is in the topic more than once",
}
_OUTCOMES: Final = (LOST_INPUT, HALF_INPUT, DOUBLED_INPUT, UNREACHED_INPUT)
_EVENTS: Final = ("started", "killed", "stopped", "paused", "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSection:
    """A program under test, for the page of its run.

    Attributes:
        counts: (outcome, number of inputs); for a program without inputs, of outputs. Empty if the
            outcomes are unknown.
        mistakes: (cause, number of findings).
        lives: each instance's numbers of starts, kills, stops, pauses and exits; None if the table
            cannot be read.
    """

    command: str
    guarantee: str
    counts: tuple[tuple[str, int], ...]
    mistakes: tuple[tuple[str, int], ...]
    lives: dict[int, tuple[int, ...]] | None


def program_section(run: Run, plan: Plan, verdict: Verdict) -> ProgramSection | None:
    """Return the section of a judged run; None if the run has no program under test."""
    if plan.program is None:
        return None
    of_program = [anomaly for anomaly in verdict.anomalies if anomaly.kind in OF_PROGRAMS]
    mistakes = Counter(filter(None, map(mistake, of_program)))
    counts = input_counts(verdict)
    once = f"processed once{', or no output was needed' if plan.program.when else ''}"
    does = "writes each record" if plan.without_input else "processes each input"
    return ProgramSection(
        command=" ".join(plan.program.command),
        guarantee=f"{does} {plan.program.guarantee.replace('-', ' ')}",
        counts=tuple(
            ((_COUNTED | _WRITTEN).get(kind, once), number) for kind, number in counts.items()
        ),
        mistakes=tuple(mistakes.most_common()),
        lives=_lives(run),
    )


def mistake(anomaly: Anomaly) -> str:
    """Return the name and the fix of the program's mistake that caused an anomaly, if known."""
    return next((way.says for way in anomaly.witnesses if way.what == MISTAKE), "")


def input_counts(verdict: Verdict) -> dict[str, int]:
    """Return the number of inputs by outcome: ``{"once": 98, …}``; empty if unknown.

    For a program without inputs, lost and doubled outputs are counted instead.
    """
    if not verdict.checkers.get(LOST_OUTPUT, "not ").startswith("not "):
        return {kind: verdict.counts.get(kind, 0) for kind in _WRITTEN}
    if verdict.checkers.get(LOST_INPUT, "").startswith("not "):
        return {}
    counts = {kind: verdict.counts.get(kind, 0) for kind in _COUNTED}
    once = verdict.ledger.read - sum(counts[kind] for kind in _OUTCOMES)
    return {ONCE: max(0, once), **counts}


def _lives(run: Run) -> dict[int, tuple[int, ...]] | None:
    from highwater.harness.runs.history import INSTANCES_TABLE  # noqa: PLC0415 - for Arrow, which the base lacks

    try:
        rows = run.table(INSTANCES_TABLE).to_pylist()
    except StoreError:
        return None
    counts = Counter((row["instance"], row["event"]) for row in rows)
    return {
        instance: tuple(counts[instance, event] for event in _EVENTS)
        for instance in sorted({row["instance"] for row in rows})
    }

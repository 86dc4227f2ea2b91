"""The section about a program under test: its inputs, its mistakes and its instances' lives."""

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
    STRANGE_OUTPUT,
    UNFINISHED_TRANSACTION,
    UNREACHED_INPUT,
)
from highwater.harness.base.errors import StoreError
from highwater.harness.runs.history import INSTANCES_TABLE
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Verdict

ONCE: Final = "once"
_COUNTED: Final = {
    LOST_INPUT: "lost: its position was committed, and it has no output",
    HALF_INPUT: "half: its position was committed, and it lacks outputs",
    DOUBLED_INPUT: "doubled: it has too many outputs",
    UNREACHED_INPUT: "not reached: nothing is known of it",
    STRANGE_OUTPUT: "outputs that name an input that was never sent",
    ABORTED_INPUT: "aborted, and yet processed",
    UNFINISHED_TRANSACTION: "transactions that their coordinator ended",
}
_WRITTEN: Final = {
    LOST_OUTPUT: "lost: it was acknowledged, and is not there",
    DOUBLED_OUTPUT: "doubled: it is there more than once",
}
_OUTCOMES: Final = (LOST_INPUT, HALF_INPUT, DOUBLED_INPUT, UNREACHED_INPUT)
_EVENTS: Final = ("started", "killed", "stopped", "paused", "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSection:
    """A program under test, as its page shows it.

    Attributes:
        counts: sentences and numbers of inputs, and of outputs without one; empty if nothing is
            known of them.
        mistakes: sentences, and of how many of the listed findings each is told.
        lives: instance to how often it was started, killed, stopped, paused, and ended by itself;
            None where that cannot be read.
    """

    command: str
    guarantee: str
    counts: tuple[tuple[str, int], ...]
    mistakes: tuple[tuple[str, int], ...]
    lives: dict[int, tuple[int, ...]] | None


def program_section(run: Run, plan: Plan, verdict: Verdict) -> ProgramSection | None:
    """Return the section of a judged run; None if it has no program under test."""
    if plan.program is None:
        return None
    of_program = [anomaly for anomaly in verdict.anomalies if anomaly.kind in OF_PROGRAMS]
    mistakes = Counter(
        witness.says
        for anomaly in of_program
        for witness in anomaly.witnesses
        if witness.what == MISTAKE
    )
    counts = input_counts(verdict)
    once = f"processed once{', or in need of no output' if plan.program.when else ''}"
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


def input_counts(verdict: Verdict) -> dict[str, int]:
    """Return how many inputs were processed ``once``, and the counts of other outcomes by kind.

    Empty where nothing is known of them.
    """
    if not verdict.checkers.get(LOST_OUTPUT, "not ").startswith("not "):
        return {kind: verdict.counts.get(kind, 0) for kind in _WRITTEN}
    if verdict.checkers.get(LOST_INPUT, "").startswith("not "):
        return {}
    counts = {kind: verdict.counts.get(kind, 0) for kind in _COUNTED}
    once = verdict.ledger.read - sum(counts[kind] for kind in _OUTCOMES)
    return {ONCE: max(0, once), **counts}


def _lives(run: Run) -> dict[int, tuple[int, ...]] | None:
    try:
        rows = run.table(INSTANCES_TABLE).to_pylist()
    except StoreError:
        return None
    counts = Counter((row["instance"], row["event"]) for row in rows)
    return {
        instance: tuple(counts[instance, event] for event in _EVENTS)
        for instance in sorted({row["instance"] for row in rows})
    }

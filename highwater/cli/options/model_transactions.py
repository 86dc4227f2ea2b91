"""The answers of ``highwater model explore --transactions``, as text and files."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from highwater import console
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest

if TYPE_CHECKING:
    from highwater.checkers.model.transactions.transaction_counterexample import (
        TransactionCounterexample,
    )
    from highwater.checkers.model.transactions.transaction_scope import TransactionScope
    from highwater.checkers.model.transactions.transaction_search import TransactionAnswer
    from highwater.checkers.model.transactions.transaction_state import TransactionState

_WORDS: Final = {True: ("HOLDS", "green"), False: ("BROKEN", "red"), None: ("UNKNOWN", "yellow")}
_LEGEND: Final = (
    "Each log is in brackets; c and a are markers that commit and abort, and what stands behind |"
    " is in a transaction that is open."
)


def scope_of(texts: Sequence[str]) -> "TransactionScope":
    """Return the bounds that ``--bound NAME=NUMBER`` gives, others as usual.

    Raises:
        UsageError: no such bound, no number, or more than the model holds.
    """
    from highwater.checkers.model.transactions.transaction_scope import (
        TRANSACTION_BOUNDS,
        TransactionScope,
    )

    bounds = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in TRANSACTION_BOUNDS:
            hint = nearest(name, TRANSACTION_BOUNDS)
            raise UsageError(f"no bound of transactions is called {name!r}", hint=hint)
        if not value.isdecimal():
            raise UsageError(f"{text!r} bounds nothing", hint=f"Write {name}=2.")
        bounds[name] = int(value)
    return TransactionScope(**bounds)


def show_transactions(answers: "Sequence[TransactionAnswer]", written: Sequence[Path]) -> None:
    """Print the scope, the verdict of each invariant, and the effort of the search."""
    first = answers[0]
    console.out.print(f"Kafka {first.kafka} with {first.client}; {_bounds(first.scope)}")
    if first.switched:
        switches = [f"{name} {'on' if on else 'off'}" for name, on in first.switched.items()]
        console.out.print(f"rules of its own: {', '.join(switches)}")
    for answer in answers:
        _show(answer)
    if any(answer.counterexample for answer in answers):
        console.out.print(_LEGEND, style="dim")
    console.out.print(
        f"{first.states:,} states up to {first.depth} moves deep in {first.seconds:.1f} s,"
        f" {first.rate:,.0f} a second; {first.compile_seconds:.1f} s before for machine code; a"
        f" state was missed with a probability below {first.collision:.0e}"
    )
    for path in written:
        console.out.print(f"counterexample: {path}")


def logs_in_words(state: "TransactionState") -> str:
    """Format every log and the coordinator: ``[m1 c | m2], ongoing``."""
    logs = []
    for leader in state.leaders:
        entries = [{"commit": "c", "abort": "a"}.get(entry, entry) for entry in leader.log]
        if leader.open_from is not None:
            entries.insert(leader.open_from, "|")
        logs.append(f"[{' '.join(entries)}]")
    return f"{' '.join(logs)} {state.coordinator}"


def draw_transactions(counterexample: "TransactionCounterexample", path: Path) -> None:
    """Draw a counterexample."""
    from highwater.reports.drawings.transaction_svg import whole_transactions
    from highwater.reports.html import drawing_css, save

    save(path, whole_transactions(counterexample, drawing_css()))


def _bounds(scope: "TransactionScope") -> str:
    counted = [f"{name.replace('_', ' ')} {number}" for name, number in asdict(scope).items()]
    return f"at most {', '.join(counted)}"


def _show(answer: "TransactionAnswer") -> None:
    word, colour = _WORDS[answer.holds]
    tail = " within these bounds" if answer.holds else ""
    if answer.counterexample is not None:
        tail = f" in {len(answer.counterexample.steps)} steps, the fewest"
    console.out.print(
        Text(word, style=f"bold {colour}"), Text(f"{answer.invariant}{tail}: {answer.says}")
    )
    if answer.reason is not None:
        console.out.print(Text(f"  not every state was met: {answer.reason}"))
    steps = answer.counterexample.steps if answer.counterexample else ()
    for number, step in enumerate(steps, start=1):
        console.out.print(Text(f"{number:>4}. {step.says}"))
        console.out.print(Text(f"      {logs_in_words(step.after)}"))

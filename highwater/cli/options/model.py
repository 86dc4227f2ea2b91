"""The model's answer as text: a verdict per invariant, and counterexamples step by step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.text import Text

from highwater import console
from highwater.checkers.model.protocol.readable_state import ModelReplica, State
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.schedules.counterexample import Counterexample
from highwater.checkers.model.search.result import SearchAnswer
from highwater.harness.base.wording import count

_REASONS: Final = {
    "memory": "memory was used up before every state was met: see --memory, --spark-master",
    "time": "the time was up before every state was met",
    "stopped": "it was stopped before every state was met",
    "overflow": "within these bounds there are more decisions than the model holds: lower one",
    "walks": "random walks met nothing that breaks it, which proves nothing",
}
_WORDS: Final = {True: ("HOLDS", "green"), False: ("BROKEN", "red"), None: ("UNKNOWN", "yellow")}
_MB: Final = 1 << 20
_LEGEND: Final = (
    "Each replica's log is in brackets, | is its high watermark, * takes itself for the leader."
)


def show(answers: Sequence[SearchAnswer], written: Sequence[Path]) -> None:
    """Print the scope, the verdict of each invariant, and the effort of the search."""
    first = answers[0]
    console.out.print(f"Kafka {first.kafka}, {settings(first.scope)}; {bounds(first.scope)}")
    if first.switched:
        switches = [f"{name} {'on' if on else 'off'}" for name, on in first.switched.items()]
        console.out.print(f"rules of its own: {', '.join(switches)}")
    for search_answer in answers:
        _verdict(search_answer)
    if any(answer.counterexample for answer in answers):
        console.out.print(_LEGEND, style="dim")
    console.out.print(effort(first))
    for path in written:
        console.out.print(f"counterexample: {path}")


def settings(scope: Scope) -> str:
    """Return the settings on which the promises depend."""
    elections = "unclean elections allowed" if scope.unclean else "clean elections"
    if scope.by_hand:
        elections += " and others by hand"
    return f"acks={scope.acks}, min.insync.replicas={scope.min_isr}, {elections}"


def bounds(scope: Scope) -> str:
    """Return the bounds of the scope."""
    counted = {
        "broker": scope.brokers,
        "record": scope.records,
        "failure": scope.failures,
        "leadership move": scope.moves,
        "late answer": scope.late,
    }
    rare = {
        "controller failover": scope.failovers,
        "replaced disk": scope.wipes,
        "late ISR request": scope.joins,
        "reassignment": scope.reassignments,
    }
    counted |= {what: n for what, n in rare.items() if n}
    parts = [count(n, what) for what, n in counted.items()]
    if scope.batch > 1:
        parts.append(f"{scope.batch} records in a batch")
    return "at most " + ", ".join(parts)


def effort(answer: SearchAnswer) -> str:
    """Return the effort of the search, and its probability of a missed state."""
    if answer.method == "walks":
        return (
            f"{answer.states:,} steps of random walks in {answer.seconds:.1f} s;"
            f" {answer.compile_seconds:.1f} s before for machine code"
        )
    memory = f" {answer.peak_bytes // _MB:,} MB;" if answer.peak_bytes else ""
    return (
        f"{answer.states:,} states up to {answer.depth} moves deep in {answer.seconds:.1f} s,"
        f" {answer.rate:,.0f} a second; {answer.compile_seconds:.1f} s before for machine code;"
        f"{memory}"
        f" a state was missed with a probability below {answer.collision:.0e}"
    )


def steps(counterexample: Counterexample) -> list[str]:
    """Return a counterexample's steps, each with the log of every replica after it."""
    lines = []
    for number, step in enumerate(counterexample.steps, start=1):
        lines.append(f"{number:>4}. {step.says}")
        lines.append(f"      {holdings(step.after)}")
    return lines


def holdings(state: State) -> str:
    """Format the log of every replica: ``A* [m1|m2]  B [m1|]  C dead [|]``."""
    return "  ".join(
        _replica(NAMES[b], replica, leads=replica.follows == b)
        for b, replica in enumerate(state.replicas)
    )


def _replica(name: str, replica: ModelReplica, *, leads: bool) -> str:
    records = [entry.record for entry in replica.log]
    log = " ".join(records[: replica.hw]) + "|" + " ".join(records[replica.hw :])
    process = "" if replica.process == "up" else f" {replica.process}"
    mark = "*" if leads and replica.process in {"up", "paused"} else ""
    return f"{name}{mark}{process} [{log}]"


def _verdict(answer: SearchAnswer) -> None:
    word, colour = _WORDS[answer.holds]
    tail = ""
    if answer.counterexample is not None:
        count = len(answer.counterexample.steps)
        tail = f" in {count:,} steps" + (", the fewest" if answer.counterexample.shortest else "")
    elif answer.holds:
        tail = " within these bounds"
    console.out.print(
        Text(word, style=f"bold {colour}"), Text(f"{answer.invariant}{tail}: {answer.says}")
    )
    if answer.reason is not None:
        console.out.print(Text(f"  {_REASONS[answer.reason]}"))
    for line in steps(answer.counterexample) if answer.counterexample else ():
        console.out.print(Text(line))

"""Print a search's result: a verdict for each invariant, and counterexamples step by step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from highwater import console
from highwater.checkers.coverage.model_coverage import Coverage
from highwater.checkers.coverage.reachable import ReachableSituations
from highwater.checkers.model.protocol.readable_state import ModelReplica, State
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.quorum.quorum_invariants import QUORUM_INVARIANTS
from highwater.checkers.model.quorum.quorum_machine import QuorumSettings
from highwater.checkers.model.quorum.quorum_scope import QUORUM_BOUNDS, QuorumScope
from highwater.checkers.model.quorum.quorum_state import ModelController
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.questions import invariants_by_name
from highwater.checkers.model.search.result import SearchAnswer
from highwater.checkers.model.search.situations import name_of
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
    TransactionSettings,
)
from highwater.checkers.model.transactions.transaction_scope import (
    TRANSACTION_BOUNDS,
    TransactionScope,
)
from highwater.checkers.model.transactions.transaction_state import TransactionState
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.base.wording import count
from highwater.reports.pages.counterexample import write as draw
from highwater.reports.text import seconds

_REASONS: Final = {
    "memory": "memory ran out before the search was complete: see --memory, --spark-master",
    "time": "the time limit passed before the search had reached every state",
    "stopped": "the search was stopped before it had reached every state",
    "overflow": "with these bounds a state of the model does not fit into its bytes: lower a bound",
}
_WORDS: Final = {True: ("HOLDS", "green"), False: ("BROKEN", "red"), None: ("UNKNOWN", "yellow")}
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The texts about the results of a model's search.

    Attributes:
        heading: the title, with the release and the bounds of the search.
        legend: explains the notation of ``state``.
        state: formats a state of the model as a line of text.
        draw: writes a counterexample as a page, whose suffix is one of ``drawings``.
    """

    heading: str
    legend: str
    state: Callable[[Any], str]
    draw: Callable[[Any, Path], object]
    drawings: tuple[str, ...]


_OTHERS: Final = {
    "transactions": (
        TransactionSettings,
        TransactionScope,
        TRANSACTION_BOUNDS,
        TRANSACTION_INVARIANTS,
    ),
    "quorum": (QuorumSettings, QuorumScope, QUORUM_BOUNDS, QUORUM_INVARIANTS),
}
"""The models beside that of replication: settings, scope, ranges of bounds, and invariants."""


def question_of(
    name: str, names: Sequence[str], bounds: Sequence[str], settings: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return the settings of a search of another model, and the invariants to check.

    Args:
        name: ``transactions`` or ``quorum``.
        names: names of invariants, ``promises`` or ``all``.
        bounds: texts NAME=NUMBER.
        settings: the release, the switched rules, and the client; None for the usual client.

    Raises:
        UsageError: a bound or an invariant does not exist, or a bound has no number.
    """
    kind, scope, ranges, invariants = _OTHERS[name]
    numbers = {}
    for text in bounds:
        bound, _, value = text.partition("=")
        if bound not in ranges:
            hint = nearest(bound, ranges)
            raise UsageError(f"the {name} model has no bound {bound!r}", hint=hint)
        if not value.isdecimal():
            raise UsageError(f"{text!r} sets no bound", hint=f"Write {bound}=2.")
        numbers[bound] = int(value)
    question = kind(scope=scope(**numbers), **{k: v for k, v in settings.items() if v is not None})
    return question, invariants_by_name(names, invariants, f"invariant of the {name} model")


def words_of(question: ModelSettings | TransactionSettings | QuorumSettings) -> Words:
    """Return the texts about the results of a model's search."""
    if not isinstance(question, ModelSettings):
        counted = asdict(question.scope).items()
        limits = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in counted)
    if isinstance(question, QuorumSettings):
        return Words(
            heading=f"Kafka {question.kafka}; at most {limits}",
            legend="Each log is in brackets; | is the high watermark; * marks a leader; B' is B "
            "with a new directory id; AB in a log is a set of voters.",
            state=controllers_in_words,
            draw=lambda *_: None,
            drawings=(),
        )
    if isinstance(question, TransactionSettings):
        return Words(
            heading=f"Kafka {question.kafka} with {question.client}; at most {limits}",
            legend="Each log is in brackets; c and a are commit and abort markers; records "
            "after | are in an open transaction.",
            state=logs_in_words,
            draw=_draw_transactions,
            drawings=(".svg",),
        )
    scope = question.scope
    return Words(
        heading=f"Kafka {question.kafka}, {settings(scope)}; {bounds(scope)}",
        legend="Each replica's log is in brackets; | is its high watermark; * marks a broker that "
        "acts as leader.",
        state=holdings,
        draw=draw,
        drawings=(".html", ".svg"),
    )


def show_coverage(coverage: Coverage, most: int = 20) -> None:
    """Print the number of observed situations, and the nearest situations that were not observed.

    Args:
        most: the greatest number of situations to print.
    """
    scope = coverage.scope
    console.out.print(f"Kafka {coverage.kafka}, {settings(scope)}; {bounds(scope)}")
    complete = "all" if coverage.reason is None else "some"
    console.out.print(
        f"{count(coverage.runs, 'run')} observed in {coverage.observed} of"
        f" {count(coverage.reached, 'situation')} that {complete} {coverage.states:,} states"
        " within the scope have",
        soft_wrap=True,
    )
    if coverage.reason is not None:
        console.out.print(_REASONS[coverage.reason], soft_wrap=True)
    _show_beyond(coverage, most)
    missed = [row for row in coverage.rows if not row.runs]
    rows = [[str(row.depth), row.leader, "\n".join(row.replicas)] for row in missed[:most]]
    if rows:
        heads = ["moves", "leader", "other replicas; LEO < is below the leader's"]
        console.out.print(console.table("Not observed, the nearest first", heads, rows))
    if more := len(missed) - len(rows):
        console.out.print(f"{more} more: --json lists every situation, with its runs")


def _show_beyond(coverage: Coverage, most: int) -> None:
    """Print the situations that runs reached and the search did not, with the first such run."""
    rows = [
        [
            str(row.runs),
            f"{row.first}\npartition {row.partition} at {seconds(row.time_ns)}",
            row.leader,
            "\n".join(row.replicas),
        ]
        for row in coverage.beyond
    ]
    if not rows:
        return
    heads = ["runs", "first observed", "leader", "other replicas"]
    console.out.print(console.table("Observed, and not in this scope", heads, rows[:most]))
    unsearched = "" if coverage.reason is None else " the search was not complete,"
    console.out.print(
        f"{count(len(rows), 'situation')} observed, and not in this scope:{unsearched} the scope is"
        " too small (runs have more failures, moves and records), the observations are too coarse,"
        " or the model and Kafka differ",
        soft_wrap=True,
    )


def write_paths(
    coverage: Coverage, reachable: ReachableSituations, folder: Path, most: int
) -> tuple[list[Path], int]:
    """Write the model's path to each of the nearest situations that were not observed.

    A path is left out if its steps can lead to another state. This happens if several brokers act
    in one step, and the result depends on their order.

    Args:
        most: the greatest number of paths to write.

    Returns:
        The files, and the number of paths that were left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {name_of(number): number for number in reachable.depths}
    written: list[Path] = []
    left_out = 0
    for row in coverage.rows:
        if row.runs or len(written) == most:
            break
        try:
            content = reachable.counterexample(numbers[row.name]).to_json()
        except HarnessError:
            left_out += 1
            continue
        path = folder / f"{row.name}.json"
        path.write_bytes(content)
        written.append(path)
    return written, left_out


def show_paths(written: Sequence[Path], left_out: int) -> None:
    """Print the files of paths, and the number of paths that were left out."""
    for path in written:
        console.out.print(f"path: {path}")
    if left_out:
        console.out.print(
            f"{count(left_out, 'path')} left out: the model cannot follow it again, because a state"
            " of it depends on the order of the brokers",
            soft_wrap=True,
        )


def show(answers: Sequence[SearchAnswer[Any]], words: Words, written: Sequence[Path]) -> None:
    """Print the bounds, the verdict of each invariant, and the effort of the search."""
    first = answers[0]
    console.out.print(words.heading)
    if first.switched:
        switches = [f"{name} {'on' if on else 'off'}" for name, on in first.switched.items()]
        console.out.print(f"changed rules: {', '.join(switches)}")
    for answer in answers:
        _verdict(answer, words)
    if any(answer.counterexample for answer in answers):
        console.out.print(words.legend, style="dim")
    console.out.print(effort(first))
    for path in written:
        console.out.print(f"counterexample: {path}")


def settings(scope: Scope) -> str:
    """Return a text of the settings on which Kafka's guarantees depend."""
    elections = "unclean elections allowed" if scope.unclean else "clean elections"
    if scope.by_hand:
        elections += " and others by hand"
    return f"acks={scope.acks}, min.insync.replicas={scope.min_isr}, {elections}"


def bounds(scope: Scope) -> str:
    """Return a text of the search bounds."""
    counted = {
        "broker": scope.brokers,
        "record": scope.records,
        "failure": scope.failures,
        "leadership move": scope.moves,
        "late answer": scope.late,
    }
    parts = [count(n, what) for what, n in counted.items()]
    return "at most " + ", ".join([*parts, *rare_bounds(scope)])


def rare_bounds(scope: Scope) -> list[str]:
    """Return texts of the bounds that most searches do not set."""
    rare = {
        "controller failover": scope.failovers,
        "replaced disk": scope.wipes,
        "late ISR request": scope.joins,
        "reassignment": scope.reassignments,
    }
    parts = [count(n, what) for what, n in rare.items() if n]
    parts += ["interruptions"] if scope.interrupts else []
    return [*parts, f"{scope.batch} records in a batch"] if scope.batch > 1 else parts


def effort(answer: SearchAnswer[Any]) -> str:
    """Return a text with the search's states and seconds, and the probability of a missed state."""
    return (
        f"{answer.states:,} states up to {answer.depth} moves deep in {answer.seconds:.1f} s,"
        f" {answer.rate:,.0f} a second; {answer.compile_seconds:.1f} s before for machine code;"
        f" {answer.peak_bytes // _MB:,} MB;"
        f" a state was missed with a probability below {answer.collision:.0e}"
    )


def steps(counterexample: Any, state: Callable[[Any], str]) -> list[str]:  # noqa: ANN401 - any model's
    """Return a counterexample's steps; after each step is a line with the new state."""
    lines = []
    for number, step in enumerate(counterexample.steps, start=1):
        lines.append(f"{number:>4}. {step.says}")
        lines.append(f"      {state(step.after)}")
    return lines


def holdings(state: State) -> str:
    """Format all logs: ``A* [m1|m2]``, where ``*`` marks the leader and ``|`` the HW."""
    return "  ".join(
        _replica(NAMES[b], replica, leads=replica.follows == b)
        for b, replica in enumerate(state.replicas)
    )


def logs_in_words(state: TransactionState) -> str:
    """Format all logs and the coordinator's state: ``[m1 c | m2] ongoing``."""
    logs = []
    for leader in state.leaders:
        entries = [{"commit": "c", "abort": "a"}.get(entry, entry) for entry in leader.log]
        if leader.open_from is not None:
            entries.insert(leader.open_from, "|")
        logs.append(f"[{' '.join(entries)}]")
    return f"{' '.join(logs)} {state.coordinator}"


def controllers_in_words(controllers: Sequence[ModelController]) -> str:
    """Format all logs with their high watermarks: ``A* [AB d1|d2]  B [AB|]``."""
    return "  ".join(f"{row.name}{'*' * row.leads} {_log(row.log, row.hw)}" for row in controllers)


def _draw_transactions(counterexample: TransactionCounterexample, path: Path) -> None:
    from highwater.reports.drawings.transaction_svg import whole_transactions
    from highwater.reports.html import drawing_css, save

    save(path, whole_transactions(counterexample, drawing_css()))


def _replica(name: str, replica: ModelReplica, *, leads: bool) -> str:
    log = _log([entry.record for entry in replica.log], replica.hw)
    process = "" if replica.process == "up" else f" {replica.process}"
    mark = "*" if leads and replica.process in {"up", "paused"} else ""
    return f"{name}{mark}{process} {log}"


def _log(entries: Sequence[str], hw: int) -> str:
    return f"[{' '.join(entries[:hw])}|{' '.join(entries[hw:])}]"


def _verdict(answer: SearchAnswer[Any], words: Words) -> None:
    word, colour = _WORDS[answer.holds]
    tail = " within these bounds" if answer.holds else ""
    if answer.counterexample is not None:
        tail = f" in {count(len(answer.counterexample.steps), 'step')}, the fewest possible"
    console.out.print(
        Text(word, style=f"bold {colour}"), Text(f"{answer.invariant}{tail}: {answer.says}")
    )
    if answer.reason is not None:
        console.out.print(Text(f"  {_REASONS[answer.reason]}"))
    for line in steps(answer.counterexample, words.state) if answer.counterexample else ():
        console.out.print(Text(line))

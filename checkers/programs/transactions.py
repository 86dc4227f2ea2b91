"""Find inputs that were aborted but processed, and transactions that a program did not end."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import (
    ABORTED_INPUT,
    UNFINISHED_TRANSACTION,
    Kind,
    Severity,
)
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_program_says, never
from highwater.checkers.groups.events import Row, in_words
from highwater.checkers.programs.evidence import ENDS, interrupted, seconds
from highwater.checkers.programs.facts import ProgramFacts, since_start_ns
from highwater.checkers.programs.habits import fenced_alive, program_transactions
from highwater.checkers.programs.inputs import no_program, program_facts
from highwater.checkers.programs.mistakes import NEW_ID, READ_UNCOMMITTED, SHARED_ID, Mistake
from highwater.checkers.programs.output_log import OutputLog, longest_log, named
from highwater.checkers.programs.timeline import blame, judgement, witnesses
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.transactions.coordinated import TIMED_OUT, CoordinatedTransaction
from highwater.harness.base.wording import count

_ENOUGH: Final = 5
_NEARLY_ALL: Final = 0.9
_PROMISE: Final = "processing: --guarantee of highwater app"


@checker(
    Kind(
        ABORTED_INPUT,
        guarantee="No input has an output that was aborted.",
        singular="input was aborted, but processed",
        plural="inputs were aborted, but processed",
        severity=Severity.SERIOUS,
        promise=_PROMISE,
        breaks=if_program_says("at-least-once", "at-most-once", "exactly-once"),
        says=in_words,
        evidence=witnesses,
    ),
    Kind(
        UNFINISHED_TRANSACTION,
        guarantee="The instance that begins a transaction, or its next start, ends it.",
        singular="transaction of the program was ended by its coordinator",
        plural="transactions of the program were ended by their coordinator",
        severity=Severity.MINOR,
        promise=_PROMISE,
        breaks=never,
        says=in_words,
        evidence=witnesses,
    ),
    idle=no_program,
)
def program_in_transactions(tables: Tables) -> pa.Table:
    """Return the aborted inputs that were processed, and the transactions that were not ended."""
    cases = {case.key: case for case in tables.cases}
    rows = [
        {"run": key, **row}
        for key, facts in program_facts(tables).items()
        for row in (*_aborted(cases[key], facts), *_unfinished(cases[key], facts))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _aborted(case: RunFiles, facts: ProgramFacts) -> Iterator[Row]:
    """Yield the inputs that have an output, although every copy of the input was aborted.

    The final reader reads only committed records, so it returned none of these inputs. If nearly
    all aborted inputs before the committed positions have an output, the program reads with
    ``read_uncommitted``.
    """
    if not facts.plan.workload.transactions:
        return
    ends, read = _ends(case, facts), {*facts.inputs["value"].to_pylist()}
    aborted = {n: end for n, end in ends.items() if not end.committed and n not in read}
    outputs = facts.outputs_of([*aborted])
    passed = [n for n, end in aborted.items() if end.offset < (facts.positions[end.partition] or 0)]
    processed = sum(name in outputs for name in passed)
    reads_all = len(passed) >= _ENOUGH and processed >= _NEARLY_ALL * len(passed)
    for name, (first, *_) in outputs.items():
        end = aborted[name]
        says = (
            f"{name} at offset {end.offset} of {facts.plan.topic.name}-{end.partition} was aborted"
            f" at {seconds(end.at_ns)}, and has an output at offset {first.offset} of"
            f" {facts.program.out}-{first.partition}, written at {seconds(first.time_ns)}."
            f" {processed} of {count(len(passed), 'aborted input')} before the committed "
            f"positions have"
            " an output."
        )
        place = facts.plan.topic.name, end.partition, end.offset
        mistake = READ_UNCOMMITTED if reads_all else None
        yield {**_anomaly(ABORTED_INPUT, place, says, mistake), "value": name}


class _End(NamedTuple):
    """The end of the transaction that wrote an input; times are since the run's start."""

    at_ns: int
    committed: bool
    partition: int
    offset: int


def _ends(case: RunFiles, facts: ProgramFacts) -> dict[str, _End]:
    """Return the end of each input's transaction, by input; if any copy was committed, its end."""
    ends: dict[str, _End] = {}
    for partition in range(facts.plan.topic.partitions):
        open_: dict[int, list[tuple[str, Row]]] = defaultdict(list)
        log = longest_log(case, facts.plan.topic.name, partition)
        names = {id(row): name for name, row in named(log, facts.program.match)}
        for row in log:
            if row["control"]:
                at_ns = since_start_ns(row["timestamp_ms"], facts.started_ms)
                committed = row["control_type"] == "commit"
                for name, of in open_.pop(row["producer_id"], ()):
                    if name not in ends or committed:
                        ends[name] = _End(at_ns, committed, partition, of["offset"])
            elif row["transactional"] and id(row) in names:
                open_[row["producer_id"]].append((names[id(row)], row))
    return ends


def _unfinished(case: RunFiles, facts: ProgramFacts) -> Iterator[Row]:
    """Yield the program's transactions that timed out, or that another instance fenced."""
    log = OutputLog.of(case, facts)
    of_program = program_transactions(case, log)
    for transaction in of_program:
        if says := _timed_out(transaction, of_program, facts):
            yield _anomaly(UNFINISHED_TRANSACTION, (facts.program.out, 0, None), says, NEW_ID)
    for transaction in fenced_alive(case, facts, log):
        begin_ns, end_ns = _span(transaction, facts)
        says = (
            f"A transaction of {transaction.name} that began at {seconds(begin_ns)} was ended by"
            f" another producer with that id at {seconds(end_ns)}, while all instances were alive."
        )
        yield _anomaly(UNFINISHED_TRANSACTION, (facts.program.out, 0, None), says, SHARED_ID)


def _timed_out(
    transaction: CoordinatedTransaction,
    of_program: Sequence[CoordinatedTransaction],
    facts: ProgramFacts,
) -> str:
    """Return a sentence if a transaction timed out because a later start used another id.

    The run has at least as many other transactional ids as instances: each start used a new id.
    """
    begin_ns, end_ns = _span(transaction, facts)
    ended = next(
        (
            event
            for event in facts.events
            if event.event in ENDS and begin_ns <= event.time_ns <= end_ns
        ),
        None,
    )
    others = {
        other.name
        for other in of_program
        if other.begin_ms > transaction.begin_ms and other.name != transaction.name
    }
    if transaction.end != TIMED_OUT or transaction.succeeded or not others or ended is None:
        return ""
    if len(others) < len({event.instance for event in facts.events}):
        return ""
    return (
        f"A transaction of {transaction.name} was open from {seconds(begin_ns)} to"
        f" {seconds(end_ns)}, when it timed out: {interrupted(ended)}, and later starts had"
        f" {count(len(others), 'other transactional id')}. Readers of committed records received "
        "no record after it."
    )


def _span(transaction: CoordinatedTransaction, facts: ProgramFacts) -> tuple[int, int]:
    begin_ns = since_start_ns(transaction.begin_ms, facts.started_ms)
    return begin_ns, since_start_ns(transaction.end_ms, facts.started_ms)


def _anomaly(
    kind: str, place: tuple[str, int, int | None], says: str, mistake: Mistake | None
) -> Row:
    topic, partition, offset = place
    who = f"{mistake.by}: {mistake.name}." if mistake else blame(None)
    return {
        "kind": kind,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "copies": [{"partition": partition, "note": f"{says} {who}"}],
        "steps": [judgement(mistake)],
    }

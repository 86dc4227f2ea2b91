"""Find inputs that a program lost, doubled or did not reach, and outputs without an input.

The policy decides which of these findings break the program's guarantee. Some findings also
describe the events of the input, and the program's mistake that these events prove.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import (
    DOUBLED_INPUT,
    HALF_INPUT,
    LOST_INPUT,
    REPEATED_INPUT,
    STRANGE_OUTPUT,
    UNREACHED_INPUT,
    Kind,
    Severity,
)
from highwater.checkers.core.checker import checker
from highwater.checkers.core.derived import derived
from highwater.checkers.core.promises import if_program_says, never
from highwater.checkers.groups.events import Row, in_words
from highwater.checkers.programs.evidence import CLOCKS_NS, evidence_of, seconds
from highwater.checkers.programs.facts import ProgramFacts, passed_by
from highwater.checkers.programs.lost_proofs import passed_calmly
from highwater.checkers.programs.mistakes import mistake_of
from highwater.checkers.programs.outcomes import (
    DOUBLED,
    HALF,
    LOST,
    UNREACHED,
    input_outcomes,
    strange_outputs,
)
from highwater.checkers.programs.timeline import Step, explained, steps, witnesses
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

EXPLAINED_MAX: Final = 100
"""The greatest number of inputs of each outcome that a verdict describes with their events. These
inputs are spread evenly over the run, because a program may make several mistakes."""

_KINDS: Final = {
    LOST: LOST_INPUT,
    HALF: HALF_INPUT,
    DOUBLED: DOUBLED_INPUT,
    UNREACHED: UNREACHED_INPUT,
}
_PROMISE: Final = "processing: --guarantee of highwater app"


def no_program(tables: Tables, case: RunFiles) -> str:
    """Return the reason why no program can be judged."""
    if case.plan.program is None:
        return "there is no program under test"
    facts = program_facts(tables).get(case.key)
    return (
        ""
        if facts is None or facts.complete
        else ("the program's output was not read, or it names no input")
    )


def no_inputs(tables: Tables, case: RunFiles) -> str:
    """Return the reason why a program's inputs cannot be judged."""
    return "the program has no input" if case.plan.without_input else no_program(tables, case)


@derived
def program_facts(tables: Tables) -> dict[str, ProgramFacts]:
    """Return the facts about each run's program, by the run's key, if they can be read."""
    facts = ((case.key, ProgramFacts.of(case)) for case in tables.cases)
    return {key: of_run for key, of_run in facts if of_run is not None}


@derived
def outcomes(tables: Tables) -> dict[str, pa.Table]:
    """Return the outcome of every input of each run (``outcomes.OUTCOME``), by the run's key."""
    return {
        key: input_outcomes(
            facts.inputs,
            facts.outputs,
            facts.positions,
            complete=facts.complete,
            needed=facts.program.outputs,
            exempt=facts.exempt,
        )
        for key, facts in program_facts(tables).items()
    }


@checker(
    Kind(
        LOST_INPUT,
        guarantee="An input that the committed position has passed has an output.",
        singular="input is lost: its position was committed, and it has no output",
        plural="inputs are lost: their positions were committed, and they have no output",
        severity=Severity.CRITICAL,
        promise=_PROMISE,
        breaks=if_program_says("at-least-once", "exactly-once"),
        says=in_words,
        evidence=witnesses,
        absence=True,
    ),
    Kind(
        HALF_INPUT,
        guarantee="An input that the committed position has passed has all of its outputs.",
        singular="input was half processed: its position was committed, and it lacks outputs",
        plural="inputs were half processed: their positions were committed, and they lack outputs",
        severity=Severity.CRITICAL,
        promise=_PROMISE,
        breaks=if_program_says("at-least-once", "exactly-once"),
        says=in_words,
        evidence=witnesses,
        absence=True,
    ),
    Kind(
        DOUBLED_INPUT,
        guarantee="No input has more outputs than it should have.",
        singular="input was processed more than once",
        plural="inputs were processed more than once",
        severity=Severity.SERIOUS,
        promise=_PROMISE,
        breaks=if_program_says("at-most-once", "exactly-once"),
        says=in_words,
        evidence=witnesses,
    ),
    Kind(
        REPEATED_INPUT,
        guarantee="An input is not processed again after its position was committed.",
        singular="input was processed again after its position was committed",
        plural="inputs were processed again after their positions were committed",
        severity=Severity.SERIOUS,
        promise=_PROMISE,
        breaks=if_program_says("at-most-once", "exactly-once"),
        says=in_words,
    ),
    Kind(
        UNREACHED_INPUT,
        guarantee="The committed position reaches the end of the input.",
        singular="input was not reached by the program",
        plural="inputs were not reached by the program",
        severity=Severity.UNDECIDED,
        promise=_PROMISE,
        breaks=never,
        says=in_words,
        absence=True,
    ),
    Kind(
        STRANGE_OUTPUT,
        guarantee="An output names an input that was sent.",
        singular="output names an input that was never sent",
        plural="outputs name inputs that were never sent",
        severity=Severity.SERIOUS,
        promise=_PROMISE,
        breaks=if_program_says("at-least-once", "at-most-once", "exactly-once"),
        says=in_words,
    ),
    idle=no_inputs,
)
def inputs(tables: Tables) -> pa.Table:
    """Return inputs that were lost, half processed, doubled or not reached, and false outputs.

    An input is also *repeated* if it was doubled after its position was committed. A program may
    process an input again only before its position is committed.
    """
    cases = {case.key: case for case in tables.cases if not case.plan.without_input}
    rows = [
        {"run": key, **row}
        for key, facts in program_facts(tables).items()
        if key in cases
        for row in _of_run(cases[key], facts, outcomes(tables)[key])
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def explained_numbers(count: int) -> set[int]:
    """Return the indices of the inputs to explain, at most ``EXPLAINED_MAX`` of ``count``."""
    explained = min(count, EXPLAINED_MAX)
    return {number * count // explained for number in range(explained)}


def _of_run(case: RunFiles, facts: ProgramFacts, table: pa.Table) -> Iterator[Row]:
    for outcome in (LOST, HALF, DOUBLED):
        rows = table.filter(pc.equal(table["outcome"], outcome)).to_pylist()
        chosen = explained_numbers(len(rows))
        explain = (
            _explainer(case, facts, [rows[n] for n in sorted(chosen)]) if rows else _unexplained
        )
        for number, row in enumerate(rows):
            says, ways = (explain if number in chosen else _unexplained)(row)
            yield _anomaly(facts, row, f"{_finding(facts, row)}{says}", ways)
        if outcome == DOUBLED:
            yield from _repeated(facts, rows)
    unreached = table.filter(pc.equal(table["outcome"], UNREACHED)).to_pylist()
    for row in unreached if facts.complete else ():
        yield _anomaly(facts, row, _finding(facts, row), [])
    for row in strange_outputs(facts.names, facts.outputs).to_pylist():
        yield _strange(facts, row)


def _anomaly(facts: ProgramFacts, row: Row, says: str, ways: Sequence[Step]) -> Row:
    return {
        "kind": _KINDS[row["outcome"]],
        "topic": facts.plan.topic.name,
        "partition": row["partition"],
        "offset": row["offset"],
        "value": row["value"],
        "copies": [{"partition": row["partition"], "note": says}],
        "steps": [*ways],
    }


def _repeated(facts: ProgramFacts, rows: Sequence[Row]) -> Iterator[Row]:
    outputs = facts.outputs_of([row["value"] for row in rows])
    for row in rows:
        last = outputs[row["value"]][-1]
        passed = passed_by((facts.commits or {}).get(row["partition"], ()), row["offset"])
        if passed is not None and last.time_ns > passed.time_ns + CLOCKS_NS:
            place = f"{facts.plan.topic.name}-{row['partition']}"
            says = (
                f"{row['value']} at offset {row['offset']} of {place} was processed again: position"
                f" {passed.offset} was committed at {seconds(passed.time_ns)}, and the input's "
                f"last output"
                f" was written at {seconds(last.time_ns)}."
            )
            yield {**_anomaly(facts, row, says, []), "kind": REPEATED_INPUT}


def _strange(facts: ProgramFacts, row: Row) -> Row:
    place = facts.program.place(row["partition"], row["offset"])
    says = f"The output at {place} names {row['input']}, but no such input was sent: {row['value']}"
    return {
        "kind": STRANGE_OUTPUT,
        "topic": facts.program.out or facts.plan.topic.name,
        "partition": row["partition"],
        "offset": row["offset"],
        "value": row["input"],
        "copies": [{"partition": row["partition"], "note": says}],
        "steps": [],
    }


def _finding(facts: ProgramFacts, row: Row) -> str:
    place = f"{facts.plan.topic.name}-{row['partition']}"
    at = facts.positions.get(row["partition"])
    committed = f"{'no position' if at is None else f'position {at}'} is committed at the end"
    needed = facts.program.outputs
    written = f"{row['outputs']} of its {needed} outputs" if row["outputs"] else "no output"
    ends = {
        LOST: f"is lost: {committed}, and no output names it.",
        HALF: f"was half processed: {committed}, and {written} exist.",
        DOUBLED: f"has {row['outputs']} outputs{f', not {needed}' if needed > 1 else ''}.",
        UNREACHED: f"was not reached: {committed}, and {written} names it.",
    }
    return f"{row['value']} at offset {row['offset']} of {place} {ends[row['outcome']]}"


def _unexplained(_: Row) -> tuple[str, list[Step]]:
    return "", []


def _explainer(
    case: RunFiles, facts: ProgramFacts, rows: Sequence[Row]
) -> Callable[[Row], tuple[str, list[Step]]]:
    """Return a function that returns the mistake and the events of one of these inputs."""
    evidence_about = evidence_of(case, facts, rows)
    all_of_them = [evidence_about(row) for row in rows if row["outcome"] == LOST]
    calm = sum(map(passed_calmly, all_of_them))

    def explain(row: Row) -> tuple[str, list[Step]]:
        evidence = replace(evidence_about(row), calm=calm)
        mistake, why = mistake_of(evidence) or (None, "")
        return explained(mistake, why), steps(evidence, mistake)

    return explain

"""Find inputs whose first output comes after the output of a later input of their partition."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import OVERTAKEN_INPUT, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_program_keeps_order
from highwater.checkers.groups.events import Row, in_words
from highwater.checkers.programs.evidence import seconds
from highwater.checkers.programs.facts import Output, ProgramFacts
from highwater.checkers.programs.inputs import EXPLAINED_MAX, no_inputs, program_facts
from highwater.checkers.programs.mistakes import REPEATED_LATE, SENT_OUT_OF_ORDER, Mistake
from highwater.checkers.programs.outcomes import overtaken
from highwater.checkers.programs.requests import ProgramRequests
from highwater.checkers.programs.timeline import explained, judgement, witnesses
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables


def no_order(tables: Tables, case: RunFiles) -> str:
    """Return the reason why the order of outputs cannot be judged."""
    if case.plan.program is not None and not case.plan.program.ordered:
        return "the program does not promise an order (--ordered)"
    return no_inputs(tables, case)


@checker(
    Kind(
        OVERTAKEN_INPUT,
        guarantee="First outputs are in the order of their inputs.",
        singular="input was overtaken by a later input of its partition",
        plural="inputs were overtaken by later inputs of their partitions",
        severity=Severity.MINOR,
        promise="order: --ordered of highwater app",
        breaks=if_program_keeps_order,
        says=in_words,
        evidence=witnesses,
    ),
    idle=no_order,
)
def output_order(tables: Tables) -> pa.Table:
    """Return the inputs whose first output comes after the output of a later input."""
    cases = {case.key: case for case in tables.cases if not no_order(tables, case)}
    rows = [
        {"run": key, **row}
        for key, facts in program_facts(tables).items()
        if key in cases
        for row in _of_run(cases[key], facts)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_run(case: RunFiles, facts: ProgramFacts) -> list[Row]:
    rows = overtaken(_judged(facts), facts.outputs).to_pylist()
    mistake_of = _explainer(case, facts, rows[:EXPLAINED_MAX]) if rows else None
    return [
        _anomaly(facts, row, mistake_of(row) if mistake_of and number < EXPLAINED_MAX else None)
        for number, row in enumerate(rows)
    ]


Explanation = tuple[Mistake | None, str]


def _explainer(
    case: RunFiles, facts: ProgramFacts, rows: Sequence[Row]
) -> Callable[[Row], Explanation]:
    """Return a function that shows by requests why a later input's output was written first."""
    requests = ProgramRequests.of(case, facts.program)
    failed = requests.failed([row["value"] for row in rows])

    def explain(row: Row) -> Explanation:
        late = requests.written_by(Output(0, row["out"], row["at"]))
        early = requests.written_by(Output(0, row["out"], row["later_at"]))
        if late is None or early is None or late.instance != early.instance:
            return None, ""
        for request in failed.get(row["value"], ()):
            if request.time_ns < late.time_ns:
                says = (
                    f"a Produce with this input's output, by {request.sender} at "
                    f"{seconds(request.time_ns)},"
                )
                says += f" {request.answer}; another Produce wrote it at {seconds(late.time_ns)}"
                return REPEATED_LATE, says
        if late.time_ns < early.time_ns:
            return None, ""
        says = (
            f"{early.sender} sent the later input's output at {seconds(early.time_ns)}, and "
            f"this input's at"
        )
        return SENT_OUT_OF_ORDER, f"{says} {seconds(late.time_ns)}"

    return explain


def _judged(facts: ProgramFacts) -> pa.Table:
    """Return the inputs that need an output."""
    exempt = pc.is_in(facts.inputs["value"], pa.array(facts.exempt, pa.string()))
    return facts.inputs.filter(pc.invert(exempt))


def _anomaly(facts: ProgramFacts, row: Row, explanation: Explanation | None) -> Row:
    topic, program = facts.plan.topic.name, facts.program
    says = (
        f"{row['value']} at offset {row['offset']} of {topic}-{row['partition']} was overtaken: its"
        f" first output is at {program.place(row['out'], row['at'])}, after the first output of "
        f"{row['later']}, a later input, at {row['later_at']}."
    )
    mistake, why = explanation or (None, "")
    if explanation:
        says += explained(mistake, why)
    return {
        "kind": OVERTAKEN_INPUT,
        "topic": topic,
        "partition": row["partition"],
        "offset": row["offset"],
        "value": row["value"],
        "copies": [{"partition": row["partition"], "note": says}],
        "steps": [judgement(mistake)] if explanation else [],
    }

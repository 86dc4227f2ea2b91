"""Find the inputs that later inputs of their partition overtook in a program's output."""

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import OVERTAKEN_INPUT, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_program_keeps_order
from highwater.checkers.groups.events import Row, in_words
from highwater.checkers.programs.facts import ProgramFacts
from highwater.checkers.programs.inputs import no_inputs, program_facts
from highwater.checkers.programs.outcomes import overtaken
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables


def no_order(tables: Tables, case: RunFiles) -> str:
    """Return why the order cannot be judged, as the end of a sentence."""
    if case.plan.program is not None and not case.plan.program.ordered:
        return "the program keeps no order (--ordered)"
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
    ),
    idle=no_order,
)
def output_order(tables: Tables) -> pa.Table:
    """Return the inputs whose first output comes after that of a later input."""
    ordered = {case.key for case in tables.cases if not no_order(tables, case)}
    rows = [
        {"run": key, **_anomaly(facts, row)}
        for key, facts in program_facts(tables).items()
        if key in ordered
        for row in overtaken(_judged(facts), facts.outputs).to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _judged(facts: ProgramFacts) -> pa.Table:
    """Return the inputs without those that need no output."""
    exempt = pc.is_in(facts.inputs["value"], pa.array(facts.exempt, pa.string()))
    return facts.inputs.filter(pc.invert(exempt))


def _anomaly(facts: ProgramFacts, row: Row) -> Row:
    topic, program = facts.plan.topic.name, facts.program
    says = (
        f"{row['value']} at offset {row['offset']} of {topic}-{row['partition']} was overtaken: its"
        f" first output is at {program.place(row['out'], row['at'])}, behind that of"
        f" {row['later']}, a later input, at {row['later_at']}."
    )
    return {
        "kind": OVERTAKEN_INPUT,
        "topic": topic,
        "partition": row["partition"],
        "offset": row["offset"],
        "value": row["value"],
        "copies": [{"partition": row["partition"], "note": says}],
        "steps": [],
    }

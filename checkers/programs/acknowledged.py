"""Find acknowledged records of a program without input that are lost or doubled."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import DOUBLED_OUTPUT, LOST_OUTPUT, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_program_says
from highwater.checkers.groups.events import Row, in_words
from highwater.checkers.programs.evidence import seconds
from highwater.checkers.programs.facts import ProgramFacts
from highwater.checkers.programs.inputs import no_program, program_facts
from highwater.checkers.programs.mistakes import TAKEN_FOR_ANOTHER
from highwater.checkers.programs.outcomes import DOUBLED, LOST, input_outcomes
from highwater.checkers.programs.output_log import OutputLog
from highwater.checkers.programs.requests import ProgramRequests, Repetition
from highwater.checkers.programs.timeline import blame
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

_KINDS: Final = {LOST: LOST_OUTPUT, DOUBLED: DOUBLED_OUTPUT}
_PROMISE: Final = "writing: --guarantee of highwater app"
_IN_A_TRANSACTION: Final = (
    "in a transaction that was not committed. This is a mistake of the program: it printed "
    "before the commit."
)
_LOST_BY_BROKERS: Final = (
    "and other brokers have lost it. Kafka prevents such a loss only with acks=all and clean "
    "elections."
)


def nothing_acknowledged(tables: Tables, case: RunFiles) -> str:
    """Return the reason why no acknowledged record can be judged."""
    if case.plan.program is not None and not case.plan.without_input:
        return "the program has an input"
    return no_program(tables, case)


@checker(
    Kind(
        LOST_OUTPUT,
        guarantee="A record that was acknowledged to the program is in its topic.",
        singular="record of the program is lost: acknowledged, but not in its topic",
        plural="records of the program are lost: acknowledged, but not in their topic",
        severity=Severity.CRITICAL,
        promise=_PROMISE,
        breaks=if_program_says("at-least-once", "exactly-once"),
        says=in_words,
        absence=True,
    ),
    Kind(
        DOUBLED_OUTPUT,
        guarantee="A record that was acknowledged to the program is in its topic once.",
        singular="record of the program is in its topic more than once",
        plural="records of the program are in their topic more than once",
        severity=Severity.SERIOUS,
        promise=_PROMISE,
        breaks=if_program_says("at-most-once", "exactly-once"),
        says=in_words,
    ),
    idle=nothing_acknowledged,
)
def acknowledged(tables: Tables) -> pa.Table:
    """Return the acknowledged records of programs without input that are lost or doubled."""
    cases = {case.key: case for case in tables.cases if case.plan.without_input}
    rows = [
        {"run": key, **row}
        for key, facts in program_facts(tables).items()
        if key in cases and facts.complete
        for row in _of_run(cases[key], facts)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_run(case: RunFiles, facts: ProgramFacts) -> Iterator[Row]:
    records = facts.acknowledged
    everywhere = dict.fromkeys(pc.unique(records["partition"]).to_pylist(), len(records))
    table = input_outcomes(
        records, facts.outputs, everywhere, complete=True, needed=facts.program.outputs
    )
    rows = table.filter(pc.is_in(table["outcome"], pa.array(_KINDS))).to_pylist()
    if not rows:
        return
    log = OutputLog.of(case, facts)
    lost = [row["value"] for row in rows if row["outcome"] == LOST]
    repeated = ProgramRequests.of(case, facts.program).repeated(lost)
    for row in rows:
        yield _anomaly(facts, row, log, repeated.get(row["value"]))


def _taken_for_another(repetition: Repetition | None, log: OutputLog, out: str) -> str:
    """Return a sentence if a broker dropped a record as a retry of another record."""
    if repetition is None or None in repetition.sequence:
        return ""
    place = (repetition.partition, repetition.offset)
    for name, copies in log.copies.items():
        for copy in copies:
            if (copy.partition, copy.offset) == place and copy.sequence == repetition.sequence:
                return (
                    f"A broker acknowledged its Produce at {seconds(repetition.answered_ns)} "
                    f"with offset"
                    f" {copy.offset} of {out}-{copy.partition}. This offset has "
                    f"{name}, which the same"
                    f" producer had sent with the same "
                    f"sequence number "
                    f"({copy.sequence.sequence})."
                    f" {blame(TAKEN_FOR_ANOTHER)}"
                )
    return ""


def _anomaly(facts: ProgramFacts, row: Row, log: OutputLog, repetition: Repetition | None) -> Row:
    name, out = row["value"], facts.program.out
    copies = log.copies.get(name, ())
    says = f"{name} was acknowledged, as instance {row['partition']} printed, and"
    if row["outcome"] == DOUBLED:
        says += f" {out} has {row['outputs']} records of it."
    elif copies:
        place = f"offset {copies[0].offset} of {out}-{copies[0].partition}"
        says += f" readers do not receive it: broker {copies[0].broker} has it at {place}, "
        says += _IN_A_TRANSACTION if copies[0].transactional else _LOST_BY_BROKERS
    else:
        who = _taken_for_another(repetition, log, out) or blame(None)
        says += f" {out} has no record of it. {who}"
    return {
        "kind": _KINDS[row["outcome"]],
        "topic": out,
        "partition": copies[0].partition if copies else -1,
        "offset": copies[0].offset if copies else None,
        "value": name,
        "copies": [{"note": says}],
        "steps": [],
    }

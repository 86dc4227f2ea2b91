"""The wire's rows say who wrote and committed, who learned of it, and what came to no log."""

from dataclasses import replace

import pyarrow as pa

from highwater.checkers.groups.events import Row
from highwater.checkers.programs.facts import Output, Position, ProgramRequest
from highwater.checkers.programs.output_log import ProducerSequence
from highwater.checkers.programs.requests import ProgramRequests, Repetition
from highwater.checkers.programs.timeline import steps, witnesses
from highwater.harness.runs.history import REQUESTS
from highwater.harness.runs.plan import ProgramPlan
from tests.support.run_builder import batch
from tests.unit.checkers.programs.test_mistakes import COMMITTED_FIRST, NOT_COMMITTED, S, output

SENT = {"source": "client:app-1", "target": 1, "connection": 1, "instance": 1}
TO_OUTPUT = {**SENT, "api": "Produce", "topic": "payments", "acks": -1}
OF_GROUP = {**SENT, "api": "OffsetCommit", "topic": "orders", "partition": 0, "error": 0}


def requests(*rows: dict[str, object]) -> ProgramRequests:
    table = pa.Table.from_pylist([*rows], REQUESTS)
    program = ProgramPlan(command=("service",), out="payments")
    return ProgramRequests(table=table, topic="orders", program=program)


def produce(partition: int, first: int | None, records: int, error: int | None = 0) -> Row:
    answered_ns = None if error is None else 3 * S
    place = {"partition": partition, "offset": first, "records": records, "error": error}
    return {**TO_OUTPUT, **place, "time_ns": 2 * S, "answered_ns": answered_ns}


def test_the_request_that_wrote_an_output_is_the_one_whose_answer_covers_it() -> None:
    seen = requests(produce(0, 10, 5), produce(1, 10, 5), produce(0, 15, 1, error=6))
    [wrote] = {seen.written_by(Output(0, 0, offset)) for offset in (10, 14)}
    assert wrote == ProgramRequest(2 * S, 3 * S, 1, 0)
    assert [seen.written_by(Output(0, 0, offset)) for offset in (9, 15)] == [None, None]
    assert seen.written_by(Output(0, 2, 10)) is None


def test_a_position_was_committed_by_the_last_request_before_it() -> None:
    rows = [
        {**OF_GROUP, "offset": offset, "time_ns": at_s * S, "instance": instance}
        for offset, at_s, instance in ((18, 4, 1), (20, 5, 1), (18, 6, 0), (18, 9, 2))
    ]
    committer = requests(*rows).committed_by(0, Position(7 * S, 18, False))
    assert committer is not None
    assert (committer.instance, committer.time_ns) == (0, 6 * S)
    assert requests(*rows).committed_by(1, Position(7 * S, 18, False)) is None
    assert requests().committed_by(0, Position(7 * S, 18, False)) is None


def test_all_commits_of_the_topic() -> None:
    row = {**OF_GROUP, "offset": 18, "time_ns": 4 * S}
    seen = requests(row, {**row, "topic": "elsewhere"}, produce(0, 10, 5))
    assert seen.commits() == [(4 * S, 0, 18)]


def test_outputs_that_came_to_no_log_are_known_by_their_records() -> None:
    records = batch(0, -1, ["p0-17", "p0-18"])
    rows = [
        {**produce(0, None, 2, error=error), "batch": records, "time_ns": at_s * S}
        for error, at_s in ((None, 2), (10, 1))
    ]
    failed = requests(*rows).failed(["p0-17", "p0-19"])
    assert list(failed) == ["p0-17"]
    assert [request.answer for request in failed["p0-17"]] == [
        "was refused: MESSAGE_TOO_LARGE",
        "was never answered",
    ]


def test_acknowledged_records_that_were_taken_for_a_repetition_are_known_by_their_place() -> None:
    records, unknown = batch(0, -1, ["p0-17", "p0-18"]), ProducerSequence(None, None, None)
    rows = [
        {**produce(2, first, 2, error=error), "batch": records}
        for error, first in ((7, 40), (0, 50), (None, None))
    ]
    seen = requests(*rows)
    assert seen.repeated(["p0-18", "p0-19"]) == {"p0-18": Repetition(3 * S, 2, 51, unknown)}
    assert len(seen.failed(["p0-18"])["p0-18"]) == 2


def test_the_way_of_an_input_tells_of_them() -> None:
    lost = replace(
        COMMITTED_FIRST,
        unwritten=[ProgramRequest(int(3.9 * S), None, 0, None)],
        committed_by=lambda _: ProgramRequest(4 * S, 4 * S, 1, 0),
    )
    told = [(way.who, way.says) for way in witnesses({"steps": steps(lost, None)})]
    assert (
        "wire",
        "A Produce with an output of this input, by instance 0, was never answered.",
    ) in told
    assert ("instance 1", "The group committed position 20.") in told
    first = output(4)._replace(by=ProgramRequest(4 * S, 5 * S, 0, 0))
    doubled = replace(NOT_COMMITTED, outputs=[first, output(8)])
    told = [(way.who, way.says) for way in witnesses({"steps": steps(doubled, None)})]
    assert ("wire", "This output was acknowledged to instance 0.") in told
    assert ("instance 0", "An output of this input was written at offset 3 of payments-0.") in told
    assert ("program", "An output of this input was written at offset 3 of payments-0.") in told


def test_acknowledged_outputs_are_gone_where_the_log_has_nothing_or_later_records() -> None:
    rows = [produce(0, first, 2) for first in (10, 12, 14)]
    rows += [produce(0, 20, 2, error=None), produce(1, 30, 2), produce(0, 40, 1, error=7)]
    appended_ns = {(0, 10): 2 * S, (0, 12): 4 * S}  # acknowledged at 3 s
    gone = requests(*rows).gone(appended_ns)
    assert [(of.partition, of.offset, of.acks) for of in gone] == [(0, 12, -1), (0, 14, -1)]
    assert requests(*rows).gone({}) == []

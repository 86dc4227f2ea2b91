"""A run of a program is judged by its tables and the coordinators' topic on disk; no Spark."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
import pytest

from highwater.checkers.groups.offsets_topic import commits_on_disk
from highwater.checkers.programs.evidence import evidence_of
from highwater.checkers.programs.facts import ProgramFacts
from highwater.checkers.programs.inputs import (
    EXPLAINED_MAX,
    explained_numbers,
    inputs,
    no_program,
)
from highwater.checkers.programs.outcomes import LOST
from highwater.checkers.programs.output_order import no_order, output_order
from highwater.checkers.run_files import RunFiles, stage
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import INSTANCES_TABLE, OUTPUTS_TABLE, REQUESTS_TABLE
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
from tests.support.logdirs import Broker, batch, marker
from tests.support.run_builder import MS, RunBuilder
from tests.support.run_builder import batch as records

START_MS: Final = 1_790_000_000_000
PROGRAM: Final = ProgramPlan(command=("service",), out="payments")


def commit(
    base: int, at_ms: int, offset: int, *, producer: int = -1, topic: str = "orders"
) -> bytes:
    """The record of a committed offset of partition 0, as a coordinator writes it."""
    group, topic_name = b"orders-group", topic.encode()
    key = struct.pack(">hh", 1, len(group)) + group
    key += struct.pack(">h", len(topic_name)) + topic_name + struct.pack(">i", 0)
    value = struct.pack(">hqhq", 1, offset, 0, START_MS + at_ms)
    ids = (-1, -1, -1) if producer < 0 else (producer, 0, base)
    return batch(
        base,
        [(key, value)],
        producer=ids,
        transactional=producer >= 0,
        time_ms=START_MS + at_ms,
    )


def event(at_ms: int, name: str, life: int = 1) -> dict[str, Any]:
    row = {"time_ns": at_ms * MS, "instance": 0, "life": life, "event": name}
    return {**row, "status": -9 if name == "killed" else None}


def output(offset: int, at_ms: int, name: str | None) -> dict[str, Any]:
    row = {"kind": "output", "partition": 0, "offset": offset, "input": name, "value": "text"}
    return {**row, "timestamp_ms": START_MS + at_ms}


def written(
    path: Path,
    *outputs: dict[str, Any],
    position: int | None = 3,
    commits: bytes | None = b"",
    states: bytes | None = None,
    whole: bool = True,
    program: ProgramPlan = PROGRAM,
    instances: int = 1,
    requests: Sequence[Mapping[str, object]] = (),
) -> RunFiles:
    """A run of three inputs, staged: killed at 500 ms, and back at 600 ms."""
    topic = Topic(name="orders")
    run = RunBuilder(path / "run", kafka="4.4.0", topic=topic, workload=PROGRAM_WORKLOAD)
    run.plan = Plan(kafka="4.4.0", topic=topic, workload=PROGRAM_WORKLOAD, program=program)
    for number in range(3):
        run.send(f"p0-{number}", number)
    for number in range(3):
        run.read(f"p0-{number}", number)
    run.fence(3)
    run.journal("committed", "reader", position, group="orders-group")
    end = [{"kind": "end", "partition": 0, "offset": 9}] if whole else []
    run.rows[OUTPUTS_TABLE] = [*outputs, *end]
    lives = [event(50, "started"), event(500, "killed"), event(600, "started", 2)]
    spare = [{**event(60, "started"), "instance": number} for number in range(1, instances)]
    run.rows[INSTANCES_TABLE] = [*lives, *spare, event(5000, "closed", 2)]
    run.rows[REQUESTS_TABLE] = [dict(row) for row in requests]
    made = run.write()
    for name, log in (("__consumer_offsets", commits), ("__transaction_state", states)):
        if log is not None:
            Broker(made.coordinators / "1", 1).log(f"{name}-0", log)
    case = RunFiles.of(made, "r0")
    stage(case, path / "staged")
    return case


def found(case: RunFiles) -> dict[str, tuple[str, str]]:
    """Kind and sentence of each finding, by its value."""
    of_run = tables(case)
    rows = [
        row for each in (inputs, output_order) for row in cast("Any", each.find(of_run)).to_pylist()
    ]
    return {row["value"]: (row["kind"], row["copies"][0]["note"]) for row in rows}


def tables(case: RunFiles) -> Tables:
    return cast("Tables", SimpleNamespace(cases=(case,), derived={}))


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 115, 1000])
def test_as_many_inputs_are_explained_as_a_verdict_lists(count: int) -> None:
    numbers = sorted(explained_numbers(count))
    assert len(numbers) == min(count, EXPLAINED_MAX)
    assert not numbers or (numbers[0] == 0 and numbers[-1] >= count - count / EXPLAINED_MAX - 1)
    assert all(0 <= number < count for number in numbers)


def test_a_lost_input_is_told_with_its_mistake(tmp_path: Path) -> None:
    case = written(
        tmp_path,
        output(0, 300, "p0-0"),
        output(1, 900, "p0-2"),
        commits=commit(0, 310, 1) + commit(1, 400, 2) + commit(2, 950, 3),
    )
    kind, says = found(case)["p0-1"]
    assert kind == "lost-input"
    assert "Position 2 was committed at 0.400 s" in says
    assert "instance 0 was killed at 0.500 s" in says
    assert says.endswith("The program: position committed before the output was acknowledged.")
    assert {*found(case)} == {"p0-1"}


def test_an_input_that_was_passed_before_it_was_sent(tmp_path: Path) -> None:
    outputs = output(0, 300, "p0-0"), output(1, 900, "p0-2")
    case = written(tmp_path, *outputs, commits=commit(0, -310, 1) + commit(1, -300, 2))
    _, says = found(case)["p0-1"]
    assert says.endswith("The program: position past the end of the log.")
    facts = ProgramFacts.of(case)
    assert facts is not None
    row = {"value": "p0-1", "partition": 0, "offset": 1, "outcome": LOST}
    early = evidence_of(case, facts, [row])(row).habits.past_the_end
    assert [(commit.partition, commit.offset) for commit in early] == [(0, 1), (0, 2)]


def test_without_a_disk_of_positions_it_is_not_known_who_did_it(tmp_path: Path) -> None:
    case = written(tmp_path, output(0, 300, "p0-0"), output(1, 900, "p0-2"), commits=None)
    kind, says = found(case)["p0-1"]
    assert kind == "lost-input"
    assert says.endswith("The cause is not known.")


def test_a_doubled_input_and_one_that_was_not_reached(tmp_path: Path) -> None:
    case = written(
        tmp_path,
        output(0, 300, "p0-0"),
        output(1, 900, "p0-0"),
        output(2, 950, "p0-1"),
        position=2,
        commits=commit(0, 960, 2),
    )
    kinds = {name: kind for name, (kind, _) in found(case).items()}
    assert kinds == {"p0-0": "doubled-input", "p0-2": "unreached-input"}
    assert "when the committed position was 0" in found(case)["p0-0"][1]


@pytest.mark.parametrize(
    ("committed_ms", "written_ms", "repeated"),
    [(600, 900, True), (960, 900, False), (899, 900, False), (None, 900, False)],
)
def test_an_input_that_is_doubled_after_its_position_was_committed(
    tmp_path: Path, committed_ms: int | None, written_ms: int, *, repeated: bool
) -> None:
    case = written(
        tmp_path,
        output(0, 300, "p0-0"),
        output(1, written_ms, "p0-0"),
        commits=None if committed_ms is None else commit(0, committed_ms, 1),
    )
    rows = cast("Any", inputs.find(tables(case))).to_pylist()
    told = {row["kind"]: row["copies"][0]["note"] for row in rows if row["value"] == "p0-0"}
    assert {*told} == {"doubled-input"} | ({"repeated-input"} if repeated else set())
    if repeated:
        assert told["repeated-input"] == (
            "p0-0 at offset 0 of orders-0 was processed again: position 1 was committed at 0.600 s,"
            " and the input's last output was written at 0.900 s."
        )


def test_what_a_program_printed_is_at_no_offset_of_a_topic(tmp_path: Path) -> None:
    program = msgspec.structs.replace(PROGRAM, out="")
    outputs = [output(number, 300 + number, "p0-0") for number in range(2)]
    end = {"kind": "end", "partition": 1, "offset": 0}  # of the spare instance
    case = written(tmp_path, *outputs, end, program=program)
    rows = cast("Any", inputs.find(tables(case))).to_pylist()
    told = [step["value"] for row in rows for step in row["steps"] if step["kind"] == "output"]
    assert told == [
        f"An output of this input was written at line {number} that instance 0 printed."
        for number in range(2)
    ]


def test_an_output_of_no_input_is_strange(tmp_path: Path) -> None:
    outputs = [output(number, 300, f"p0-{number}") for number in range(3)]
    case = written(tmp_path, *outputs, output(3, 400, "p0-77"), output(4, 500, None))
    assert {name: kind for name, (kind, _) in found(case).items()} == {"p0-77": "strange-output"}


def test_half_an_input_and_one_that_needs_no_output(tmp_path: Path) -> None:
    outputs = [output(number, 300, "p0-0") for number in range(2)]
    exempt = {"kind": "exempt", "partition": 0, "offset": 2, "input": "p0-2"}
    program = msgspec.structs.replace(PROGRAM, outputs=2, when="[01]$")
    case = written(tmp_path, *outputs, output(2, 300, "p0-1"), exempt, program=program)
    [(name, (kind, says))] = found(case).items()
    assert (name, kind) == ("p0-1", "half-input")
    assert "was half processed: position 3 is committed at the end, and 1 of its 2" in says


def test_the_order_of_outputs_is_judged_where_it_is_kept(tmp_path: Path) -> None:
    outputs = [output(at, 300, f"p0-{number}") for at, number in enumerate((0, 2, 1))]
    case = written(tmp_path / "free", *outputs)
    assert found(case) == {}
    assert "--ordered" in no_order(tables(case), case)
    ordered = msgspec.structs.replace(PROGRAM, ordered=True)
    case = written(tmp_path / "kept", *outputs, program=ordered)
    [(name, (kind, says))] = found(case).items()
    assert (name, kind) == ("p0-1", "overtaken-input")
    assert says == (
        "p0-1 at offset 1 of orders-0 was overtaken: its first output is at offset 2 of"
        " payments-0, after the first output of p0-2, a later input, at 1. The cause is not known."
    )


def produce(at_ms: int, offset: int | None, *names: str, instance: int = 0) -> dict[str, object]:
    """A Produce that wrote records from an offset on; without an offset, it was never answered."""
    sent = {"source": f"client:app-{instance}", "target": 1, "connection": 1, "instance": instance}
    row = {**sent, "api": "Produce", "topic": "payments", "partition": 0, "acks": -1}
    row |= {"time_ns": at_ms * MS, "records": len(names), "offset": offset}
    if offset is None:
        return {**row, "batch": records(0, -1, names)}
    return {**row, "answered_ns": (at_ms + 5) * MS, "error": 0}


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        (
            [produce(100, 0, "p0-0", "p0-2"), produce(200, 2, "p0-1")],
            "at 0.200 s. The program: outputs sent in another order than their inputs.",
        ),
        (
            [produce(90, None, "p0-1"), produce(100, 0, "p0-0", "p0-2"), produce(200, 2, "p0-1")],
            "wrote it at 0.200 s. The program: failed send repeated behind later outputs.",
        ),
        (
            [produce(100, 0, "p0-0", "p0-2", instance=1), produce(200, 2, "p0-1")],
            "The cause is not known.",
        ),
        ([produce(100, 0, "p0-0", "p0-2")], "The cause is not known."),
    ],
)
def test_the_wire_tells_why_an_input_was_overtaken(
    tmp_path: Path, requests: list[dict[str, object]], says: str
) -> None:
    outputs = [output(at, 300, f"p0-{number}") for at, number in enumerate((0, 2, 1))]
    ordered = msgspec.structs.replace(PROGRAM, ordered=True)
    case = written(tmp_path, *outputs, program=ordered, requests=requests)
    assert found(case)["p0-1"][1].endswith(says)


@pytest.mark.parametrize("whole", [True, False])
def test_nothing_is_lost_where_outputs_are_unread_or_name_nothing(
    tmp_path: Path, whole: bool
) -> None:
    names = [None, None, None] if whole else ["p0-0", "p0-1", None]
    outputs = [output(number, 300, name) for number, name in enumerate(names)]
    case = written(tmp_path, *outputs, whole=whole)
    assert found(case) == {}
    assert "names no input" in no_program(tables(case), case)


def test_a_run_without_a_program_has_nothing_to_judge(tmp_path: Path) -> None:
    case = written(tmp_path, output(0, 300, "p0-0"))
    case.plan = msgspec.structs.replace(case.plan, program=None)
    assert found(case) == {}
    assert no_program(tables(case), case) == "there is no program under test"


def test_positions_of_a_transaction_count_from_its_commit_on(tmp_path: Path) -> None:
    log = (
        commit(0, 100, 1, producer=7)
        + commit(1, 150, 9, producer=8)
        + marker(2, producer=7, commit=True, time_ms=START_MS + 200)
        + marker(3, producer=8, commit=False, time_ms=START_MS + 250)
        + commit(4, 300, 5, topic="other")
        + commit(5, 400, 2)
    )
    case = written(tmp_path, output(0, 300, "p0-0"), commits=log)
    commits = commits_on_disk(case)
    assert commits is not None
    assert [(one.offset, one.timestamp_ms, one.transactional) for one in commits] == [
        (1, START_MS + 200, True),
        (2, START_MS + 400, False),
    ]

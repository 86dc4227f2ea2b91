"""Inputs that need no output are recorded when the run ends."""

from pathlib import Path

from highwater.harness.clients.programs.outputs import record_exempt
from highwater.harness.runs.history import OUTPUTS_TABLE, read_stream
from highwater.harness.runs.plan import ProgramPlan
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Run

INPUTS = [("7", b'{"id": 7, "sum": 3}'), ("8", b'{"id": 8}')]


def exempt(path: Path, when: str) -> tuple[list[str], list[str]]:
    run = Run(path)
    with Recorder(run, lambda: 0, program=True) as recorder:
        problems = record_exempt(ProgramPlan(command=("x",), when=when), INPUTS, recorder)
    rows = [row for part in read_stream(run.stream(OUTPUTS_TABLE)) for row in part.to_pylist()]
    assert {row["kind"] for row in rows} <= {"exempt"}
    return problems, [row["input"] for row in rows]


def test_an_input_in_which_nothing_is_found_needs_no_output(tmp_path: Path) -> None:
    assert exempt(tmp_path / "sum", "$.sum") == ([], ["8"])
    assert exempt(tmp_path / "all", "") == ([], [])
    assert exempt(tmp_path / "key", "key") == ([], [])


def test_that_no_input_needs_an_output_is_a_problem(tmp_path: Path) -> None:
    problems, names = exempt(tmp_path, "$.missing")
    assert names == ["7", "8"]
    assert problems == [
        """--when '$.missing' matches no input. The first input is: '{"id": 7, "sum": 3}'."""
    ]


def test_a_function_that_fails_is_told(tmp_path: Path) -> None:
    problems, names = exempt(tmp_path, "json:loads")
    assert names == []
    assert "json:loads failed" in problems[0]

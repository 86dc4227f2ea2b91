"""What a program says it has done is recorded to the last line, whatever happens to it."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.history import OUTPUTS_TABLE, read_stream
from highwater.harness.runs.plan import Plan, ProgramPlan, Topic
from highwater.harness.runs.programs.expressions import expression
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.programs import instances
from highwater.runtime.programs.instances import RunningProgram
from highwater.runtime.programs.printed_lines import ACKNOWLEDGED, PrintedLines

COUNTS = """
import time
for number in range(3000):
    print(f"HIGHWATER_DONE p0-{number}", flush=True)
    print("." * 1500)
print("HIGHWATER_DONE p0-99", end="", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def recorder(run: Run) -> Iterator[Recorder]:
    with Recorder(run, Clock(), program=True) as recorder:
        yield recorder


def rows(run: Run, recorder: Recorder) -> list[dict[str, Any]]:
    recorder.close()
    return [row for part in read_stream(run.stream(OUTPUTS_TABLE)) for row in part.to_pylist()]


def printed(run: Run, recorder: Recorder, match: str, *texts: bytes) -> list[tuple[int, str]]:
    """Places and inputs of what processes have printed, one after the other."""
    run.logs.mkdir()
    lines = PrintedLines(2, run.logs / "app-2.log", recorder, expression(match))
    for text in texts:
        with lines.pipe.open("wb") as pipe:
            pipe.write(text)
        lines.cut()
    lines.close()
    lines.close()
    *outputs, end = rows(run, recorder)
    assert (end["kind"], end["partition"], end["offset"]) == ("end", 2, lines.done)
    assert {row["partition"] for row in outputs} <= {2}
    return [(row["offset"], row["input"]) for row in outputs]


def test_which_lines_tell_of_an_input(run: Run, recorder: Recorder) -> None:
    text = b"up\nHIGHWATER_DONE p0-1\n12:00 INFO HIGHWATER_DONE p0-2 \r\nxHIGHWATER_DONE p0-3\n"
    text += b"HIGHWATER_DONE\nHIGHWATER_DONE else\nHIGHWATER_DONE id=p0-4 p0-5\n"
    found = printed(run, recorder, r"p0-\d+", text)
    assert found == [(0, "p0-1"), (1, "p0-2"), (2, "else"), (3, "p0-4")]
    assert b"12:00 INFO" in (run.logs / "app-2.log").read_bytes()


def test_a_program_without_input_tells_what_was_acknowledged(run: Run, recorder: Recorder) -> None:
    run.logs.mkdir()
    lines = PrintedLines(1, run.logs / "app-1.log", recorder, expression("key"), word=ACKNOWLEDGED)
    lines.pipe.write_bytes(b"HIGHWATER_DONE 1\nHIGHWATER_ACKNOWLEDGED 2\n")
    lines.close()
    [row] = rows(run, recorder)
    assert (row["kind"], row["partition"], row["offset"], row["input"]) == (
        "acknowledged", 1, 0, "2",
    )  # fmt: skip


def test_a_line_that_was_cut_short_tells_nothing(run: Run, recorder: Recorder) -> None:
    found = printed(
        run, recorder, "key", b"HIGHWATER_DONE 1\nHIGHWATER_DONE 2", b"HIGHWATER_DONE 3\n"
    )
    assert found == [(0, "1"), (1, "3")]


def test_names_are_found_as_in_outputs(run: Run, recorder: Recorder) -> None:
    text = b'HIGHWATER_DONE {"id": [7, 8]}\nHIGHWATER_DONE 9\n'
    assert printed(run, recorder, "$.id[*]", text) == [(0, "7"), (0, "8"), (1, "9")]


def test_a_line_without_an_end_is_bounded(run: Run, recorder: Recorder) -> None:
    text = b"x" * (3 << 20) + b" HIGHWATER_DONE 1\n"
    assert printed(run, recorder, "key", text) == [(0, "1")]


def test_a_function_that_fails_is_told(run: Run, recorder: Recorder) -> None:
    with pytest.raises(HarnessError, match="json:loads failed"):
        printed(run, recorder, "json:loads", b"HIGHWATER_DONE 1\n", b"more\n" * 100_000)


def test_no_line_of_a_program_is_missing_though_its_log_is_bounded(
    run: Run, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "LOG_BYTES_MOST", 1 << 20)
    program = ProgramPlan(command=(sys.executable, "-c", COUNTS), out="", instances=2)
    plan = Plan(kafka="4.4.0", topic=Topic(name="orders"), program=program)
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(
            RunningProgram(plan, program, "127.0.0.1:9092", recorder, run.logs)
        )
        await_condition(running.printed, lambda done: done >= 6000, what="its lines", limit_s=60)
        running.instances[0].kill()
        running.instances[0].start()
        await_condition(running.printed, lambda done: done >= 9000, what="its lines", limit_s=60)
    found = [(row["partition"], row["kind"], row["input"]) for row in rows(run, recorder)]
    names = [f"p0-{number}" for number in range(3000)]
    for instance, lives in ((0, 2), (1, 1)):
        outputs = [name for at, kind, name in found if (at, kind) == (instance, "output")]
        assert outputs == names * lives
        assert (instance, "end", None) in found
        assert (run.logs / f"app-{instance}.log").stat().st_size < 4 << 20


def test_what_a_plan_says_of_it() -> None:
    program = ProgramPlan(command=("x",), out="", instances=3)
    assert program.outlets(5) == 4
    assert program.place(1, 7) == "line 7 that instance 1 printed"
    written = msgspec.structs.replace(program, out="paid")
    assert (written.outlets(5), written.place(1, 7)) == (5, "offset 7 of paid-1")

"""Everything that is said of a record has the time at which its faults began, as the page does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.checkers.lineage import evidence
from highwater.harness.runs.faults.intervals import fault_intervals
from highwater.harness.runs.faults.times import strikes
from highwater.harness.runs.history import FAULTS, STEPS, STEPS_TABLE
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import UnusedFile


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A kill that began at 5 and had taken effect at 8, after a note at 6; healed at 20."""
    run = Run(tmp_path / "run")
    rows = [
        {"time_ns": at, "fault": fault, "phase": phase, "broker": broker, "says": phase}
        for at, fault, phase, broker in (
            (6, "step", "note", None), (8, "kill", "inject", 2), (20, "kill", "heal", 2)
        )
    ]  # fmt: skip
    steps = [{"event": "strike", "time_ns": 5, "fault": "kill", "broker": 2}]
    for name, table in (
        ("events/faults", pa.Table.from_pylist(rows, schema=FAULTS)),
        (STEPS_TABLE, pa.Table.from_pylist(steps, schema=STEPS)),
    ):
        run.parquet(name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, run.parquet(name))
    return run


def case(run: Run, *unread: str) -> Any:  # noqa: ANN401 - a case of a run, as far as it is asked
    tables = {"events/faults": run.parquet("events/faults")}
    return SimpleNamespace(
        run=run, tables=tables, unread=[UnusedFile(path=path, why="is another") for path in unread]
    )


def test_a_fault_has_the_time_that_the_page_of_its_run_has(run: Run) -> None:
    rows = evidence._faults(case(run))
    assert [(row["phase"], row["time_ns"]) for row in rows] == [
        ("inject", 5), ("note", 6), ("heal", 20)
    ]  # fmt: skip
    faults, _ = fault_intervals(run.table("events/faults").to_pylist(), strikes(run))
    assert [fault.start_ns for fault in faults] == [rows[0]["time_ns"]]


def test_a_schedule_that_is_no_evidence_dates_nothing(run: Run) -> None:
    rows = evidence._faults(case(run, f"{STEPS_TABLE}.parquet"))
    assert [row["time_ns"] for row in rows] == [6, 8, 20]

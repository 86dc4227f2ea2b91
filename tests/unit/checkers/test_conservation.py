"""Rows recorded are rows read are rows judged: whatever is short of that is no verdict."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.cycles import cycles
from highwater.checkers.history import record_summaries
from highwater.checkers.jepsen import judge as jepsen
from highwater.checkers.jepsen.history_file import History
from highwater.checkers.judge import judge
from highwater.checkers.kafka_files.segment_files import Segment
from highwater.checkers.spark import kafka_log
from highwater.harness.runs import manifest
from highwater.harness.runs.history import OPERATIONS_TABLE
from highwater.harness.runs.store import Run
from tests.histories import loops
from tests.support import spoiled as sweep
from tests.support.run_builder import RunBuilder

pytestmark = pytest.mark.spark

RECORDS = 50
EDN = """
{:type :invoke, :f :send, :value [[:send 0 1]], :process 0, :time 1}
{:type :ok, :f :send, :value [[:send 0 [0 1]]], :process 0, :time 2}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 3}
{:type :ok, :f :poll, :value [[:poll {0 [[0 1]]}]], :process 1, :time 4}
"""


def whole(path: Path) -> Run:
    """A run that kept all its records."""
    run = RunBuilder(path, kafka="4.3.1")
    run.leader(1, 0, [1, 2, 3])
    run.fault("kill", 1, "broker 1 is killed")
    run.everywhere([(place, 0, f"m{place}") for place in range(RECORDS)])
    run.fence(RECORDS)
    run.disk([1, 2, 3], [(RECORDS, 0, "fence-0")])
    return sweep.close(run.write())


def loses(monkeypatch: pytest.MonkeyPatch, left: Callable[[int], int]) -> None:
    """Have rows of records go between the two times that a history is read."""
    whole_tally = record_summaries.tally

    def short(rows: pa.Table, *, doubts: int) -> pa.Table:
        some = rows.slice(0, left(len(rows)))
        return (
            whole_tally(some, doubts=doubts) if len(some) else record_summaries.TALLY.empty_table()
        )

    monkeypatch.setattr(record_summaries, "tally", short)


def test_a_run_whose_rows_are_all_judged_is_valid(tmp_path: Path, spark: SparkSession) -> None:
    run = whole(tmp_path / "run")
    rows = pq.read_metadata(run.parquet(OPERATIONS_TABLE)).num_rows
    assert manifest.rows(run)[OPERATIONS_TABLE] == rows > 2 * RECORDS
    assert judge([run], spark)[0].verdict == "valid"


def test_rows_that_tasks_lose_are_no_verdict(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole(tmp_path / "run")
    loses(monkeypatch, lambda rows: rows // 2)
    rows = pq.read_metadata(run.parquet(OPERATIONS_TABLE)).num_rows
    [verdict] = judge([run], spark)
    assert (verdict.verdict, verdict.account, verdict.anomalies) == ("unknown", "none", ())
    [why] = [one.why for one in verdict.unread]
    assert why.startswith(f"has {rows} rows, of which ")
    assert 0 < int(why.split()[-3]) < rows


def test_a_history_of_jepsens_that_tasks_lose_is_no_verdict(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(EDN)
    loses(monkeypatch, lambda _: 0)
    history = History(path)
    read = history.to_parquet(tmp_path / jepsen.OPERATIONS_FILE)
    found = jepsen.judge(history, read, spark, tmp_path)
    assert found.verdict == "unknown"
    assert "The history has 2 rows, of which 0 were judged." in found.doubts


def test_a_run_that_is_too_long_for_cycles_has_every_other_verdict(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, "ROWS_MAX", 4)
    others = whole(tmp_path / "others")  # whose clients only send, or only read
    (loop, other) = judge([loops.loop(tmp_path / "run", loops.A, there=[]), others], spark)
    says = loop.checkers["G1c"]
    assert says.startswith("not judged: the history has ")
    assert says.endswith(" rows, and only histories of at most 4 rows are searched for cycles")
    assert {loop.checkers["phantom"], other.checkers["G1c"]} == {"held"}


def test_a_history_of_jepsen_s_that_is_too_long_for_cycles_is_unknown(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, "ROWS_MAX", 1)
    path = tmp_path / "history.edn"
    path.write_text(EDN)
    history = History(path)
    read = history.to_parquet(tmp_path / jepsen.OPERATIONS_FILE)
    says = (
        "Cycles were not judged: the history has 2 rows, and only histories of at most 1 rows are"
        " searched for cycles."
    )
    for ww, verdict in ((True, "unknown"), (False, "valid")):  # nobody both sends and reads
        found = jepsen.judge(history, read, spark, tmp_path, ww=ww)
        assert (found.verdict, found.doubts) == (verdict, (says,) if ww else ())


def test_rows_that_were_recorded_and_are_not_in_the_file(
    tmp_path: Path, spark: SparkSession
) -> None:
    """A row group that went between recording and sealing: the digest is that of the file."""
    run = whole(tmp_path / "run")
    path = run.parquet(OPERATIONS_TABLE)
    with pq.ParquetFile(path) as file:
        rows = file.read()
    pq.write_table(rows.slice(0, len(rows) - 7), path)
    digest = manifest.record(run, {OPERATIONS_TABLE: len(rows)})
    run.write_struct("status.json", msgspec.structs.replace(run.status(), manifest=digest))
    [verdict] = judge([run], spark)
    assert verdict.verdict == "unknown"
    expected = f"has {len(rows) - 7} of the {len(rows)} rows that were recorded"
    assert [one.why for one in verdict.unread] == [expected]


@pytest.mark.parametrize("left", [0, 100])
def test_a_segment_that_shrinks_between_two_reads(
    left: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole(tmp_path / "run")
    plan = kafka_log.plan

    def shrunk(found: list[Segment], *, cores: int) -> list[list[kafka_log.FileRange]]:
        tasks = plan(found, cores=cores)
        with Path(found[-1].path).open("r+b") as file:
            file.truncate(left)
        return tasks

    monkeypatch.setattr(kafka_log, "plan", shrunk)
    [verdict] = judge([run], spark)
    assert verdict.verdict == "unknown"
    assert "replicas/3/events-0 cannot be read to its end." in verdict.reasons
    assert not any(verdict.counts.values())

"""Histories read by tasks that read the files themselves, against Spark's reading of the same."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients import numbers, scan, view
from checkers.clients.facts import SEEN, SENT, SENT_FAIL, SENT_OK, has
from checkers.clients.numbers import NONE, Source, parts
from checkers.clients.picks import PLACE, RECORD, ROW
from checkers.clients.view import View
from harness.history import ADDED, OPERATIONS
from tests.histories.clients import rows
from tests.histories.clients_cases import CASES

pytestmark = pytest.mark.spark

COLUMNS = ("run", "at", "op", "client", "slot", "key", "deed", "fact")
GROUP = 7  # rows of a row group


@pytest.fixture(scope="module", autouse=True)
def tasks_of_any_size() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "FEW_ROWS", 1)
        yield


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """All histories written by hand, in one file."""
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    found = [{**row, "run": case.name} for case in CASES for row in rows(case.history)]
    return pa.Table.from_pylist(found, schema=schema)


@pytest.fixture(scope="module")
def seen(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> View:
    """These histories, in row groups that tasks share and batches that are no row group."""
    path = tmp_path_factory.mktemp("history") / "operations.parquet"
    pq.write_table(table, path, row_group_size=GROUP)
    return View(spark.read.parquet(str(path)), [Source(str(path))], path.parent / "kept")


def test_rows_are_numbered_as_spark_numbers_them(seen: View, table: pa.Table) -> None:
    tasks, count = parts(seen.sources, 3)
    assert count == len(table)
    assert len(tasks) >= 3
    ours = [
        row
        for task in tasks
        for part in task
        for batch in numbers.numbered(part)
        for row in zip(*(getattr(batch, name).tolist() for name in COLUMNS[1:]), strict=True)
    ]
    spark_says = seen.rows.select(*COLUMNS[1:]).collect()
    assert sorted(ours) == sorted(map(tuple, spark_says))


def test_records_are_summed_up_as_spark_would(seen: View) -> None:
    sent = has("fact", SENT)
    place = F.when(~has("fact", SENT_FAIL), F.col("offset"))
    expected = (
        seen.rows.where(has("fact", SENT | SEEN))
        .groupBy("key")
        .agg(
            F.max("slot"),
            F.max("history"),
            F.bit_or("fact"),
            F.min(place),
            F.max(place),
            F.max(F.when(sent, F.col("deed"))),
            F.min(F.when(sent, F.col("invoke_ns"))),
            F.max(F.when(has("fact", SENT_OK), F.col("complete_ns"))),
            F.max(F.when(sent, F.col("offset"))),
        )
    )
    names = ("key", "slot", "history", "facts", "first", "last", "writer", "begun", "ended", "told")
    assert _sorted(seen.records.select(*names)) == _sorted(expected)


def test_nothing_is_left_of_records_that_are_as_they_should_be(seen: View) -> None:
    doubtful = {row.key for row in seen.doubtful.select("key").collect()}
    healthy = seen.records.where(F.col("doubts").bitwiseAND(1023) == 0).select("key").collect()
    assert healthy
    assert not doubtful & {row.key for row in healthy}


@pytest.mark.parametrize("by", [RECORD, PLACE, ROW], ids="-".join)
def test_picked_rows_are_those_that_were_asked_for(seen: View, by: tuple[str, ...]) -> None:
    some = seen.rows.where("offset >= 2 AND at % 3 = 0").select(*by).distinct()
    wanted = some.toArrow()
    picked = seen.rows_of(f"some-{by[0]}", by, wanted)
    expected = seen.rows.join(some, list(by), "left_semi").select(*picked.columns)
    assert wanted.num_rows
    assert _sorted(picked) == _sorted(expected)


def test_many_rows_are_picked_by_spark(seen: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MANY", 0)
    every = seen.rows_of("many", ROW, pa.table({"at": [0]}))
    assert every.count() == seen.rows.count()


def test_an_older_run_lacks_columns(table: pa.Table, tmp_path: Path) -> None:
    one = table.filter(pa.array([run == CASES[0].name for run in table["run"].to_pylist()]))
    path = tmp_path / "old.parquet"
    pq.write_table(one.drop_columns([*ADDED, "run", "at"]), path)
    (task,) = parts([Source(str(path), "r0")], 1)[0]
    (batch,) = numbers.numbered(task[0])
    assert batch.op.tolist() == batch.at.tolist() == list(range(len(one)))
    assert NONE not in batch.slot.tolist()


def test_buckets_change_nothing(
    seen: View, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scan, "_BUCKET_ROWS", 50)
    many = View(seen.operations, seen.sources, tmp_path)
    assert _sorted(many.records) == _sorted(seen.records)
    assert many.sums.sort_by("slot") == seen.sums.sort_by("slot")


def _sorted(frame: DataFrame) -> list[tuple[object, ...]]:
    def plain(row: Row) -> tuple[object, ...]:
        return tuple(row)

    return sorted(map(plain, frame.collect()), key=repr)

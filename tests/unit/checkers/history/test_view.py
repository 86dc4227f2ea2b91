"""What is kept of a history for all checkers, against Spark's own sums over the same rows."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.history.row_flags import PROOF, PROVEN, SEEN, SENT, SENT_FAIL, SENT_OK
from highwater.checkers.history.rows import numbered
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.run_rows import in_order
from highwater.checkers.spark.engine import HERE_ROWS, Engine
from highwater.harness.runs.history import ADDED, OPERATIONS
from tests.histories.clients import rows
from tests.histories.clients_cases import CASES

pytestmark = pytest.mark.spark

GROUP = 7  # rows of a row group


def has(facts: str, bits: int) -> Column:
    """Whether any of these bits is among the facts."""
    return F.col(facts).bitwiseAND(F.lit(bits)) != 0


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """All histories written by hand, in one file."""
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    found = [{**row, "run": case.name} for case in CASES for row in rows(case.history)]
    return pa.Table.from_pylist(found, schema=schema)


@pytest.fixture(scope="module", params=[HERE_ROWS, 0], ids=["here", "by Spark"])
def seen(
    spark: SparkSession,
    table: pa.Table,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[ClientHistory]:
    """These histories, in many row groups."""
    path = tmp_path_factory.mktemp("history") / "operations.parquet"
    pq.write_table(table, path, row_group_size=GROUP)
    with Engine(spark, request.param) as engine:
        yield ClientHistory(engine, spark.read.parquet(str(path)), len(table))


def test_rows_are_there_once(seen: ClientHistory, table: pa.Table) -> None:
    assert len(seen.rows.table()) == len(seen.words.table()) == len(table)
    runs = (
        seen.words.table()
        .select(["run", "at"])
        .sort_by([("run", "ascending"), ("at", "ascending")])
    )
    given = table.select(["run", "at"]).sort_by([("run", "ascending"), ("at", "ascending")])
    assert runs.to_pylist() == given.to_pylist()
    assert sum(seen.judged.values()) == len(table)


def test_records_are_summed_up_as_spark_would(seen: ClientHistory) -> None:
    sent = has("fact", SENT)
    place = F.when(~has("fact", SENT_FAIL), F.col("offset"))
    expected = (
        numbered(seen.operations)
        .where(has("fact", SENT | SEEN))
        .groupBy("key")
        .agg(
            F.max("slot"),
            F.bit_or("fact"),
            F.min(place),
            F.max(place),
            F.max(F.when(sent, F.col("operation"))),
            F.min(F.when(sent, F.col("invoke_ns"))),
            F.max(F.when(has("fact", SENT_OK), F.col("complete_ns"))),
        )
    )
    found = [tuple(row.values()) for row in seen.records.table().to_pylist()]
    assert sorted(found, key=repr) == _sorted(expected)


def test_all_rows_of_records_in_doubt_are_given_and_no_others(seen: ClientHistory) -> None:
    doubtful = seen.doubtful.table()
    keys = {*doubtful["key"].to_pylist()}
    every = seen.rows.where(SENT | SEEN).table()
    asked = [row for row in every.to_pylist() if row["key"] in keys]
    assert keys
    assert len({*every["key"].to_pylist()}) > len(keys)
    given = doubtful.select(every.column_names).to_pylist()
    known = PROOF | PROVEN
    told = [{**row, "fact": row["fact"] & ~known} for row in given]
    assert sorted(map(repr, told)) == sorted(map(repr, asked))


def test_an_older_run_lacks_columns(table: pa.Table, tmp_path: Path, spark: SparkSession) -> None:
    one = table.filter(pa.array([run == CASES[0].name for run in table["run"].to_pylist()]))
    path = tmp_path / "old.parquet"
    added = ADDED.intersection(one.column_names)
    assert {"op", "isolation"} <= added
    pq.write_table(one.drop_columns([*added, "run", "at"]), path)
    schema = spark.createDataFrame(table.slice(0, 1)).drop("run", "at").schema
    frame = in_order(spark.read.schema(schema).parquet(str(path))).withColumn("run", F.lit("r0"))
    with Engine(spark) as engine:
        found = ClientHistory(engine, frame, len(one)).rows.table()
    assert found["op"].to_pylist() == found["at"].to_pylist() == list(range(len(one)))
    assert not found["slot"].null_count


def _sorted(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)

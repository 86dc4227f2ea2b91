"""Histories of older runs; what is kept of any is held by tests of anomalies, here and by Spark."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.history.view import ClientHistory
from highwater.checkers.run_rows import in_order
from highwater.checkers.spark.engine import Engine
from highwater.harness.runs.history import ADDED, OPERATIONS
from tests.histories.clients import rows
from tests.histories.clients_cases import CASES

pytestmark = pytest.mark.spark


def test_an_older_run_lacks_columns(tmp_path: Path, spark: SparkSession) -> None:
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    one = pa.Table.from_pylist([*rows(CASES[0].history)], schema=schema)
    path = tmp_path / "old.parquet"
    added = ADDED.intersection(one.column_names)
    assert {"op", "isolation"} <= added
    pq.write_table(one.drop_columns([*added, "run", "at"]), path)
    schema = spark.createDataFrame(one.slice(0, 1)).drop("run", "at").schema
    frame = in_order(spark.read.schema(schema).parquet(str(path))).withColumn("run", F.lit("r0"))
    with Engine(spark) as engine:
        found = ClientHistory(engine, frame, len(one)).rows.table()
    assert found["op"].to_pylist() == found["at"].to_pylist() == list(range(len(one)))
    assert not found["slot"].null_count

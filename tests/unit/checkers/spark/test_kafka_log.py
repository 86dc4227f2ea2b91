"""The Spark data source ``kafka-log``."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from highwater.checkers.kafka_files.reader import SCHEMA, read_segment
from highwater.checkers.kafka_files.segment_files import Segment, segments
from highwater.checkers.spark import engine, kafka_log
from highwater.checkers.spark.kafka_log import SPARK_SCHEMA, plan, read_log, replicas_of
from highwater.harness.base.errors import UsageError

FIXTURES = Path(__file__).parents[2] / "fixtures"


def expected(run: Path) -> list[dict[str, Any]]:
    found = segments(replicas_of(run))
    return [row for each in found for batch in read_segment(each) for row in batch.to_pylist()]


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["run"], row["topic"], row["position"], row["offset"]))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("here", "decoded", "tasks"), [(1 << 20, 1 << 20, 0), (1 << 20, 99, 1), (0, 0, 1)]
)
def test_spark_sees_what_the_reader_reads(
    here: int, decoded: int, tasks: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little is read here, unless it was much before it was compressed; else by tasks."""
    monkeypatch.setattr(kafka_log, "HERE_BYTES", here)
    monkeypatch.setattr(kafka_log, "_DECODED_MAX", decoded)
    made = Mock(wraps=engine.mapped)
    monkeypatch.setattr(kafka_log, "mapped", made)
    rows = [row.asDict() for row in read_log(spark, [FIXTURES]).collect()]
    for row in rows:
        for name in ("key", "value"):
            row[name] = None if row[name] is None else bytes(row[name])
    assert (len(rows) > 300, made.call_count) == (True, tasks)
    assert in_order(rows) == in_order(expected(FIXTURES))


@pytest.mark.spark
def test_many_runs_are_read_at_once_and_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    runs = [tmp_path / "first run", tmp_path / 'second, "quoted"']
    for run in runs:
        shutil.copytree(FIXTURES / "replicas", run / "replicas")
    counted = read_log(spark, runs).groupBy("run").count().collect()
    each = len(expected(FIXTURES))
    assert sorted(map(tuple, counted)) == [(run.name, each) for run in sorted(runs)]


@pytest.mark.spark
def test_the_replicas_folder_itself_will_do(spark: SparkSession) -> None:
    kafka_log.register(spark)
    log = spark.read.format("kafka-log").load(str(FIXTURES / "replicas"))
    assert log.schema == SPARK_SCHEMA
    markers = [row["control_type"] for row in log.where("control").collect()]
    assert sorted(set(markers)) == ["abort", "commit"]


@pytest.mark.spark
def test_the_columns_named_are_read_in_their_order(spark: SparkSession) -> None:
    names = ["offset", "value", "topic"]
    log = read_log(spark, [FIXTURES], names)
    assert log.columns == names
    rows = {(row["topic"], row["offset"], bytes(row["value"] or b"")) for row in log.collect()}
    assert rows == {(r["topic"], r["offset"], r["value"] or b"") for r in expected(FIXTURES)}


@pytest.mark.spark
def test_an_unknown_column_is_told(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="no column epoch, lag") as told:
        read_log(spark, [FIXTURES], ["offset", "epoch", "lag"])
    assert "leader_epoch" in told.value.hint
    source = kafka_log.KafkaLog({"path": str(FIXTURES)})
    with pytest.raises(UsageError, match="offset is not of type string"):
        source.reader(StructType().add("offset", StringType()))


@pytest.mark.spark
def test_a_broken_segment_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "replicas" / "1" / "events-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(b"\x09" * 64)
    (row,) = read_log(spark, [tmp_path / "run"]).collect()
    assert (row["run"], row["offset"], row["damage"]) == ("run", None, "corrupt")


@pytest.mark.spark
def test_no_runs_and_empty_runs_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert read_log(spark, []).schema == SPARK_SCHEMA
    assert read_log(spark, []).count() == 0
    (tmp_path / "replicas").mkdir()
    assert read_log(spark, [tmp_path]).count() == 0
    with pytest.raises(UsageError, match="is not a directory"):
        read_log(spark, [tmp_path / "nowhere"])


def test_both_schemas_name_the_same_columns() -> None:
    assert SPARK_SCHEMA.names == SCHEMA.names


@pytest.mark.parametrize(
    ("sizes", "cores", "task_bytes"),
    [
        ([], 2, 16),
        ([0], 2, 16),
        ([10, 2, 3], 2, 16),  # too little to share out
        ([10, 20, 40], 2, 35),  # one task a core
        ([1000, 1, 0, 130], 2, 64),  # too much for a task a core
    ],
)
def test_tasks_cover_every_byte_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: list[int],
    cores: int,
    task_bytes: int,
) -> None:
    monkeypatch.setattr(kafka_log, "TASK_BYTES_MIN", 16)
    monkeypatch.setattr(kafka_log, "TASK_BYTES_MAX", 64)
    folder = tmp_path / "run" / "replicas" / "1" / "events-0"
    folder.mkdir(parents=True)
    for index, size in enumerate(sizes):
        (folder / f"{index:020d}.log").write_bytes(bytes(size))
    tasks = plan(segments(tmp_path / "run" / "replicas"), cores=cores)
    covered: dict[Segment, int] = {}
    for task in tasks:
        assert sum(stop - start for _, start, stop in task) <= task_bytes
        for segment, start, stop in task:
            assert start == covered.get(segment, 0)
            covered[segment] = stop
    assert list(covered.values()) == sizes
    assert len(tasks) == max(1, -(-sum(sizes) // task_bytes))

"""Tiny hand-written histories, and every anomaly of the clients' view in them with its witness."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.anomalies.find import KINDS, find
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import HERE_ROWS, Engine
from highwater.harness.runs.history import OPERATIONS
from tests.histories.clients import Case, by_run, rows
from tests.histories.clients_cases import CASES

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", params=[HERE_ROWS, 0], ids=["here", "by Spark"])
def found(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> dict[str, tuple[str, ...]]:
    """The anomalies of all cases, found in one pass, in this process or by Spark's tasks."""
    folder = tmp_path_factory.mktemp("clients")
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    all_rows = [{**row, "run": case.name} for case in CASES for row in rows(case.history)]
    table = pa.Table.from_pylist(all_rows, schema=schema)
    pq.write_table(table, folder / "ops.parquet", row_group_size=7)
    operations = spark.read.parquet(str(folder / "ops.parquet"))
    with Engine(spark, request.param) as engine:
        return by_run(find(ClientHistory(engine, operations, len(all_rows))).table().to_pylist())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_anomalies_are_as_written(case: Case, found: dict[str, tuple[str, ...]]) -> None:
    assert found.get(case.name, ()) == tuple(sorted(case.found))


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_there_is_not_and_nearly_is(kind: str) -> None:
    names = [case.name for case in CASES]
    assert any(line.startswith(f"{kind} ") for case in CASES for line in case.found)
    assert any(name.startswith(f"{kind}, absent") for name in names)
    assert any(name.startswith(f"{kind}, near miss") for name in names)

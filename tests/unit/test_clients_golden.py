"""Tiny hand-written histories, and every anomaly of the clients' view in them with its witness."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.anomaly import SCHEMA
from checkers.clients.find import KINDS, find
from checkers.clients.numbers import Source
from checkers.clients.view import View
from checkers.leaves import dataset
from harness.history import OPERATIONS
from tests.histories.clients import Case, by_run, rows
from tests.histories.clients_cases import CASES

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, ...]]:
    """The anomalies of all cases, found in one pass."""
    folder = tmp_path_factory.mktemp("clients")
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    all_rows = [{**row, "run": case.name} for case in CASES for row in rows(case.history)]
    pq.write_table(pa.Table.from_pylist(all_rows, schema=schema), folder / "ops.parquet")
    path = str(folder / "ops.parquet")
    view = View(spark.read.parquet(path), [Source(path)], folder / "kept")
    return by_run(dataset([find(view)], SCHEMA).to_table().to_pylist())


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

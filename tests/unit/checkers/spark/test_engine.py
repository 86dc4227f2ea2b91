"""Rows give the same to a kernel, and of it, in this process and in Spark's tasks."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.spark.engine import HERE_ROWS, Engine, Rows

pytestmark = pytest.mark.spark

ROWS = 1_000
SCHEMA = pa.schema([("key", pa.int64()), ("fact", pa.int32()), ("word", pa.string())])
SUMS = pa.schema([("key", pa.int64()), ("rows", pa.int64()), ("facts", pa.int64())])


def sums(rows: pa.Table) -> pa.Table:
    """How many rows of each key there are, and the sum of their facts."""
    found = rows.group_by("key").aggregate([([], "count_all"), ("fact", "sum")])
    return found.rename_columns(SUMS.names)


def twice(rows: pa.Table) -> pa.Table:
    """Every row, and once more."""
    return pa.concat_tables([rows, rows])


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Few keys, and words of which some are null."""
    dice = np.random.default_rng(7)
    words = [None if number < 3 else f"w{number}" for number in dice.integers(0, 9, ROWS)]
    columns = [dice.integers(0, 50, ROWS), dice.integers(0, 8, ROWS), words]
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)


@pytest.fixture(scope="module", params=[HERE_ROWS, 0], ids=["here", "by Spark"])
def engine(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(spark, request.param) as engine:
        yield engine


@pytest.fixture
def rows(engine: Engine, table: pa.Table) -> Rows:
    frame = engine.spark.createDataFrame(table).repartition(3)
    found = engine.frame(frame, SCHEMA, ROWS)
    assert found.here == (engine.here > 0)
    return found


def same(found: Rows, expected: pa.Table) -> None:
    assert found.schema == expected.schema
    assert sorted(map(repr, found.table().to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_a_kernel_gets_every_row_once(rows: Rows, table: pa.Table) -> None:
    same(rows.map(twice, SCHEMA), twice(table))


def test_a_kernel_gets_all_rows_of_a_key_together(rows: Rows, table: pa.Table) -> None:
    same(rows.by(["key"], sums, SUMS), sums(table).cast(SUMS))
    same(rows.by(["key"], sums, SUMS).persist(), sums(table).cast(SUMS))


def test_rows_are_chosen(rows: Rows, table: pa.Table) -> None:
    bits = [row for row in table.to_pylist() if row["fact"] & 5]
    same(rows.where(5), pa.Table.from_pylist(bits, SCHEMA))
    same(rows.only("key", 3, 4), table.filter(pc.is_in(table["key"], pa.array([3, 4]))))
    same(rows.but("key", 3), table.filter(pc.not_equal(table["key"], 3)))
    same(rows.not_null("word"), table.filter(table["word"].is_valid()))
    same(rows.select(["word", "key"]), table.select(["word", "key"]))


def test_rows_are_joined(engine: Engine, rows: Rows, table: pa.Table) -> None:
    other = pa.table({"key": [1, 1, 2, 99], "more": [10, 11, 20, 990]})
    given = engine.table(other)
    expected = [
        {**row, "more": more["more"]}
        for row in table.to_pylist()
        for more in other.to_pylist()
        if row["key"] == more["key"]
    ]
    schema = pa.schema([*SCHEMA, ("more", pa.int64())])
    same(rows.join(given, ["key"]), pa.Table.from_pylist(expected, schema))
    some = pc.is_in(table["key"], pa.array([1, 2]))
    same(rows.join(given, ["key"], "semi"), table.filter(some))
    same(rows.join(given, ["key"], "anti"), table.filter(pc.invert(some)))


def test_rows_are_put_together_and_renamed(engine: Engine, rows: Rows, table: pa.Table) -> None:
    other = pa.table({"key": [1], "more": [10]})
    both = pa.concat_tables([table, other], promote_options="default")
    same(rows.union(engine.table(other)), both)
    same(rows.renamed({"word": "name"}), table.rename_columns(["key", "fact", "name"]))


def test_rows_are_counted(rows: Rows, table: pa.Table) -> None:
    found = rows.counts(["key"]).to_pylist()
    expected = table.group_by("key").aggregate([([], "count_all")]).to_pylist()
    assert {row["key"]: row["count"] for row in found} == {
        row["key"]: row["count_all"] for row in expected
    }
    distinct = rows.distinct(["key"])["key"].to_pylist()
    assert sorted(distinct) == sorted({*table["key"].to_pylist()})


def test_rows_of_a_number_that_nobody_knows(engine: Engine, table: pa.Table) -> None:
    frame = engine.spark.createDataFrame(table)
    found = engine.few(frame, SCHEMA)
    assert found.here == (engine.here >= ROWS)
    same(found, table)


def test_no_rows_make_none(engine: Engine) -> None:
    none = engine.table(SCHEMA.empty_table())
    same(none.by(["key"], sums, SUMS), SUMS.empty_table())
    frame = engine.spark.createDataFrame(SCHEMA.empty_table())
    same(engine.frame(frame, SCHEMA, 0).map(sums, SUMS), SUMS.empty_table())


def test_a_chunk_without_rows_hides_no_others(engine: Engine, table: pa.Table) -> None:
    found = engine.table(pa.concat_tables([SCHEMA.empty_table(), table]))
    assert found.frame().count() == ROWS

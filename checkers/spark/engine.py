"""Rows as the input of kernels, in this process if they are few, else in Spark.

A *kernel* is a function from one Arrow table to another. It has no state, opens no file, and is the
same for ten rows and for a hundred million. For few rows, a Spark job would take longer than the
kernel. Spark reads, shuffles, joins and persists rows; kernels compute.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Final, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

Kernel: TypeAlias = Callable[[pa.Table], pa.Table]

How: TypeAlias = Literal["inner", "semi", "anti"]

HERE_ROWS: Final = 2_000_000
"""The greatest number of rows that are collected into this process."""

_STRETCH_ROWS: Final = 500_000
"""The approximate number of rows in one call of a kernel by ``map``."""

_BROADCAST_ROWS: Final = 1_000_000
"""The greatest number of rows that are broadcast for a join."""

_SHUFFLED_ROWS: Final = 1_000_000
"""The approximate number of rows in a partition, and so in one call of a kernel by ``by``."""


class Engine:
    """Makes ``Rows``, and unpersists them at the end of ``with Engine(spark) as engine``.

    Args:
        spark: the session, of any kind.
        here: the greatest number of rows that are collected into this process.
    """

    def __init__(self, spark: SparkSession, here: int | None = None) -> None:
        self.spark = spark
        self.here = HERE_ROWS if here is None else here
        self._persisted: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()

    def table(self, table: pa.Table) -> "Rows":
        """Return the rows of a table, in this process."""
        return Rows(self, table.schema, table=table)

    def frame(self, frame: DataFrame, schema: pa.Schema, size: int) -> "Rows":
        """Return a frame's rows. A small frame is collected into this process.

        ``size`` is the greatest possible number of rows.
        """
        if size <= self.here:
            return self.table(collected(frame, schema))
        return self.there(frame, schema, size)

    def there(self, frame: DataFrame, schema: pa.Schema, size: int) -> "Rows":
        """Return a frame's rows, which stay in Spark even if they are few."""
        return Rows(self, schema, frame=frame, size=size)

    def given(self, table: pa.Table) -> DataFrame:
        """Return a table of this process as a Spark frame.

        PySpark stops reading a table at its first chunk without rows, so chunks are combined.
        """
        return self.spark.createDataFrame(table.combine_chunks())

    def few(self, frame: DataFrame, schema: pa.Schema) -> "Rows":
        """Return a frame's rows, if their number is unknown. The rows are computed only once."""
        first_rows = collected(frame.limit(self.here + 1), schema)
        if len(first_rows) <= self.here:
            return self.table(first_rows)
        return Rows(self, schema, frame=frame, size=len(first_rows)).persist()

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persist a frame: Spark computes it once, and again after the loss of a worker."""
        rows = frame.persist()
        self._persisted.append(rows)
        return rows


class Rows:
    """Rows of one schema, as a table of this process or as a Spark frame."""

    def __init__(
        self,
        engine: Engine,
        schema: pa.Schema,
        *,
        table: pa.Table | None = None,
        frame: DataFrame | None = None,
        size: int = 0,
    ) -> None:
        self.schema = schema
        self._engine = engine
        self._table = table
        self._frame = frame
        self._size = size

    def __len__(self) -> int:
        """Return the greatest possible number of rows. In Spark there may be fewer."""
        return self._size if self._table is None else len(self._table)

    @property
    def most_here(self) -> int:
        """The greatest number of rows that are collected into this process."""
        return self._engine.here

    @property
    def here(self) -> bool:
        """True if the rows are in this process."""
        return self._table is not None

    def table(self) -> pa.Table:
        """Return all rows, in this process."""
        return collected(self.frame(), self.schema) if self._table is None else self._table

    def frame(self) -> DataFrame:
        """Return all rows, in Spark."""
        if self._frame is None:
            self._frame = self._engine.given(self.table())
        return self._frame

    def map(self, kernel: Kernel, schema: pa.Schema) -> "Rows":
        """Return a kernel's result over ranges of the rows."""
        if self._table is not None:
            return self._engine.table(_whole(kernel, schema, self._table))
        run = partial(_ranges, kernel=kernel, schema=schema, given=self.schema)
        return self._there(mapped(self.frame(), run, schema), schema)

    def by(self, keys: Sequence[str], kernel: Kernel, schema: pa.Schema) -> "Rows":
        """Return a kernel's result over groups of rows that are equal in ``keys``."""
        if self._table is not None:
            return self.map(kernel, schema)
        parts = max(math.ceil(self._size / _SHUFFLED_ROWS), 2)
        moved = self.frame().repartition(parts, *keys)
        run = partial(_partition, kernel=kernel, schema=schema, given=self.schema)
        return self._there(mapped(moved, run, schema), schema)

    def where(self, bits: int, column: str = "fact") -> "Rows":
        """Return the rows in which a column has any of these bits."""
        mask = pa.scalar(bits, pa.int32())
        return self._filter(
            lambda table: pc.not_equal(pc.bit_wise_and(table[column], mask), 0),
            lambda: F.col(column).bitwiseAND(F.lit(bits)) != 0,
        )

    def only(self, column: str, *values: int | str) -> "Rows":
        """Return the rows that have one of these values in a column."""
        allowed = pa.array(values, self.schema.field(column).type)
        return self._filter(
            lambda table: pc.is_in(table[column], allowed), lambda: F.col(column).isin(*values)
        )

    def but(self, column: str, value: int | str) -> "Rows":
        """Return the rows whose value in a column is not this value."""
        return self._filter(
            lambda table: pc.not_equal(table[column], value), lambda: F.col(column) != value
        )

    def not_null(self, column: str) -> "Rows":
        """Return the rows whose value in a column is not null."""
        return self._filter(
            lambda table: table[column].is_valid(), lambda: F.col(column).isNotNull()
        )

    def _filter(self, here: Callable[[pa.Table], pa.Array], there: Callable[[], Column]) -> "Rows":
        if self._table is not None:
            return self._engine.table(self._table.filter(here(self._table)))
        return self._there(self.frame().where(there()), self.schema)

    def select(self, names: Sequence[str]) -> "Rows":
        """Return the rows with only these columns."""
        schema = pa.schema([self.schema.field(name) for name in names])
        if self._table is not None:
            return self._engine.table(self._table.select(list(names)))
        return self._there(self.frame().select(*names), schema)

    def counts(self, names: Sequence[str]) -> pa.Table:
        """Return how often each combination of values occurs (``count``), in this process."""
        if self._table is not None:
            grouped = self._table.group_by(list(names)).aggregate([([], "count_all")])
            return grouped.rename_columns([*names, "count"])
        schema = pa.schema([*(self.schema.field(name) for name in names), ("count", pa.int64())])
        return collected(self.frame().groupBy(*names).count(), schema)

    def renamed(self, names: Mapping[str, str]) -> "Rows":
        """Return the same rows with other names for some columns."""
        schema = pa.schema(
            [field.with_name(names.get(field.name, field.name)) for field in self.schema]
        )
        if self._table is not None:
            return self._engine.table(self._table.rename_columns(schema.names))
        return self._there(self.frame().toDF(*schema.names), schema)

    def distinct(self, names: Sequence[str]) -> pa.Table:
        """Return the distinct values of some columns, in this process."""
        few = self.select(names)
        if few.here:
            return few.table().group_by(list(names)).aggregate([])
        return collected(few.frame().distinct(), few.schema)

    def join(self, other: "Rows", keys: Sequence[str], how: How = "inner") -> "Rows":
        """Join these rows with other rows on ``keys``, which are not null.

        ``semi`` returns the rows that match some other row; ``anti`` returns the rows that match
        none.
        """
        added = [field for field in other.schema if how == "inner" and field.name not in keys]
        schema = pa.schema([*self.schema, *added])
        if self.here and other.here:
            return self._engine.table(_joined(self.table(), other.table(), keys, how, schema))
        right = F.broadcast(other.frame()) if len(other) <= _BROADCAST_ROWS else other.frame()
        kind = "inner" if how == "inner" else f"left_{how}"
        rows = self.frame().join(right, list(keys), kind).select(*schema.names)
        return self._there(rows, schema)

    def union(self, *others: "Rows") -> "Rows":
        """Return these rows and the other rows. Missing columns become null."""
        all_of_them = (self, *others)
        schema = pa.unify_schemas([part.schema for part in all_of_them])
        if all(part.here for part in all_of_them):
            tables = [complete(part.table(), schema) for part in all_of_them]
            return self._engine.table(pa.concat_tables(tables))
        frames = [part.frame() for part in all_of_them]
        union = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
        size = sum(map(len, all_of_them))
        return Rows(self._engine, schema, frame=union.select(*schema.names), size=size)

    def collect_if_few(self) -> "Rows":
        """Return the same rows. A few rows are collected into this process, to be read once."""
        return self if self.here else self._engine.frame(self.frame(), self.schema, len(self))

    def persist(self) -> "Rows":
        """Return the same rows, computed once; in this process if they are few."""
        if self.here:
            return self
        frame = self._engine.keep(self.frame())
        return self._engine.frame(frame, self.schema, frame.count())

    def _there(self, frame: DataFrame, schema: pa.Schema) -> "Rows":
        return Rows(self._engine, schema, frame=frame, size=self._size)


def complete(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema. Missing columns become null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def collected(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the rows of a frame as an Arrow table with this schema."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
        arrow_table = frame.toArrow()
    return arrow_table.select(schema.names).cast(schema)


def mapped(
    frame: DataFrame,
    kernel: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return the result of a function over a frame's Arrow batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for the same reason
        return frame.mapInArrow(kernel, from_arrow_schema(schema))


def _joined(
    left: pa.Table, right: pa.Table, keys: Sequence[str], how: How, schema: pa.Schema
) -> pa.Table:
    """Return two tables joined. Arrow cannot join list columns, so only row numbers are joined."""
    sides = [
        side.select(list(keys)).append_column(name, pa.array(np.arange(len(side))))
        for side, name in ((left, "_left"), (right, "_right"))
    ]
    kind = "inner" if how == "inner" else f"left {how}"
    both = sides[0].join(sides[1], list(keys), join_type=kind)
    rows = left.take(both["_left"])
    if how == "inner":
        for name in schema.names[len(left.schema) :]:
            rows = rows.append_column(schema.field(name), right[name].take(both["_right"]))
    return rows.select(schema.names)


def _whole(kernel: Kernel, schema: pa.Schema, table: pa.Table) -> pa.Table:
    if not len(table):
        return schema.empty_table()
    return kernel(table.combine_chunks()).select(schema.names).cast(schema)


def _ranges(
    batches: Iterable[pa.RecordBatch], kernel: Kernel, schema: pa.Schema, given: pa.Schema
) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += len(batch)
        if rows >= _STRETCH_ROWS:
            yield from _partition(pending, kernel, schema, given)
            pending, rows = [], 0
    yield from _partition(pending, kernel, schema, given)


def _partition(
    batches: Iterable[pa.RecordBatch], kernel: Kernel, schema: pa.Schema, given: pa.Schema
) -> Iterator[pa.RecordBatch]:
    whole = list(batches)
    if whole:
        table = pa.Table.from_batches(whole).cast(given)
        yield from _whole(kernel, schema, table).to_batches()

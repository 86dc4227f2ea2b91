"""Read tables with their row numbers, because Spark does not preserve the order of rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.run_files import plain
from highwater.checkers.spark.engine import Engine


def in_order(operations: DataFrame) -> DataFrame:
    """Add the row number ``at`` to operations, which were just read from Parquet files."""
    return operations.withColumn("at", F.col("_metadata.row_index"))


def from_here(
    engine: Engine, path: Path, run: str, names: Sequence[str] | None = None
) -> DataFrame:
    """Read columns of a run's file in this process, and add the columns ``run`` and ``at``."""
    table = pq.read_table(path, columns=names)
    table = table.cast(pa.schema([field.with_type(plain(field.type)) for field in table.schema]))
    table = table.append_column("at", pa.array(np.arange(len(table))))
    return engine.given(table).withColumn("run", F.lit(run))

"""The schema of the anomalies that checkers find."""

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

_COPY: Final = pa.struct(
    [
        ("broker", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("value", pa.string()),
        ("note", pa.string()),
    ]
)

_STEP: Final = pa.struct(
    [
        ("process", pa.string()),
        ("op", pa.int64()),
        ("kind", pa.string()),
        ("outcome", pa.string()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
    ]
)

SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
        ("acks", pa.string()),  # the producer's acks setting, where it matters
        ("copies", pa.list_(_COPY)),
        ("steps", pa.list_(_STEP)),
        ("delta", pa.int64()),  # how far the step goes in the log's order; a correct step has 1
        ("cause", pa.string()),  # the anomaly that caused this anomaly; null if there is none
    ]
)
"""The columns of ``analysis/anomalies.parquet``, which has one row for each anomaly.

``copies`` are the places where a record is: on a broker's disk, or (without a broker) at the offset
at which the final read returned it. ``steps`` is the shortest list of client operations that shows
the anomaly, in order, in columns of ``harness.runs.history.OPERATIONS``."""

ANOMALY: Final[T.StructType] = from_arrow_schema(SCHEMA)
"""``SCHEMA`` as a Spark type."""


def anomalies(rows: DataFrame, kind: str | Column, **columns: Column) -> DataFrame:
    """Return rows as anomalies of one kind, in columns of ``SCHEMA``.

    Args:
        rows: rows with a column ``run``. Their other columns of ``SCHEMA`` are used, too.
        kind: the name of a ``Kind`` of the checker.
        columns: values of more columns of ``SCHEMA``, by name. All others are null.
    """
    values = {"kind": F.lit(kind), **columns}
    return rows.select(
        *(
            values.get(field.name, F.col(field.name) if field.name in rows.columns else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in ANOMALY
        )
    )


def operation_step() -> Column:
    """Return a row of ``operations`` as a struct column for an anomaly's ``steps``."""
    return F.struct(*(field.name for field in _STEP))

"""The rows of a matrix as a Parquet file, for notebooks."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.harness.runs.availability import MEASURES

SCHEMA: Final = pa.schema(
    [
        pa.field("kafka", pa.string(), nullable=False),
        pa.field("driver", pa.string(), nullable=False),
        pa.field("story", pa.string()),
        pa.field("nemesis", pa.string()),
        pa.field("acks", pa.string(), nullable=False),
        pa.field("min_isr", pa.int32(), nullable=False),
        pa.field("unclean", pa.bool_(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("reader_client", pa.string(), nullable=False),
        pa.field("delivery", pa.string(), nullable=False),
        pa.field("group_protocol", pa.string(), nullable=False),
        pa.field("share", pa.int32(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("sent", pa.int64(), nullable=False),
        pa.field("acknowledged", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("unseen", pa.int64(), nullable=False),
        pa.field("divergent", pa.int64(), nullable=False),
        pa.field("as_predicted", pa.bool_()),
        pa.field("report", pa.string(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("problem", pa.string()),
        pa.field("model", pa.string()),
        pa.field("counted", pa.bool_()),
        pa.field("others", pa.string()),
        *(pa.field(f"{name}_s", pa.float64()) for name in MEASURES),
    ]
)
"""Columns of ``cells.parquet``: the fields of ``MatrixRow`` in their order."""


def write_parquet(rows: list[dict[str, Any]], file: Path) -> None:
    """Write rows with the columns of ``SCHEMA``. Replace an old file atomically."""
    partial = file.with_suffix(".parquet.partial")
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial)
    partial.replace(file)

"""Findings become anomalies: the rows that a finding points at are fetched, once for all kinds.

Until then a row is only its ``end``: its number in its run, and its client.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.picks import ROW
from checkers.clients.telling import Telling
from checkers.clients.view import View
from checkers.registry import ANOMALY

_COPIES: Final = "array<struct<offset:bigint,value:string,note:string>>"
_COLUMNS: Final = {
    "kind": "string",
    "ends": "array<struct<at:bigint,client:bigint>>",
    "offset": "bigint",
    "value": "string",
    "named": "boolean",
    "delta": "bigint",
    "copies": _COPIES,
}
_ALONE: Final = 20_000  # ends of findings that are not worth a second task


def end() -> Column:
    """Which row it is. The least of several is the first in the order of rows."""
    return F.struct("at", "client").alias("end")


def finding(
    found: DataFrame,
    kind: str | Column,
    *,
    ends: Sequence[Column],
    **columns: Column,
) -> DataFrame:
    """Rows as findings.

    Args:
        found: with what ``columns`` does not name: ``value``, ``delta``.
        kind: the anomaly's name.
        ends: the rows that show it, in order; null ones are left out.
        columns: ``offset``, ``value`` and ``copies`` (of offset, value and note) of the record at
            fault. Where neither tells a ``value``, the record at fault is that of the last row.
    """
    has_value = "value" in columns or "value" in found.columns
    given = {
        "kind": F.lit(kind) if isinstance(kind, str) else kind,
        "ends": F.array_compact(F.array(*ends)),
        "named": F.lit(has_value),
        **columns,
    }
    return found.select(
        *(
            given.get(name, F.col(name) if name in found.columns else F.lit(None))
            .cast(sql)
            .alias(name)
            for name, sql in _COLUMNS.items()
        )
    )


def copies(array: str, of: Callable[[Column], tuple[Column, Column]]) -> Column:
    """Copies of a record from an array column: ``of`` gives the offset and value of each."""

    def copy(each: Column) -> Column:
        offset, value = of(each)
        return F.struct(
            offset.alias("offset"), value.alias("value"), F.lit(None).cast("string").alias("note")
        )

    return F.transform(array, copy)


def witnessed(view: View, findings: Sequence[DataFrame]) -> Path:
    """Findings of all kinds as anomalies: a folder of files, in ``checkers.registry.SCHEMA``."""
    told = view.folder("witnessed")
    told.mkdir(exist_ok=True)
    if not findings:
        return told
    view.keep("findings", reduce(DataFrame.unionByName, findings))
    ends = view.told("findings", "ends")["ends"].combine_chunks().flatten()
    wanted = pa.table({name: pc.struct_field(ends, name) for name in ROW})
    rows = view.held("witnesses", ROW, wanted)
    share = view.spark.sparkContext.defaultParallelism if len(wanted) > _ALONE else 1
    telling = Telling(view.folder("findings"), rows, told, share)
    view.each(list(range(share)), telling)
    return told


def none(view: View) -> DataFrame:
    """No anomalies."""
    return view.spark.createDataFrame([], ANOMALY)

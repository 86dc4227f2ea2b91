"""Findings become anomalies: the rows that a finding points at are fetched, once for all kinds.

Until then a row is only its ``end``: its number in its run, and its client.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.picks import ROW
from checkers.clients.view import View
from checkers.registry import ANOMALY, anomalies, copy

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
_STEP: Final = (
    *("process", "op", "kind", "outcome", "invoke_ns", "complete_ns"),
    *("partition", "offset", "value"),
)


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


def witnessed(view: View, findings: Sequence[DataFrame]) -> DataFrame:
    """Findings of all kinds as anomalies, in ``checkers.registry.ANOMALY``."""
    found = view.keep("findings", reduce(DataFrame.unionByName, findings))
    one = found.select(
        F.xxhash64("kind", "ends").alias("id"),
        *found.columns,
        F.size("ends").alias("count"),
        F.posexplode("ends").alias("nth", "end"),
    ).drop("ends")
    asked = one.select("*", "end.at", "end.client").drop("end")
    rows = view.rows_of("witnesses", ROW, _numbers(view)).select(
        *("run", "topic", "at", "client", "acks"),
        F.struct(*(F.col(name) for name in _STEP)).alias("step"),
    )
    both = rows.join(asked, ["at", "client"])
    last = F.col("nth") == F.col("count") - 1
    step = F.struct("nth", "step")
    gathered = both.groupBy("id", "run").agg(
        *(F.first(name).alias(name) for name in ("topic", "delta", "copies", "named")),
        F.first("kind").alias("found"),
        F.first("offset").alias("place"),
        F.first("value").alias("record"),
        F.max("acks").alias("acks"),
        F.sort_array(F.collect_list(step)).alias("numbered"),
        F.max(F.when(last, F.col("step"))).alias("fault"),
    )
    return _anomalies(gathered)


def _numbers(view: View) -> pa.Table:
    ends = view.told("findings", "ends")["ends"].combine_chunks()
    return pa.table({"at": ends.flatten().field("at")})


def none(view: View) -> DataFrame:
    """No anomalies."""
    return view.spark.createDataFrame([], ANOMALY)


def _anomalies(gathered: DataFrame) -> DataFrame:
    partition = F.col("fault.partition")

    own = ~F.col("named")
    return anomalies(
        gathered,
        F.col("found"),
        partition=partition,
        offset=F.when(own, F.col("fault.offset")).otherwise(F.col("place")),
        value=F.when(own, F.col("fault.value")).otherwise(F.col("record")),
        copies=F.transform(
            "copies",
            lambda each: copy(
                partition=partition, offset=each["offset"], value=each["value"], note=each["note"]
            ),
        ),
        steps=F.transform("numbered", lambda each: each["step"]),
    )

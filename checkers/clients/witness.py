"""Findings become anomalies: the rows that a finding points at are fetched, once for all kinds.

Until then a row is only its ``end``: its number in its run, and its client.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.anomaly import ANOMALY
from checkers.clients.picks import ROW, Want
from checkers.clients.telling import FINDING, SHOWN, Telling
from checkers.clients.view import View
from checkers.leaves import dataset

_COLUMNS: Final = from_arrow_schema(FINDING)
_NUMBERS: Final = pa.schema([(name, pa.int64()) for name in ROW])


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
            .cast(kind)
            .alias(name)
            for name, kind in ((one.name, one.dataType) for one in _COLUMNS)
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


def witnessed(
    view: View, found: Sequence[DataFrame], told: Sequence[Path], rows: Sequence[Path]
) -> Path:
    """Findings of all kinds as anomalies: a folder of files, in ``checkers.anomaly.SCHEMA``.

    Args:
        view: the history.
        found: findings, as ``finding`` makes them.
        told: more of them, as folders of files that tasks left.
        rows: folders of rows that ``told`` point at, for ``checkers.clients.picks.Held``.
    """
    folder = view.folder("witnessed")
    folder.mkdir(exist_ok=True)
    if found:
        view.keep("findings", reduce(DataFrame.unionByName, found))
        findings = view.folder("findings")
        view.hold({"witnesses": Want(by=ROW, rows=partial(_wanted, findings), columns=SHOWN)})
        told, rows = [*told, findings], [*rows, view.held("witnesses")]
    if many := dataset(told, FINDING).count_rows():
        view.each(view.shares(2 * many), Telling(told, rows, folder))
    return folder


def _wanted(findings: Path) -> pa.Table:
    """The numbers of the rows that findings point at."""
    ends = ds.dataset(findings).to_table(["ends"])["ends"].combine_chunks().flatten()
    return pa.table([pc.struct_field(ends, name) for name in ROW], schema=_NUMBERS)


def none(view: View) -> DataFrame:
    """No anomalies."""
    return view.spark.createDataFrame([], ANOMALY)

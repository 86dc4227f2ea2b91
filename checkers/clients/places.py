"""Where an offset stands in the version order, and what stands between two of them.

Offsets are looked up in stretches (``View.extents``) by sorting both together: as many steps as
there are offsets and stretches, whatever lies between.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

_EXTENT: Final = ("low", "high", "base")


def before(frame: DataFrame, place: str, extents: DataFrame) -> DataFrame:
    """How many known offsets of its ``slot`` come before the offset in a column.

    Args:
        frame: any rows with ``slot`` and that column, which may hold unknown offsets too.
        place: the column's name.
        extents: ``View.extents``.

    Returns:
        ``frame`` with ``<place>_index``, that number, which is a known offset's own index, and
        ``<place>_known``, whether the offset is known.
    """
    found = _latest(frame, F.col(place), extents, F.col("low"))
    base, low, high = (F.col(f"_at.{name}") for name in ("base", "low", "high"))
    inside = F.least(F.col(place) - low, high - low + 1)
    return found.select(
        *frame.columns,
        F.coalesce(base + inside, F.lit(0)).alias(f"{place}_index"),
        F.coalesce(F.col(place) <= high, F.lit(False)).alias(f"{place}_known"),
    )


def offsets(frame: DataFrame, index: str, extents: DataFrame) -> DataFrame:
    """``frame`` with ``<index>_offset``: the offset that has the index in a column."""
    found = _latest(frame, F.col(index), extents, F.col("base"))
    offset = F.col("_at.low") + F.col(index) - F.col("_at.base")
    return found.select(*frame.columns, offset.alias(f"{index}_offset"))


def _latest(frame: DataFrame, by: Column, extents: DataFrame, starts: Column) -> DataFrame:
    """Each row with ``_at``, the last stretch of its slot that starts at or before it."""
    stretch = F.struct(*(F.col(name) for name in _EXTENT))
    marks = extents.select("slot", starts.alias("_by"), F.lit(0).alias("_is"), stretch.alias("_at"))
    asked = frame.withColumns({"_by": by, "_is": F.lit(1)})
    order = Window.partitionBy("slot").orderBy("_by", "_is")
    both = asked.unionByName(marks, allowMissingColumns=True)
    found = F.last("_at", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0))
    return both.withColumn("_at", found).where(F.col("_is") == 1)

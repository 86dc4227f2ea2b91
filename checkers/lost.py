"""``lost-write``: the acknowledgement was kept by nobody."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.deciding import LOST
from checkers.registry import anomalies, checker, copy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.tables import Tables


@checker(
    "lost-write",
    guarantee="An acknowledged record is read by every reader that passes its offset.",
)
def lost_write(tables: "Tables") -> "DataFrame":
    """Acknowledged, and not read by the final reader, which has passed its offset.

    A record without an offset (acks=0) is lost when the final reader has read its whole partition,
    fence included; the whole topic where its partition was never told either. If a reader met it
    before, its copy says where.
    """
    there = copy(
        partition=F.col("partition"),
        offset=F.col("place"),
        value=F.col("value"),
        note=F.lit("a reader met it"),
    )
    met = F.col("offset").isNull() & F.col("place").isNotNull()
    lost = tables.fates.where(F.col("fate") == LOST)
    return anomalies(lost, "lost-write", copies=F.when(met, F.array(there)))

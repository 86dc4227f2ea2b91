"""``duplicate``: one record stands in the log more than once."""

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.fates import offset_of, partition_of
from checkers.registry import anomalies, checker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.tables import Tables


@checker("duplicate", guarantee="A record that was sent once is read at one offset.")
def duplicate(tables: "Tables") -> "DataFrame":
    """Records that the final read met at two offsets or more; the first and last are copies."""

    def copy(place: Column) -> Column:
        return F.struct(
            F.lit(None).cast("int").alias("broker"),
            partition_of(place).alias("partition"),
            offset_of(place).alias("offset"),
            F.lit(None).cast("int").alias("leader_epoch"),
            F.col("value"),
            F.lit(None).cast("string").alias("note"),
        )

    twice = tables.fates.where(F.col("first") != F.col("last"))
    return anomalies(
        twice,
        "duplicate",
        partition=partition_of(F.col("first")),
        offset=offset_of(F.col("first")),
        copies=F.array(copy(F.col("first")), copy(F.col("last"))),
    )

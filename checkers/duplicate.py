"""``duplicate``: one record stands in the log more than once."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.registry import anomalies, checker, copy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.tables import Tables


@checker("duplicate", guarantee="A record that was sent once is read at one offset.")
def duplicate(tables: "Tables") -> "DataFrame":
    """Records that the final read met at two offsets or more; the first and last are copies."""
    first, last = F.col("first"), F.col("last")
    return anomalies(
        tables.fates.where(first != last),
        "duplicate",
        offset=first,
        copies=F.array(
            *(
                copy(partition=F.col("partition"), offset=place, value=F.col("value"))
                for place in (first, last)
            )
        ),
    )

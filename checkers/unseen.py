"""``unseen``: nobody can say whether the record is still there."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.deciding import UNSEEN
from checkers.registry import anomalies, checker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.tables import Tables


@checker("unseen", guarantee="The final read reaches the offset of every acknowledged record.")
def unseen(tables: "Tables") -> "DataFrame":
    """Acknowledged, not read at the end, and no final reader came as far as its offset."""
    return anomalies(tables.fates.where(F.col("fate") == UNSEEN), "unseen")

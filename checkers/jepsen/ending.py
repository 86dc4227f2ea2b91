"""Whether who read from the beginning in the end came as far as anybody had.

Jepsen's clients end with that (``final-polls`` of ``jepsen.tests.kafka``): they seek the beginning
of every key and poll until they are where the test had come. Where none gets there, a partition may
have been wiped after it was read, have expired, or not have answered: polls that return nothing
tell no difference. Jepsen's checker calls such a history valid.
"""

from typing import Final

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import EVERYWHERE, SOUGHT, has
from checkers.clients.strides import READS, SENDS
from checkers.clients.view import View

SHOWN: Final = 8


def short(view: View) -> list[tuple[str, int, int]]:
    """Topic, partition and the greatest known offset where no reader came as far in the end.

    The foremost ``SHOWN`` of them. Asked are readers who sought the beginning (an offset that is
    null) after that offset was known; where there are none, the history does not tell.
    """
    if not view.tells(SOUGHT):
        return []
    strides = view.strides
    far = strides.where(F.col("what").isin(READS, SENDS) & F.col("ok"))
    place = F.struct("last_place", (-F.col("last_at")).alias("since"))
    ends = far.groupBy("slot").agg(F.max(place).alias("end"))
    begun = has("what", SOUGHT) & ~has("what", EVERYWHERE) & F.col("place").isNull()
    seeks = strides.where(begun).groupBy("slot", "client").agg(F.max("at").alias("sought"))
    late = seeks.join(ends, "slot").where(F.col("sought") > -F.col("end.since"))
    came = far.where(F.col("what") == READS).select("slot", "client", "last_place", "last_at")
    there = (F.col("last_place") >= F.col("end.last_place")) & (F.col("last_at") > F.col("sought"))
    reached = (
        late.join(came, ["slot", "client"], "left")
        .groupBy("slot")
        .agg(
            F.max("end.last_place").alias("offset"),
            F.bool_or(F.coalesce(there, F.lit(False))).alias("reached"),
        )
    )
    names = view.spark.createDataFrame(view.names.select(["slot", "topic", "partition"]))
    rest = reached.where(~F.col("reached")).join(names, "slot")
    shown = rest.orderBy("topic", "partition").limit(SHOWN).collect()
    return [(row["topic"], row["partition"], row["offset"]) for row in shown]

"""What moves a reader on purpose: assignments, seeks, rebalances.

A step from one row to another is excused where between them the client

- was assigned, or subscribed to, partitions without this one (Jepsen keeps the positions of those
  that stay, and so do we; of producers too, as Jepsen's clients are both in one),
- sought another place in the partition, whereto does not matter, or
- had the partition taken or given in a rebalance, in either's operation or between: where in its
  operation a rebalance happened nobody tells, so that it excuses the steps into and out of it as
  well as those inside (Jepsen excuses those inside alone, and allows the others by the whole test).

Only steps that look wrong are ever asked about.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import ASSIGNED, EVERYWHERE, REBALANCED, SOUGHT, has

_FIRST: Final = -1  # before all rows of its operation
_LAST: Final = 1 << 62  # after all of them
_COUNTS: Final = ("assigned", "kept", "moved", "inside")
"""Of what came before: assignments at all, those that kept the slot, seeks and the edges of
operations with rebalances, and such operations that have begun and not ended."""


def unexcused(steps: DataFrame, moves: DataFrame) -> DataFrame:
    """The steps that nothing excuses.

    Args:
        steps: ``client, slot, sent, from_op, from_at, op, at`` and any other columns; of each row
            to which a step leads there is one.
        moves: ``client, slot, op, at`` and, as ``fact``, what moved the client.
    """
    both = _ends(steps).unionByName(_events(moves), allowMissingColumns=True)
    zero = {name: F.coalesce(F.col(name), F.lit(0)) for name in _COUNTS}
    counted = both.withColumns(zero)
    for group, everywhere in (("client", True), (("client", "slot"), False)):
        keys = [group] if isinstance(group, str) else [*group]
        past = Window.partitionBy(*keys).orderBy("op", "at", F.col("end").asc_nulls_first())
        past = past.rowsBetween(Window.unboundedPreceding, 0)
        mine = F.col("everywhere").eqNullSafe(everywhere)
        sums = {
            name: F.col(name)
            + F.when(F.col("end").isNull(), 0).otherwise(
                F.sum(F.when(mine, F.col(name)).otherwise(0)).over(past)
            )
            for name in _COUNTS
        }
        counted = counted.withColumns(sums)
    return _judged(steps, counted.where(F.col("end").isNotNull()))


def _ends(steps: DataFrame) -> DataFrame:
    """Each step's two ends, in the order in which the client came to them."""
    one = ("client", "slot", "to_at")
    named = steps.select(
        *("client", "slot", F.col("at").alias("to_at")),
        F.explode(
            F.array(
                F.struct(F.col("from_op").alias("op"), F.col("from_at").alias("at"), _text("from")),
                F.struct(F.col("op"), F.col("at"), _text("to")),
            )
        ).alias("_end"),
    )
    return named.select(*one, "_end.*")


def _text(word: str) -> Column:
    return F.lit(word).alias("end")


def _events(moves: DataFrame) -> DataFrame:
    """What moved a client, and how it changes the counts."""
    all_slots = has("fact", EVERYWHERE)
    assigned = moves.where(has("fact", ASSIGNED))
    first, last = F.lit(_FIRST).cast("long"), F.lit(_LAST).cast("long")
    once = assigned.select("client", "op").distinct()
    kept = assigned.where(~all_slots).select("client", "slot", "op").distinct()
    sought = moves.where(has("fact", SOUGHT))
    shaken = moves.where(has("fact", REBALANCED)).withColumn("everywhere", all_slots)
    one, less = F.lit(1), F.lit(-1)
    events = [
        once.withColumns({"at": first, "assigned": one, "everywhere": F.lit(True)}),
        kept.withColumns({"at": first, "kept": one, "everywhere": F.lit(False)}),
        sought.withColumns({"moved": one, "everywhere": all_slots}).drop("fact"),
        shaken.withColumns({"at": first, "moved": one, "inside": one}).drop("fact"),
        shaken.withColumns({"at": last, "moved": one, "inside": less}).drop("fact"),
    ]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), events)


def _judged(steps: DataFrame, ends: DataFrame) -> DataFrame:
    def grew(name: str) -> Column:
        return F.max(name) - F.min(name)

    inside = F.max(F.when(F.col("end") == "to", F.col("inside")))
    excuses = ends.groupBy("client", F.col("to_at").alias("at")).agg(
        (grew("assigned") != grew("kept")).alias("left"),
        ((grew("moved") > 0) | (inside > 0)).alias("moved"),
    )
    excused = F.col("left") | (~F.col("sent") & F.col("moved"))
    return steps.join(excuses, ["client", "at"]).where(~excused).select(*steps.columns)

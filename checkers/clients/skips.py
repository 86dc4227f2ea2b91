"""Steps that are not right, with the records that they leave out.

poll-skip, nonmonotonic-poll, nonmonotonic-send and their internal forms are steps of
``checkers.clients.sequence``.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.picks import PLACE
from checkers.clients.places import before, offsets
from checkers.clients.sequence import kind
from checkers.clients.view import View
from checkers.clients.witness import finding

SKIPPED_MAX: Final = 16
"""Skipped records that an anomaly names; its delta counts them all."""

STEPS: Final = frozenset(
    {
        *("poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "int-poll-skip"),
        *("int-nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send"),
    }
)


def step_findings(view: View, steps: DataFrame, kinds: frozenset[str]) -> list[DataFrame]:
    """The findings of these kinds, as ``checkers.clients.witness.finding`` makes them."""
    named = steps.withColumn("kind", kind()).where(F.col("kind").isin(*(kinds & STEPS)))
    ends = [F.struct(F.col("from_at").alias("at"), "client"), F.struct("at", "client")]
    back = finding(named.where(F.col("delta") < 1), F.col("kind"), ends=ends)
    over = named.where(F.col("delta") > 1)
    places = view.keep("skipped", skipped(view, over, most=SKIPPED_MAX))
    rows = view.rows_of("at-skipped", PLACE, view.told("skipped", *PLACE))
    record = F.struct("offset", "value", F.lit("skipped").alias("note"))
    named_skipped = (
        view.placed_among(rows)
        .select("slot", "offset", "value")
        .join(places, ["slot", "offset"])
        .groupBy("client", "at")
        .agg(F.sort_array(F.collect_set(record)).alias("copies"))
    )
    first = F.col("copies")[0]
    ahead = finding(
        over.join(named_skipped, ["client", "at"]),
        F.col("kind"),
        ends=ends,
        offset=first["offset"],
        value=first["value"],
    )
    return [back, ahead]


def skipped(view: View, over: DataFrame, *, most: int | None = None) -> DataFrame:
    """``slot, offset`` of what steps leave out, a row each, and ``client, at`` of the step.

    Args:
        view: the history.
        over: steps to further than the next offset.
        most: of each step, the first ones alone.
    """
    ranked = before(over, "from_place", view.extents)
    first = F.col("from_place_index") + F.col("from_place_known").cast("long")
    last = first + F.col("delta") - 2
    if most is not None:
        last = F.least(last, first + most - 1)
    each = ranked.select("client", "at", "slot", F.explode(F.sequence(first, last)).alias("index"))
    return offsets(each, "index", view.extents).withColumnRenamed("index_offset", "offset")

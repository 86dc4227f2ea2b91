"""Steps that are not right, with the records that they leave out; and records that vanished.

poll-skip, nonmonotonic-poll, nonmonotonic-send and their internal forms are steps of
``checkers.clients.sequence``. A record vanished when it was acknowledged, somebody read it, and
whoever came by last, after that reader, did not find it: they stepped over its offset, sought a
place before it and were given one behind it, or read another record there. Jepsen calls such a
history valid, or lists only what else it shows: a record that was read once is safe to it.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.contents import NAMES, crowded
from checkers.clients.facts import SEEN_OK, SENT_OK, has
from checkers.clients.picks import PLACE, RECORD
from checkers.clients.places import before, offsets
from checkers.clients.sequence import kind
from checkers.clients.view import View
from checkers.clients.witness import end, finding

SKIPPED_MAX: Final = 16
"""Skipped records that an anomaly names; its delta counts them all."""

VANISHED: Final = "vanished"
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
    places = view.keep("skipped", _skipped(view, over, most=SKIPPED_MAX))
    rows = view.rows_of("at-skipped", PLACE, view.told("skipped", *PLACE))
    record = F.struct("offset", "value", F.lit("skipped").alias("note"))
    skipped = (
        view.placed_among(rows)
        .select("slot", "offset", "value")
        .join(places, ["slot", "offset"])
        .groupBy("client", "at")
        .agg(F.sort_array(F.collect_set(record)).alias("copies"))
    )
    first = F.col("copies")[0]
    ahead = finding(
        over.join(skipped, ["client", "at"]),
        F.col("kind"),
        ends=ends,
        offset=first["offset"],
        value=first["value"],
    )
    return [back, ahead]


def vanished(view: View, steps: DataFrame) -> DataFrame:
    """Findings of acknowledged records that were read, and not found by who came by last."""
    gone, slots = _stepped_over(view, steps), crowded(view)
    if view.any("crowded"):
        gone = gone.unionByName(_replaced(view, slots))
    last = gone.groupBy("key").agg(F.max("end").alias("gone"))
    known = view.keep("gone", last)
    rows = view.rows_of("of-gone", RECORD, view.told("gone", *RECORD)).join(known, "key")
    found = rows.groupBy(*NAMES).agg(
        F.min(F.when(has("fact", SENT_OK), end())).alias("sent"),
        F.max(F.when(has("fact", SEEN_OK), F.struct(end(), "offset"))).alias("seen"),
        F.max("gone").alias("gone"),
    )
    wrong = F.col("sent").isNotNull() & (F.col("seen.end.at") < F.col("gone.at"))
    ends = [F.col("sent"), F.col("seen.end"), F.col("gone")]
    return finding(found.where(wrong), VANISHED, ends=ends, offset=F.col("seen.offset"))


def _stepped_over(view: View, steps: DataFrame) -> DataFrame:
    """``key, end``: records at offsets that a reader left out, and the row to which it stepped."""
    over = steps.where((F.col("delta") > 1) & ~F.col("sent"))
    by_place = _skipped(view, over).groupBy("slot", "offset").agg(F.max(end()).alias("end"))
    places = view.keep("passed", by_place)
    rows = view.rows_of("at-passed", PLACE, view.told("passed", *PLACE))
    told = view.placed_among(rows).select("key", *PLACE)
    return told.join(places, list(PLACE)).select("key", "end")


def _replaced(view: View, slots: DataFrame) -> DataFrame:
    """``key, end``: records at whose offset another was read, and its last reader's row."""
    rows = view.rows.where(has("fact", SEEN_OK)).join(slots, "slot", "left_semi")
    readers = rows.groupBy("slot", "offset", "key").agg(F.max(end()).alias("end"))
    place = ["slot", "offset"]
    latest = readers.groupBy(*place).agg(F.max(F.struct("end", "key")).alias("latest"))
    others = view.placed.select(*place, "key").join(latest, place)
    return others.where(F.col("key") != F.col("latest.key")).select(
        "key", F.col("latest.end").alias("end")
    )


def _skipped(view: View, over: DataFrame, *, most: int | None = None) -> DataFrame:
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

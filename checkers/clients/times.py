"""Which operations can be in a cycle, of histories of any length.

A graph of 100 million operations is not held anywhere. Every operation is given a point of time at
which it may have happened (``_bound``). Of nearly all edges that leads from earlier to later, and a
cycle lies wholly within the times that the other edges span: only the operations of these times,
stretch by stretch, are looked at.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import READ_BY_ANY, READ_OK, SENT, SENT_INFO, SENT_OK, has
from checkers.clients.view import View

SENDER: Final = 0
READER: Final = 1
"""``rank``: what an operation did at an offset. What is sent there comes before what is read."""

_TICKS: Final = 1000  # parts of a nanosecond, so that many operations fit between two times
_BLOCKS: Final = 4096  # into how many equal times a history is cut


def suspects(view: View, *, ww: bool) -> DataFrame | None:
    """The operations that can be in cycles; None: there are no cycles.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations.

    Returns:
        ``segment, slot, offset, rank, deed, key, sure``, a row for each place of an operation:
        of a send the first offset that anybody named, and whether it was the only one; of a read
        the last. No cycle leads from one ``segment`` to another.
    """
    if not ww and not view.entangled:
        return None
    placed = _placed(view)
    several = view.keep("cycles-several", _several(placed))
    timed = _timed(placed, None if several.isEmpty() else several)
    asked = F.lit(True) if ww else F.col("rank") == READER
    backward = keep(view, "backward", timed.where(asked & (F.col("bound") > F.col("time"))), ww=ww)
    if backward.isEmpty():
        return None
    return keep(view, "members", _members(placed, timed, backward), ww=ww)


def keep(view: View, name: str, frame: DataFrame, *, ww: bool) -> DataFrame:
    """``View.keep``, under a name for each of the two questions that may be asked of a view."""
    return view.keep(f"cycles-{name}-{'log' if ww else 'reads'}", frame)


def _placed(view: View) -> DataFrame:
    """Where what was sent stands, and how far each operation read in each partition.

    ``history, slot, offset, rank, deed, key, sure, begun, ended``: of a send the first offset that
    anybody named, and whether it was the only one; of a read the last. ``ended`` is null unless the
    operation is known to have succeeded.
    """
    facts = view.records.where(has("facts", SENT) & F.col("first").isNotNull())
    landed = has("facts", SENT_OK | READ_BY_ANY)
    info = facts.where(~landed & has("facts", SENT_INFO))
    proven = info.join(view.proven, F.col("writer") == F.col("deed"), "left_semi")
    sent = facts.where(landed).unionByName(proven)
    read = view.rows.where(has("fact", READ_BY_ANY) & F.col("offset").isNotNull())
    polled = read.groupBy("history", "slot", "deed").agg(
        F.max("offset").alias("offset"),
        F.min("invoke_ns").alias("begun"),
        F.max(F.when(has("fact", READ_OK), F.col("complete_ns"))).alias("ended"),
    )
    sends = sent.select(
        *("history", "slot", F.col("first").alias("offset"), F.lit(SENDER).alias("rank")),
        *(F.col("writer").alias("deed"), "key", (F.col("first") == F.col("last")).alias("sure")),
        *("begun", "ended"),
    )
    return sends.unionByName(
        view.keep("cycles-polled", polled).withColumn("rank", F.lit(READER)),
        allowMissingColumns=True,
    )


def _several(placed: DataFrame) -> DataFrame:
    """The deeds of several places that sent to one of them: such are in cycles without time too."""
    counted = placed.groupBy("deed").agg(F.count("*").alias("places"), F.min("rank").alias("rank"))
    return counted.where((F.col("places") > 1) & (F.col("rank") == SENDER)).select("deed")


def _timed(placed: DataFrame, several: DataFrame | None) -> DataFrame:
    """``placed`` with a ``time`` for each operation, and the ``bound`` that its place sets to it.

    ``time`` lies between an operation's begin and end, so that every order in time leads from
    earlier to later. An edge by records does unless the ``bound`` there is greater than ``time``.
    A read that did not succeed leads nowhere, and is left out.
    """
    own = F.col("begun") * _TICKS
    end = F.col("ended") * _TICKS
    floors = placed.withColumn("floor", F.lit(None).cast("long"))
    if several is not None:
        met = _bound(placed, own).join(several, "deed")
        floor = F.least(F.max(F.greatest(own, F.col("bound"))), F.max(end))
        floors = placed.join(met.groupBy("deed").agg(floor.alias("floor")), "deed", "left")
    bound = _bound(floors, F.coalesce("floor", own))
    late = F.when(F.col("rank") == READER, end).otherwise(
        F.least(F.greatest(own, F.col("bound")), end)
    )
    return bound.withColumn("time", F.coalesce("floor", late)).where(F.col("time").isNotNull())


def _bound(placed: DataFrame, floor: Column) -> DataFrame:
    """``placed`` with the time before which an operation cannot be, by its place in the log.

    It is later than all that were sent to earlier offsets, which are at ``floor`` or later, each by
    at least one tick than the one before it.
    """
    order = Window.partitionBy("slot").orderBy("offset", "rank", "key")
    counted = placed.withColumn("place", F.row_number().over(order))
    ahead = F.when(F.col("rank") == SENDER, floor - F.col("place"))
    earlier = F.max(ahead).over(order.rowsBetween(Window.unboundedPreceding, -1))
    return counted.withColumn("bound", earlier + F.col("place")).drop("place")


def _members(placed: DataFrame, timed: DataFrame, backward: DataFrame) -> DataFrame:
    """The operations whose time lies where an edge leads back, and the ``segment`` of each.

    Times are cut into blocks, so that the list of those to look at is short however many edges
    there are; blocks that an edge spans are one segment.
    """
    began, ended = F.min("begun"), F.max(F.coalesce("ended", "begun"))
    width = F.greatest(F.lit(1), F.ceil((ended - began) / _BLOCKS)) * _TICKS
    cut = F.broadcast(
        placed.groupBy("history").agg((began * _TICKS).alias("start"), width.alias("width"))
    )

    def block(time: str) -> Column:
        return F.floor((F.col(time) - F.col("start")) / F.col("width"))

    spans = backward.join(cut, "history").groupBy("history", block("time").alias("low"))
    order = Window.partitionBy("history").orderBy("low")
    apart = F.col("low") > F.max("high").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begins = spans.agg(F.max(block("bound")).alias("high")).withColumn("apart", apart)
    count = F.sum(F.coalesce(F.col("apart").cast("int"), F.lit(0))).over(order)
    segments = (
        begins.withColumn("count", count)
        .groupBy("history", F.xxhash64("history", "count").alias("segment"))
        .agg(F.explode(F.sequence(F.min("low"), F.max("high"))).alias("block"))
    )
    return (
        timed.join(cut, "history")
        .withColumn("block", block("time"))
        .join(F.broadcast(segments), ["history", "block"])
        .select("segment", "slot", "offset", "rank", "deed", "key", "sure")
    )

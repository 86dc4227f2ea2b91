"""Which anomalies follow from which: one truncation shows in many ways, and is one finding.

When a log was cut and written again from some offset on, clients see more than what was lost there.
A *stretch* is a run of offsets of one partition, each the next of the one before, at which a record
was lost (lost-write), vanished, or stands beside another (divergence, inconsistent-offsets). In the
same partition there follow from a stretch

- inconsistent-offsets at an offset of it, when something was lost, vanished or diverges in it:
  what stands there now was written after the cut;
- duplicate, when one of its offsets is of the stretch: a record that was cut was sent again;
- poll-skip and int-poll-skip, when every record that is named as skipped (the first 16 of many) is
  of a stretch: there was nothing to be read. One that skipped anything else stands alone;
- nonmonotonic-poll, int-nonmonotonic-poll, nonmonotonic-send and int-nonmonotonic-send, when they
  went back over an offset of it or to one: a reader begins again where the log was cut, a producer
  goes on there;
- G0, G1c and their forms, when a step's record is of the stretch: its place was given twice.

Nothing follows for lost-write, vanished and divergence (a cut may lose many records, and each is
lost), nor for G1a, precommitted-read, phantom, unseen, corrupt and int-send-skip, which no cut
makes. Nor does anything follow for an anomaly in another partition or without an offset; a record
that was lost stands where its producer was told, or where a reader met it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.digraph import SORTS

LOST: Final = "lost-write"
VANISHED: Final = "vanished"
DIVERGENCE: Final = "divergence"
INCONSISTENT: Final = "inconsistent-offsets"
_BEFOREHAND: Final = (LOST, VANISHED, DIVERGENCE, INCONSISTENT)
"""What makes a stretch; it is called by the first of its findings of the first of these kinds."""

_SKIPS: Final = ("poll-skip", "int-poll-skip")
_BACK: Final = (
    *("nonmonotonic-poll", "int-nonmonotonic-poll"),
    *("nonmonotonic-send", "int-nonmonotonic-send"),
)
_CYCLES: Final = tuple(sort.name for sort in SORTS)
_LOG: Final = ("run", "topic", "partition")


def grouped(found: DataFrame) -> DataFrame:
    """Anomalies with their ``cause``: null, or a stretch such as ``lost-write events-0@3``.

    Args:
        found: columns of ``checkers.registry.ANOMALY``, all anomalies of each run. Read several
            times: best from a file.
    """
    named = found.withColumn("id", F.xxhash64(*(F.col(name) for name in found.columns)))
    causes = _met(_asked(named), _stretches(found)).select("id", F.col("called").alias("cause"))
    return named.drop("cause").join(causes, "id", "left").select(*found.columns)


def _stretches(found: DataFrame) -> DataFrame:
    """``run, topic, partition, low, high, called, deep``: the stretches of each partition.

    ``deep``: more is wrong in it than that records stand beside each other.
    """
    rank = F.array_position(F.array(*map(F.lit, _BEFOREHAND)), F.col("kind"))
    # Under acks=0 nobody is told where a record stands; a reader may have met it all the same.
    met = F.when(F.col("kind") == LOST, F.get("copies", F.lit(0))["offset"])
    placed = found.withColumn("offset", F.coalesce("offset", met))
    first = placed.where(F.col("kind").isin(*_BEFOREHAND) & F.col("offset").isNotNull())
    one = first.groupBy(*_LOG, "offset").agg(
        F.min(F.struct(rank.alias("rank"), "kind")).alias("is")
    )
    order = Window.partitionBy(*_LOG).orderBy("offset")
    apart = F.coalesce((F.col("offset") - F.lag("offset").over(order) > 1).cast("int"), F.lit(0))
    number = one.withColumn("apart", apart).withColumn("number", F.sum("apart").over(order))
    stretch = number.groupBy(*_LOG, "number").agg(
        F.min("offset").alias("low"),
        F.max("offset").alias("high"),
        F.min(F.struct("is.rank", "offset", "is.kind")).alias("head"),
    )
    place = F.concat("topic", F.lit("-"), F.col("partition"), F.lit("@"), F.col("head.offset"))
    return stretch.select(
        *_LOG,
        *("low", "high"),
        F.concat_ws(" ", "head.kind", place).alias("called"),
        (F.col("head.kind") != INCONSISTENT).alias("deep"),
    )


def _asked(named: DataFrame) -> DataFrame:
    """Which offsets ask for a stretch: ``id, run, topic, partition, low, high, deep, every``.

    ``every``: all rows of the anomaly must find one; else one of them is enough.
    """
    kind = F.col("kind")
    point = "struct<partition:int,low:bigint,high:bigint>"

    def points(array: str) -> Column:
        offset = F.transform(
            array, lambda one: F.struct(one["partition"], one["offset"], one["offset"]).cast(point)
        )
        return F.filter(offset, lambda one: one["low"].isNotNull())

    ends = F.transform("steps", lambda step: step["offset"])
    back = F.struct("partition", F.array_min(ends), F.array_max(ends)).cast(point)
    itself = F.struct("partition", "offset", "offset").cast(point)
    where = (
        F.when(kind == INCONSISTENT, F.array(itself))
        .when(kind.isin("duplicate", *_SKIPS), points("copies"))
        .when(kind.isin(*_BACK), F.array(back))
        .when(kind.isin(*_CYCLES), points("steps"))
    )
    return (
        named.select(
            *("id", "run", "topic"),
            F.explode(where).alias("where"),
            (kind == INCONSISTENT).alias("deep"),
            kind.isin(*_SKIPS).alias("every"),
        )
        .select("*", "where.*")
        .drop("where")
    )


def _met(asked: DataFrame, stretches: DataFrame) -> DataFrame:
    """``id, called``: the anomalies that follow from a stretch, and the first of these.

    Of the stretches that begin before an asked one ends, the last is the only one to look at: they
    do not overlap.
    """
    told = F.struct("low", "high", "called", "deep").alias("stretch")
    marks = stretches.select(*_LOG, F.col("low").alias("at"), F.lit(0).alias("asks"), told)
    both = asked.select("*", F.col("high").alias("at"), F.lit(1).alias("asks")).unionByName(
        marks, allowMissingColumns=True
    )
    order = Window.partitionBy(*_LOG).orderBy("at", "asks")
    before = order.rowsBetween(Window.unboundedPreceding, 0)
    last = both.withColumn("stretch", F.last("stretch", ignorenulls=True).over(before))
    meets = F.col("stretch.high") >= F.col("low")
    deep = F.col("stretch.deep") | ~F.col("deep")
    hit = F.when(meets & deep, F.struct("stretch.low", "stretch.called"))
    counted = last.where("asks = 1").withColumn("hit", hit).groupBy("id").agg(
        F.min("hit").alias("hit"),
        F.count("hit").alias("hits"),
        F.count("*").alias("asked"),
        F.max("every").alias("every"),
    )  # fmt: skip
    follows = (F.col("hits") > 0) & (~F.col("every") | (F.col("hits") == F.col("asked")))
    return counted.where(follows).select("id", F.col("hit.called").alias("called"))

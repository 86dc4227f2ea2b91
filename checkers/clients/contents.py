"""What is wrong with single records, and with single offsets.

duplicate, G1a, precommitted-read, phantom, lost-write, unseen and inconsistent-offsets. Each looks
only at records of which ``View.slots`` has a doubt; those rows are gathered once for all.
"""

from collections.abc import Callable
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.facts import (
    ADRIFT,
    READ_BY_ANY,
    READ_OK,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    has,
)
from checkers.clients.picks import PLACE
from checkers.clients.tally import doubt
from checkers.clients.view import FEW, View
from checkers.clients.witness import copies, end, finding

NAMES: Final = ("run", "topic", "partition", "value")

LATE: Final = "late"
UNDECIDABLE: Final = "undecidable"
"""Why an acknowledged record is unseen: no reader is known to have come as far as its offset; or
its offset is not known."""

_DOUBTS: Final = {
    "duplicate": "twice",
    "G1a": "aborted",
    "precommitted-read": "own",
    "phantom": "phantom",
    "lost-write": "unread",
    "unseen": "unread",
}
CONTENTS: Final = frozenset({*_DOUBTS, "inconsistent-offsets"})


def contents(view: View, kinds: frozenset[str]) -> list[DataFrame]:
    """The findings of these kinds, as ``checkers.clients.witness.finding`` makes them."""
    found = []
    asked = [kind for kind, doubt in _DOUBTS.items() if kind in kinds and view.suspects[doubt]]
    if asked:
        rows = _doubtful(view, {_DOUBTS[kind] for kind in asked})
        found += [_FIND[kind](view, rows) for kind in asked]
    if "inconsistent-offsets" in kinds:
        found += _inconsistent(view)
    return found


def _doubtful(view: View, names: set[str]) -> DataFrame:
    """Every row of the records of which there is one of these doubts, with ``facts``."""
    keys = view.doubtful.where(doubt(*names)).select("key", "facts", "writer")
    if sum(view.suspects[name] for name in names) <= FEW:
        keys = F.broadcast(keys)
    rows = view.rows_in_doubt("in-doubt", *names).where(has("fact", SENT | SEEN))
    return view.keep("doubtful", rows.join(keys, "key"))


def _duplicate(view: View, rows: DataFrame) -> DataFrame:
    """A record at two offsets or more, as those tell who know (Jepsen's ``duplicate-cases``)."""
    low, high = F.min(_placed_end(1)), F.max(_placed_end(-1))
    offsets = F.sort_array(F.collect_set("offset"))
    twice = view.placed_among(rows).groupBy(*NAMES).agg(
        low.alias("low"), high.alias("high"), offsets.alias("offsets")
    )  # fmt: skip
    return finding(
        twice.where(F.size("offsets") > 1),
        "duplicate",
        ends=[_turned("low"), _turned("high")],
        offset=F.col("low.offset"),
        copies=copies("offsets", lambda each: (each, F.col("value"))),
    )


def _aborted(view: View, rows: DataFrame) -> DataFrame:  # noqa: ARG001 - all are called alike
    """A read of what was never committed (Adya's G1a), by a reader of what is committed.

    One for each record, with the first of its readers; Jepsen has one for each reader. A record
    that was sent again, in an operation that did not fail, may be that one.
    """
    found = rows.groupBy(*NAMES).agg(
        F.bit_or("fact").alias("all"),
        F.min(F.when(has("fact", SENT_FAIL), end())).alias("writer"),
        F.min(F.when(has("fact", READ_OK), F.struct(end(), "offset"))).alias("reader"),
    )
    wrong = has("all", SENT_FAIL) & has("all", READ_OK) & ~has("all", SENT_OK | SENT_INFO)
    ends = [F.col("writer"), F.col("reader.end")]
    return finding(found.where(wrong), "G1a", ends=ends, offset=F.col("reader.offset"))


def _precommitted(view: View, rows: DataFrame) -> DataFrame:  # noqa: ARG001 - as above
    """An operation that read what it sent: pollers must not see it before it is committed."""
    found = rows.groupBy(*NAMES, "deed").agg(
        F.min(F.when(has("fact", SENT), end())).alias("writer"),
        F.min(F.when(has("fact", READ_BY_ANY), F.struct(end(), "offset"))).alias("reader"),
    )
    both = F.col("writer").isNotNull() & F.col("reader").isNotNull()
    ends = [F.col("writer"), F.col("reader.end")]
    return finding(found.where(both), "precommitted-read", ends=ends, offset=F.col("reader.offset"))


def _phantom(view: View, rows: DataFrame) -> DataFrame:
    """A record that was read, and that nobody sent. Jepsen's checker fails on it."""
    found = rows.groupBy(*NAMES).agg(
        F.bit_or("fact").alias("all"),
        F.min(F.when(has("fact", SEEN), F.struct(end(), "offset"))).alias("reader"),
    )
    nobodys = found.where(~has("all", SENT))
    if view.suspects["adrift"]:
        adrift = view.rows.where(has("fact", ADRIFT)).select("run", "topic", "value")
        nobodys = nobodys.join(adrift, ["run", "topic", "value"], "left_anti")
    return finding(
        nobodys, "phantom", ends=[F.col("reader.end")], offset=F.col("reader.offset")
    )  # fmt: skip


def _unread(view: View, rows: DataFrame) -> DataFrame:
    """Records that took effect and that no operation which ended well has read.

    ``NAMES, slot, sent, acknowledged, last`` and ``bound``: who sent it, whether that was
    acknowledged, its greatest known offset, and how far the slot was read.
    """
    proven = view.proven.withColumn("proven", F.lit(True))
    known = rows.join(proven, "deed", "left")
    took_effect = has("fact", SENT_OK) | (has("fact", SENT_INFO) & F.col("proven"))
    told = F.when(took_effect | has("fact", READ_BY_ANY), F.col("offset"))
    found = known.groupBy(*NAMES, "slot").agg(
        F.bit_or("fact").alias("all"),
        F.min(F.when(took_effect, end())).alias("sent"),
        F.max(told).alias("last"),
        F.max(F.when(took_effect, F.col("acks"))).alias("acks"),
    )
    unread = found.where(~has("all", SEEN_OK) & F.col("sent").isNotNull())
    if view.suspects["adrift"]:
        names = ["run", "topic", "value"]
        seen = view.rows.where(has("fact", SEEN_OK)).select(*names)
        adrift = unread.where(F.col("partition").isNull()).join(seen, names, "left_anti")
        unread = unread.where(F.col("partition").isNotNull()).unionByName(adrift)
    return unread.join(view.slots.select("slot", "bound"), "slot")


def _lost(view: View, rows: DataFrame) -> DataFrame:
    """Took effect, was never read, and somebody read further (Jepsen's ``lost-write-cases``)."""
    lost = _unread(view, rows).where(F.col("last") <= F.col("bound"))
    asked = view.keep("lost-bounds", lost.select("slot", "bound").distinct())
    places = view.told("lost-bounds", "slot", "bound").rename_columns(list(PLACE))
    rows = view.rows_of("furthest", PLACE, places)
    readers = rows.where(has("fact", SEEN_OK)).select("slot", "offset", end())
    beyond = readers.join(
        asked, (readers["slot"] == asked["slot"]) & (readers["offset"] == asked["bound"])
    )
    furthest = beyond.groupBy(asked["slot"]).agg(F.min("end").alias("reader"))
    ends = [F.col("sent"), F.col("reader")]
    return finding(
        lost.join(furthest, "slot", "left"), "lost-write", ends=ends, offset=F.col("last")
    )


def _unseen(view: View, rows: DataFrame) -> DataFrame:
    """Acknowledged, never read, and not lost; Jepsen counts lost ones among its unseen."""
    found = _unread(view, rows).where(has("all", SENT_OK))
    beyond = F.coalesce(F.col("last") <= F.col("bound"), F.lit(False))
    why = F.when(F.col("last").isNull(), UNDECIDABLE).otherwise(LATE)
    place = F.array(F.struct(F.col("last").alias("offset"), "value", why.alias("note")))
    return finding(
        found.where(~beyond), "unseen", ends=[F.col("sent")], offset=F.col("last"), copies=place
    )


def crowded(view: View) -> DataFrame | None:
    """The slots, in a column ``slot``, in which several records may stand at one offset.

    Where each record has one place and there are as many records as places, none do.
    """
    both = view.sums.join(view.places, "slot", join_type="inner")
    known = pc.add(both["known"], both["maybe"])
    more = pc.or_(pc.greater(known, both["places"]), pc.greater(both["twice"], 0))
    slots = both.filter(more).select(["slot"])
    return view.spark.createDataFrame(slots) if len(slots) else None


def _inconsistent(view: View) -> list[DataFrame]:
    """An offset at which several records stand (Jepsen's ``inconsistent-offsets``)."""
    slots = crowded(view)
    if slots is None:
        return []
    rows = view.placed_among(view.rows.join(slots, "slot", "left_semi"))
    found = rows.groupBy("run", "topic", "partition", "offset").agg(
        F.min(F.struct("value", end())).alias("low"),
        F.max(F.struct("value", F.struct((-F.col("at")).alias("at"), "client").alias("end"))).alias(
            "high"
        ),
        F.sort_array(F.collect_set("value")).alias("values"),
    )
    wrong = found.where(F.col("low.value") != F.col("high.value"))
    return [
        finding(
            wrong.withColumn("value", F.lit(None).cast("string")),
            "inconsistent-offsets",
            ends=[F.col("low.end"), _turned("high.end")],
            offset=F.col("offset"),
            copies=copies("values", lambda each: (F.col("offset"), each)),
        )
    ]


def _placed_end(sign: int) -> Column:
    """An offset and the first row that tells it, for ``min`` (1) or ``max`` (-1)."""
    return F.struct("offset", (F.col("at") * sign).alias("at"), "client")


def _turned(name: str) -> Column:
    return F.struct(F.abs(F.col(f"{name}.at")).alias("at"), F.col(f"{name}.client"))


_FIND: Final[dict[str, Callable[[View, DataFrame], DataFrame]]] = {
    "duplicate": _duplicate,
    "G1a": _aborted,
    "precommitted-read": _precommitted,
    "phantom": _phantom,
    "lost-write": _lost,
    "unseen": _unseen,
}

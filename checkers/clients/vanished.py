"""Records that were there, and are no more.

A record vanished when it was acknowledged, somebody read it, and whoever came by last, after that
reader, did not find it: they stepped over its offset, sought a place before it and were given one
behind it, or read another record there. Or nobody came by, and the log is known to have ended at
or before its offset since: somebody asked where it ends (``harness.history.END``), or a send that
began later was given a place there. Jepsen calls such a history valid, or lists only what else it
shows: a record that was read once is safe to it.
"""

from functools import partial, reduce
from typing import Final

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.contents import NAMES, crowded
from checkers.clients.facts import ENDED, SEEN, SEEN_OK, SENT_OK, has
from checkers.clients.picks import PLACE, RECORD
from checkers.clients.sequence import WRONG_STEPS
from checkers.clients.skips import skipped
from checkers.clients.view import View
from checkers.clients.witness import end, finding

VANISHED: Final = "vanished"

_NEVER: Final = (1 << 63) - 1


def vanished(view: View, steps: DataFrame) -> DataFrame | None:
    """Findings of acknowledged records that were read, and not found by who came by last.

    None: nobody came by a place without finding what was there.
    """
    gone = []
    if view.any(WRONG_STEPS, (ds.field("delta") > 1) & ~ds.field("sent")):
        gone.append(_stepped_over(view, steps))
    if (crowds := crowded(view)) is not None:
        gone.append(_replaced(view, crowds))
    if (slots := _shortened(view, crowds)) is not None:
        gone.append(_cut_off(view, slots))
    if not gone:
        return None
    last = reduce(DataFrame.unionByName, gone).groupBy("key").agg(F.max("end").alias("gone"))
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
    by_place = skipped(view, over).groupBy("slot", "offset").agg(F.max(end()).alias("end"))
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


def _shortened(view: View, crowds: DataFrame | None) -> DataFrame | None:
    """The slots, in a column ``slot``, that may have been cut: those, and whose log ended short."""
    found = [*filter(None, [crowds]), *([_short(view)] if view.tells(ENDED) else [])]
    if not found:
        return None
    slots = view.keep("shortened", reduce(DataFrame.unionByName, found).distinct())
    return slots if view.any("shortened") else None


def _short(view: View) -> DataFrame:
    """The slots, in a column ``slot``, whose log ended before a record that is known."""
    told = view.strides.where(has("what", ENDED)).groupBy("slot").agg(F.min("place").alias("end"))
    far = view.extents.groupBy("slot").agg(F.max("high").alias("far"))
    return told.join(far, "slot").where(F.col("end") <= F.col("far")).select("slot")


def _cut_off(view: View, slots: DataFrame) -> DataFrame:
    """``key, end``: records where the log was shorter after all who read them, and who tells.

    Readers read below the high watermark, and a leader's log never ends before that (KIP-101). So a
    record has gone if a send that began after its last reader had ended was given a place at or
    before it, and was read there: a deposed leader may take records that nobody is to read. Where
    somebody asked for the end, it was such a leader's if anybody was further at any time since.
    """
    rows = view.keep("of-shortened", view.rows.join(slots, "slot", "left_semi"))
    placed = rows.where(has("fact", SEEN | SENT_OK) & F.col("offset").isNotNull())
    met = F.when(has("fact", SEEN), F.coalesce("complete_ns", F.lit(_NEVER)))
    alive = F.max(F.coalesce(met, "invoke_ns"))  # its own send is no word against it, either
    record = [F.min("offset").alias("place"), alive.alias("time"), F.bit_or("fact").alias("all")]
    records = placed.groupBy("slot", "key").agg(*record).where(has("all", SEEN)).drop("all")
    began, told = F.col("invoke_ns").alias("time"), end()
    sends = placed.where(has("fact", SENT_OK)).join(records, "key", "left_semi")
    events = (
        sends.select("slot", began, F.struct("offset", told).alias("sent")),
        placed.select("slot", met.alias("time"), (F.col("offset") + 1).alias("far")),
        rows.where(has("fact", ENDED)).select("slot", began, told, F.col("offset").alias("far")),
    )
    both = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), events, records)
    since = Window.partitionBy("slot").orderBy(F.desc("time"), F.col("key").isNull())
    since = since.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = {"sent": F.min("sent"), "far": F.max("far"), "end": F.max("end")}
    found = both.withColumns({name: known[name].over(since) for name in known})
    back = F.when(F.col("sent.offset") <= F.col("place"), F.col("sent.end"))
    short = F.when(F.col("far") <= F.col("place"), F.col("end"))
    gone = found.where(F.col("key").isNotNull()).select("key", F.coalesce(back, short).alias("end"))
    return gone.where(F.col("end").isNotNull())

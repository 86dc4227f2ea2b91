"""Candidates: the operations that can be in a cycle, of histories of any length.

A graph of 100 million operations is not held anywhere. Every operation gets a point of time at
which it may have happened (``_bounds``). Nearly every edge leads from earlier to later, and a cycle
lies wholly within the times that the other edges span: only the operations of these times are
searched, segment by segment.
"""

from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.record_summaries import bits, records
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

SENDER: Final = 0
READER: Final = 1
"""``rank``: the operation's role at an offset. A send comes before reads."""

_TICKS: Final = 1000  # parts of a nanosecond, so that many operations fit between two times
_BLOCKS: Final = 4096  # into how many equal times a history is divided
_CHUNK_BITS: Final = 20  # the places at a million offsets are sorted at once


_TYPES: Final = {"rank": pa.int32(), "sure": pa.bool_(), "several": pa.bool_()}
_COLUMNS: Final = ("slot", "offset", "rank", "operation", "key", "sure")
MEMBER: Final = schema("segment", *_COLUMNS, **_TYPES)
"""A place of an operation that can be in a cycle; see ``suspects``."""

_PLACE: Final = schema(*_COLUMNS, "chunk", "floor", "end", "several", **_TYPES)
"""The place of a record that was sent, or how far an operation read in a slot: as in ``MEMBER``.

The operation happened at ``floor`` or later and, if it is known to have succeeded, at ``end`` or
earlier (both in ticks). ``several``: it has several places, and sent to one of them, so that it can
be in a cycle without any order in time. ``chunk`` is a range of offsets.
"""

_TIMED: Final = schema(*_PLACE.names, "bound", "time", **_TYPES)
_CHUNK: Final = schema("slot", "chunk", "rows", "most")
_EXTENT: Final = schema("slot", "start", "end")
_SPAN: Final = schema("history", "low", "high")


def suspects(view: ClientHistory, *, ww: bool) -> Rows | None:
    """Find the operations that can be in cycles; None: there are no cycles.

    ``ww`` says whether the log's order of records makes an order of operations.

    Returns:
        ``segment, slot, offset, rank, operation, key, sure``, a row for each place of an operation:
        of a send the first offset that a client named, and whether it was the only one; of a read
        the last. No cycle leads from one ``segment`` to another.
    """
    if not ww and not view.entangled:
        return None
    places = _places(view)
    clock = _clock(view, places)
    if True in places.distinct(["several"])["several"].to_pylist():
        places = _bounds(view, places).by(["operation"], _share_floors, _PLACE).persist()
    timed = _bounds(view, places)
    spans = timed.map(partial(_spans, clock=clock, ww=ww), _SPAN).table()
    if not len(spans):
        return None
    segments = _segments(spans)
    return timed.map(partial(_members, clock=clock, segments=segments), MEMBER).persist()


def _places(view: ClientHistory) -> Rows:
    """Collect the places of operations that took effect, or read."""
    landed = view.records.where(flags.SENT_OK | flags.READ_BY_ANY, "facts")
    maybe = view.doubtful.where(bits("maybe"), "doubts").by(["key"], _place_proven, _PLACE)
    reads = view.rows.where(flags.READ_BY_ANY).not_null("offset").map(_place_reads, _PLACE)
    places = landed.map(_place_sends, _PLACE).union(maybe, reads)
    return places.by(["operation"], _merge, _PLACE).persist()


def _place_sends(sends: pa.Table) -> pa.Table:
    """Place records, given as rows of ``RECORD``."""
    sent = numbers(sends)
    sent = choose(sent, any_of(sent["facts"], flags.SENT) & (sent["first"] != NONE))
    columns = {
        "slot": sent["slot"],
        "offset": sent["first"],
        "operation": sent["writer"],
        "key": sent["key"],
        "sure": sent["first"] == sent["last"],
        "floor": sent["begun"] * _TICKS,
        "end": _ticks(sent["ended"]),
    }
    return arrow(columns | {"rank": SENDER}, _PLACE)


def _place_proven(rows: pa.Table) -> pa.Table:
    """Place records, given as rows of ``DOUBTFUL`` by ``key``, whose writers are proven."""
    sends, columns = records(rows), numbers(rows, ("operation", "fact"))
    proven = np.isin(sends["writer"], columns["operation"][any_of(columns["fact"], flags.PROVEN)])
    return _place_sends(sends.filter(pa.array(proven)))


def _place_reads(rows: pa.Table) -> pa.Table:
    """Place reads, given as rows of ``ROW``."""
    read = numbers(rows)
    succeeded = np.where(any_of(read["fact"], flags.READ_OK), read["complete_ns"], NONE)
    columns = {name: read[name] for name in ("slot", "offset", "operation")}
    columns |= {"floor": read["invoke_ns"] * _TICKS, "end": _ticks(succeeded)}
    return _merge(arrow(columns | {"rank": READER}, _PLACE))


def _merge(places: pa.Table) -> pa.Table:
    """Make one place of an operation's reads in a slot, and set ``several``; by ``operation``."""
    ordered, place = grouped(numbers(places), "operation", "rank", "slot", "key")
    merged = choose(ordered, place.first) | {
        "offset": place.greatest(ordered["offset"]),
        "floor": place.least(ordered["floor"]),
        "end": place.greatest(ordered["end"]),
    }
    operation = Groups.of(merged["operation"])
    merged["several"] = operation.spread(
        (operation.size > 1) & (merged["rank"][operation.first] == SENDER)
    )
    merged["chunk"] = merged["offset"] >> _CHUNK_BITS
    return arrow(merged, _PLACE)


def _bounds(view: ClientHistory, places: Rows) -> Rows:
    """Add the ``time`` of each operation, and the ``bound`` that its place sets to it.

    ``bound`` is later than the times of all records at earlier offsets: each of these is at its
    ``floor`` or later, and at least one tick after the one before it. ``time`` lies between an
    operation's begin and end, so that every order in time leads from earlier to later. An edge by
    records does unless the ``bound`` there is greater than ``time``.

    Each chunk of a slot is sorted alone. The earlier chunks are summed up as one place before all
    others of the chunk, without an offset.
    """
    by = ["slot", "chunk"]
    earlier = view.engine.table(_carry(places.by(by, _sum_up, _CHUNK).table()))
    return places.union(earlier).by(by, _set_bounds, _TIMED)


def _set_bounds(places: pa.Table) -> pa.Table:
    ordered, chunk = _order(places)
    earlier = _most_before(chunk.first, ordered["ahead"])
    ordered["bound"] = np.where(earlier != NONE, earlier + ordered["place"], NONE)
    late = _at_most(np.maximum(ordered["floor"], ordered["bound"]), ordered["end"])
    late = np.where(ordered["rank"] == READER, ordered["end"], late)
    ordered["time"] = np.where(ordered["several"], ordered["floor"], late)
    return arrow(choose(ordered, ordered["offset"] != NONE), _TIMED)


def _sum_up(places: pa.Table) -> pa.Table:
    """Count the places of each chunk, and find the ``most`` that any of them is ahead."""
    ordered, chunk = _order(places)
    sums = {"rows": chunk.size, "most": chunk.greatest(ordered["ahead"])}
    return arrow(choose(ordered, chunk.first) | sums, _CHUNK)


def _carry(chunks: pa.Table) -> pa.Table:
    """Make the places that stand for all chunks before one, in ``_PLACE``."""
    ordered, slot = grouped(numbers(chunks), "slot", then=("chunk",))
    base = np.cumsum(ordered["rows"]) - ordered["rows"]
    most = np.where(ordered["most"] != NONE, ordered["most"] - base, NONE)
    most = _most_before(slot.first, most)
    columns = {name: ordered[name] for name in ("slot", "chunk")} | {"floor": most + base}
    return arrow(choose(columns, most != NONE) | {"rank": SENDER}, _PLACE)


def _order(places: pa.Table) -> tuple[Numbers, Groups]:
    """Sort the places of chunks, and find where each chunk begins.

    ``place`` is a place's number in its chunk, from 1, and ``ahead`` how far at least the time of
    the record there is ahead of that number.
    """
    then = ("offset", "rank", "key", "operation")
    ordered, chunk = grouped(numbers(places), "slot", "chunk", then=then)
    ordered["place"] = np.arange(len(places)) - chunk.spread(chunk.first) + 1
    ahead = ordered["floor"] - ordered["place"]
    ordered["ahead"] = np.where(ordered["rank"] == SENDER, ahead, NONE)
    return ordered, chunk


def _share_floors(timed: pa.Table) -> pa.Table:
    """Give an operation of several places one ``floor``, the latest of these; by ``operation``."""
    ordered, operation = grouped(numbers(timed), "operation")
    latest = operation.greatest(np.maximum(ordered["floor"], ordered["bound"]))
    shared = operation.spread(_at_most(latest, operation.greatest(ordered["end"])))
    ordered["floor"] = np.where(ordered["several"], shared, ordered["floor"])
    return arrow(ordered, _PLACE)


def _clock(view: ClientHistory, places: Rows) -> pa.Table:
    """Divide the time of each history into ``_BLOCKS``: ``slot, history, start, width``, in ticks.

    Histories are numbered here.
    """
    names = view.names.select(["slot", "history"])
    extents = places.map(_extents, _EXTENT).table().join(names, "slot", join_type="inner")
    whole = extents.group_by("history").aggregate([("start", "min"), ("end", "max")])
    columns = numbers(names.join(whole, "history", join_type="inner"))
    length = (columns["end_max"] - columns["start_min"]) // _TICKS
    return pa.table(
        {
            "slot": columns["slot"],
            "history": np.unique(columns["history"], return_inverse=True)[1],
            "start": columns["start_min"],
            "width": np.maximum(-(-length // _BLOCKS), 1) * _TICKS,
        }
    )


def _extents(places: pa.Table) -> pa.Table:
    end = pc.coalesce(places["end"], places["floor"])
    times = pa.table([places["slot"], places["floor"], end], _EXTENT.names)
    slots = times.group_by("slot").aggregate([("start", "min"), ("end", "max")])
    return slots.rename_columns(_EXTENT.names)


def _spans(timed: pa.Table, *, clock: pa.Table, ww: bool) -> pa.Table:
    """Find the blocks from which, and to which, edges lead back in time."""
    columns = numbers(timed)
    back = (columns["time"] != NONE) & (columns["bound"] > columns["time"])
    columns = choose(columns, back if ww else back & (columns["rank"] == READER))
    history, low = _blocks(columns, clock, columns["time"])
    spans = {"history": history, "low": low, "high": _blocks(columns, clock, columns["bound"])[1]}
    merged = pa.table(spans).group_by(["history", "low"]).aggregate([("high", "max")])
    return merged.rename_columns(_SPAN.names)


def _segments(spans: pa.Table) -> pa.Table:
    """Join spans that have a block in common, as rows of ``_SPAN``: one a segment, in order."""
    ordered, history = grouped(numbers(spans), "history", then=("low",))
    reached = _most_before(history.first, ordered["high"])
    segment = Groups.joined(ordered["low"][1:] <= reached[1:], len(reached))
    return arrow(
        choose(ordered, segment.first) | {"high": segment.greatest(ordered["high"])}, _SPAN
    )


def _members(timed: pa.Table, *, clock: pa.Table, segments: pa.Table) -> pa.Table:
    """Choose the operations whose time lies in a segment, in ``MEMBER``."""
    columns, pieces = numbers(timed), numbers(segments)
    columns = choose(columns, columns["time"] != NONE)
    before, after = int(pieces["low"].min()) - 1, int(pieces["high"].max()) + 1

    def code(history: Ints, block: Ints) -> Ints:
        """Return the blocks of all histories, numbered; one at each end stands for all others."""
        return history * (after - before + 1) + np.clip(block, before, after)

    block = code(*_blocks(columns, clock, columns["time"]))
    segment = np.searchsorted(code(pieces["history"], pieces["low"]), block, side="right") - 1
    inside = (segment >= 0) & (block <= code(pieces["history"], pieces["high"])[segment])
    return arrow(choose(columns | {"segment": segment}, inside), MEMBER)


def _blocks(places: Numbers, clock: pa.Table, time: Ints) -> tuple[Ints, Ints]:
    """Return the number of each place's history, and the block of a time."""
    of_slot = look_up_columns(clock, "slot", places["slot"])
    block = np.floor((time - of_slot["start"]) / of_slot["width"])
    return of_slot["history"], block.astype(np.int64)


def _most_before(first: Ints, column: Ints) -> Ints:
    """Return the greatest number before each row in its group; NONE for the first of a group."""
    least = np.full(len(column), NONE)
    for low, high in pairwise([*first.tolist(), len(column)]):
        np.maximum.accumulate(column[low : high - 1], out=least[low + 1 : high])
    return least


def _at_most(time: Ints, end: Ints) -> Ints:
    """Return the lesser of two times; the second may be unknown."""
    return np.where(end != NONE, np.minimum(time, end), time)


def _ticks(nanoseconds: Ints) -> Ints:
    return np.where(nanoseconds != NONE, nanoseconds * _TICKS, NONE)

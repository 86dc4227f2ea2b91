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

from highwater.checkers.history.columns import (
    NONE,
    Ints,
    Numbers,
    any_of,
    groups,
    nullable,
    numbers,
    sizes,
)
from highwater.checkers.history.kernel_tools import choose, look_up_columns
from highwater.checkers.history.record_summaries import bits, records
from highwater.checkers.history.row_flags import PROVEN, READ_BY_ANY, READ_OK, SENT, SENT_OK
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows, complete

SENDER: Final = 0
READER: Final = 1
"""``rank``: the operation's role at an offset. A send comes before reads."""

_TICKS: Final = 1000  # parts of a nanosecond, so that many operations fit between two times
_BLOCKS: Final = 4096  # into how many equal times a history is divided
_CHUNK_BITS: Final = 20  # the places at a million offsets are sorted at once


def _schema(*columns: str, **types: pa.DataType) -> pa.Schema:
    return pa.schema([(name, types.get(name, pa.int64())) for name in columns])


_TYPES: Final = {"rank": pa.int32(), "sure": pa.bool_(), "several": pa.bool_()}
_COLUMNS: Final = ("slot", "offset", "rank", "deed", "key", "sure")
MEMBER: Final = _schema("segment", *_COLUMNS, **_TYPES)
"""A place of an operation that can be in a cycle; see ``suspects``."""

_PLACE: Final = _schema(*_COLUMNS, "chunk", "floor", "end", "several", **_TYPES)
"""The place of a record that was sent, or how far an operation read in a slot: as in ``MEMBER``.

The operation happened at ``floor`` or later and, if it is known to have succeeded, at ``end`` or
earlier (both in ticks). ``several``: it has several places, and sent to one of them, so that it can
be in a cycle without any order in time. ``chunk`` is a range of offsets.
"""

_TIMED: Final = _schema(*_PLACE.names, "bound", "time", **_TYPES)
_CHUNK: Final = _schema("slot", "chunk", "rows", "most")
_EXTENT: Final = _schema("slot", "start", "end")
_SPAN: Final = _schema("history", "low", "high")


def suspects(view: ClientHistory, *, ww: bool) -> Rows | None:
    """Find the operations that can be in cycles; None: there are no cycles.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations.

    Returns:
        ``segment, slot, offset, rank, deed, key, sure``, a row for each place of an operation:
        of a send the first offset that a client named, and whether it was the only one; of a read
        the last. No cycle leads from one ``segment`` to another.
    """
    if not ww and not view.entangled:
        return None
    places = _places(view)
    clock = _clock(view, places)
    if True in places.distinct(["several"])["several"].to_pylist():
        places = _bounds(view, places).by(["deed"], _share_floors, _PLACE).persist()
    timed = _bounds(view, places)
    spans = timed.map(partial(_spans, clock=clock, ww=ww), _SPAN).table()
    if not len(spans):
        return None
    segments = _segments(spans)
    return timed.map(partial(_members, clock=clock, segments=segments), MEMBER).persist()


def _places(view: ClientHistory) -> Rows:
    """Collect the places of operations that took effect, or read."""
    landed = view.records.where(SENT_OK | READ_BY_ANY, "facts").map(_place_sends, _PLACE)
    maybe = view.doubtful.where(bits("maybe"), "doubts").by(["key"], _place_proven, _PLACE)
    reads = view.rows.where(READ_BY_ANY).not_null("offset").map(_place_reads, _PLACE)
    return landed.union(maybe, reads).by(["deed"], _merge, _PLACE).persist()


def _place_sends(sends: pa.Table) -> pa.Table:
    """Place records, given as rows of ``RECORD``."""
    sent = numbers(sends)
    sent = choose(sent, any_of(sent["facts"], SENT) & (sent["first"] != NONE))
    columns = {
        "slot": sent["slot"],
        "offset": sent["first"],
        "deed": sent["writer"],
        "key": sent["key"],
        "sure": sent["first"] == sent["last"],
        "floor": sent["begun"] * _TICKS,
        "end": _ticks(sent["ended"]),
    }
    return _placed(SENDER, columns)


def _place_proven(rows: pa.Table) -> pa.Table:
    """Place records, given as rows of ``DOUBTFUL`` by ``key``, whose writers are proven."""
    sends, columns = records(rows), numbers(rows, ("deed", "fact"))
    proven = np.isin(sends["writer"], columns["deed"][any_of(columns["fact"], PROVEN)])
    return _place_sends(sends.filter(pa.array(proven)))


def _place_reads(rows: pa.Table) -> pa.Table:
    """Place reads, given as rows of ``ROW``."""
    row_columns = numbers(rows)
    succeeded = np.where(any_of(row_columns["fact"], READ_OK), row_columns["complete_ns"], NONE)
    columns = {name: row_columns[name] for name in ("slot", "offset", "deed")}
    columns |= {"floor": row_columns["invoke_ns"] * _TICKS, "end": _ticks(succeeded)}
    return _merge(_placed(READER, columns))


def _merge(places: pa.Table) -> pa.Table:
    """Make one place of an operation's reads in a slot, and set ``several``; by ``deed``."""
    ordered = _sort(numbers(places), "deed", "rank", "slot", "key")
    first = groups(*(ordered[name] for name in ("deed", "rank", "slot", "key")))
    merged = choose(ordered, first) | {
        "offset": np.maximum.reduceat(ordered["offset"], first),
        "floor": np.minimum.reduceat(ordered["floor"], first),
        "end": np.maximum.reduceat(ordered["end"], first),
    }
    of_deed = groups(merged["deed"])
    size = sizes(of_deed, len(first))
    merged["several"] = np.repeat((size > 1) & (merged["rank"][of_deed] == SENDER), size)
    merged["chunk"] = merged["offset"] >> _CHUNK_BITS
    return _table(merged)


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
    ordered, first = _order(places)
    earlier = _most_before(first, ordered["ahead"])
    ordered["bound"] = np.where(earlier != NONE, earlier + ordered["place"], NONE)
    late = _at_most(np.maximum(ordered["floor"], ordered["bound"]), ordered["end"])
    late = np.where(ordered["rank"] == READER, ordered["end"], late)
    ordered["time"] = np.where(ordered["several"], ordered["floor"], late)
    return _table(choose(ordered, ordered["offset"] != NONE))


def _sum_up(places: pa.Table) -> pa.Table:
    """Count the places of each chunk, and find the ``most`` that any of them is ahead."""
    ordered, first = _order(places)
    rows, most = sizes(first, len(places)), np.maximum.reduceat(ordered["ahead"], first)
    return _table(choose(ordered, first) | {"rows": rows, "most": most})


def _carry(chunks: pa.Table) -> pa.Table:
    """Make the places that stand for all chunks before one, in ``_PLACE``."""
    ordered = _sort(numbers(chunks), "slot", "chunk")
    first = groups(ordered["slot"])
    base = np.cumsum(ordered["rows"]) - ordered["rows"]
    most = _most_before(first, np.where(ordered["most"] != NONE, ordered["most"] - base, NONE))
    ordered = choose(ordered | {"floor": most + base}, most != NONE)
    return _placed(SENDER, {name: ordered[name] for name in ("slot", "chunk", "floor")})


def _order(places: pa.Table) -> tuple[Numbers, Ints]:
    """Sort the places of chunks, and find where each chunk begins.

    ``place`` is a place's number in its chunk, from 1, and ``ahead`` how far at least the time of
    the record there is ahead of that number.
    """
    ordered = _sort(numbers(places), "slot", "chunk", "offset", "rank", "key", "deed")
    first = groups(ordered["slot"], ordered["chunk"])
    ordered["place"] = np.arange(len(places)) - np.repeat(first, sizes(first, len(places))) + 1
    ordered["ahead"] = np.where(
        ordered["rank"] == SENDER, ordered["floor"] - ordered["place"], NONE
    )
    return ordered, first


def _share_floors(timed: pa.Table) -> pa.Table:
    """Give an operation of several places one ``floor``, the latest of these; by ``deed``."""
    ordered = _sort(numbers(timed), "deed")
    first = groups(ordered["deed"])
    latest = np.maximum.reduceat(np.maximum(ordered["floor"], ordered["bound"]), first)
    latest = _at_most(latest, np.maximum.reduceat(ordered["end"], first))
    shared = np.repeat(latest, sizes(first, len(timed)))
    return _table(ordered | {"floor": np.where(ordered["several"], shared, ordered["floor"])})


def _clock(view: ClientHistory, places: Rows) -> pa.Table:
    """Divide the time of each history into ``_BLOCKS``: ``slot, history, start, width``, in ticks.

    Histories are numbered here.
    """
    names = view.names.select(["slot", "history"])
    extents = places.map(_extents, _EXTENT).table().join(names, "slot", join_type="inner")
    whole = extents.group_by("history").aggregate([("start", "min"), ("end", "max")])
    columns = numbers(names.join(whole, "history", join_type="inner"))
    length = (columns["end_max"] - columns["start_min"]) // _TICKS
    return _table(
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
    merged = _table(spans).group_by(["history", "low"]).aggregate([("high", "max")])
    return merged.rename_columns(_SPAN.names)


def _segments(spans: pa.Table) -> pa.Table:
    """Join spans that have a block in common, as rows of ``_SPAN``: one a segment, in order."""
    ordered = _sort(numbers(spans), "history", "low")
    reached = _most_before(groups(ordered["history"]), ordered["high"])
    begins = np.flatnonzero(ordered["low"] > reached)
    high = np.maximum.reduceat(ordered["high"], begins)
    return _table(choose(ordered, begins) | {"high": high})


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
    return _table(choose(columns | {"segment": segment}, inside))


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


def _sort(rows: Numbers, *by: str) -> Numbers:
    return choose(rows, np.lexsort([rows[name] for name in reversed(by)]))


def _placed(rank: int, columns: Numbers) -> pa.Table:
    """Return rows of ``_PLACE``, in which other columns are null."""
    return complete(_table(columns | {"rank": np.full(len(columns["slot"]), rank)}), _PLACE)


def _table(columns: Numbers) -> pa.Table:
    return pa.table({name: nullable(column) for name, column in columns.items()})

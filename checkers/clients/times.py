"""Which operations can be in a cycle, of histories of any length.

A graph of 100 million operations is not held anywhere. Every operation is given a point of time at
which it may have happened (``_bounds``). Nearly every edge leads from earlier to later, and a cycle
lies wholly within the times that the other edges span: only the operations of these times, segment
by segment, are looked at.
"""

from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.clients.columns import NONE, Ints, Numbers, any_of, groups, nullable, numbers
from checkers.clients.facts import PROVEN, READ_BY_ANY, READ_OK, SENT, SENT_OK
from checkers.clients.kernels import choose, look_up_columns
from checkers.clients.tally import bits, records
from checkers.clients.view import View
from checkers.engine import Rows, complete

SENDER: Final = 0
READER: Final = 1
"""``rank``: what an operation did at an offset. What is sent there comes before what is read."""

_TICKS: Final = 1000  # parts of a nanosecond, so that many operations fit between two times
_BLOCKS: Final = 4096  # into how many equal times a history is divided
_CHUNK_BITS: Final = 20  # the places at a million offsets are sorted at once

_BASE: Final = (
    *((name, pa.int64()) for name in ("slot", "offset")),
    ("rank", pa.int32()),
    *((name, pa.int64()) for name in ("deed", "key")),
    ("sure", pa.bool_()),
)
MEMBER: Final = pa.schema([("segment", pa.int64()), *_BASE])
"""A place of an operation that can be in a cycle; see ``suspects``."""

_PLACE: Final = pa.schema(
    [
        *_BASE,
        *((name, pa.int64()) for name in ("chunk", "floor", "end")),
        ("several", pa.bool_()),
    ]
)
"""Where a sent record stands, or how far an operation read in a partition: a row of ``MEMBER``.

The operation happened at ``floor`` or later and, if it is known to have succeeded, at ``end`` or
earlier (both in ticks). ``several``: it has several places, and sent to one of them, so that it can
be in a cycle without any order in time. ``chunk`` is a range of offsets.
"""

_TIMED: Final = pa.schema([*_PLACE, ("bound", pa.int64()), ("time", pa.int64())])
_CHUNK: Final = pa.schema([(name, pa.int64()) for name in ("slot", "chunk", "rows", "most")])
_EXTENT: Final = pa.schema([(name, pa.int64()) for name in ("slot", "start", "end")])
_SPAN: Final = pa.schema([(name, pa.int64()) for name in ("history", "low", "high")])


def suspects(view: View, *, ww: bool) -> Rows | None:
    """Find the operations that can be in cycles; None: there are no cycles.

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
    places = _places(view)
    clock = _clock(view, places)
    if True in places.distinct(["several"])["several"].to_pylist():
        places = _bounds(view, places).by(["deed"], _share_floors, _PLACE).kept()
    timed = _bounds(view, places)
    spans = timed.map(partial(_spans, clock=clock, ww=ww), _SPAN).table()
    if not len(spans):
        return None
    segments = _segments(spans)
    return timed.map(partial(_members, clock=clock, segments=segments), MEMBER).kept()


def _places(view: View) -> Rows:
    """Collect the places of operations that took effect, or read."""
    landed = view.records.where(SENT_OK | READ_BY_ANY, "facts").map(_place_sends, _PLACE)
    maybe = view.doubtful.where(bits("maybe"), "doubts").by(["key"], _place_proven, _PLACE)
    reads = view.rows.where(READ_BY_ANY).told("offset").map(_place_reads, _PLACE)
    return landed.union(maybe, reads).by(["deed"], _merge, _PLACE).kept()


def _place_sends(sends: pa.Table) -> pa.Table:
    """Place records, given as rows of ``RECORD``."""
    found = numbers(sends)
    found = choose(found, any_of(found["facts"], SENT) & (found["first"] != NONE))
    columns = {
        "slot": found["slot"],
        "offset": found["first"],
        "deed": found["writer"],
        "key": found["key"],
        "sure": found["first"] == found["last"],
        "floor": found["begun"] * _TICKS,
        "end": _ticks(found["ended"]),
    }
    return _placed(SENDER, columns)


def _place_proven(rows: pa.Table) -> pa.Table:
    """Place records, given as rows of ``DOUBTFUL`` by ``key``, whose writers are proven."""
    sends, found = records(rows), numbers(rows, ("deed", "fact"))
    proven = np.isin(sends["writer"], found["deed"][any_of(found["fact"], PROVEN)])
    return _place_sends(sends.filter(pa.array(proven)))


def _place_reads(rows: pa.Table) -> pa.Table:
    """Place reads, given as rows of ``ROW``."""
    found = numbers(rows)
    succeeded = np.where(any_of(found["fact"], READ_OK), found["complete_ns"], NONE)
    columns = {name: found[name] for name in ("slot", "offset", "deed")}
    columns |= {"floor": found["invoke_ns"] * _TICKS, "end": _ticks(succeeded)}
    return _merge(_placed(READER, columns))


def _merge(places: pa.Table) -> pa.Table:
    """Make one place of an operation's reads in a slot, and set ``several``; by ``deed``."""
    found = _sort(numbers(places), "deed", "rank", "slot", "key")
    first = groups(*(found[name] for name in ("deed", "rank", "slot", "key")))
    merged = choose(found, first) | {
        "offset": np.maximum.reduceat(found["offset"], first),
        "floor": np.minimum.reduceat(found["floor"], first),
        "end": np.maximum.reduceat(found["end"], first),
    }
    of_deed = groups(merged["deed"])
    size = _sizes(of_deed, len(first))
    merged["several"] = np.repeat((size > 1) & (merged["rank"][of_deed] == SENDER), size)
    merged["chunk"] = merged["offset"] >> _CHUNK_BITS
    return _table(merged)


def _bounds(view: View, places: Rows) -> Rows:
    """Add the ``time`` of each operation, and the ``bound`` that its place sets to it.

    ``bound`` is later than all that were sent to earlier offsets, which are at their ``floor`` or
    later, each by at least one tick than the one before it. ``time`` lies between an operation's
    begin and end, so that every order in time leads from earlier to later. An edge by records does
    unless the ``bound`` there is greater than ``time``.

    Each chunk of a slot is sorted alone. What the earlier chunks say is put before its first place
    as if it were one more, without an offset.
    """
    by = ["slot", "chunk"]
    earlier = view.engine.table(_carry(places.by(by, _sum_up, _CHUNK).table()))
    return places.union(earlier).by(by, _set_bounds, _TIMED)


def _set_bounds(places: pa.Table) -> pa.Table:
    found, first, place, ahead = _order(places)
    earlier = _most_before(first, ahead)
    bound = np.where(earlier != NONE, earlier + place, NONE)
    late = _at_most(np.maximum(found["floor"], bound), found["end"])
    late = np.where(found["rank"] == READER, found["end"], late)
    time = np.where(found["several"], found["floor"], late)
    return _table(choose(found | {"bound": bound, "time": time}, found["offset"] != NONE))


def _sum_up(places: pa.Table) -> pa.Table:
    """Count the places of each chunk, and find the ``most`` that these say of later places."""
    found, first, _, ahead = _order(places)
    sums = {"rows": _sizes(first, len(ahead)), "most": np.maximum.reduceat(ahead, first)}
    return _table({name: found[name][first] for name in ("slot", "chunk")} | sums)


def _carry(chunks: pa.Table) -> pa.Table:
    """Make the places, in some of ``_PLACE``, that stand for all chunks before one."""
    found = _sort(numbers(chunks), "slot", "chunk")
    first = groups(found["slot"])
    base = np.cumsum(found["rows"]) - found["rows"]
    most = _most_before(first, np.where(found["most"] != NONE, found["most"] - base, NONE))
    carried = choose(found | {"floor": most + base}, most != NONE)
    columns = {name: carried[name] for name in ("slot", "chunk", "floor")}
    return _placed(SENDER, columns)


def _order(places: pa.Table) -> tuple[Numbers, Ints, Ints, Ints]:
    """Sort the places of chunks.

    Returns:
        The places; where each chunk begins; each one's number in its chunk, from 1; and how far it
        was at least ahead of that number in time, if something was sent there.
    """
    found = _sort(numbers(places), "slot", "chunk", "offset", "rank", "key", "deed")
    first = groups(found["slot"], found["chunk"])
    size = _sizes(first, len(places))
    place = np.arange(len(places)) - np.repeat(first, size) + 1
    ahead = np.where(found["rank"] == SENDER, found["floor"] - place, NONE)
    return found, first, place, ahead


def _share_floors(timed: pa.Table) -> pa.Table:
    """Give an operation of several places one ``floor``, the latest of these; by ``deed``."""
    found = _sort(numbers(timed), "deed")
    first = groups(found["deed"])
    latest = np.maximum.reduceat(np.maximum(found["floor"], found["bound"]), first)
    latest = _at_most(latest, np.maximum.reduceat(found["end"], first))
    shared = np.repeat(latest, _sizes(first, len(timed)))
    return _table(found | {"floor": np.where(found["several"], shared, found["floor"])})


def _clock(view: View, places: Rows) -> pa.Table:
    """Divide the time of each history into blocks: ``slot, history, start, width``.

    Histories are numbered, and blocks are so many ticks wide that there are ``_BLOCKS`` of them.
    """
    found = numbers(places.map(_extents, _EXTENT).table())
    hashes = look_up_columns(view.names.select(["slot", "history"]), "slot", found["slot"])
    history = np.unique(hashes["history"], return_inverse=True)[1]
    order = np.argsort(history, kind="stable")
    first = groups(history[order])
    start = np.minimum.reduceat(found["start"][order], first)
    length = (np.maximum.reduceat(found["end"][order], first) - start) // _TICKS
    width = np.maximum(-(-length // _BLOCKS), 1) * _TICKS
    slot, place = np.unique(found["slot"], return_index=True)
    number = history[place]
    return _table({"slot": slot, "history": number, "start": start[number], "width": width[number]})


def _extents(places: pa.Table) -> pa.Table:
    found = _sort(numbers(places, ("slot", "floor", "end")), "slot")
    first = groups(found["slot"])
    end = np.maximum.reduceat(np.where(found["end"] != NONE, found["end"], found["floor"]), first)
    start = np.minimum.reduceat(found["floor"], first)
    return _table({"slot": found["slot"][first], "start": start, "end": end})


def _spans(timed: pa.Table, *, clock: pa.Table, ww: bool) -> pa.Table:
    """Find the blocks from which, and to which, edges lead back in time."""
    found = numbers(timed)
    back = (found["time"] != NONE) & (found["bound"] > found["time"])
    found = choose(found, back if ww else back & (found["rank"] == READER))
    history, low = _blocks(found, clock, found["time"])
    spans = _table(
        {"history": history, "low": low, "high": _blocks(found, clock, found["bound"])[1]}
    )
    return (
        spans.group_by(["history", "low"]).aggregate([("high", "max")]).rename_columns(_SPAN.names)
    )


def _segments(spans: pa.Table) -> pa.Table:
    """Join spans that have a block in common, as rows of ``_SPAN``: one a segment, in order."""
    found = _sort(numbers(spans), "history", "low")
    apart = found["low"] > _most_before(groups(found["history"]), found["high"])
    begins = np.flatnonzero(apart)
    high = np.maximum.reduceat(found["high"], begins)
    return _table(choose(found, begins) | {"high": high})


def _members(timed: pa.Table, *, clock: pa.Table, segments: pa.Table) -> pa.Table:
    """Choose the operations whose time lies in a segment, in ``MEMBER``."""
    found, known = numbers(timed), numbers(segments)
    found = choose(found, found["time"] != NONE)
    before, after = known["low"].min() - 1, known["high"].max() + 1

    def code(history: Ints, block: Ints) -> Ints:
        """Number blocks through all histories, those outside of all segments apart."""
        return history * (after - before + 1) + np.clip(block, before, after) - before

    block = code(*_blocks(found, clock, found["time"]))
    segment = np.searchsorted(code(known["history"], known["low"]), block, side="right") - 1
    inside = (segment >= 0) & (block <= code(known["history"], known["high"])[segment])
    return _table(choose(found | {"segment": segment}, inside))


def _blocks(places: Numbers, clock: pa.Table, time: Ints) -> tuple[Ints, Ints]:
    """The history of each place, and the block of a time."""
    of_slot = look_up_columns(clock, "slot", places["slot"])
    block = np.floor((time - of_slot["start"]) / of_slot["width"])
    return of_slot["history"], block.astype(np.int64)


def _most_before(first: Ints, column: Ints) -> Ints:
    """The greatest number before each row of its group; NONE of each group's first."""
    found = np.full(len(column), NONE)
    for low, high in pairwise([*first.tolist(), len(column)]):
        np.maximum.accumulate(column[low : high - 1], out=found[low + 1 : high])
    return found


def _at_most(time: Ints, end: Ints) -> Ints:
    """The lesser of two times, of which the second may not be known."""
    return np.where(end != NONE, np.minimum(time, end), time)


def _ticks(nanoseconds: Ints) -> Ints:
    return np.where(nanoseconds != NONE, nanoseconds * _TICKS, NONE)


def _sizes(first: Ints, count: int) -> Ints:
    return np.diff(np.append(first, count))


def _sort(rows: Numbers, *by: str) -> Numbers:
    return choose(rows, np.lexsort([rows[name] for name in reversed(by)]))


def _placed(rank: int, columns: Numbers) -> pa.Table:
    """Rows of ``_PLACE``; other columns are null."""
    return complete(_table(columns | {"rank": np.full(len(columns["slot"]), rank)}), _PLACE)


def _table(columns: Numbers) -> pa.Table:
    return pa.table({name: nullable(column) for name, column in columns.items()})

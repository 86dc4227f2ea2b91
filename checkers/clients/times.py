"""Which operations can be in a cycle, of histories of any length.

A graph of 100 million operations is not held anywhere. Every operation is given a point of time at
which it may have happened (``bounds``). Of nearly all edges that leads from earlier to later, and a
cycle lies wholly within the times that the other edges span: only the operations of these times,
stretch by stretch, are looked at.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.clients.columns import (
    NONE,
    Ints,
    Numbers,
    any_of,
    greatest,
    groups,
    least,
    nullable,
    numbers,
)
from checkers.clients.facts import PROOF, READ_BY_ANY, READ_OK, SENT, SENT_INFO, SENT_OK
from checkers.clients.kernels import choose, look_up_columns, sort
from checkers.clients.places import latest
from checkers.clients.view import View
from checkers.engine import Rows

SENDER: Final = 0
READER: Final = 1
"""``rank``: what an operation did at an offset. What is sent there comes before what is read."""

_TICKS: Final = 1000  # parts of a nanosecond, so that many operations fit between two times
_BLOCKS: Final = 4096  # into how many equal times a history is cut

_PLACED: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("slot", "offset", "rank", "deed", "key")),
        ("sure", pa.bool_()),
        *((name, pa.int64()) for name in ("begun", "ended", "floor", "bound", "time")),
    ]
)
"""Where an operation stands in a log: of a send the first offset that anybody named, and whether it
was the only one; of a read the last. ``ended`` is null unless the operation is known to have
succeeded. The last three are in ticks: see ``bounds``, ``floors`` and ``timed``."""

_SPAN: Final = pa.schema([(name, pa.int64()) for name in ("slot", "low", "high")])
"""A stretch of time in the history of a slot."""

MEMBER: Final = pa.schema([("segment", pa.int64()), *(_PLACED.field(nth) for nth in range(6))])
"""An operation that can be in a cycle. No cycle leads from one ``segment`` to another."""


def suspects(view: View, *, ww: bool) -> Rows | None:
    """The operations that can be in cycles, in ``MEMBER``; None: there are no cycles.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations.
    """
    if not ww and not view.entangled:
        return None
    placed = _placed(view).kept()
    bounded = placed.by(["slot"], bounds, _PLACED).by(["deed"], floors, _PLACED)
    times = bounded.by(["slot"], timed, _PLACED).kept()
    backward = times.map(partial(leads_back, ww=ww), _SPAN).table()
    if not len(backward):
        return None
    segments = _segments(view.names, placed.map(lifetimes, _SPAN).table(), backward)
    return times.map(partial(members, segments=segments, names=view.names), MEMBER).kept()


def _placed(view: View) -> Rows:
    sends = view.records.told("first").where(SENT, "facts")
    landed = sends.where(SENT_OK | READ_BY_ANY, "facts")
    proven = view.doubtful.where(PROOF).select(["deed"]).renamed({"deed": "writer"})
    info = (
        sends.where(SENT_INFO, "facts")
        .join(proven, ["writer"], "semi")
        .map(only_info, sends.schema)
    )
    sent = landed.union(info).map(senders, _PLACED)
    read = view.rows.where(READ_BY_ANY).told("offset")
    return sent.union(read.by(["deed"], readers, _PLACED))


def only_info(records: pa.Table) -> pa.Table:
    """Records of which nobody but a send of unknown outcome tells. A kernel from ``RECORD``."""
    sure = any_of(records["facts"].to_numpy(), SENT_OK | READ_BY_ANY)
    return records.filter(pa.array(~sure))


def senders(records: pa.Table) -> pa.Table:
    """Where what was sent stands, in ``_PLACED``. A kernel from ``RECORD``."""
    found = numbers(records)
    columns = {name: found[name] for name in ("slot", "key", "begun", "ended")}
    columns |= {"offset": found["first"], "deed": found["writer"]}
    return _table(columns | {"sure": found["first"] == found["last"]}, rank=SENDER)


def readers(rows: pa.Table) -> pa.Table:
    """How far each operation read in each partition, in ``_PLACED``. A kernel by ``deed``."""
    found = sort(numbers(rows), "deed", "slot")
    first = groups(found["deed"], found["slot"])
    good = any_of(found["fact"], READ_OK)
    every = np.ones(len(good), np.bool_)
    columns = {name: found[name][first] for name in ("slot", "deed")}
    columns["offset"] = greatest(first, found["offset"], every)
    columns["begun"] = least(first, found["invoke_ns"], found["invoke_ns"] != NONE)
    columns["ended"] = greatest(first, found["complete_ns"], good)
    return _table(columns, rank=READER)


def bounds(rows: pa.Table) -> pa.Table:
    """The time before which an operation cannot be, by its place in the log. A kernel by ``slot``.

    It is later than all that were sent to earlier offsets, which are at ``floor`` or later (their
    begin, where that is not known), each by at least one tick than the one before it.
    """
    found = numbers(rows)
    order = np.lexsort([found[name] for name in ("key", "rank", "offset", "slot")])
    found = choose(found, order)
    first = groups(found["slot"])
    size = np.diff(np.append(first, len(order)))
    place = np.arange(len(order)) - np.repeat(first, size) + 1
    floor = np.where(found["floor"] == NONE, found["begun"] * _TICKS, found["floor"])
    ahead = np.where((found["rank"] == SENDER) & (found["begun"] != NONE), floor - place, NONE)
    before = np.concatenate(([NONE], ahead[:-1]))
    before[first] = NONE
    earlier = _most_so_far(before, size)
    return _table(found | {"bound": np.where(earlier == NONE, NONE, earlier + place)})


def floors(rows: pa.Table) -> pa.Table:
    """The same with a ``floor`` of operations of several places, one of which they sent to.

    Such are in cycles without time too. A kernel by ``deed``.
    """
    found = numbers(rows)
    order = np.argsort(found["deed"], kind="stable")
    found = choose(found, order)
    first = groups(found["deed"])
    size = np.diff(np.append(first, len(order)))
    every = np.ones(len(order), np.bool_)
    late = greatest(first, np.maximum(_begin(found), found["bound"]), every)
    floor = _earlier(late, greatest(first, _end(found), every))
    several = (size > 1) & (least(first, found["rank"], every) == SENDER)
    return _table(found | {"floor": np.repeat(np.where(several, floor, NONE), size)})


def timed(rows: pa.Table) -> pa.Table:
    """The same with a ``time`` for each operation. A kernel by ``slot``.

    It lies between an operation's begin and end, so that every order in time leads from earlier to
    later. An edge by records does unless the ``bound`` there is greater than ``time``. A read that
    did not succeed leads nowhere, and is left out.
    """
    found = numbers(bounds(rows))
    end = _end(found)
    sent = _earlier(np.maximum(_begin(found), found["bound"]), end)
    late = np.where(found["rank"] == READER, end, sent)
    time = np.where(found["floor"] == NONE, late, found["floor"])
    return _table(choose(found | {"time": time}, time != NONE))


def leads_back(rows: pa.Table, *, ww: bool) -> pa.Table:
    """From when to when edges lead back, in ``_SPAN``. A kernel from ``_PLACED``."""
    found = numbers(rows)
    back = (found["bound"] > found["time"]) & (ww | (found["rank"] == READER))
    columns = [found[name][back] for name in ("slot", "time", "bound")]
    return pa.table(columns, names=_SPAN.names)


def lifetimes(rows: pa.Table) -> pa.Table:
    """From when to when slots were used, in ``_SPAN`` (nanoseconds). A kernel from ``_PLACED``."""
    found = numbers(rows)
    over = np.where(found["ended"] == NONE, found["begun"], found["ended"])
    times = pa.table({"slot": found["slot"], "low": found["begun"], "high": over})
    times = times.group_by("slot").aggregate([("low", "min"), ("high", "max")])
    return times.rename_columns(_SPAN.names)


def _segments(names: pa.Table, lives: pa.Table, backward: pa.Table) -> pa.Table:
    """Which times of each history are looked at, and the ``segment`` of each.

    Times are cut into blocks, so that the list of those to look at is short however many edges
    there are; blocks that an edge spans are one segment.

    Returns:
        ``history, start, width, low, high, segment``: from block to block, in their order.
    """
    life = numbers(lives) | {"history": _histories(names, lives["slot"].to_numpy())}
    order = np.argsort(life["history"], kind="stable")
    life = choose(life, order)
    first = groups(life["history"])
    every = np.ones(len(order), np.bool_)
    began, ended = least(first, life["low"], every), greatest(first, life["high"], every)
    cut = {
        "history": life["history"][first],
        "start": began * _TICKS,
        "width": np.maximum(1, -((began - ended) // _BLOCKS)) * _TICKS,
    }
    spans = numbers(backward)
    spans["history"] = _histories(names, spans["slot"])
    own = np.searchsorted(cut["history"], spans["history"])
    start, width = cut["start"][own], cut["width"][own]
    spans |= {"start": start, "width": width}
    spans |= {name: (spans[name] - start) // width for name in ("low", "high")}
    spans = choose(spans, np.lexsort((spans["low"], spans["history"])))
    blocks = groups(spans["history"])
    size = np.diff(np.append(blocks, len(spans["low"])))
    high = np.concatenate(([NONE], spans["high"][:-1]))
    high[blocks] = NONE
    apart = np.flatnonzero(spans["low"] > _most_so_far(high, size))
    told = choose(spans, apart) | {"high": np.maximum.reduceat(spans["high"], apart)}
    told["segment"] = np.arange(len(apart))
    return pa.table(
        {name: told[name] for name in ("history", "start", "width", "low", "high", "segment")}
    )


def members(rows: pa.Table, *, segments: pa.Table, names: pa.Table) -> pa.Table:
    """The operations whose time lies where an edge leads back, in ``MEMBER``.

    A kernel from ``_PLACED``.

    Args:
        rows: with their ``time``.
        segments: from ``_segments``.
        names: what the numbers of slots stand for.
    """
    found, known = numbers(rows), numbers(segments)
    history = _histories(names, found["slot"])
    own = np.minimum(np.searchsorted(known["history"], history), len(segments) - 1)
    block = (found["time"] - known["start"][own]) // known["width"][own]
    at = latest(known["history"], known["low"], history, block)
    inside = (at >= 0) & (block <= known["high"][at])
    segment = pa.array(known["segment"][at[inside]])
    told = rows.filter(pa.array(inside)).append_column("segment", segment)
    return told.select(MEMBER.names)


def _histories(names: pa.Table, slot: Ints) -> Ints:
    found: Ints = look_up_columns(names.select(["slot", "history"]), "slot", slot)["history"]
    return found


def _begin(rows: Numbers) -> Ints:
    return np.where(rows["begun"] == NONE, NONE, rows["begun"] * _TICKS)


def _end(rows: Numbers) -> Ints:
    return np.where(rows["ended"] == NONE, NONE, rows["ended"] * _TICKS)


def _earlier(one: Ints, other: Ints) -> Ints:
    """The lesser of two times, or the one that is known."""
    return np.where(one == NONE, other, np.where(other == NONE, one, np.minimum(one, other)))


def _most_so_far(column: Ints, size: Ints) -> Ints:
    """The greatest number so far in groups of these sizes."""
    known, rank = np.unique(column, return_inverse=True)
    group = np.repeat(np.arange(len(size)), size) * len(known)
    found: Ints = known[np.maximum.accumulate(group + rank) - group]
    return found


def _table(columns: Numbers, rank: int | None = None) -> pa.Table:
    size = len(columns["slot"])
    if rank is not None:
        columns = columns | {"rank": np.full(size, rank)}
    arrays = []
    for field in _PLACED:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.nulls(size, field.type))
        else:
            arrays.append(nullable(column) if pa.types.is_int64(field.type) else pa.array(column))
    return pa.table(arrays, schema=_PLACED)

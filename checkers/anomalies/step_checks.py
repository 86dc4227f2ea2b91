"""Find wrong steps of clients through a log, and the records that the steps skip.

The kinds are poll-skip, nonmonotonic-poll, nonmonotonic-send, and the same kinds within one
operation (``int-…``). ``checkers.history.steps`` finds the steps.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.vanished import GONE
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Ints,
    Numbers,
    arrow,
    at_place,
    choose,
    grouped,
    numbers,
    schema,
    so_far,
    sort,
)
from highwater.checkers.history.findings import (
    COPY,
    FINDING,
    OF_COPY,
    OF_LAST,
    findings,
    mix,
    steps,
)
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

KINDS: Final = (
    *("int-nonmonotonic-send", "int-send-skip", "nonmonotonic-send"),
    *("int-nonmonotonic-poll", "int-poll-skip", "nonmonotonic-poll", "poll-skip"),
)
"""The kinds of wrong steps, in the order of the conditions in ``kinds``."""

_OFFSETS_SKIPPED: Final = schema(
    *("kind", "finding", "reader", "from_at", "to_at", "delta", "slot", "offset"), kind=pa.string()
)
"""An offset that a client's step skipped, with the columns of this step."""

_OVER: Final = schema("slot", "from_place", "place", "at", "client")


def step_findings(view: ClientHistory, wrong: Rows, kinds: frozenset[str]) -> Rows:
    """Return the clients' wrong steps of these kinds, as findings."""
    back = wrong.map(partial(steps_back, kinds=kinds), FINDING)
    skipped = wrong.map(partial(offsets_left_out, kinds=kinds), _OFFSETS_SKIPPED).persist()
    if not len(skipped):
        return back
    placed = view.placed.select(["slot", "offset", "key", "client", "at"])
    return back.union(placed.join(skipped, ["slot", "offset"]).by(["finding"], skips, FINDING))


def kinds(steps: pa.Table) -> pa.Array:
    """Return the kind of each wrong step.

    A step that begins at a ``seek`` is null: it is no anomaly, but it shows skipped records.
    """
    columns = numbers(steps, ("inner", "sent", "sought", "delta"))
    inner, sent, back = columns["inner"], columns["sent"], columns["delta"] < 1
    conditions = (sent & inner & back, sent & inner, sent, inner & back, inner, back, True)
    return pa.array(KINDS).take(pa.array(np.select(conditions, range(7)), mask=columns["sought"]))


def steps_back(rows: pa.Table, *, kinds: frozenset[str]) -> pa.Table:
    """Return a finding for each step that goes back, or stays at one offset.

    The finding names the record in the last row of the step.
    """
    kind, back = _of_kinds(rows.filter(pc.less(rows["delta"], 1)), kinds)
    step = numbers(back, ("client", "from_at", "at", "delta"))
    return _steps(kind, mix(step["client"], step["at"]), step, fault=OF_LAST)


def offsets_left_out(rows: pa.Table, *, kinds: frozenset[str]) -> pa.Table:
    """Return the offsets that steps of these kinds skip, as ``_OFFSETS_SKIPPED`` rows."""
    kind, over = _of_kinds(rows.filter(pc.greater(rows["delta"], 1)), kinds)
    lists = over["left_out"].combine_chunks()
    row = pc.list_parent_indices(lists)
    step = choose(numbers(over, ("client", "from_at", "at", "delta", "slot")), row.to_numpy())
    step |= {"finding": mix(step["client"], step["at"])}
    step |= {"reader": step["client"], "to_at": step["at"]}
    return arrow(step | {"kind": kind.take(row), "offset": lists.flatten()}, _OFFSETS_SKIPPED)


def skips(rows: pa.Table) -> pa.Table:
    """Return a finding for each step that skips records. It names the first skipped record.

    Each row is an ``_OFFSETS_SKIPPED`` row, joined with ``key, client, at`` of a history row that
    has the skipped offset. All rows of one ``finding`` must be in one table.
    """
    place = numbers(rows.drop_columns("kind")) | {"row": np.arange(len(rows))}
    place, record = grouped(place, "finding", "offset", "key", then=("at",))
    copy, step = (choose(place, group.first) for group in (record, Groups.of(place["finding"])))
    kinds = rows["kind"].combine_chunks()
    copies = findings(
        kinds.take(pa.array(copy["row"])),
        copy["finding"],
        part=COPY,
        fault=OF_COPY,
        place=copy["offset"],
        note="skipped",
        **{name: copy[name] for name in ("client", "at", "delta")},
    )
    step |= {"client": step["reader"], "at": step["to_at"]}
    kind = kinds.take(pa.array(step["row"]))
    return pa.concat_tables([copies, _steps(kind, step["finding"], step, fault=OF_COPY)])


def passed(view: ClientHistory, wrong: Rows) -> Rows:
    """Return the records at offsets that a reader skipped, as ``GONE`` rows.

    ``client, at`` identify the end of the last step that skipped the offset. Steps that begin at a
    seek count, too.
    """
    over = wrong.map(_read_over, _OVER).table()
    if not len(over):
        return view.engine.table(GONE.empty_table())
    placed = view.placed.select(["key", "slot", "offset"])
    return placed.map(partial(stepped_over, ranges=last_over(over)), GONE)


def _read_over(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.and_(pc.greater(rows["delta"], 1), pc.invert(rows["sent"])))


def last_over(rows: pa.Table) -> pa.Table:
    """Return, for each range of offsets, the last step that skipped the range.

    Args:
        rows: steps, ``slot, from_place, place, at, client``.

    Returns:
        Rows ``slot, low, at, client``. A range ends before the next row's ``low``. ``at`` and
        ``client`` identify the step; they are null if no step skipped the range.
    """
    step = sort(numbers(rows), "at", "client")
    edges = {
        "slot": np.tile(step["slot"], 2),
        "low": np.concatenate((step["from_place"] + 1, step["place"])),
    }
    edges, edge = grouped(edges, "slot", "low")
    bound = choose(edges, edge.first)
    bounds = bound["slot"], bound["low"]
    begin, end = (
        so_far(bounds, (step["slot"], place)) - 1
        for place in (step["from_place"] + 1, step["place"])
    )
    last = _last_over_each(begin, end, len(edge))
    who = {name: at_place(step[name], last) for name in ("at", "client")}
    return arrow(bound | who, schema("slot", "low", "at", "client"))


def _last_over_each(begin: Ints, end: Ints, size: int) -> Ints:
    """Return the last range ``[begin, end)`` that contains each number below ``size``, by index.

    Two blocks cover a range; their size is a power of 2, and they may overlap. From the largest
    size down, each block gives its index to its two halves.
    """
    number = np.arange(len(begin))
    power = np.frexp(end - begin)[1] - 1
    positions = np.full(size, NONE)
    for exponent in range(int(power.max()), -1, -1):
        block = 1 << exponent
        # A position in this array belongs to a block that begins there and is twice as long.
        positions[block:] = np.maximum(positions[block:], positions[:-block])
        at_power = power == exponent
        np.maximum.at(positions, begin[at_power], number[at_power])
        np.maximum.at(positions, end[at_power] - block, number[at_power])
    return positions


def stepped_over(rows: pa.Table, *, ranges: pa.Table) -> pa.Table:
    """Return rows at offsets that a reader skipped, as ``GONE`` rows.

    ``ranges`` come from ``last_over``. No step skipped the last range of a partition.
    """
    spans, targets = numbers(ranges), numbers(rows, ("key", "slot", "offset"))
    low, end = spans["low"].min(), spans["low"].max()
    targets = choose(targets, (targets["offset"] >= low) & (targets["offset"] < end))
    last = so_far((spans["slot"], spans["low"]), (targets["slot"], targets["offset"])) - 1
    gone = {"key": targets["key"], "client": spans["client"][last], "at": spans["at"][last]}
    return arrow(choose(gone, gone["at"] != NONE), GONE)


def _of_kinds(rows: pa.Table, wanted_kinds: frozenset[str]) -> tuple[pa.Array, pa.Table]:
    kind = kinds(rows)
    among = pc.is_in(kind, pa.array(sorted(wanted_kinds), pa.string()))
    return kind.filter(among), rows.filter(among)


def _steps(kind: pa.Array, finding: Ints, step: Numbers, *, fault: int) -> pa.Table:
    ends = [(step["client"], step[name]) for name in ("from_at", "at")]
    return steps(kind, finding, ends, fault=fault, delta=step["delta"])

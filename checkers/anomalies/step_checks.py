"""Wrong steps as findings, with the records that they leave out.

poll-skip, nonmonotonic-poll, nonmonotonic-send and their internal forms are steps of
``checkers.history.steps``.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.record_checks import mix
from highwater.checkers.anomalies.vanished import GONE
from highwater.checkers.history.columns import NONE, Ints, groups, nullable, numbers
from highwater.checkers.history.findings import COPY, FINDING, OF_COPY, OF_LAST, findings
from highwater.checkers.history.kernel_tools import at_place, choose, sort
from highwater.checkers.history.version_order import so_far
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

KINDS: Final = (
    *("int-nonmonotonic-send", "int-send-skip", "nonmonotonic-send"),
    *("int-nonmonotonic-poll", "int-poll-skip", "nonmonotonic-poll", "poll-skip"),
)
"""Names of wrong steps; see ``kinds``."""

_OFFSETS_SKIPPED: Final = pa.schema(
    [
        ("kind", pa.string()),
        *((name, pa.int64()) for name in ("finding", "reader", "from_at", "to_at", "delta")),
        *((name, pa.int64()) for name in ("slot", "offset")),
    ]
)
"""An offset that a step left out, and the step."""

_OVER: Final = pa.schema(
    [(name, pa.int64()) for name in ("slot", "from_place", "place", "at", "client")]
)


def step_findings(view: ClientHistory, steps: Rows, kinds: frozenset[str]) -> Rows:
    """Return the steps of these kinds, in ``FINDING``."""
    back = steps.map(partial(steps_back, kinds=kinds), FINDING)
    skipped = steps.map(partial(offsets_left_out, kinds=kinds), _OFFSETS_SKIPPED).persist()
    if not len(skipped):
        return back
    placed = view.placed.select(["slot", "offset", "key", "client", "at"])
    return back.union(placed.join(skipped, ["slot", "offset"]).by(["finding"], skips, FINDING))


def kinds(steps: pa.Table) -> pa.Array:
    """Return the kinds of wrong steps; null for a step that begins where a reader seeked to."""
    columns = numbers(steps, ("inner", "sent", "sought", "delta"))
    inner, sent, back = columns["inner"], columns["sent"], columns["delta"] < 1
    conditions = (sent & inner & back, sent & inner, sent, inner & back, inner, back, True)
    return pa.array(KINDS).take(pa.array(np.select(conditions, range(7)), mask=columns["sought"]))


def steps_back(steps: pa.Table, *, kinds: frozenset[str]) -> pa.Table:
    """Return steps of these kinds that lead back, or to where they begin, in ``FINDING``. A kernel.

    The record at fault is that of the last row.
    """
    kind, rows = _of_kinds(steps.filter(pc.less(steps["delta"], 1)), kinds)
    columns = numbers(rows, ("client", "from_at", "at", "delta"))
    return _steps(kind, mix(columns["client"], columns["at"]), columns, fault=OF_LAST)


def offsets_left_out(steps: pa.Table, *, kinds: frozenset[str]) -> pa.Table:
    """Return the offsets that steps of these kinds skip, in ``_OFFSETS_SKIPPED``. A kernel."""
    kind, rows = _of_kinds(steps.filter(pc.greater(steps["delta"], 1)), kinds)
    lists = rows["left_out"].combine_chunks()
    row = pc.list_parent_indices(lists)
    columns = numbers(rows, ("client", "from_at", "at", "delta", "slot"))
    finding = mix(columns["client"], columns["at"])
    names = ("client", "from_at", "at", "delta", "slot")
    arrays = [
        pa.array(column).take(row) for column in (finding, *(columns[name] for name in names))
    ]
    return pa.table([kind.take(row), *arrays, lists.flatten()], names=_OFFSETS_SKIPPED.names)


def skips(rows: pa.Table) -> pa.Table:
    """Return steps with the records that they leave out, in ``FINDING``. A kernel by ``finding``.

    The record at fault is the first of these.

    Args:
        rows: in ``_WANTED``, each with ``key, client, at`` of a row that has a record's place.
    """
    names = ("finding", "offset", "key", "client", "at", "reader", "from_at", "to_at", "delta")
    place = numbers(rows, names)
    order = np.lexsort([place[name] for name in ("at", "key", "offset", "finding")])
    place, kind = choose(place, order), rows["kind"].combine_chunks().take(pa.array(order))
    records = groups(place["finding"], place["offset"], place["key"])
    first = groups(place["finding"])
    copies = choose(place, records)
    step = choose(place, first)
    both = {name: step[name] for name in ("from_at", "delta")}
    both |= {"client": step["reader"], "at": step["to_at"]}
    finding_rows = findings(
        kind.take(pa.array(records)),
        copies["finding"],
        part=COPY,
        client=copies["client"],
        at=copies["at"],
        fault=OF_COPY,
        delta=copies["delta"],
        place=copies["offset"],
        note="skipped",
    )
    steps = _steps(kind.take(pa.array(first)), step["finding"], both, fault=OF_COPY)
    return pa.concat_tables([finding_rows, steps])


def passed(view: ClientHistory, steps: Rows) -> Rows:
    """Return records at skipped offsets, and the row to which the reader stepped, in ``GONE``.

    Of several rows the last; a seek counts as a step from the place sought.
    """
    over = steps.map(_read_over, _OVER).table()
    if not len(over):
        return view.engine.table(GONE.empty_table())
    placed = view.placed.select(["key", "slot", "offset"])
    return placed.map(partial(stepped_over, ranges=last_over(over)), GONE)


def _read_over(steps: pa.Table) -> pa.Table:
    return steps.filter(pc.and_(pc.greater(steps["delta"], 1), pc.invert(steps["sent"])))


def last_over(steps: pa.Table) -> pa.Table:
    """Return the last client that stepped over the offsets from ``low`` up to the next row's.

    Args:
        steps: ``slot, from_place, place, at, client``.

    Returns:
        ``slot, low, at, client``, the last two null where no client did.
    """
    step = sort(numbers(steps), "at", "client")
    slot = np.tile(step["slot"], 2)
    place = np.concatenate((step["from_place"] + 1, step["place"]))
    order = np.lexsort((place, slot))
    bound = order[groups(slot[order], place[order])]
    bounds = slot[bound], place[bound]
    begin, end = np.split(so_far(bounds, (slot, place)) - 1, 2)
    last = _last_over_each(begin, end, len(bound))
    who = {name: nullable(at_place(step[name], last)) for name in ("at", "client")}
    return pa.table({"slot": bounds[0], "low": bounds[1], **who})


def _last_over_each(begin: Ints, end: Ints, size: int) -> Ints:
    """Return, for each number below ``size``, the last range ``[begin, end)`` that has it.

    A range is the union of two blocks whose size is a power of 2, which may overlap; each block is
    halved in the same way.
    """
    number = np.arange(len(begin))
    power = np.frexp(end - begin)[1] - 1
    positions = np.full(size, NONE)
    for exponent in range(int(power.max()), -1, -1):
        block = 1 << exponent
        # What has been found up to here is of blocks that begin there, and are twice as long.
        positions[block:] = np.maximum(positions[block:], positions[:-block])
        at_power = power == exponent
        np.maximum.at(positions, begin[at_power], number[at_power])
        np.maximum.at(positions, end[at_power] - block, number[at_power])
    return positions


def stepped_over(rows: pa.Table, *, ranges: pa.Table) -> pa.Table:
    """Rows at offsets that a reader stepped over, in ``GONE``. A kernel from ``ROW``.

    Args:
        rows: with a known place of a record.
        ranges: as ``last_over`` gives them. The last one of a slot belongs to no client.
    """
    spans, targets = numbers(ranges), numbers(rows, ("key", "slot", "offset"))
    low, end = spans["low"].min(), spans["low"].max()
    targets = choose(targets, (targets["offset"] >= low) & (targets["offset"] < end))
    last = so_far((spans["slot"], spans["low"]), (targets["slot"], targets["offset"])) - 1
    gone = {"key": targets["key"], "client": spans["client"][last], "at": spans["at"][last]}
    return pa.table(choose(gone, gone["at"] != NONE))


def _of_kinds(steps: pa.Table, wanted_kinds: frozenset[str]) -> tuple[pa.Array, pa.Table]:
    """Return steps of these kinds, and the kind of each."""
    kind = kinds(steps)
    among = pc.is_in(kind, pa.array(sorted(wanted_kinds), pa.string()))
    return kind.filter(among), steps.filter(among)


def _steps(kind: pa.Array, finding: Ints, rows: dict[str, Ints], *, fault: int) -> pa.Table:
    """Return the two rows of each step, in ``FINDING``."""
    common = {"client": rows["client"], "delta": rows["delta"], "fault": fault}
    ends = (rows["from_at"], rows["at"])
    return pa.concat_tables(
        [findings(kind, finding, nth=nth, at=at, **common) for nth, at in enumerate(ends)]
    )

"""Find offsets that several records have (Jepsen's ``inconsistent-offsets``)."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.record_checks import end_rows, mix
from highwater.checkers.history.columns import NONE, any_of, groups, nullable, numbers
from highwater.checkers.history.findings import FINDING, OF_NONE
from highwater.checkers.history.kernel_tools import choose, first_of, look_up_columns
from highwater.checkers.history.offset_runs import OFFSET_RUN, READS, SLOT_TOLD
from highwater.checkers.history.row_flags import ENDED
from highwater.checkers.history.steps import located_rows
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

INCONSISTENT: Final = "inconsistent-offsets"

PLACES: Final = pa.schema([(name, pa.int64()) for name in ("slot", "places", "far", "end")])
"""One row a slot: how many of its offsets are known, the greatest of them, and the least offset at
which a client was told that the log ends (null: no client was)."""


def places(view: ClientHistory) -> pa.Table:
    """Return each slot's known offsets, counted, in ``PLACES``."""
    rows = view.offset_runs
    if view.late:
        rows = rows.union(view.placed_late.map(located_rows, OFFSET_RUN))
    return rows.by(["slot"], known_places, PLACES).table()


def known_places(rows: pa.Table) -> pa.Table:
    """Return ``PLACES`` of slots with a known offset. A kernel by ``slot``.

    Args:
        rows: in ``OFFSET_RUN``.
    """
    columns = numbers(rows, ("what", "sure", "slot", "place", "last_place"))
    what, place = columns["what"], columns["place"]
    tells = (what == SLOT_TOLD) | ((what == READS) & columns["sure"])
    ended = any_of(what, ENDED) & (place != NONE)
    stretches = choose(columns, tells)
    if not tells.any():
        return PLACES.empty_table()
    # An offset is known while more ranges have begun than ended.
    slot = np.concatenate((stretches["slot"], stretches["slot"]))
    edge = np.concatenate((stretches["place"], stretches["last_place"] + 1))
    order = np.lexsort((edge, slot))
    slot, edge = slot[order], edge[order]
    begun = np.cumsum(np.where(order < len(order) // 2, 1, -1))
    size = np.where(begun > 0, np.diff(edge, append=edge[-1]), 0)
    first = groups(slot)
    last = np.append(first[1:], len(slot)) - 1
    table = pa.table(
        {"slot": slot[first], "places": np.add.reduceat(size, first), "far": edge[last] - 1}
    )
    ends = first_of(choose(columns | {"at": place}, ended), "slot")
    end = look_up_columns(
        pa.table({"slot": ends["slot"], "end": ends["place"]}), "slot", slot[first]
    )
    return table.append_column("end", nullable(end["end"]))


def crowded(view: ClientHistory, places: pa.Table) -> pa.Table:
    """Return the slots, in a column ``slot``, in which several records may have one offset.

    Where each record has one place and there are as many records as places, none have.

    Args:
        view: the history.
        places: in ``PLACES``.
    """
    sums = view.sums.join(places.select(["slot", "places"]), "slot", join_type="inner")
    more = pc.greater(pc.add(sums["known"], sums["maybe"]), sums["places"])
    return sums.filter(pc.or_(more, pc.greater(sums["twice"], 0))).select(["slot"])


def shared_offsets(view: ClientHistory) -> Rows | None:
    """Return findings of offsets with several records, in ``FINDING``; None: no offset has."""
    slots = crowded(view, places(view))
    if not len(slots):
        return None
    rows = view.placed.join(view.engine.table(slots), ["slot"], "semi")
    return rows.by(["slot", "offset"], several_records, FINDING)


def several_records(rows: pa.Table) -> pa.Table:
    """Return offsets that have several records, in ``FINDING``. A kernel by ``slot, offset``.

    Args:
        rows: in ``ROW``, of ``ClientHistory.placed``.
    """
    columns = numbers(rows, ("slot", "offset", "key", "client", "at"))
    records = first_of(columns, "slot", "offset", "key")
    first = groups(records["slot"], records["offset"])
    finding = mix(records["slot"][first], records["offset"][first])
    return end_rows(INCONSISTENT, records, first, finding, fault=OF_NONE)

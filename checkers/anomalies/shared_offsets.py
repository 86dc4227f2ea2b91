"""Find offsets at which clients report several records (Jepsen's ``inconsistent-offsets``)."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    any_of,
    arrow,
    choose,
    first_of,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import FINDING, OF_NONE, end_rows, mix
from highwater.checkers.history.offset_runs import READS, SLOT_TOLD
from highwater.checkers.history.steps import known_runs
from highwater.checkers.history.version_order import merge_offset_ranges
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

INCONSISTENT: Final = "inconsistent-offsets"

PLACES: Final = schema("slot", "places", "far", "end")
"""One row for each partition (``slot``). ``places`` is the number of its known offsets, and
``far`` the greatest known offset. ``end`` is the lowest log end that a client observed; null if
no client observed one."""


def places(view: ClientHistory) -> pa.Table:
    """Return the number of known offsets in each partition, as rows of ``PLACES``."""
    return known_runs(view).by(["slot"], known_places, PLACES).table()


def known_places(rows: pa.Table) -> pa.Table:
    """Return the partitions that have a known offset, as rows of ``PLACES``.

    The input is ``OFFSET_RUN`` rows. All rows of one ``slot`` must be in one table.
    """
    columns = numbers(rows, ("what", "sure", "slot", "place", "last_place"))
    what, place = columns["what"], columns["place"]
    tells = (what == SLOT_TOLD) | ((what == READS) & columns["sure"])
    ranges = choose(columns, tells)
    slot, low, end = merge_offset_ranges(ranges["slot"], ranges["place"], ranges["last_place"])
    group = Groups.of(slot)
    counted = {
        "slot": slot[group.first],
        "places": np.add.reduceat(end - low, group.first),
        "far": end[group.last] - 1,
    }
    ended = choose(columns, any_of(what, flags.ENDED) & (place != NONE))
    ends = first_of(ended | {"at": ended["place"]}, "slot")
    end_of = arrow(ends | {"end": ends["place"]}, schema("slot", "end"))
    return arrow(counted | look_up_columns(end_of, "slot", counted["slot"]), PLACES)


def crowded(view: ClientHistory, places: pa.Table) -> pa.Table:
    """Return the partitions (``slot``) in which several records may have the same offset.

    Such a partition has more records than known offsets, or a record with two offsets.
    """
    sums = view.sums.join(places.select(["slot", "places"]), "slot", join_type="inner")
    more = pc.greater(pc.add(sums["known"], sums["maybe"]), sums["places"])
    return sums.filter(pc.or_(more, pc.greater(sums["twice"], 0))).select(["slot"])


def shared_offsets(view: ClientHistory) -> Rows | None:
    """Return a finding for each offset that several records have; None if none can exist."""
    slots = crowded(view, places(view))
    if not len(slots):
        return None
    rows = view.placed.join(view.engine.table(slots), ["slot"], "semi")
    return rows.by(["slot", "offset"], several_records, FINDING)


def several_records(rows: pa.Table) -> pa.Table:
    """Return a finding for each offset that several records have.

    The rows are rows of ``ClientHistory.placed``. All rows of an offset must be in one table.
    """
    columns = numbers(rows, ("slot", "offset", "key", "client", "at"))
    records = first_of(columns, "slot", "offset", "key")
    place = Groups.of(records["slot"], records["offset"])
    finding = mix(records["slot"][place.first], records["offset"][place.first])
    return end_rows(INCONSISTENT, records, place, finding, fault=OF_NONE)

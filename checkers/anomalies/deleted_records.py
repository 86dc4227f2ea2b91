"""Finds acknowledged records that an administrator deleted: these records are not lost."""

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from highwater.checkers.core.derived import derived
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    any_of,
    arrow,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.record_summaries import (
    DOUBTFUL,
    OF_FINAL_READS,
    bits,
    read_at_the_end,
)
from highwater.checkers.history.view import client_view
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows
from highwater.harness.runs.faults.facts import facts_of

DELETED = schema("key", "slot")
"""A record that an administrator deleted, and its partition in a run (``slot``)."""

_BEGIN = schema("slot", "begin")


@derived
def deleted_records(tables: Tables) -> Rows | None:
    """Return the deleted records that the final read did not return, as ``DELETED`` rows.

    The result is None if no run deleted records.
    """
    begins: dict[tuple[str, str, int], int] = {}
    for case in tables.cases:
        for row in case.rows("events/faults"):
            for range_ in (row["removed"] or ()) if facts_of(row["fault"]).deletes else ():
                place = (case.key, range_["topic"], range_["partition"])
                begins[place] = max(begins.get(place, 0), range_["end"])
    if not begins:
        return None
    view = client_view(tables)
    names = view.names.select(["slot", "run", "topic", "partition"]).to_pylist()
    slots = {name.pop("slot"): tuple(name.values()) for name in names}
    limits = [{"slot": s, "begin": begins[place]} for s, place in slots.items() if place in begins]
    kernel = partial(_deleted, limits=pa.Table.from_pylist(limits, _BEGIN))
    rows = view.doubtful.where(bits(*OF_FINAL_READS), "doubts")
    return rows.by(["key"], kernel, DELETED).persist()


def deleted_counts(tables: Tables) -> Mapping[str, int]:
    """Return the number of deleted records in each run that has some, by the run's key."""
    if (deleted := deleted_records(tables)) is None:
        return {}
    counts = deleted.counts(["slot"]).join(client_view(tables).names, "slot")
    totals = counts.group_by("run").aggregate([("count", "sum")]).to_pylist()
    return {row["run"]: row["count_sum"] for row in totals}


def _deleted(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return the acknowledged records below ``begin`` that the final read did not return.

    With acks=0 the offset of a record comes from a reader.

    All rows of one ``key`` must be in one table. ``limits`` has ``slot, begin``: in a partition,
    the records below ``begin`` were deleted.
    """
    columns, record = grouped(numbers(rows, DOUBTFUL.names), "key")
    begin = look_up_columns(limits, "slot", columns["slot"][record.first])["begin"]
    sent, seen = (any_of(columns["fact"], bits_) for bits_ in (flags.SENT_OK, flags.SEEN_OK))
    placed = record.greatest(columns["offset"], sent | seen)
    below = record.any(sent) & (placed != NONE) & (placed < begin)
    gone = below & ~record.any(read_at_the_end(columns))
    return arrow(choose({n: columns[n][record.first] for n in ("key", "slot")}, gone), DELETED)

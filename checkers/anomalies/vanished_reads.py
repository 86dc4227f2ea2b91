"""Compare what readers received during a run with the final read, in runs that only read.

In such a run (``Plan.read_only``), other producers write, and no acknowledgement is known. But a
reader receives only committed records, which Kafka keeps. So a record that a read_committed reader
received during the run must be in the final read. Records below the first offset of the final read
are not judged, because retention or a deletion removed them.
"""

from collections import Counter
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly_kinds import VANISHED, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.derived import derived
from highwater.checkers.core.promises import READABLE, if_committed_is_kept
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    any_of,
    arrow,
    at_place,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import FINDING, SUBJECT, findings
from highwater.checkers.history.view import client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

READ_AGAIN, GONE, EXPIRED, UNREACHED = range(4)
"""The outcomes of a record that a reader received during the run: the final read returned it, or
passed its offset without it; it is below the final read's first offset; or the final read did not
reach the end of its partition."""

OUTCOME: Final = schema("key", "slot", "client", "at", "offset", "outcome", outcome=pa.int32())
"""A record, the row of its first read (``client``, ``at``), and its outcome."""

RANGE: Final = schema("slot", "begin", "end")
"""The offsets that the final read covers in a partition (``slot``). ``end`` is null if the final
read did not reach its end."""

_COUNTS: Final = {READ_AGAIN: "read", GONE: "lost", EXPIRED: "replaced", UNREACHED: "unseen"}
"""For each outcome: the field of ``harness.runs.verdict.Ledger`` that counts it."""


@derived
def reads(tables: Tables) -> Rows | None:
    """Return the outcome of each record that a reader received, as rows of ``OUTCOME``.

    The result is None if all runs write their records themselves.
    """
    runs = [case.key for case in tables.cases if case.plan.read_only]
    if not runs:
        return None
    view = client_view(tables)
    slots = view.names.filter(pc.is_in(view.names["run"], pa.array(runs))).select(["slot"])
    rows = view.rows.join(view.engine.table(slots), ["slot"], "semi")
    moves = rows.where(flags.IN_FINAL).where(flags.SEEK_FLAG | flags.ENDED)
    ranges = moves.by(["slot"], ranges_read, RANGE).table()
    return (
        rows.where(flags.READ_OK).by(["key"], partial(outcomes, ranges=ranges), OUTCOME).persist()
    )


def ranges_read(rows: pa.Table) -> pa.Table:
    """Return the offsets that the final read covers, from its last seek to the log's end.

    All rows of one ``slot`` must be in one table.
    """
    columns, slot = grouped(numbers(rows), "slot", then=("at",))
    begun = slot.last_place(any_of(columns["fact"], flags.SEEK_FLAG))
    return arrow(
        {
            "slot": columns["slot"][slot.first],
            "begin": at_place(columns["offset"], begun),
            "end": slot.greatest(columns["offset"], any_of(columns["fact"], flags.ENDED)),
        },
        RANGE,
    )


def outcomes(rows: pa.Table, *, ranges: pa.Table) -> pa.Table:
    """Return the outcome of each record that a reader received during the run.

    All rows of one ``key`` must be in one table. ``ranges`` has rows of ``RANGE``.
    """
    columns, record = grouped(numbers(rows), "key", then=("at",))
    final = any_of(columns["fact"], flags.IN_FINAL)
    first = record.first_place(~final)
    received = choose(columns, first[first != NONE])
    again = record.any(final)[first != NONE]
    covered = look_up_columns(ranges, "slot", received["slot"])
    unknown = (covered["begin"] == NONE) | (covered["end"] == NONE)
    expired = (covered["begin"] != NONE) & (received["offset"] < covered["begin"])
    received["outcome"] = np.select(
        [again, expired, unknown], [READ_AGAIN, EXPIRED, UNREACHED], GONE
    )
    return arrow(received, OUTCOME)


def read_counts(tables: Tables) -> dict[str, dict[str, int]]:
    """Return the record counts of runs that only read: fields of ``Ledger``, by the run's key."""
    if (received := reads(tables)) is None:
        return {}
    counted = received.counts(["slot", "outcome"]).join(client_view(tables).names, "slot")
    counts = {case.key: Counter[str]() for case in tables.cases if case.plan.read_only}
    for row in counted.to_pylist():
        counts[row["run"]][_COUNTS[row["outcome"]]] += row["count"]
    return {
        run: {**dict.fromkeys(_COUNTS.values(), 0), **count, "received": count.total()}
        for run, count in counts.items()
    }


def _writes(_tables: Tables, case: RunFiles) -> str:
    return "" if case.plan.read_only else "the run writes the records, so lost-write judges them"


@checker(
    Kind(
        VANISHED,
        guarantee="A record that a reader received is still at its offset at the end.",
        singular="record was read, and is gone at the end",
        plural="records were read, and are gone at the end",
        severity=Severity.CRITICAL,
        promise=READABLE,
        breaks=if_committed_is_kept,
        absence=True,
    ),
    idle=_writes,
)
def vanished_reads(tables: Tables) -> Rows | None:
    """Return the records that readers received, and that the final read passed without them."""
    received = reads(tables)
    return None if received is None else received.only("outcome", GONE).map(_gone, FINDING)


def _gone(rows: pa.Table) -> pa.Table:
    columns = numbers(rows, ("key", "client", "at", "offset"))
    return findings(VANISHED, columns.pop("key"), part=SUBJECT, **columns)

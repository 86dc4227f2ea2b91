"""``torn-transaction``: the final read returns some records of a transaction, but not all.

A transaction is atomic (KIP-98). This checker judges transactions whose outcome the client does not
know, after a timeout or a crash during the commit. (Other checkers report missing records of a
committed transaction, and returned records of an aborted transaction.) A record is missing if the
final read passed the offset that the record's producer received, or read the complete partition.
"""

from functools import partial
from typing import Final

import pyarrow as pa

from highwater.checkers.core.anomaly_kinds import TORN, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.derived import derived
from highwater.checkers.core.promises import if_committed_is_kept
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
from highwater.checkers.history.findings import COPY, FINDING, OF_LAST, findings, reference, steps
from highwater.checkers.history.partition_ledgers import limits, partition_ledgers
from highwater.checkers.history.record_summaries import DOUBTFUL, read_at_the_end
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

SENDING: Final = schema(
    "operation", "slot", "client", "at", "offset", "there", "gone", gone=pa.bool_()
)
"""A send in a transaction with an unknown outcome. ``offset`` is the offset that its producer
received. ``there`` is the offset at which the final read returned the record (null: nowhere).
``gone`` is true if the record is certainly missing."""


def _without_transactions(_tables: Tables, case: RunFiles) -> str:
    """Return why a run cannot be judged; empty if it has transactions and no compaction."""
    if case.compacted:
        return "compaction may remove records of a transaction"
    return "" if case.plan.workload.transactions else "no producer uses transactions"


@checker(
    Kind(
        TORN,
        guarantee="The log has all records of a transaction, or none.",
        singular="transaction is only partly in the log",
        plural="transactions are only partly in the log",
        severity=Severity.CRITICAL,
        promise="atomicity: all records of a transaction are committed, or none (KIP-98)",
        breaks=if_committed_is_kept,
        absence=True,
    ),
    idle=_without_transactions,
)
def torn_transactions(tables: Tables) -> Rows | None:
    """Return findings about transactions of which only a part is in the log."""
    rows = unknown_sends(tables)
    return None if rows is None else rows.by(["operation"], torn, FINDING)


@derived
def unknown_sends(tables: Tables) -> Rows | None:
    """Return the sends in transactions of unknown outcome, as ``SENDING`` rows.

    The result is None if no run has transactions. No record of a compacted topic counts as
    ``gone``, because compaction may have removed the record.
    """
    if not any(case.plan.workload.transactions for case in tables.cases):
        return None
    view = client_view(tables)
    cases = [case for case in tables.cases if not case.compacted]
    runs = {case.key for case in cases}
    ledgers = [ledger for ledger in partition_ledgers(tables) if ledger.run in runs]
    return sendings(view, limits(view.names, cases, ledgers))


def sendings(view: ClientHistory, limits: pa.Table) -> Rows:
    """Return the sends in transactions of unknown outcome, as ``SENDING`` rows.

    Args:
        view: the clients' view of the runs.
        limits: the offsets that the final read reached, from ``partition_ledgers.limits``.
    """
    rows = view.doubtful.where(flags.SENT_INFO, "facts")
    return rows.by(["key"], partial(whereabouts, limits=limits), SENDING).persist()


def whereabouts(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return sends of unknown outcome with the offsets of their records, as ``SENDING`` rows.

    All rows of one ``key`` must be in one table.
    """
    columns, record = grouped(numbers(rows, DOUBTFUL.names), "key", then=("at",))
    offset = columns["offset"]
    limit = look_up_columns(limits, "slot", columns["slot"])
    columns["there"] = record.spread(record.least(offset, read_at_the_end(columns)))
    reached = (offset != NONE) & (limit["reach"] != NONE) & (offset <= limit["reach"])
    columns["gone"] = (columns["there"] == NONE) & (reached | (limit["complete"] == 1))
    return arrow(choose(columns, any_of(columns["fact"], flags.SENT_INFO)), SENDING)


def torn(rows: pa.Table) -> pa.Table:
    """Return findings about transactions of which only a part is in the log.

    All rows of one ``operation`` must be in one table.
    """
    columns, operation = grouped(numbers(rows, SENDING.names), "operation", then=("at",))
    there, gone = (
        operation.first_place(mask) for mask in (columns["there"] != NONE, columns["gone"])
    )
    both = (there != NONE) & (gone != NONE)
    there, gone = there[both], gone[both]
    finding = columns["operation"][there]
    ends = [reference(columns, place) for place in (there, gone)]
    copies = findings(
        TORN,
        finding,
        part=COPY,
        fault=OF_LAST,
        offset=columns["offset"][gone],
        place=columns["there"][there],
        **choose({name: columns[name] for name in ("client", "at")}, there),
    )
    offset = columns["offset"][gone]
    return pa.concat_tables([steps(TORN, finding, ends, fault=OF_LAST, offset=offset), copies])

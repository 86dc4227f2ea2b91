"""``torn-transaction``: the final read returns some records of a transaction, and not the others.

A transaction is all or nothing (KIP-98). Of one whose commit was acknowledged every record that is
not there is lost, and of one that was aborted every record that is there is read wrongly; other
checkers say so. This one judges those of unknown outcome: a time-out, a crash within the
commit. A record is not there if the final read passed the offset that its producer received, or
the whole partition.
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
"""A send of a transaction of unknown outcome: the offset its producer received; where the
final read returned the record (``there``; null: nowhere), and whether it is surely not there."""


def _without_transactions(_tables: Tables, case: RunFiles) -> str:
    """Return why there is nothing to judge: no transactions, or only what is left of them."""
    if case.compacted:
        return "compaction may remove records of a transaction"
    return "" if case.plan.workload.transactions else "no producer has transactions"


@checker(
    Kind(
        TORN,
        guarantee="Of a transaction all records are there, or none.",
        singular="transaction is there in part",
        plural="transactions are there in part",
        severity=Severity.CRITICAL,
        promise="atomicity: a transaction is all or nothing (KIP-98)",
        breaks=if_committed_is_kept,
        absence=True,
    ),
    idle=_without_transactions,
)
def torn_transactions(tables: Tables) -> Rows | None:
    """Return transactions of which a part is there."""
    rows = unknown_sends(tables)
    return None if rows is None else rows.by(["operation"], torn, FINDING)


@derived
def unknown_sends(tables: Tables) -> Rows | None:
    """Return the sends of our runs' transactions of unknown outcome, in ``SENDING``.

    None if no run has transactions. Compaction removes records of a transaction one by one.
    """
    if not any(case.plan.workload.transactions for case in tables.cases):
        return None
    view = client_view(tables)
    cases = [case for case in tables.cases if not case.compacted]
    runs = {case.key for case in cases}
    ledgers = [ledger for ledger in partition_ledgers(tables) if ledger.run in runs]
    return sendings(view, limits(view.names, cases, ledgers))


def sendings(view: ClientHistory, limits: pa.Table) -> Rows:
    """Return the sends of transactions of unknown outcome, in ``SENDING``.

    Args:
        view: of the runs.
        limits: how far the final read came, as ``partition_ledgers.limits`` has it.
    """
    rows = view.doubtful.where(flags.SENT_INFO, "facts")
    return rows.by(["key"], partial(whereabouts, limits=limits), SENDING).persist()


def whereabouts(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return sends with where their records are, in ``SENDING``. A kernel by ``key``."""
    columns, record = grouped(numbers(rows, DOUBTFUL.names), "key", then=("at",))
    offset = columns["offset"]
    limit = look_up_columns(limits, "slot", columns["slot"])
    columns["there"] = record.spread(record.least(offset, read_at_the_end(columns)))
    reached = (offset != NONE) & (limit["reach"] != NONE) & (offset <= limit["reach"])
    columns["gone"] = (columns["there"] == NONE) & (reached | (limit["complete"] == 1))
    return arrow(choose(columns, any_of(columns["fact"], flags.SENT_INFO)), SENDING)


def torn(rows: pa.Table) -> pa.Table:
    """Return transactions of which a part is there, in ``FINDING``. A kernel by ``operation``."""
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

"""The checkers of Highwater's own runs that need only the clients' histories.

``checkers.anomalies.record_outcomes`` decides the outcome of each record. It calls a missing record
lost even if a client read the record before. So these checkers do not report ``vanished``, which
``checkers.anomalies.vanished_reads`` finds in runs that only read. Cycles have no write-write
edges, because Kafka does not isolate writes.
"""

from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.find import findings
from highwater.checkers.anomalies.record_outcomes import outcomes
from highwater.checkers.anomalies.step_checks import step_findings
from highwater.checkers.core import anomaly_kinds
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import (
    AGREED,
    DURABLE,
    ISOLATED,
    UNORDERED,
    always,
    if_acknowledged_is_kept,
    if_committed_is_kept,
    if_idempotent,
    never,
)
from highwater.checkers.cycles import cycles
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.steps import wrong_steps
from highwater.checkers.history.view import client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

_isolated = partial(Kind, severity=Severity.SERIOUS, promise=ISOLATED, breaks=always)
_read_in_order = partial(
    Kind,
    promise="order: a consumer gets a partition's records in the order of its log",
    breaks=if_committed_is_kept,
)
_sent_in_order = partial(
    Kind,
    severity=Severity.MINOR,
    promise="order: an idempotent producer's records keep their order (KIP-98)",
    breaks=if_idempotent,
)
_cycle = partial(
    _isolated,
    singular="cycle of transactions that read from one another",
    plural="cycles of transactions that read from one another",
)

CONTENTS: Final = (
    Kind(
        "inconsistent-offsets",
        guarantee="All producers and readers see the same record at an offset.",
        singular="offset has several records",
        plural="offsets have several records",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=if_acknowledged_is_kept,
    ),
    Kind(
        "phantom",
        guarantee="Every record that a reader receives was sent.",
        singular="record was read and never sent",
        plural="records were read and never sent",
        severity=Severity.CRITICAL,
        promise="integrity: every record that a reader receives was sent",
        breaks=always,
        absence=True,
    ),
    _isolated(
        "G1a",
        guarantee="A read_committed reader returns no record of an aborted transaction.",
        singular="aborted record was read",
        plural="aborted records were read",
    ),
    _isolated(
        "precommitted-read",
        guarantee="A transaction does not read the records that it sends.",
        singular="record was read by the transaction that sent it, before the commit",
        plural="records were read by the transactions that sent them, before the commit",
    ),
)

SKIPS: Final = (
    _read_in_order(
        "poll-skip",
        guarantee="A poll begins with the record after the previous poll's last record.",
        singular="reader skipped records between polls",
        plural="times a reader skipped records between two polls",
        severity=Severity.SERIOUS,
    ),
    _read_in_order(
        "int-poll-skip",
        guarantee="A poll skips no record between the records that it returns.",
        singular="poll skipped records",
        plural="times a poll skipped records",
        severity=Severity.SERIOUS,
    ),
)

STEPS: Final = (
    _read_in_order(
        "nonmonotonic-poll",
        guarantee="A poll begins after the last record of the previous poll.",
        singular="reader went back between polls",
        plural="times a reader went back between polls",
        severity=Severity.MINOR,
    ),
    _read_in_order(
        "int-nonmonotonic-poll",
        guarantee="A poll returns records in the order of the log.",
        singular="poll went back",
        plural="times a poll went back",
        severity=Severity.SERIOUS,
    ),
    _sent_in_order(
        "nonmonotonic-send",
        guarantee="A producer's records are in the log in the order of sending.",
        singular="record is before a record that was sent earlier",
        plural="records are before records that were sent earlier",
    ),
    _sent_in_order(
        "int-nonmonotonic-send",
        guarantee="The records of one transaction are in the log in the order of sending.",
        singular="record is before a record that its transaction sent earlier",
        plural="records are before records that their transaction sent earlier",
    ),
    Kind(
        "int-send-skip",
        guarantee="No other transaction's records are between the records of a transaction.",
        singular="case of other transactions' records between the records of one",
        plural="cases of other transactions' records between the records of one",
        severity=Severity.EXPECTED,
        promise=UNORDERED,
        breaks=never,
    ),
)


@checker(
    Kind(
        anomaly_kinds.LOST,
        guarantee="An acknowledged record is read by every reader that passes its offset.",
        singular="acknowledged record was lost",
        plural="acknowledged records were lost",
        severity=Severity.CRITICAL,
        promise=DURABLE,
        breaks=if_acknowledged_is_kept,
    ),
    Kind(
        anomaly_kinds.UNSEEN,
        guarantee="The final read reaches the offset of every acknowledged record.",
        singular="acknowledged record was not reached by a reader",
        plural="acknowledged records were not reached by a reader",
        severity=Severity.UNDECIDED,
        promise=DURABLE,
        breaks=never,
        absence=True,
    ),
    Kind(
        anomaly_kinds.DUPLICATE,
        guarantee="A record that was sent once is read at one offset.",
        singular="record is in the log twice",
        plural="records are in the log twice",
        severity=Severity.SERIOUS,
        promise="exactly once: an idempotent producer writes a record once (KIP-98)",
        breaks=if_idempotent,
    ),
)
def records(tables: Tables) -> Rows:
    """Return records that are lost, unseen, or in the log several times."""
    return outcomes(tables)


def _compacted(_tables: Tables, case: RunFiles) -> str:
    return "compaction may remove records that other readers received" if case.compacted else ""


@checker(*SKIPS, idle=_compacted)
def skips(tables: Tables) -> Rows:
    """Return the steps in which readers skipped records, as findings.

    Runs with a compacted topic are ignored: compaction may have removed the skipped records.
    """
    view = client_view(tables)
    steps = wrong_steps(view)
    if compacted := [case.key for case in tables.cases if case.compacted]:
        slots = view.names.filter(pc.is_in(view.names["run"], pa.array(compacted)))
        steps = steps.join(view.engine.table(slots.select(["slot"])), ["slot"], "anti")
    return step_findings(view, steps, frozenset(skips.names))


@checker(*CONTENTS, *STEPS)
def clients(tables: Tables) -> Rows:
    """Return findings about single records, and about clients' steps through a log."""
    view = client_view(tables)
    none = view.engine.table(FINDING.empty_table())
    return none.union(*findings(view, frozenset(clients.names)))


def _unsearched(tables: Tables, case: RunFiles) -> str:
    return cycles.unsearched(client_view(tables), case.key, ww=False)


@checker(
    _cycle(
        "G1c",
        guarantee="Transactions do not read from one another in a cycle.",
    ),
    _cycle(
        "G1c-process",
        guarantee="The reads of transactions agree with the order of operations in each process.",
    ),
    _cycle(
        "G1c-realtime",
        guarantee="The reads of transactions agree with the order of operations in real time.",
    ),
    idle=_unsearched,
)
def operations(tables: Tables) -> Rows | None:
    """Return the cycles of operations in Highwater's own runs."""
    return cycles.find(client_view(tables), ww=False)

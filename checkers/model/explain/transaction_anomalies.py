"""Explains reads of aborted records, hanging transactions, and repeated records.

Whether these anomalies can happen depends on the brokers' release, and on the version of
transactions that the client uses with them (KIP-890): switches of
``transactions.transaction_rules``.
"""

from typing import Final

from highwater.checkers.model.explain.evidence.cut_markers import cut_marker
from highwater.checkers.model.explain.evidence.evidence_links import Chain, RecordCase, Row, refuse
from highwater.checkers.model.explain.evidence.late_markers import late_marker
from highwater.checkers.model.explain.evidence.late_requests import (
    committed_with_the_next,
    given_up,
    late_end_txn,
    opened_again,
    was_its_first,
    written_again,
)
from highwater.checkers.model.explain.licences import (
    FAULT,
    Explanation,
    by_first,
    has,
    lacks,
)
from highwater.checkers.model.explain.observations import FILES, LEADERS, MESSAGES
from highwater.checkers.model.explain.trace import RunTraces
from highwater.harness.runs.history import FAIL

CUT_MARKER: Final = Explanation(
    name="cut-marker",
    says="A fault removed the marker of the record's transaction from the leader's log, and a later"
    " transaction's marker decided the record's outcome.",
    licence=FAULT,
    applies=lambda case: case.observed.plan.workload.transactions,
    needs=LEADERS | FILES,
    evidence=cut_marker,
)
LATE_MARKER: Final = Explanation(
    name="late-marker",
    says="An earlier transaction's marker came late, and ended the record's transaction, which had"
    " the same producer epoch (KAFKA-19446).",
    licence=lacks("marker_above"),
    applies=lambda case: case.observed.plan.workload.transactions,
    needs=LEADERS | FILES | MESSAGES,
    evidence=late_marker,
)
WITHDRAWN: Final = (CUT_MARKER, LATE_MARKER)
"""Explanations of a record whose outcome another transaction's marker decided."""

FORGOTTEN: Final = Explanation(
    name="forgotten-producer",
    says="A leader that had forgotten the record's producer appended a late copy of it.",
    licence=lacks("bumps_epoch") & has("unknown_accepted"),
    needs=LEADERS | FILES | MESSAGES,
    evidence=written_again,
)
FORGOTTEN_FIRST: Final = Explanation(
    name="forgotten-producer",
    says="A leader that had forgotten the producer appended a late copy of its first record, whose"
    " sequence number is 0.",
    licence=lacks("bumps_epoch"),
    applies=was_its_first,
    needs=LEADERS | FILES | MESSAGES,
    evidence=written_again,
)
ABORTED_READ: Final = (
    Explanation(
        name="late-end-txn",
        says="An earlier transaction's EndTxn came late, and committed the record's transaction"
        " (KAFKA-17754).",
        licence=lacks("bumps_epoch"),
        needs=MESSAGES,
        evidence=late_end_txn,
    ),
    LATE_MARKER,
    CUT_MARKER,
    FORGOTTEN,
    FORGOTTEN_FIRST,
    Explanation(
        name="late-produce",
        says="The Produce of the record came after its abort, and the next transaction of its"
        " producer committed it.",
        licence=lacks("verification") | has("purges_unanswered"),
        needs=MESSAGES,
        evidence=committed_with_the_next,
    ),
)
HANGING: Final = (
    Explanation(
        name="late-produce",
        says="The Produce of the record came after its abort, and opened its transaction again"
        " (KAFKA-14402).",
        licence=lacks("verification"),
        needs=MESSAGES,
        evidence=opened_again,
    ),
)
REPEATED: Final = (FORGOTTEN, FORGOTTEN_FIRST)

_UNSENT: Final = "The history does not show that the record was sent."


def aborted_read(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record of an aborted transaction that was read: a request came late."""
    case = _case(observed, anomaly)
    why = "No request of its producer came late, as far as the wire observed."
    return refuse(_UNSENT) if case is None else by_first(ABORTED_READ, case, why)


def repeated(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that a leader appended twice: it had forgotten the record's producer."""
    case = _case(observed, anomaly)
    why = "No copy of the record came after its leader had forgotten its producer."
    return refuse(_UNSENT) if case is None else by_first(REPEATED, case, why)


def hanging(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a transaction that never ends: its record came after the transaction's end."""
    case = _case(observed, anomaly)
    if case is None:
        return refuse(_UNSENT)
    if case.send["outcome"] != FAIL or case.send["complete_ns"] is None:
        return refuse("Its transaction was not aborted, or the abort was not answered.")
    why = "No Produce of its producer came late, as far as the wire observed."
    return by_first(HANGING, case, why, given_up(case))


def _case(observed: RunTraces, anomaly: Row) -> RecordCase | None:
    """Return the case of an anomaly in a record; None if the history lacks the record's send."""
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return None
    trace = observed.traces.get(send["partition"])
    return RecordCase(observed=observed, send=send, trace=trace, anomaly=anomaly)

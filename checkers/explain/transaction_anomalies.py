"""Explains reads of aborted records, hanging transactions and repeated records: a request was late.

These anomalies depend on the brokers' release, and on the client's version of transactions
(KIP-890). The switches are in ``transactions.transaction_rules``.
"""

from typing import Final

from highwater.checkers.explain.evidence.evidence_links import (
    Chain,
    Links,
    RecordCase,
    Row,
    refusals_by_wire,
    refuse,
)
from highwater.checkers.explain.evidence.licences import (
    SEEN_TO_HAPPEN,
    Explainer,
    explains,
    has,
    lacks,
)
from highwater.checkers.explain.evidence.markers import cut_marker, late_marker
from highwater.checkers.explain.evidence.stale_values import away_for_long
from highwater.checkers.explain.observations import FILES, LEADERS, MESSAGES
from highwater.checkers.explain.tolerances import MS, WITHIN
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import FAIL

_FORGETS: Final = "producer.id.expiration.ms"
_FORGETS_USUALLY_MS: Final = 86_400_000


@explains(
    "late-end-txn",
    lacks("bumps_epoch"),
    "An earlier transaction's EndTxn came late, and committed the record's transaction"
    " (KAFKA-17754).",
    needs=MESSAGES,
)
def _late_end_txn(case: RecordCase) -> Links:
    """Return an earlier transaction's EndTxn that ended a record's transaction (KAFKA-17754).

    An EndTxn contains the producer's id and epoch. With version 1 of transactions, both are the
    same in all transactions of a producer.
    """
    send = case.send
    for row in case.observed.late("EndTxn", source=_sender(case)):
        if not case.begun_ns <= row["time_ns"] <= case.until_ns:
            continue
        says = (
            f"An EndTxn of {send['process']} that the relay had delayed reached {row['target']}"
            f" while the transaction of {send['value']} was open. It has producer id"
            f" {row['producer_id']} and epoch {row['epoch']}, but no field that separates"
            " different transactions of that producer."
        )
        own_end = ExplanationLink(
            rule="late-end-txn",
            says=f"The client requested the end of the record's own transaction later: "
            f"{send['outcome']}"
            f"{', ' + send['error'] if send['error'] else ''}.",
            event=f"{send['process']}: {send['outcome']}",
            time_ns=send["complete_ns"],
        )
        return _came("late-end-txn", says, row), own_end
    return ()


@explains(
    "late-produce",
    lacks("verification"),
    "The Produce of the record came after its abort, and opened its transaction again"
    " (KAFKA-14402).",
    needs=MESSAGES,
)
def _opened_again(case: RecordCase) -> Links:
    """Return a record's late Produce, which opened the transaction again (KAFKA-14402)."""
    so = "and so opened that transaction again, which no coordinator knows"
    return _late_produce(case, so)


@explains(
    "late-produce",
    lacks("verification") | has("purges_unanswered"),
    "The Produce of the record came after its abort, and the next transaction of its producer"
    " committed it.",
    needs=MESSAGES,
)
def _committed_with_the_next(case: RecordCase) -> Links:
    """Return links for a record's late Produce, if the producer's next transaction committed it.

    Either the leader does not verify the record's transaction with the coordinator. Or the leader
    has already verified the next transaction, in which a record has the same sequence number.
    """
    return _late_produce(case, "and the producer's next transaction committed it")


def _given_up(case: RecordCase) -> ExplanationLink:
    """Return a link for the abort of a transaction whose record got no response."""
    send = case.send
    return ExplanationLink(
        rule="late-produce",
        says=f"{send['process']} got no response about {send['value']}, and aborted its "
        f"transaction.",
        event=f"{send['process']}: {send['outcome']}",
        time_ns=send["complete_ns"],
    )


def _late_produce(case: RecordCase, so: str) -> Links:
    """Return links for the abort of the record's transaction, and the record's later Produce."""
    send = case.send
    ended_ns = send["complete_ns"]
    if send["outcome"] != FAIL or send["offset"] is not None or ended_ns is None:
        return ()
    partition = case.anomaly["partition"]
    for row in case.observed.late("Produce", partition=partition, source=_sender(case)):
        if row["time_ns"] < ended_ns - WITHIN.log:
            continue
        says = (
            f"A Produce of {send['process']} that the relay had delayed, with producer id"
            f" {row['producer_id']} and epoch {row['epoch']}, reached {row['target']} after that."
            f" The leader appended {send['value']} at offset {case.anomaly['offset']}, {so}."
        )
        return _given_up(case), _came("late-produce", says, row)
    return ()


def _written_again(case: RecordCase) -> Links:
    """Return links for a late Produce whose record the leader appended a second time.

    A leader forgets a producer without an open transaction after ``producer.id.expiration.ms``
    (KIP-854), and accepts any sequence number from an unknown producer (KIP-360). The anomaly's
    offset is the offset of the second copy, except for ``repeated-sequence``.
    """
    observed, send = case.observed, case.send
    offset = None if case.anomaly["kind"] == "repeated-sequence" else case.anomaly["offset"]
    ended_ns, place = send["complete_ns"], send["offset"]
    if ended_ns is None or place is None or place == offset:
        return ()
    setting = observed.plan.broker_config.get(_FORGETS, _FORGETS_USUALLY_MS)
    copies = _places(case)
    for row in observed.late("Produce", partition=send["partition"], source=_sender(case)):
        idle_ms = (row["time_ns"] - ended_ns) / MS
        if idle_ms < int(setting) or len(copies) < 2:  # noqa: PLR2004 - two places
            continue
        says = (
            f"A Produce of {send['process']} that the relay had delayed, with producer id"
            f" {row['producer_id']} and epoch {row['epoch']}, reached {row['target']}"
            f" {idle_ms / 1000:.1f} s after the end of its transaction. Leaders forget a producer"
            f" after {_FORGETS}={setting}."
        )
        stands = ExplanationLink(
            rule="forgotten-producer",
            says=f"{send['value']} is at offsets {' and '.join(map(str, copies))}, because the "
            f"leader"
            " did not know that it had the record.",
            event="replicas",
        )
        return _came("forgotten-producer", says, row), stands
    return ()


_forgotten: Final = explains(
    "forgotten-producer",
    lacks("bumps_epoch") & has("unknown_accepted"),
    "A leader that had forgotten the record's producer appended a late copy of it.",
    needs=LEADERS | FILES | MESSAGES,
)(_written_again)


def _was_its_first(case: RecordCase) -> bool:
    """Return whether a record was the first record of its producer in the partition."""
    send = case.send
    sends = case.observed.sends(process=send["process"], partition=send["partition"])
    return int(min(sends["invoke_ns"].to_pylist(), default=0)) == case.begun_ns


_forgotten_first: Final = explains(
    "forgotten-producer",
    lacks("bumps_epoch"),
    "A leader that had forgotten the producer appended a late copy of its first record, whose"
    " sequence number is 0.",
    applies=_was_its_first,
    needs=LEADERS | FILES | MESSAGES,
)(_written_again)


@explains(
    "commit-refused",
    SEEN_TO_HAPPEN,
    "The relay returned an error for a commit that had taken effect, and the client aborted.",
    needs=MESSAGES,
)
def _committed_all_the_same(case: RecordCase) -> Links:
    """Return links for the relay's error to a successful EndTxn, and the client's later abort."""
    send = case.send
    if send["outcome"] != FAIL:
        return ()
    for row in refusals_by_wire(case.observed, send, case.until_ns, "EndTxn"):
        if row["side"] == "answer":
            says = (
                f"The coordinator had ended the transaction of {send['value']}. Then the relay put"
                f" {row['cause']} in place of the answer to {send['process']}."
            )
            link = ExplanationLink(
                rule="commit-refused", says=says, event=row["cause"], time_ns=row["time_ns"]
            )
            aborted = ExplanationLink(
                rule="commit-refused",
                says=f"After that {send['process']} aborted the transaction, and got no error.",
                event=f"{send['process']}: {FAIL}",
                time_ns=send["complete_ns"],
            )
            return link, aborted
    return ()


def _sender(case: RecordCase) -> str:
    """Return the name by which the relay recorded a record's producer."""
    return f"client:{case.send['process']}"


def _came(rule: str, says: str, row: Row) -> ExplanationLink:
    """Return a request that the relay delayed and then sent, as a link."""
    event = f"{row['api']} {row['event']}: {row['transactional_id']}, message {row['message']}"
    return ExplanationLink(rule=rule, says=says, event=event, time_ns=row["time_ns"])


def _places(case: RecordCase) -> list[int]:
    """Return the offsets at which the last leader's disk has a record."""
    disk = case.trace.last_disk if case.trace else None
    if disk is None:
        return []
    ids = zip(disk.offsets.tolist(), disk.ids, strict=True)
    return [offset for offset, name in ids if name == case.send["value"]]


def _case(observed: RunTraces, anomaly: Row) -> RecordCase | Chain:
    """Return the case of an anomaly; a refusal if the history lacks the record's send."""
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that the record was sent.")
    trace = observed.traces.get(send["partition"])
    return RecordCase(observed=observed, send=send, trace=trace, anomaly=anomaly)


def _aborted_case(observed: RunTraces, anomaly: Row) -> RecordCase | Chain:
    """Return the case of a hanging transaction; without keys, a refusal if it was not aborted."""
    case = _case(observed, anomaly)
    if isinstance(case, Chain) or observed.plan.workload.keys:
        return case
    if case.send["outcome"] != FAIL or case.send["complete_ns"] is None:
        return refuse("The record's transaction was not aborted, or the abort got no response.")
    return case


aborted_read: Final = Explainer(
    (
        _committed_all_the_same,
        _late_end_txn,
        late_marker,
        cut_marker,
        _forgotten,
        _forgotten_first,
        _committed_with_the_next,
        away_for_long,
    ),
    "The relay observed no late request of the record's producer.",
    _case,
)
hanging: Final = Explainer(
    (_opened_again, away_for_long),
    "The relay observed no late Produce of the record's producer.",
    _aborted_case,
    lambda case: (_given_up(case),),
)
repeated: Final = Explainer(
    (_forgotten, _forgotten_first),
    "No copy of the record arrived after the leader had forgotten the producer.",
    _case,
)

"""Explains lost records by tables of explanations: the first one with evidence explains a record.

``WITHDRAWN`` is for records that are in the log but are not read, ``UNANSWERED`` for records
without an offset, ``SUCCESSION`` for each leader that began without the record, and ``OTHERWISE``
for other causes.
"""

from dataclasses import replace
from typing import Final

from highwater.checkers.model.explain.evidence import epoch_evidence
from highwater.checkers.model.explain.evidence import loss_evidence as evidence
from highwater.checkers.model.explain.evidence.evidence_links import (
    Chain,
    Row,
    acknowledged,
    led_without,
    refuse,
    unknown,
)
from highwater.checkers.model.explain.evidence.loss_evidence import LostRecord
from highwater.checkers.model.explain.evidence.remote_retention import counted_twice
from highwater.checkers.model.explain.licences import (
    FAULT,
    LEADER_ALONE,
    UNACKNOWLEDGED,
    UNCLEAN,
    Explanation,
    first,
    has,
    hazard_of_release,
    if_observed,
    lacks,
)
from highwater.checkers.model.explain.observations import (
    FILES,
    LEADERS,
    LOGS,
    STARTS,
    UNFLUSHED,
    Observation,
)
from highwater.checkers.model.explain.trace import RunTraces, Trace
from highwater.checkers.model.explain.transaction_anomalies import WITHDRAWN
from highwater.harness.runs.history import OK

UNANSWERED: Final = (
    Explanation(
        name="fault",
        says="A fault, or a change of leader, kept the leader from appending the record. With"
        " acks=0 a broker that refuses a record closes the connection, losing requests in flight.",
        licence=UNACKNOWLEDGED,
        needs=LEADERS,
        evidence=evidence.disturbance,
    ),
    Explanation(
        name="retry",
        says="The client reports a request without an answer.",
        licence=UNACKNOWLEDGED,
        evidence=evidence.no_answer,
    ),
    Explanation(
        name="client-left",
        says="The client left right after the send: its closed connection loses the record.",
        licence=UNACKNOWLEDGED,
        needs=FILES,
        evidence=evidence.client_left,
    ),
    Explanation(
        name="zombie-send",
        says="The record went to a deposed leader; a producer with acks=0 does not learn that.",
        licence=UNACKNOWLEDGED,
        needs=LEADERS | LOGS,
        evidence=evidence.sent_to_deposed,
    ),
    Explanation(
        name="shorter-log",
        says="The record was beyond the end of a later leader's log.",
        licence=LEADER_ALONE | UNCLEAN,
        needs=STARTS,
        evidence=evidence.shorter_successor,
    ),
    Explanation(
        name="connection",
        says="The broker closed the connection because it no longer led another partition.",
        licence=UNACKNOWLEDGED,
        needs=LEADERS,
        evidence=evidence.connection_closed,
    ),
    Explanation(
        name="unread",
        says="The broker had not read the record when the connection ended: no log has a record"
        " that the producer sent in between.",
        licence=UNACKNOWLEDGED,
        needs=LEADERS | FILES,
        evidence=evidence.left_unread,
    ),
)

SUCCESSION: Final = (
    Explanation(
        name="unclean",
        says="Unclean elections may elect a broker without the record.",
        licence=UNCLEAN,
        applies=lambda case: case.unclean,
        needs=STARTS,
        evidence=evidence.elected_uncleanly,
    ),
    Explanation(
        name="acks",
        says="With acks=0 or 1 a member of the ISR may lack an acknowledged record.",
        licence=LEADER_ALONE,
        applies=lambda case: not case.unclean,
        needs=STARTS,
        evidence=evidence.elected_without,
    ),
    Explanation(
        name="disk",
        says="A fault removed the record from the disk of the new leader.",
        licence=FAULT,
        applies=lambda case: case.is_committed,
        needs=STARTS | UNFLUSHED,
        evidence=evidence.removed_by_fault,
    ),
    Explanation(
        name="epochs",
        says="Up to 0.10 a follower truncates to its own HW (before KIP-101).",
        licence=lacks("epochs"),
        applies=lambda case: case.is_committed,
        needs=STARTS,
        evidence=evidence.cut_to_its_hw,
    ),
    Explanation(
        name="epoch_on_election",
        says="A leader without records of its epoch does not know it (KAFKA-7415).",
        licence=lacks("epoch_on_election"),
        applies=lambda case: case.is_committed,
        needs=STARTS,
        evidence=evidence.cut_at_unknown_epoch,
    ),
    Explanation(
        name="join_from_epoch_start",
        says="A follower joined the ISR below the start of the leader's epoch (KAFKA-7128).",
        licence=lacks("join_from_epoch_start"),
        applies=lambda case: case.is_committed,
        needs=STARTS,
        evidence=evidence.joined_without,
    ),
    Explanation(
        name="elected_again_is_new",
        says="A leader that is elected again, and never knew of a leader between, commits by its"
        " followers' old offsets.",
        licence=lacks("elected_again_is_new"),
        applies=lambda case: case.is_committed,
        needs=STARTS,
        evidence=epoch_evidence.committed_by_old_state,
    ),
    Explanation(
        name="late_fenced",
        says="A follower accepts a late answer from an older leader epoch (KAFKA-18991).",
        licence=lacks("late_fenced"),
        applies=lambda case: case.is_committed,
        needs=STARTS,
        evidence=epoch_evidence.cut_by_late_answer,
    ),
)

OTHERWISE: Final = (
    Explanation(
        name="zombie",
        says="A deposed leader that did not know its successor acknowledged the record.",
        licence=LEADER_ALONE,
        needs=LEADERS | LOGS,
        evidence=evidence.acknowledged_by_deposed,
    ),
    Explanation(
        name="reused-sequence",
        says="The client had used the sequence number for an unanswered record of an aborted"
        " transaction; the leader took the lost record for that one.",
        licence=has("purges_unanswered"),
        applies=lambda case: case.observed.plan.workload.transactions,
        needs=LEADERS | FILES,
        evidence=evidence.taken_for_another,
    ),
    Explanation(
        name="segment-deleted",
        says="A fault removed the record from the front of the leader's log.",
        licence=FAULT,
        needs=LEADERS,
        evidence=evidence.removed_from_the_front,
    ),
    Explanation(
        name="counted-twice",
        says="A new leader counted twice the segments that are both local and remote, so that the"
        " partition seemed larger than retention.bytes, and deleted the oldest (KAFKA-20732).",
        licence=hazard_of_release("KAFKA-20732"),
        applies=lambda case: case.observed.plan.tiered,
        needs=LOGS,
        evidence=counted_twice,
    ),
)


def lost(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain why an acknowledged record is lost."""
    trace = observed.traces.get(anomaly["partition"])
    send = observed.suspects.get(anomaly["value"])
    if send is None or send["outcome"] != OK:
        return refuse("The history does not show that the record was acknowledged.")
    if trace is None:
        return refuse("It is not known to which partition the record was sent.")
    ack = acknowledged(observed, trace, send)
    case = LostRecord(observed=observed, trace=trace, send=send, ack=ack)
    if withdrawn := first(WITHDRAWN, case):
        return Chain(links=(*withdrawn, ack))
    if holder := _held_after_all(observed, trace, anomaly):
        return if_observed(refuse(holder, ack), WITHDRAWN, case)
    outcome = _unanswered(case) if anomaly["offset"] is None else _replaced(case)
    rules = UNANSWERED if anomaly["offset"] is None else (*SUCCESSION, *OTHERWISE)
    return if_observed(outcome, (*WITHDRAWN, *rules), case)


def _unanswered(case: LostRecord) -> Chain:
    links = first(UNANSWERED, case)
    why_not = "Its leader ran undisturbed when the record was sent."
    return Chain(links=links) if links else refuse(why_not, case.ack)


def _replaced(case: LostRecord) -> Chain:
    if not case.trace.leaderships:
        return refuse("No broker was ever observed as the leader.", case.ack)
    chains = [_after(replace(case, start=start)) for start in evidence.successors(case)]
    chains += [Chain(links=links) for links in [first(OTHERWISE, case)] if links]
    none = unknown("No broker was observed to become leader without the record.", case.ack)
    return next((chain for chain in chains if not chain.why_not), chains[0] if chains else none)


def _after(case: LostRecord) -> Chain:
    """Explain how a broker without the record could be elected."""
    if links := first(SUCCESSION, case):
        return Chain(links=links)
    assert case.start is not None
    election = led_without(case.start, case.send)
    if case.unclean:
        why_not = "The leader was elected from outside the ISR, which is not allowed."
        return refuse(why_not, case.ack, election)
    present = [link for link in (case.ack, evidence.truncation(case), election) if link]
    return unknown("A member of the ISR should have had the record.", *present)


def _held_after_all(observed: RunTraces, trace: Trace, anomaly: Row) -> str:
    """Return why a record is not lost: the last leader's disk holds it, or is missing; or empty."""
    last = trace.leaderships[-1] if trace.leaderships else None
    if last is None or observed.lacks(Observation.DISKS):
        return ""
    disk = trace.disks.get(last.leader)
    if disk is None:
        return "The disk of the last leader is missing."
    begun = anomaly["offset"] is None or anomaly["offset"] >= trace.log_start(last.leader)
    if begun and anomaly["value"] in disk.records:
        return f"The disk of broker {last.leader}, the last leader, holds the record."
    return ""

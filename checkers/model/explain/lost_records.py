"""Explains lost records by a table of rules, tried in order: the first with evidence explains it.

A rule is one way to lose an acknowledged record: a precondition (settings and release), and the
observed events that show it. ``UNANSWERED`` is for records without an offset, ``SUCCESSION`` for
each leader that began without the record, ``WITHDRAWN`` for those that are in the log and are not
read, ``OTHERWISE`` for the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.checkers.model.explain.evidence import epoch_evidence
from highwater.checkers.model.explain.evidence import loss_evidence as evidence
from highwater.checkers.model.explain.evidence.cut_markers import cut_marker
from highwater.checkers.model.explain.evidence.evidence_links import (
    Chain,
    Row,
    acknowledged,
    led_without,
    refuse,
    unknown,
)
from highwater.checkers.model.explain.evidence.late_markers import late_marker
from highwater.checkers.model.explain.evidence.loss_evidence import Links, LostRecord
from highwater.checkers.model.explain.evidence.remote_retention import counted_twice
from highwater.checkers.model.explain.trace import RunTraces, Trace
from highwater.harness.runs.history import OK


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """One way to lose an acknowledged record.

    Attributes:
        name: a switch of the model's rules, or a plain name.
        says: the rule in a sentence.
        evidence: the links of the explanation, in order of time; empty if it was not observed.
        applies: whether settings and release allow it.
    """

    name: str
    says: str
    evidence: Callable[[LostRecord], Links]
    applies: Callable[[LostRecord], bool] = lambda _: True

    def links(self, case: LostRecord) -> Links:
        """Return the links of the explanation; empty if the rule does not explain the loss."""
        return self.evidence(case) if self.applies(case) else ()


UNANSWERED: Final = (
    LossRule(
        name="fault",
        says="A fault, or a change of leader, kept the leader from appending it. With acks=0 a"
        " broker that refuses one record closes the connection, and requests in flight are lost.",
        evidence=evidence.disturbance,
    ),
    LossRule(
        name="retry",
        says="The client reports a request without an answer.",
        evidence=evidence.no_answer,
    ),
    LossRule(
        name="client-left",
        says="The client left right after it: a closed connection loses it.",
        evidence=evidence.client_left,
    ),
    LossRule(
        name="zombie-send",
        says="It was sent to a deposed leader, of which a producer with acks=0 does not learn.",
        evidence=evidence.sent_to_deposed,
    ),
    LossRule(
        name="shorter-log",
        says="It was beyond the end of the log of a later leader.",
        evidence=evidence.shorter_successor,
    ),
    LossRule(
        name="connection",
        says="Its broker closed the connection because it no longer led another partition.",
        evidence=evidence.connection_closed,
    ),
    LossRule(
        name="unread",
        says="Its broker had not read it when the connection ended: nothing that the producer sent"
        " between is in a log.",
        applies=lambda case: case.acks == "0",
        evidence=evidence.left_unread,
    ),
)

SUCCESSION: Final = (
    LossRule(
        name="unclean",
        says="Unclean elections may elect a broker without the record.",
        applies=lambda case: case.unclean and case.observed.elects_anybody,
        evidence=evidence.elected_uncleanly,
    ),
    LossRule(
        name="acks",
        says="With acks=0 or 1 a member of the ISR may lack an acknowledged record.",
        applies=lambda case: not case.unclean and case.acks != "all",
        evidence=evidence.elected_without,
    ),
    LossRule(
        name="disk",
        says="A fault removed the record from the disk of the new leader.",
        applies=lambda case: case.is_committed,
        evidence=evidence.removed_by_fault,
    ),
    LossRule(
        name="epochs",
        says="Up to 0.10 a follower truncates to its own HW (before KIP-101).",
        applies=lambda case: case.is_committed,
        evidence=evidence.cut_to_its_hw,
    ),
    LossRule(
        name="epoch_on_election",
        says="A leader without records of its epoch does not know it (KAFKA-7415).",
        applies=lambda case: case.is_committed,
        evidence=evidence.cut_at_unknown_epoch,
    ),
    LossRule(
        name="join_from_epoch_start",
        says="A follower joined the ISR below the start of the leader's epoch (KAFKA-7128).",
        applies=lambda case: case.is_committed,
        evidence=evidence.joined_without,
    ),
    LossRule(
        name="elected_again_is_new",
        says="A leader that is elected again, and never heard of another one between, commits by"
        " what its followers had before.",
        applies=lambda case: case.is_committed,
        evidence=epoch_evidence.committed_by_old_state,
    ),
    LossRule(
        name="late_fenced",
        says="A follower takes a late answer of an older leader epoch (KAFKA-18991).",
        applies=lambda case: case.is_committed,
        evidence=epoch_evidence.cut_by_late_answer,
    ),
)

WITHDRAWN: Final = (
    LossRule(
        name="cut-marker",
        says="A fault took the marker of its transaction from the leader's log, and the marker of a"
        " later one decided about it.",
        applies=lambda case: case.observed.plan.workload.transactions,
        evidence=lambda case: _with_answer(cut_marker(case.observed, case.send), case),
    ),
    LossRule(
        name="late-marker",
        says="A marker of an earlier transaction came late, and ended the one of the record, of the"
        " same producer epoch (KAFKA-19446).",
        applies=lambda case: case.observed.plan.workload.transactions,
        evidence=lambda case: _with_answer(late_marker(case.observed, case.send), case),
    ),
)

OTHERWISE: Final = (
    LossRule(
        name="zombie",
        says="A deposed leader that did not know its successor acknowledged it.",
        applies=lambda case: case.acks != "all",
        evidence=evidence.acknowledged_by_deposed,
    ),
    LossRule(
        name="reused-sequence",
        says="Its client had given its sequence number to a record of an aborted transaction, about"
        " which it had no answer; the leader took it for that one.",
        applies=lambda case: case.observed.plan.workload.transactions,
        evidence=evidence.taken_for_another,
    ),
    LossRule(
        name="segment-deleted",
        says="A fault removed it from the front of the leader's log.",
        evidence=evidence.removed_from_the_front,
    ),
    LossRule(
        name="counted-twice",
        says="A new leader counted segments that are local and in the remote tier twice, took the"
        " partition for larger than retention.bytes, and deleted the oldest (KAFKA-20732).",
        applies=lambda case: case.observed.plan.tiered,
        evidence=counted_twice,
    ),
)


def lost(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain why an acknowledged record is lost."""
    trace = observed.traces.get(anomaly["partition"])
    send = observed.suspects.get(anomaly["value"])
    if send is None or send["outcome"] != OK:
        return refuse("The history does not show that it was acknowledged.")
    if trace is None:
        return refuse("Nobody knows which partition it was sent to.")
    ack = acknowledged(observed, trace, send)
    case = LostRecord(observed=observed, trace=trace, send=send, ack=ack)
    if withdrawn := first(WITHDRAWN, case):
        return Chain(links=withdrawn)
    if holder := _held_after_all(trace, anomaly):
        return refuse(holder, ack)
    if anomaly["offset"] is None:
        links = first(UNANSWERED, case)
        why_not = "Its leader ran undisturbed when it was sent."
        return Chain(links=links) if links else refuse(why_not, ack)
    chains = [_after(replace(case, start=start)) for start in evidence.successors(case)]
    chains += [Chain(links=links) for links in [first(OTHERWISE, case)] if links]
    none = unknown("Nobody was seen to begin to lead without it.", ack)
    return next((chain for chain in chains if not chain.why_not), chains[0] if chains else none)


def _with_answer(links: Links, case: LostRecord) -> Links:
    return (*links, case.ack) if links else ()


def first(rules: Sequence[LossRule], case: LostRecord) -> Links:
    """Return the links of the first rule that explains a loss; empty if none does."""
    return next((links for rule in rules if (links := rule.links(case))), ())


def _after(case: LostRecord) -> Chain:
    """Explain how a broker without the record could be elected."""
    if links := first(SUCCESSION, case):
        return Chain(links=links)
    assert case.start is not None
    election = led_without(case.start, case.send)
    if case.unclean:
        why_not = "It was elected from outside the ISR, which is not allowed."
        return refuse(why_not, case.ack, election)
    present = [link for link in (case.ack, evidence.truncation(case), election) if link]
    return unknown("A member of the ISR should have had it.", *present)


def _held_after_all(trace: Trace, anomaly: Row) -> str:
    """Return the contradiction that a log of the last ISR holds the lost record."""
    last = trace.leaderships[-1] if trace.leaderships else None
    if last is None:
        return "Nobody was ever seen to lead."
    disk = trace.disks.get(last.leader)
    if disk is None:
        return "The disk of the last leader is missing."
    begun = anomaly["offset"] is None or anomaly["offset"] >= trace.log_start(last.leader)
    if begun and anomaly["value"] in disk.records:
        return f"The disk of broker {last.leader}, the last leader, holds it."
    return ""

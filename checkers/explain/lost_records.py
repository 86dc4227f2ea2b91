"""Explains lost records by tables of explanations; the first explanation with evidence is used.

``WITHDRAWN`` is for records whose outcome another transaction's marker decided, ``UNANSWERED`` for
records without an offset, ``SUCCESSION`` for leaders that began without the record, and
``OTHERWISE`` for other causes.
"""

from typing import Any

from highwater.checkers.explain.evidence.evidence_links import (
    Chain,
    Row,
    acknowledged,
    cut_link,
    not_known,
    refuse,
    unknown,
)
from highwater.checkers.explain.evidence.licences import Explanation, first, if_observed
from highwater.checkers.explain.evidence.lost_record import LostRecord
from highwater.checkers.explain.evidence.markers import WITHDRAWN
from highwater.checkers.explain.evidence.other_losses import OTHERWISE
from highwater.checkers.explain.evidence.successions import SUCCESSION, Succession, successors
from highwater.checkers.explain.evidence.unanswered_sends import UNANSWERED
from highwater.checkers.explain.observations import LEADERS, Observation
from highwater.checkers.explain.trace import LeadershipStart, RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import OK


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
    outcome = _unanswered(case) if anomaly["offset"] is None else _replaced(case, OTHERWISE)
    rules = UNANSWERED if anomaly["offset"] is None else (*SUCCESSION, *OTHERWISE)
    return if_observed(outcome, (*WITHDRAWN, *rules), case)


def vanished(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain why a record is gone that a reader had received, and so the whole ISR had.

    The first read stands for the send and its acknowledgement, which are not known.
    """
    trace = observed.traces.get(anomaly["partition"])
    read = observed.first_read(anomaly["value"])
    if trace is None or read is None:
        return refuse("The history does not show that the record was read.")
    link = ExplanationLink(
        rule="read",
        says=f"{read['process']} read {read['value']} at offset {read['offset']}.",
        event=f"{read['process']}: read at offset {read['offset']}",
        time_ns=read["complete_ns"],
    )
    case = LostRecord(observed=observed, trace=trace, send=read, ack=link)
    rules: tuple[Explanation[Any], ...] = SUCCESSION
    return if_observed(_replaced(case), rules, case)


def replaced(observed: RunTraces, anomaly: Row) -> Chain | None:
    """Explain why clients know two records at one offset: the earlier record is gone.

    In a compacted topic this record may not count as lost, because its key has a later value.

    Returns:
        The explanation; None if it is not known why the earlier record is gone.
    """
    ends = {step["value"]: step.get("complete_ns") for step in anomaly["steps"] or ()}
    if not ends or None in ends.values():
        return None
    earlier = min(ends, key=ends.__getitem__)
    for explain in (vanished, lost):
        chain = explain(observed, {**anomaly, "value": earlier})
        if not chain.why_not:
            return chain
    return None


def _unanswered(case: LostRecord) -> Chain:
    links = first(UNANSWERED, case)
    why_not = "No fault disturbed the record's leader when the record was sent."
    return Chain(links=links) if links else refuse(why_not, case.ack)


def _replaced(case: LostRecord, others: tuple[Explanation[LostRecord], ...] = ()) -> Chain:
    if not case.trace.leaderships:
        return refuse("No broker was ever observed as the leader.", case.ack)
    chains = [_after(case, start) for start in successors(case)]
    chains += [Chain(links=links) for links in [first(others, case)] if links]
    none = unknown("No broker was observed to become leader without the record.", case.ack)
    return next((chain for chain in chains if not chain.why_not), chains[0] if chains else none)


def _after(record: LostRecord, start: LeadershipStart) -> Chain:
    """Explain how a broker without the record could be elected leader."""
    case = Succession(
        observed=record.observed, trace=record.trace, send=record.send, ack=record.ack, start=start
    )
    if links := first(SUCCESSION, case):
        return Chain(links=links)
    if case.is_unclean:
        why_not = "The leader was elected from outside the ISR, although unclean elections are off."
        return refuse(why_not, case.ack, case.election)
    cut = (cut_link(case.cut),) if case.cut else ()
    if case.observed.elects_anybody and not start.isr_known:
        return not_known(LEADERS, case.ack, *cut, case.election)
    return unknown("A member of the ISR should have had the record.", case.ack, *cut, case.election)


def _held_after_all(observed: RunTraces, trace: Trace, anomaly: Row) -> str:
    """Return the reason why a record is not lost, as a sentence; empty if it counts as lost.

    The last leader's disk has the record, or the run has no copy of this disk.
    """
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

"""Explains records that a later leader lacked, by the events between the send and its election."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from highwater.checkers.core.promises import CONTROLLER_DISK_LOSS
from highwater.checkers.explain.evidence.evidence_links import (
    Links,
    Row,
    cut_link,
    event_link,
    fault_link,
    led_without,
    target_of,
)
from highwater.checkers.explain.evidence.licences import (
    FAULT,
    LEADER_ALONE,
    UNCLEAN,
    Explanation,
    explains,
    hazard_of_release,
    lacks,
)
from highwater.checkers.explain.evidence.lost_record import LostRecord
from highwater.checkers.explain.observations import STARTS, UNFLUSHED
from highwater.checkers.explain.tolerances import WITHIN
from highwater.checkers.explain.trace import BrokerLogLine, LeadershipStart, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.partition_trace import Leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession(LostRecord):
    """A lost record, and a later leadership that began without it."""

    start: LeadershipStart

    @property
    def is_unclean(self) -> bool:
        """True if the later leader was elected from outside the ISR."""
        return self.start.unclean is not None

    @property
    def cut(self) -> BrokerLogLine | None:
        """The truncation by which the new leader may have removed the record."""
        return self.first_cut(self.start.broker)

    @property
    def election(self) -> ExplanationLink:
        """The election of the new leader."""
        return led_without(self.start, self.send)


def _lacking(
    switch: str, says: str
) -> Callable[[Callable[[Succession], Links]], Explanation[Succession]]:
    """Return a decorator for explanations: a release without the rule loses committed records."""
    return explains(
        switch, lacks(switch), says, applies=lambda case: case.is_committed, needs=STARTS
    )


def successors(case: LostRecord) -> list[LeadershipStart]:
    """Return the later leaders that may have begun without the record, the most likely first.

    Such a leader began at or below the record's offset, or has an older record there, as after an
    unclean election. For the leader of the send, a low observed LEO is no evidence: its log must
    show that it lost the record.
    """
    trace, offset = case.trace, case.send["offset"]
    before = case.leader_before
    wrote = trace.leadership(case.ended_ns) or before
    starts = [
        start
        for start in trace.starts
        if start.epoch > before.epoch
        and (
            trace.older(start.broker, offset, min(wrote.epoch, start.epoch))
            or _began_below(case, start)
        )
    ]
    return sorted(starts, key=lambda start: start.time_ns < case.ended_ns - WITHIN.look)


@explains(
    "unclean",
    UNCLEAN,
    "Unclean elections may elect a broker without the record.",
    applies=lambda case: case.is_unclean,
    needs=STARTS,
)
def _elected_uncleanly(case: Succession) -> Links:
    return case.ack, case.election


@explains(
    "acks",
    LEADER_ALONE,
    "With acks=0 or 1 a member of the ISR may lack an acknowledged record.",
    applies=lambda case: not case.is_unclean,
    needs=STARTS,
)
def _elected_without(case: Succession) -> Links:
    """Return links for the old leader's fault, the new leader's truncation, and its election."""
    outage, cut = _outage(case), case.cut
    links = (case.ack, outage, cut_link(cut) if cut else None, case.election)
    return tuple(link for link in links if link)


@explains(
    "disk",
    FAULT,
    "A fault removed the record from the disk of the new leader.",
    applies=lambda case: case.is_committed,
    needs=STARTS | UNFLUSHED,
)
def _removed_by_fault(case: Succession) -> Links:
    for fault in case.faults_removing:
        before = case.begun_ns <= fault.effect_ns and fault.start_ns <= case.start.time_ns
        if fault.broker == case.start.broker and before:
            return case.ack, fault_link(fault), case.election
    return ()


@explains(
    CONTROLLER_DISK_LOSS,
    FAULT,
    "A controller lost its disk, and then an older ISR counted again.",
    needs=STARTS,
)
def _elected_from_old_isr(case: Succession) -> Links:
    """Return links if the new leader was out of the ISR before a controller lost its disk.

    A voter with an empty disk may elect a controller that lacks the decision (KIP-595).
    """
    broker = case.start.broker
    for fault in case.observed.faults:
        if fault.name == CONTROLLER_DISK_LOSS and fault.start_ns <= case.start.time_ns:
            row = case.trace.leadership(fault.start_ns)
            if row is not None and broker not in row.isr:
                says = (
                    f"The ISR was {', '.join(map(str, sorted(row.isr)))}, without broker {broker}."
                )
                isr = event_link(CONTROLLER_DISK_LOSS, says, row, broker)
                return case.ack, isr, fault_link(fault), case.election
    return ()


@explains(
    "interrupted-move",
    hazard_of_release("interrupted-move"),
    "A restarted broker replaced its replica by an incomplete copy in another log directory.",
    applies=lambda case: case.is_committed,
    needs=STARTS,
)
def _replaced_by_copy(case: Succession) -> Links:
    """Return links if the new leader had deleted its replica, and kept a copy without the record.

    The broker logs the end of the copy (``LogManager.recoverAbandonedFutureLogs``).
    """
    for line in case.trace.of_kind(case.start.broker, "replaced-by-copy"):
        in_time = case.begun_ns <= line.time_ns <= case.start.time_ns + WITHIN.log
        if in_time and line.offset <= case.send["offset"]:
            says = (
                f"Broker {line.broker} deleted its replica when it started. The copy in another log"
                f" directory, which it kept, ended at offset {line.offset}."
            )
            link = event_link("interrupted-move", says, line, line.broker)
            return case.ack, link, case.election
    return ()


@_lacking("epochs", "Up to 0.10 a follower truncates to its own HW (before KIP-101).")
def _cut_to_its_hw(case: Succession) -> Links:
    """Return links if the new leader had truncated its log to its HW before its election.

    Only a broker without KIP-101 does so: it does not ask its leader where to truncate.
    """
    cut = case.cut
    if cut is None or not case.observed.software.may_lack("epochs", cut.time_ns, cut.broker):
        return ()
    says = f"its own HW, which did not reach {case.send['value']}."
    return _cut_before(case, cut, "epochs", says)


@_lacking(
    "epoch_on_election",
    "A leader does not know its epoch before the epoch's first record (KAFKA-7415).",
)
def _cut_at_unknown_epoch(case: Succession) -> Links:
    """Return links if the new leader truncated to its HW because its leader did not know an epoch.

    The software of that leader, not of the new leader, must allow this.
    """
    cut = case.cut
    answers = case.trace.of_kind(case.start.broker, "answer") if cut else []
    unknown = [line.time_ns for line in answers if "unknown offset" in line.text]
    if cut is None or not any(0 <= cut.time_ns - time_ns < WITHIN.log for time_ns in unknown):
        return ()
    leader = _followed(case.trace, cut)
    if not case.observed.software.may_lack("epoch_on_election", cut.time_ns, leader):
        return ()
    says = "its own HW, because its leader did not know the requested epoch."
    return _cut_before(case, cut, "epoch_on_election", says)


@_lacking(
    "join_from_epoch_start",
    "A follower joined the ISR below the start of the leader's epoch (KAFKA-7128).",
)
def _joined_without(case: Succession) -> Links:
    broker, trace, isr = case.start.broker, case.trace, None
    for row in trace.leaderships:
        joins = isr is not None and broker in row.isr and broker not in isr
        lacks = case.observed.software.may_lack("join_from_epoch_start", row.time_ns, row.leader)
        sample = trace.sample(broker, row.time_ns)
        if (
            joins
            and lacks
            and sample
            and sample.leo <= case.send["offset"]
            and row.time_ns >= case.begun_ns
        ):
            says = f"Broker {broker} joined the ISR with LEO {sample.leo}, without"
            says += f" {case.send['value']}."
            link = event_link("join_from_epoch_start", says, row, broker)
            return case.ack, link, case.election
        isr = row.isr
    return ()


@_lacking(
    "elected_again_is_new",
    "A leader that is elected again, and never knew of the leader in between, uses old LEOs of "
    "its followers.",
)
def _committed_by_old_state(case: Succession) -> Links:
    """Return links for a leader that did not notice another leadership between two of its own.

    Its log has no line about following another broker between the two.
    """
    trace, until_ns = case.trace, case.ended_ns + WITHIN.look
    cut = case.cut
    if cut is None or cut.time_ns > until_ns:
        return ()
    # The observer may see the leader that acknowledged the record one interval too late.
    leaders = [trace.leadership(time_ns) for time_ns in (case.ended_ns, until_ns)]
    for leader in {row.leader: None for row in leaders if row is not None}:
        if not case.observed.software.may_lack("elected_again_is_new", until_ns, leader):
            continue
        if link := _missed(case, leader, cut, until_ns):
            return cut_link(cut), link, case.ack, case.election
    return ()


def _missed(
    case: Succession, leader: int, cut: BrokerLogLine, until_ns: int
) -> ExplanationLink | None:
    """Return a link if a broker logged two leaderships in a row, although another led between."""
    roles = [
        line
        for line in case.trace.of_kind(leader, "leader", "follower", "fetcher")
        if line.time_ns <= until_ns
    ]
    for before, again in pairwise(roles):
        between = [
            now
            for now in case.trace.leaderships
            if before.time_ns <= now.time_ns <= again.time_ns + WITHIN.look
            and now.leader not in (leader, -1)
        ]
        if {before.kind, again.kind} == {"leader"} and between and cut.time_ns <= again.time_ns:
            return _missed_leader(case, before, again, between[0])
    return None


def _missed_leader(
    case: Succession, before: BrokerLogLine, again: BrokerLogLine, missed: Leadership
) -> ExplanationLink:
    says = (
        f"Broker {again.broker} began to lead in epoch {again.epoch}, and had led in epoch"
        f" {before.epoch} before. It never knew that broker {missed.leader} led between, in epoch"
        f" {missed.epoch}. So it still assumed that its follower, broker"
        f" {case.start.broker}, had {case.send['value']}."
    )
    return event_link("elected_again_is_new", says, again, again.broker)


@_lacking(
    "late_fenced", "A follower accepts a late answer from an older leader epoch (KAFKA-18991)."
)
def _cut_by_late_answer(case: Succession) -> Links:
    """Return links if a late response of an older epoch made the new leader truncate its log.

    This is KAFKA-18991. Only responses that the relay delayed are known to be late.
    """
    broker, trace = case.start.broker, case.trace
    for row in case.observed.late_answers:
        if not case.observed.software.may_lack("late_fenced", row["time_ns"], broker):
            continue
        here = row["topic"] == case.observed.topic and row["partition"] == trace.partition
        to_follower = row["api"] == "Fetch" and row["target"] == f"broker-{broker}"
        now = trace.leadership(row["time_ns"])
        if not (here and to_follower) or now is None or now.epoch <= row["epoch"]:
            continue
        since_ns = max(row["time_ns"] - WITHIN.look, case.ended_ns)
        cut = _cut_since(case, since_ns)
        if cut is not None and cut.time_ns < since_ns + WITHIN.log:
            return case.ack, _late_answer(trace, row, now), cut_link(cut), case.election
    return ()


def _cut_since(case: Succession, since_ns: int) -> BrokerLogLine | None:
    cuts = case.trace.of_kind(case.start.broker, "truncation")
    later = (line for line in cuts if line.time_ns >= since_ns)
    return next((line for line in later if line.offset <= case.send["offset"]), None)


def _late_answer(trace: Trace, row: Row, now: Leadership) -> ExplanationLink:
    epoch = row["epoch"]
    sender, follower = (row[end].removeprefix("broker-") for end in ("source", "target"))
    between = [seen for seen in trace.leaderships if epoch < seen.epoch < now.epoch]
    epochs = {seen.leader: seen.epoch for seen in reversed(between) if seen.leader != now.leader}
    others = "".join(f" Then broker {leader} led in epoch {n}." for leader, n in epochs.items())
    return ExplanationLink(
        rule="late_fenced",
        says=f"Broker {sender} had answered a fetch of broker {follower} in epoch {epoch}. The"
        f" relay delayed the answer.{others} The answer came when broker {now.leader} led in epoch"
        f" {now.epoch}. Broker {follower} fetched from the same offset as in epoch {epoch}, and"
        " took the late answer for the answer to its last fetch.",
        event=f"Fetch.answer {row['event']}: epoch {epoch}, message {row['message']}",
        broker=int(follower),
        time_ns=row["time_ns"],
    )


def _followed(trace: Trace, cut: BrokerLogLine) -> int | None:
    """Return the leader that a broker followed when it truncated its log; None if not known."""
    lines = trace.of_kind(cut.broker, "fetcher")
    named = [line.leader for line in lines if line.time_ns <= cut.time_ns + WITHIN.look]
    leadership = trace.leadership(cut.time_ns)
    leader = named[-1] if named else -1 if leadership is None else leadership.leader
    return leader if leader >= 0 else None


def _cut_before(case: Succession, cut: BrokerLogLine, rule: str, says: str) -> Links:
    """Return links for the new leader's truncation and election; empty if it truncated later."""
    if cut.time_ns > max(case.start.time_ns, case.start.led_ns) + WITHIN.log:
        return ()
    says = f"Broker {cut.broker} truncated its log to {cut.offset}, {says}"
    return case.ack, event_link(rule, says, cut, cut.broker), case.election


def _began_below(case: LostRecord, start: LeadershipStart) -> bool:
    """Return whether a leader lacked the record's offset when it began to lead.

    For the leader of the send, a low observed LEO is no evidence.
    """
    cut = case.first_cut(start.broker)
    shows = start.logged or (cut is not None and cut.time_ns <= start.time_ns)
    return case.is_replaced(start) and (start.broker != case.leader_before.leader or shows)


def _outage(case: Succession) -> ExplanationLink | None:
    """Return a link for a fault of the acknowledging broker between the send and the election."""
    broker = case.leader_before.leader if case.ack.broker is None else case.ack.broker
    for fault in case.observed.faults:
        around = fault.start_ns - WITHIN.log <= case.start.time_ns
        if target_of(fault) == broker and around and case.begun_ns <= fault.until_ns:
            return fault_link(fault)
    return None


SUCCESSION: Final = (
    _elected_uncleanly,
    _elected_without,
    _removed_by_fault,
    _elected_from_old_isr,
    _replaced_by_copy,
    _cut_to_its_hw,
    _cut_at_unknown_epoch,
    _joined_without,
    _committed_by_old_state,
    _cut_by_late_answer,
)

"""The events that show how an acknowledged record was lost; one function for each explanation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import pyarrow.compute as pc

from highwater.checkers.model.explain.evidence.evidence_links import (
    Links,
    RecordCase,
    cut_link,
    disturbed,
    event_link,
    fault_link,
    hung_up,
    led_without,
    target_of,
    unanswered,
)
from highwater.checkers.model.explain.tolerances import SECOND, WITHIN
from highwater.checkers.model.explain.trace import BrokerLogLine, LeadershipStart, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import OK
from highwater.harness.runs.partition_trace import Leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecord(RecordCase):
    """An acknowledged record that is lost.

    Attributes:
        ack: the answer to the record's producer, as a link.
        start: the examined later leadership that began without the record, if there is one.
    """

    trace: Trace
    ack: ExplanationLink
    start: LeadershipStart | None = None

    @property
    def acks(self) -> str:
        """The producers' acks setting."""
        return self.observed.plan.workload.acks

    @property
    def unclean(self) -> bool:
        """True if the later leader was elected from outside the ISR."""
        return self.start is not None and self.start.unclean is not None

    @property
    def is_committed(self) -> bool:
        """True if every member of the ISR, the later leader too, should have had the record."""
        return not self.unclean and self.acks == "all"

    @property
    def ended_ns(self) -> int:
        """When the producer had the answer; without an answer, when the record was sent."""
        return int(self.send["complete_ns"] or self.begun_ns)

    @property
    def faults_removing(self) -> Iterator[FaultInterval]:
        """The faults that removed the record's offset from a log."""
        for fault, offsets in self.observed.removals(self.trace.partition):
            if self.send["offset"] in offsets:
                yield fault


def present(*links: ExplanationLink | None) -> Links:
    """Return the links that are not None."""
    return tuple(link for link in links if link)


def _acked(case: LostRecord, link: ExplanationLink | None) -> Links:
    return (case.ack, link) if link else ()


def disturbance(case: LostRecord) -> Links:
    """Return a fault or a change of leader around the send."""
    return _acked(case, disturbed(case.observed, case.trace, case.begun_ns, case.ended_ns))


def no_answer(case: LostRecord) -> Links:
    """Return the client's log line about a request without an answer."""
    return _acked(case, unanswered(case.observed, case.send, case.ended_ns + WITHIN.log))


def client_left(case: LostRecord) -> Links:
    """Return the last answer to a client that left right after the send.

    A broker without CPU time may leave more requests unread, up to the client's last record,
    because it reads a connection in order.
    """
    process = case.send["process"]
    left_ns = case.observed.left_ns.get(process)
    if left_ns is None or left_ns > case.ended_ns + WITHIN.backlog:
        return ()
    if left_ns > case.ended_ns + WITHIN.look and _anything_later(case):
        return ()
    link = ExplanationLink(
        rule="acks=0",
        says=f"{process} left right after it, and no client waits for requests in flight.",
        event=f"{process}: its last answer",
        time_ns=left_ns,
    )
    return (case.ack, link)


def _anything_later(case: LostRecord) -> bool:
    """Return whether the last leader's disk has a later record of the same client."""
    disk = case.trace.last_disk
    if disk is None:
        return True
    sends = case.observed.sends(process=case.send["process"], partition=case.trace.partition)
    later = sends.filter(pc.greater(sends["invoke_ns"], case.begun_ns))
    return not disk.records.isdisjoint(later["value"].to_pylist())


def sent_to_deposed(case: LostRecord) -> Links:
    """Return the deposed leader that may have received a send with acks=0."""
    now = case.trace.leadership(case.begun_ns)
    starts = (start for start in case.trace.starts if now is not None and start.epoch == now.epoch)
    return _acked(case, _first(_deposed(case, start) for start in starts))


def shorter_successor(case: LostRecord) -> Links:
    """Return a later leader whose log ended before the record.

    An upper bound of the record's offset comes from its leader's LEO, as it was observed before the
    send and after the answer.
    """
    trace = case.trace
    if (then := trace.leadership(case.begun_ns)) is None:
        return ()
    before = trace.sample(then.leader, case.begun_ns)
    after = trace.sample(then.leader, case.ended_ns + WITHIN.look)
    at_most = max((before.leo if before else -1), (after.leo - 1 if after else -1))
    later = (start for start in trace.starts if start.epoch > then.epoch)
    shorter = (start for start in later if 0 <= start.offset <= at_most)
    return _acked(case, _first(led_without(start, case.send) for start in shorter))


def connection_closed(case: LostRecord) -> Links:
    """Return another partition's leader change for which a broker closed the connection."""
    return _acked(case, hung_up(case.observed, case.trace, case.begun_ns, case.ended_ns))


def left_unread(case: LostRecord) -> Links:
    """Return the end of a connection whose last requests its broker had not read.

    With acks=0 a request counts as acknowledged when it is in the client's socket. A broker reads
    a connection's requests in order, so that only the producer's last requests are unread.
    """
    observed, process = case.observed, case.send["process"]
    leadership = case.trace.leadership(case.begun_ns)
    gave_up = f"{process} gave up its connection."
    ends = {
        line.time_ns: event_link("acks=0", gave_up, line, None)
        for line in observed.clients.get(process, ())
    }
    for fault in observed.faults:
        if leadership is not None and fault.broker == leadership.leader:
            ends[fault.start_ns] = fault_link(fault)
    near = range(case.ended_ns, case.ended_ns + WITHIN.backlog)
    end_ns = min((time_ns for time_ns in ends if time_ns in near), default=None)
    if end_ns is None or _was_one_appended(case, end_ns):
        return ()
    return (case.ack, ends[end_ns])


def _was_one_appended(case: LostRecord, until_ns: int) -> bool:
    """Return whether a log has a record that the producer handed over after the lost record."""
    sends = case.observed.sends(process=case.send["process"], partition=case.trace.partition)
    between = pc.and_(
        pc.greater(sends["complete_ns"], case.ended_ns), pc.less(sends["complete_ns"], until_ns)
    )
    later = set(sends["value"].filter(between).to_pylist())
    return any(later & disk.records for disk in case.trace.disks.values())


def successors(case: LostRecord) -> list[LeadershipStart]:
    """Return the later leaders that may have begun without the record, the likeliest first.

    They began at or below its offset, or with an older record there: an uncleanly elected leader
    may have a fork. The broker that appended the record has it, even if an observed LEO is lower,
    unless it has since followed another leader and truncated its log.
    """
    trace, offset = case.trace, case.send["offset"]
    before = _leader_before(case)
    wrote = trace.leadership(case.ended_ns) or before
    starts = [
        start
        for start in trace.starts
        if start.epoch > before.epoch
        and (
            trace.older(start.broker, offset, min(wrote.epoch, start.epoch))
            or (_lacks(case, start) and (start.broker != before.leader or _gave_up(case, start)))
        )
    ]
    return sorted(starts, key=lambda start: start.time_ns < case.ended_ns - WITHIN.look)


def elected_uncleanly(case: LostRecord) -> Links:
    """Return the unclean election of a leader without the record."""
    return present(case.ack, election(case))


def elected_without(case: LostRecord) -> Links:
    """Return the old leader's fault, the truncation, and the election of the new leader."""
    return present(case.ack, _outage(case), truncation(case), election(case))


def removed_by_fault(case: LostRecord) -> Links:
    """Return the fault that removed the record from the new leader's disk before its election."""
    assert case.start is not None
    for fault in case.faults_removing:
        before = case.begun_ns <= fault.effect_ns and fault.start_ns <= case.start.time_ns
        if fault.broker == case.start.broker and before:
            return present(case.ack, fault_link(fault), election(case))
    return ()


def cut_to_its_hw(case: LostRecord) -> Links:
    """Return the truncation of the new leader to its HW, before its election.

    Because of its own software and protocol it does not ask the leader where to truncate.
    """
    assert case.start is not None
    cut = first_cut(case, case.start)
    if cut is None or not case.observed.software.may_lack("epochs", cut.time_ns, cut.broker):
        return ()
    says = f"its own HW, which did not reach {case.send['value']}."
    return _cut_before(case, cut, "epochs", says)


def cut_at_unknown_epoch(case: LostRecord) -> Links:
    """Return the new leader's truncation to its HW because its leader did not know the epoch.

    Whether a leader knows that epoch depends on the leader's software.
    """
    assert case.start is not None
    cut = first_cut(case, case.start)
    answers = case.trace.of_kind(case.start.broker, "answer") if cut else []
    unknown = [line.time_ns for line in answers if "unknown offset" in line.text]
    if cut is None or not any(0 <= cut.time_ns - time_ns < WITHIN.log for time_ns in unknown):
        return ()
    leader = _followed(case.trace, cut)
    if not case.observed.software.may_lack("epoch_on_election", cut.time_ns, leader):
        return ()
    says = "its own HW, because its leader did not know the requested epoch."
    return _cut_before(case, cut, "epoch_on_election", says)


def joined_without(case: LostRecord) -> Links:
    """Return the change that let a replica without the record into the ISR (KAFKA-7128)."""
    assert case.start is not None
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
            return present(case.ack, link, election(case))
        isr = row.isr
    return ()


def acknowledged_by_deposed(case: LostRecord) -> Links:
    """Return the election about which a deposed leader did not know when it acknowledged."""
    now = _leader_before(case)
    for start in case.trace.starts:
        if start.epoch == now.epoch and _lacks(case, start) and (link := _deposed(case, start)):
            return (led_without(start, case.send), link, case.ack)
    return ()


def removed_from_the_front(case: LostRecord) -> Links:
    """Return the fault that deleted the leader's oldest segment, and its leadership after that."""
    for fault in case.faults_removing:
        rows = (row for row in case.trace.leaderships if row.time_ns > fault.start_ns)
        later = next((row for row in rows if row.leader == fault.broker), None)
        if fault.name == "segment-deleted" and later and case.begun_ns <= fault.effect_ns:
            says = f"Broker {fault.broker} led then, in epoch {later.epoch}."
            link = event_link("elections", says, later, fault.broker)
            return (case.ack, fault_link(fault), link)
    return ()


def taken_for_another(case: LostRecord) -> Links:
    """Return the aborted record at the offset with which the lost record was acknowledged.

    0.11 returns the offset of the last marker behind the aborted record instead.
    """
    leader = case.trace.leadership(case.ended_ns)
    disk = case.trace.disks.get(leader.leader) if leader else None
    offset = case.send["offset"]
    while disk and offset in disk.at and disk.record(offset) is None:
        offset -= 1
    holder = disk.record(offset) if disk else None
    for row in case.observed.sends(value=holder or "").to_pylist():
        unanswered_abort = row["outcome"] != OK and row["offset"] is None
        if row["process"] != case.send["process"] or not unanswered_abort:
            continue
        says = (
            f"{holder} has offset {offset}: {row['process']} had sent it, had no answer about it,"
            f" and aborted its transaction. Then the client gave the sequence number of {holder} to"
            f" {case.send['value']}, and the leader took that for the record that it already has."
        )
        link = ExplanationLink(
            rule="reused-sequence",
            says=says,
            event=f"{row['process']}: {holder}, {row['outcome']} without an offset",
            time_ns=row["complete_ns"],
        )
        return (link, case.ack)
    return ()


def truncation(case: LostRecord) -> ExplanationLink | None:
    """Return the truncation by which the new leader may have removed the record."""
    cut = None if case.start is None else first_cut(case, case.start)
    return None if cut is None else cut_link(cut)


def first_cut(case: LostRecord, start: LeadershipStart) -> BrokerLogLine | None:
    """Return a new leader's first truncation to the record's offset or below, since its send."""
    for line in case.trace.of_kind(start.broker, "truncation"):
        if line.offset <= case.send["offset"] and line.time_ns >= case.begun_ns - WITHIN.look:
            return line
    return None


def _followed(trace: Trace, cut: BrokerLogLine) -> int | None:
    """Return the leader that a broker followed when it truncated its log; None if not known."""
    lines = trace.of_kind(cut.broker, "fetcher")
    named = [line.leader for line in lines if line.time_ns <= cut.time_ns + WITHIN.look]
    leadership = trace.leadership(cut.time_ns)
    leader = named[-1] if named else -1 if leadership is None else leadership.leader
    return leader if leader >= 0 else None


def _cut_before(case: LostRecord, cut: BrokerLogLine, rule: str, says: str) -> Links:
    """Return the new leader's truncation with its reason, if it was before the election."""
    assert case.start is not None
    if cut.time_ns > case.start.time_ns + WITHIN.log:
        return ()
    says = f"Broker {cut.broker} cut its log to {cut.offset}, {says}"
    return present(case.ack, event_link(rule, says, cut, cut.broker), election(case))


def election(case: LostRecord) -> ExplanationLink | None:
    """Return the election of the new leader."""
    return None if case.start is None else led_without(case.start, case.send)


def _leader_before(case: LostRecord) -> Leadership:
    return case.trace.leadership(case.begun_ns - WITHIN.look) or case.trace.leaderships[0]


def _lacks(case: LostRecord, start: LeadershipStart) -> bool:
    """Return whether a leadership began at or below the record, and its records replaced that."""
    trace, offset = case.trace, case.send["offset"]
    disk = trace.last_disk
    epoch = -1 if disk is None else disk.epoch(offset)
    return 0 <= start.offset <= offset and (epoch < 0 or epoch >= start.epoch)


def _gave_up(case: LostRecord, start: LeadershipStart) -> bool:
    """Return whether the new leader's log shows that it lacked the offset when it began to lead."""
    cut = first_cut(case, start)
    return start.logged or (cut is not None and cut.time_ns <= start.time_ns)


def _deposed(case: LostRecord, start: LeadershipStart) -> ExplanationLink | None:
    """Return the leader before an election, if it may have answered after it was deposed.

    A broker may have been elected several times in a row: its first election counts.
    """
    trace, acked_ns = case.trace, case.send["complete_ns"]
    earlier = [row for row in trace.leaderships if row.time_ns < start.time_ns and row.leader >= 0]
    same = [*takewhile(lambda row: row.leader == start.broker, reversed(earlier))]
    others = earlier[: len(earlier) - len(same)]
    if not others:
        return None
    deposed_ns, last = same[-1].time_ns if same else start.time_ns, others[-1]
    says = f"Broker {last.leader} led before, and did not know that another leader was elected."
    follows = trace.of_kind(last.leader, "truncation", "fetcher")
    learned_ns = next((line.time_ns for line in follows if line.time_ns > deposed_ns), 0)
    for fault in case.observed.faults:
        frozen = facts_of(fault.name).frozen and fault.broker == last.leader
        late_ns = max(WITHIN.deposed, learned_ns - fault.until_ns)
        # On a busy machine an answer is observed late, but not before the record was sent.
        around = -WITHIN.deposed < acked_ns - fault.sure_until_ns
        around = around and case.begun_ns - fault.until_ns < late_ns
        if frozen and fault.start_ns < deposed_ns and around:
            return ExplanationLink(
                rule="zombie",
                says=says,
                event=f"{fault.says}; woken again {fault.until_ns / SECOND:.3f} s",
                broker=last.leader,
                time_ns=fault.until_ns,
            )
    if deposed_ns <= acked_ns < max(learned_ns + WITHIN.look, deposed_ns + WITHIN.deposed):
        return event_link("zombie", says, last, last.leader)  # its last answers
    return None


def _outage(case: LostRecord) -> ExplanationLink | None:
    """Return the fault of the broker that acknowledged the record, near the later election."""
    assert case.start is not None
    broker = _leader_before(case).leader if case.ack.broker is None else case.ack.broker
    for fault in case.observed.faults:
        around = fault.start_ns - WITHIN.log <= case.start.time_ns
        if target_of(fault) == broker and around and case.begun_ns <= fault.until_ns:
            return fault_link(fault)
    return None


def _first(links: Iterable[ExplanationLink | None]) -> ExplanationLink | None:
    return next(filter(None, links), None)

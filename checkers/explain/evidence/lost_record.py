"""A lost record, and the facts that several of its explanations use."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from highwater.checkers.explain.evidence.evidence_links import RecordCase, event_link
from highwater.checkers.explain.tolerances import SECOND, WITHIN
from highwater.checkers.explain.trace import BrokerLogLine, LeadershipStart, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecord(RecordCase):
    """An acknowledged record that is lost.

    Attributes:
        ack: the response to the record's producer, as a link.
    """

    trace: Trace
    ack: ExplanationLink

    @property
    def is_unclean(self) -> bool:
        """False; in ``Succession``, True if the later leader was elected from outside the ISR."""
        return False

    @property
    def is_committed(self) -> bool:
        """True if the whole ISR should have the record: acks=all, and no unclean election later."""
        return not self.is_unclean and self.observed.plan.workload.acks == "all"

    @property
    def ended_ns(self) -> int:
        """The time of the response to the producer; without a response, the time of the send."""
        return int(self.send["complete_ns"] or self.begun_ns)

    @property
    def leader_before(self) -> Leadership:
        """The leadership right before the send."""
        rows = self.trace.leaderships
        return self.trace.leadership(self.begun_ns - WITHIN.look) or rows[0]

    @property
    def faults_removing(self) -> Iterator[FaultInterval]:
        """The faults that removed the record's offset from a log."""
        for fault, offsets in self.observed.removals(self.trace.partition):
            if self.send["offset"] in offsets:
                yield fault

    def first_cut(self, broker: int) -> BrokerLogLine | None:
        """Return a broker's first truncation to the record's offset or below, after the send."""
        for line in self.trace.of_kind(broker, "truncation"):
            if line.offset <= self.send["offset"] and line.time_ns >= self.begun_ns - WITHIN.look:
                return line
        return None

    def is_replaced(self, start: LeadershipStart) -> bool:
        """Return whether a leader began at or below the record's offset and replaced the record."""
        disk, offset = self.trace.last_disk, self.send["offset"]
        epoch = -1 if disk is None else disk.epoch(offset)
        return 0 <= start.offset <= offset and (epoch < 0 or epoch >= start.epoch)


def deposed(case: LostRecord, start: LeadershipStart) -> ExplanationLink | None:
    """Return a link for an old leader that may have responded after the new leader's election.

    If the new leader was elected several times in a row, its first election counts.
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
        # On a busy machine a response is observed late, but never before the record was sent.
        around = -WITHIN.deposed < acked_ns - fault.sure_until_ns
        around = around and case.begun_ns - fault.until_ns < late_ns
        if frozen and fault.start_ns < deposed_ns and around:
            return ExplanationLink(
                rule="zombie",
                says=says,
                event=f"{fault.says}; resumed at {fault.until_ns / SECOND:.3f} s",
                broker=last.leader,
                time_ns=fault.until_ns,
            )
    if deposed_ns <= acked_ns < max(learned_ns + WITHIN.look, deposed_ns + WITHIN.deposed):
        return event_link("zombie", says, last, last.leader)  # its last responses
    return None

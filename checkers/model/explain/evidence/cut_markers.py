"""Evidence of what a fault removed from a leader's log, and what the log had there afterwards.

A fault that removes a log's end also removes the markers there. A transaction without its marker is
open again, and the producer's next marker decides its records' outcome: for the coordinator the
transaction is complete, so that it never sends the marker again (KIP-98,
``TransactionCoordinator``).
"""

from dataclasses import dataclass

from highwater.checkers.model.explain.evidence.evidence_links import (
    Links,
    RecordCase,
    Row,
    event_link,
    fault_link,
)
from highwater.checkers.model.explain.evidence.late_markers import marker_behind
from highwater.checkers.model.explain.trace import RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Offsets that a fault removed from a log, and when the log's broker then began to lead."""

    fault: FaultInterval
    offsets: range
    start: Leadership

    def links(self, says: str) -> Links:
        election = event_link("elections", says, self.start, self.start.leader)
        return fault_link(self.fault), election


def cut_marker(case: RecordCase) -> Links:
    """Return the fault that removed a transaction's marker, and the marker that decided instead.

    The first marker of the record's producer behind the record must be from a leader that began to
    lead after the transaction had ended. Between these times a fault must have removed offsets
    behind the record from that leader's log.
    """
    send, trace, offset = case.send, case.trace, case.send["offset"]
    disk = trace.last_disk if trace else None
    if trace is None or disk is None or offset is None or send["complete_ns"] is None:
        return ()
    marker = marker_behind(disk, offset)
    if marker is None:
        return ()
    epoch = int(disk.epochs[disk.at[marker[0]]])
    for cut in _cuts(case.observed, trace, epoch, send["complete_ns"]):
        if cut.offsets.stop > offset + 1:
            decided = ExplanationLink(
                rule="cut-marker",
                says=f"The next marker of producer id {marker[1]} in its log, at {marker[0]}, is"
                f" from a later transaction; it decided the outcome of {send['value']}, too.",
                event="replicas",
                broker=cut.start.leader,
            )
            return *cut.links(f"Broker {cut.start.leader} led then, without the marker."), decided
    return ()


def written_later(observed: RunTraces, anomaly: Row) -> Links:
    """Return why a client could not read the records that it left out: they were written later.

    A fault removed these offsets from the log after the client had passed them, and the records
    there now are from an epoch that began after the fault.
    """
    trace, steps = observed.traces.get(anomaly["partition"]), anomaly["steps"] or ()
    disk = trace.last_disk if trace else None
    places = {copy["offset"] for copy in anomaly["copies"] or () if copy["note"] == "skipped"}
    if trace is None or disk is None or not steps or not places <= disk.at.keys():
        return ()
    told_ns = max(step["complete_ns"] or step["invoke_ns"] for step in steps)
    there = [
        next((cut for cut in _cuts(observed, trace, epoch, told_ns) if place in cut.offsets), None)
        for place, epoch in ((place, int(disk.epochs[disk.at[place]])) for place in sorted(places))
    ]
    cuts = [cut for cut in there if cut is not None]
    if not cuts or len(cuts) < len(places):
        return ()
    return cuts[-1].links(
        f"Broker {cuts[-1].start.leader} led then, and wrote other records there."
    )


def _cuts(observed: RunTraces, trace: Trace, epoch: int, since_ns: int) -> list[_Cut]:
    """Return what faults removed from a leader's log between a time and the start of its epoch."""
    start = next((row for row in trace.leaderships if row.epoch == epoch), None)
    if start is None:
        return []
    return [
        _Cut(fault=fault, offsets=offsets, start=start)
        for fault, offsets in observed.removals(trace.partition)
        if since_ns < fault.start_ns < start.time_ns and fault.broker == start.leader
    ]

"""Explains records whose outcome the marker of another transaction decided.

A coordinator sends a marker (WriteTxnMarkers) again if its connection to a leader ends without a
response. A late marker ends the producer's open transaction, unless the leader knows a higher
producer epoch. With version 1 all transactions of a producer have the same epoch
(``ProducerAppendInfo.checkProducerEpoch``; KIP-1228 for version 2, KAFKA-19446).

A fault that removes a log's end also removes the markers there. Their transactions are open again.
The coordinator has completed these transactions, and does not send their markers again (KIP-98,
``TransactionCoordinator``). So the producer's next marker decides their outcome.
"""

from dataclasses import dataclass
from typing import Final

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Links,
    RecordCase,
    event_link,
    fault_link,
)
from highwater.checkers.explain.evidence.licences import FAULT, explains, lacks
from highwater.checkers.explain.observations import FILES, LEADERS, MESSAGES
from highwater.checkers.explain.trace import FrozenReplica, RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Leadership


@explains(
    "late-marker",
    lacks("marker_above"),
    "An earlier transaction's marker came late, and ended the record's transaction, which had the"
    " same producer epoch (KAFKA-19446).",
    applies=lambda case: case.observed.plan.workload.transactions,
    needs=LEADERS | FILES | MESSAGES,
)
def late_marker(case: RecordCase) -> Links:
    """Return links for a late marker that ended the record's transaction, and for its offset.

    The marker reached the leader before the end of the record's transaction. On the disk it is the
    producer's first marker after the record.
    """
    send, trace = case.send, case.trace
    last = trace.leaderships[-1] if trace and trace.leaderships else None
    disk = trace.last_disk if trace else None
    late = [*case.observed.late("WriteTxnMarkers", partition=send["partition"])]
    if disk is None or send["offset"] is None or not late:
        return ()
    marker = _marker_behind(disk, send["offset"])
    for row in late:
        if marker is None or not case.begun_ns <= row["time_ns"] <= case.until_ns:
            continue
        if row["epoch"] != marker[2]:
            continue
        came = ExplanationLink(
            rule="late-marker",
            says=f"A WriteTxnMarkers of {row['source']} that the relay had delayed reached"
            f" {row['target']} while the transaction of {send['value']} was open. It is from an"
            f" earlier transaction. Its producer epoch, {row['epoch']}, is also the epoch of"
            f" {send['value']}.",
            event=f"WriteTxnMarkers {row['event']}: message {row['message']}",
            time_ns=row["time_ns"],
        )
        stands = ExplanationLink(
            rule="late-marker",
            says=f"Its marker is at offset {marker[0]}, after {send['value']}, with producer id"
            f" {marker[1]} and epoch {marker[2]}. It decided the outcome of {send['value']}, "
            f"because"
            " the marker of the record's own transaction came later.",
            event="replicas",
            broker=last.leader if last else None,
        )
        return came, stands
    return ()


def _marker_behind(disk: FrozenReplica, offset: int) -> tuple[int, int | None, int | None] | None:
    """Return offset, producer id and epoch of the producer's first marker after a record."""
    if offset not in disk.at:
        return None
    writer, *_ = disk.numbers[disk.at[offset]]
    for index in range(disk.at[offset] + 1, len(disk.offsets)):
        if disk.ids[index] is None and disk.numbers[index][0] == writer:
            return int(disk.offsets[index]), *disk.numbers[index][:2]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The offsets that a fault removed from a broker's log, and the broker's next leadership."""

    fault: FaultInterval
    offsets: range
    start: Leadership

    def links(self, says: str) -> Links:
        election = event_link("elections", says, self.start, self.start.leader)
        return fault_link(self.fault), election


@explains(
    "cut-marker",
    FAULT,
    "A fault removed the marker of the record's transaction from the leader's log, and a later"
    " transaction's marker decided the record's outcome.",
    applies=lambda case: case.observed.plan.workload.transactions,
    needs=LEADERS | FILES,
)
def cut_marker(case: RecordCase) -> Links:
    """Return links for the fault that removed a marker, and for the marker that took its place.

    The latter is the producer's first marker after the record. Its leader was elected after the
    transaction's end. Between that end and the election, a fault removed offsets after the record
    from this leader's log.
    """
    send, trace, offset = case.send, case.trace, case.send["offset"]
    disk = trace.last_disk if trace else None
    if trace is None or disk is None or offset is None or send["complete_ns"] is None:
        return ()
    marker = _marker_behind(disk, offset)
    if marker is None:
        return ()
    epoch = int(disk.epochs[disk.at[marker[0]]])
    for cut in _cuts(case.observed, trace, epoch, send["complete_ns"]):
        if cut.offsets.stop > offset + 1:
            decided = ExplanationLink(
                rule="cut-marker",
                says=f"The next marker of producer id {marker[1]} in its log, at {marker[0]}, is"
                f" from a later transaction. It also decided the outcome of {send['value']}.",
                event="replicas",
                broker=cut.start.leader,
            )
            return *cut.links(
                f"After that, broker {cut.start.leader} led without the marker."
            ), decided
    return ()


WITHDRAWN: Final = (cut_marker, late_marker)
"""Explanations of a record whose outcome another transaction's marker decided."""


def _skipped(case: AnomalyCase) -> set[int]:
    """Return the skipped offsets that the anomaly lists."""
    copies = case.anomaly["copies"] or ()
    return {copy["offset"] for copy in copies if copy["note"] == "skipped"}


@explains(
    "written-later",
    FAULT,
    "A fault removed the records at these offsets, and a leader wrote other records at them.",
    applies=lambda case: bool(_skipped(case)),
    needs=LEADERS | FILES,
)
def written_later(case: AnomalyCase) -> Links:
    """Return links if the records that a client skipped were written after the client's read.

    After the client had passed these offsets, a fault removed them. The present records are from an
    epoch that began after the fault.
    """
    observed, anomaly, places = case.observed, case.anomaly, _skipped(case)
    trace, steps = observed.traces.get(anomaly["partition"]), anomaly["steps"] or ()
    disk = trace.last_disk if trace else None
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
        f"After that, broker {cuts[-1].start.leader} led, and wrote other records at these offsets."
    )


def _cuts(observed: RunTraces, trace: Trace, epoch: int, since_ns: int) -> list[_Cut]:
    """Return the ranges that faults removed from a leader's log before its epoch began."""
    start = next((row for row in trace.leaderships if row.epoch == epoch), None)
    if start is None:
        return []
    return [
        _Cut(fault=fault, offsets=offsets, start=start)
        for fault, offsets in observed.removals(trace.partition)
        if since_ns < fault.start_ns < start.time_ns and fault.broker == start.leader
    ]

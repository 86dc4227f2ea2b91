"""Consistency of a run's evidence: the history and the disks must agree on each record.

Kafka's rules allow some differences. Any other difference means that the history lacks rows, or
that a disk was edited.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.explain.evidence.evidence_links import RecordCase
from highwater.checkers.explain.evidence.licences import OLD_SETS, first
from highwater.checkers.explain.evidence.markers import WITHDRAWN, late_marker
from highwater.checkers.explain.evidence.reused_buffers import expired_sends
from highwater.checkers.explain.forks import TRUNCATED_INSIDE
from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.trace import RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import FENCE, FINAL, OK, READ, REBALANCE, RUN

_SEQUENCE: Final = re.compile(r"(?:k\d+[=~])?(p\d+)-(\d+)")
_NAMED_MAX: Final = 5


def contradictions(observed: RunTraces) -> Iterator[tuple[int | None, ExplanationLink]]:
    """Yield contradictions in a run's evidence, each with its partition (None: no partition).

    A run that only reads has neither sends nor disks that could contradict its reads.
    """
    if observed.plan.read_only:
        return
    sends = observed.sends()
    sent = set(sends["value"].to_pylist())
    yield from ((None, wrong) for wrong in _gaps(sent))
    reads = observed.ops.filter(pc.equal(observed.ops["kind"], READ))
    strange = {partition for partition in observed.traces if expired_sends(observed, partition)}
    ours = pc.invert(pc.is_in(reads["partition"], pa.array(sorted(strange), pa.int32())))
    yield from (
        (None, wrong) for wrong in _unsent(sent, reads.filter(ours)["value"], "a consumer read")
    )
    hidden = _hidden(observed, sends)
    for partition, trace in observed.traces.items():
        here = reads.filter(pc.equal(reads["partition"], partition))
        for disk in trace.disks.values():
            ids = [] if partition in strange else disk.ids
            problems = _unsent(sent, pa.array(ids, pa.string()), "a disk holds")
            yield from ((partition, wrong) for wrong in problems)
        keyed = observed.plan.workload.keys > 0
        yield from ((partition, wrong) for wrong in _disks(observed, trace, compacted=keyed))
        if observed.status.quiesced and not observed.status.problems:
            fences = _fences(trace, sends)
            yield from ((partition, wrong) for wrong in _ends(observed, trace, fences))
            ends = observed.status.standing
            lso = next((end.lso for end in ends if end.partition == partition), None)
            yield from (
                (partition, wrong) for wrong in _final_reads(trace, here, fences, hidden, lso)
            )
        if not keyed:
            yield from ((partition, wrong) for wrong in _jumps(observed, trace, here, hidden))


def _hidden(observed: RunTraces, sends: pa.Table) -> set[str]:
    """Return ids of records that read_committed readers may skip: uncommitted or ``_withdrawn``."""
    if not observed.plan.workload.transactions:
        return set()
    uncommitted = sends.filter(pc.not_equal(sends["outcome"], OK))
    return {*uncommitted["value"].to_pylist(), *_withdrawn(observed, sends)}


def _withdrawn(observed: RunTraces, sends: pa.Table) -> Iterator[str]:
    """Yield ids of records whose outcome the marker of another transaction may have decided."""
    if observed.lacks(Observation.WIRE) and late_marker.licence.holds(observed, None):
        # a late marker may have decided the outcome of any record
        yield from sends["value"].to_pylist()
        return
    late = any(observed.late("WriteTxnMarkers"))
    if not late and not any(any(observed.removals(partition)) for partition in observed.traces):
        return
    for send in sends.filter(pc.equal(sends["outcome"], OK)).to_pylist():
        trace = observed.traces.get(send["partition"])
        if first(WITHDRAWN, RecordCase(observed=observed, send=send, trace=trace)):
            yield send["value"]


def _gaps(sent: set[str]) -> Iterator[ExplanationLink]:
    """Yield a link for each producer whose ids have gaps: ``p0-1`` is missing in ``p0-0, p0-2``."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for value in sent:
        if match := _SEQUENCE.fullmatch(value):
            numbers[match[1]].add(int(match[2]))
    for prefix, seen in sorted(numbers.items()):
        missing = sorted(set(range(max(seen) + 1)) - seen)
        if missing:
            names = [f"{prefix}-{number}" for number in missing]
            yield _wrong(f"The history lacks the send of {_listed(names)}.", "history/ops")


def _unsent(
    sent: set[str], values: pa.ChunkedArray | pa.Array, where: str
) -> Iterator[ExplanationLink]:
    """Yield a link if ``values`` has ids that no producer sent; ``where`` describes their place."""
    unknown = {value for value in pc.unique(values).to_pylist() if value is not None} - sent
    if unknown:
        says = f"No producer sent {_listed(sorted(unknown))}, which {where}."
        yield _wrong(says, "history/ops" if where == "a consumer read" else "replicas")


def _disks(observed: RunTraces, trace: Trace, *, compacted: bool) -> Iterator[ExplanationLink]:
    """Yield links for disks with wrong offsets or leader epochs.

    Offsets must rise by one, except in a compacted topic. Epochs must not fall. An epoch's first
    record must not be below the offset at which its leader began to lead. On ZooKeeper, a leader
    that is alone in the ISR may restart, and begin its epoch again at the new end of its log.
    """
    begun: dict[int, int] = {}
    for start in trace.starts:
        if start.logged:
            begun[start.epoch] = min(start.offset, begun.get(start.epoch, start.offset))
    for broker, disk in sorted(trace.disks.items()):
        gaps = [] if compacted else np.flatnonzero(np.diff(disk.offsets) != 1).tolist()
        for step in gaps:
            after, then = map(int, disk.offsets[step : step + 2])
            whole = OLD_SETS.holds(observed, None) and trace.sent_whole(broker, then - 1)
            inside = TRUNCATED_INSIDE.holds(observed, None) and (
                trace.cut_to(broker, then) or observed.lacks(Observation.BROKER_LOGS)
            )
            if not (whole or inside):
                says = f"The disk of broker {broker} has a gap after offset {after}."
                yield _wrong(says, "replicas")
                break
        stated = np.flatnonzero(disk.epochs >= 0)  # record formats before KIP-98 have no epoch
        falls = np.flatnonzero(np.diff(disk.epochs[stated]) < 0)
        if len(falls):
            at = int(disk.offsets[stated[falls[0] + 1]])
            yield _wrong(
                f"On the disk of broker {broker} the leader epoch falls at offset {at}.", "replicas"
            )
        for epoch in np.unique(disk.epochs):
            first = int(disk.offsets[np.argmax(disk.epochs == epoch)])
            if epoch >= 0 and first < begun.get(int(epoch), 0):
                yield _wrong(
                    f"The disk of broker {broker} has records of epoch {epoch} from offset "
                    f"{first} on, but the"
                    f" leader of that epoch began at offset "
                    f"{begun[int(epoch)]}.",
                    "replicas",
                )


def _fences(trace: Trace, sends: pa.Table) -> list[tuple[int, str]]:
    """Return ``[(offset, id)]`` of the fence, the last record that the run sends to a partition."""
    ours = pc.and_(pc.equal(sends["process"], FENCE), pc.equal(sends["outcome"], OK))
    here = sends.filter(pc.and_(ours, pc.equal(sends["partition"], trace.partition)))
    rows = zip(here["offset"].to_pylist(), here["value"].to_pylist(), strict=True)
    return [(offset, value) for offset, value in rows if offset is not None]


def _ends(
    observed: RunTraces, trace: Trace, fences: list[tuple[int, str]]
) -> Iterator[ExplanationLink]:
    """Yield links for members of the ISR whose disk lacks the committed fence.

    With tiered storage an empty disk is allowed: its records may be in the remote tier (KIP-405).
    """
    last = trace.leaderships[-1] if trace.leaderships else None
    if observed.lacks(Observation.DISKS):
        return
    for offset, value in fences:
        for broker in sorted(last.isr if last else ()):
            disk = trace.disks.get(broker)
            if observed.plan.tiered and (disk is None or not len(disk.offsets)):
                continue
            if disk is None or disk.record(offset) != value:
                yield _wrong(
                    f"The disk of broker {broker}, a member of the ISR, lacks {value}, which the"
                    f" whole ISR of {observed.topic}-{trace.partition} acknowledged at offset "
                    f"{offset}.",
                    "replicas",
                )


def _final_reads(
    trace: Trace,
    reads: pa.Table,
    fences: list[tuple[int, str]],
    hidden: set[str],
    lso: int | None,
) -> Iterator[ExplanationLink]:
    """Yield a link for the first difference between the final read and the leader's disk.

    The comparison ends at the fence, or before the last stable offset ``lso`` if that is lower.
    """
    last = trace.leaderships[-1] if trace.leaderships else None
    disk = trace.disks.get(last.leader) if last else None
    final = reads.filter(pc.and_(pc.equal(reads["phase"], FINAL), pc.equal(reads["outcome"], OK)))
    if last is None or disk is None:
        return
    offsets = final["offset"].to_pylist()
    read = dict(zip(offsets, final["value"].to_pylist(), strict=True))
    end = 1 + max([*offsets, *(offset for offset, _ in fences)], default=-1)
    for offset in range(trace.log_start(last.leader), end if lso is None else min(end, lso)):
        on_disk, was_read = disk.record(offset), read.get(offset)
        stepped_over = was_read is None and on_disk in hidden
        if on_disk != was_read and not stepped_over and offset in disk.at:
            yield _wrong(
                f"The final reader received {was_read or 'nothing'} at offset {offset}, but the"
                f" disk of the leader, broker {last.leader}, holds {on_disk}.",
                "history/ops",
            )
            return


def _jumps(
    observed: RunTraces, trace: Trace, reads: pa.Table, hidden: set[str]
) -> Iterator[ExplanationLink]:
    """Yield links for gaps in a consumer's reads, if the partition's leader never changed.

    Members of a group are not checked. A gap may have transaction markers and uncommitted records.
    It may also have offsets that the disk does not show, because a fault removed them later, or
    because they are only in the remote tier.
    """
    if len({row.leader for row in trace.leaderships}) != 1:
        return
    unread: set[int] = set()
    if observed.plan.workload.transactions:
        disk = trace.last_disk
        if disk is None or (observed.plan.tiered and not len(disk.offsets)):
            return
        ids = zip(disk.offsets.tolist(), disk.ids, strict=True)
        unread = {offset for offset, record in ids if record is None or record in hidden}
        if observed.plan.tiered:
            unread.update(range(int(disk.offsets[0])))
    moves = observed.ops.filter(pc.equal(observed.ops["kind"], REBALANCE))
    members = set(moves["process"].to_pylist())
    run = reads.filter(pc.equal(reads["phase"], RUN))
    for process in sorted(set(run["process"].to_pylist()) - members):
        process_reads = run.filter(pc.equal(run["process"], process))
        offsets, asked_ns = (process_reads[name].to_numpy() for name in ("offset", "invoke_ns"))
        for index in np.flatnonzero(np.diff(offsets) > 1):
            after, then = int(offsets[index]), int(offsets[index + 1])
            offsets_taken = _taken_after(observed, trace, int(asked_ns[index + 1]))
            if not (unread | offsets_taken).issuperset(range(after + 1, then)):
                yield _wrong(
                    f"{process} read no record between offsets {after} and {then}.", "history/ops"
                )
                break


def _taken_after(observed: RunTraces, trace: Trace, since_ns: int) -> set[int]:
    """Return the offsets that faults removed after a time; empty in a run without transactions."""
    if not observed.plan.workload.transactions:
        return set()
    removals = observed.removals(trace.partition)
    return {offset for fault, gone in removals if fault.start_ns > since_ns for offset in gone}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} others" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _wrong(says: str, event: str) -> ExplanationLink:
    return ExplanationLink(rule="books", says=says, event=event)

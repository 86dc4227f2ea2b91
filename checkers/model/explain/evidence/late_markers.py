"""Evidence of markers that came late: they ended a transaction that is not their own.

A coordinator sends a marker (WriteTxnMarkers) again when its connection to a leader ends without an
answer. A leader ends by it what the producer has open, unless the marker's producer epoch is below
the one that it knows; with version 1 of transactions all of a producer's have the same one
(``ProducerAppendInfo.checkProducerEpoch``; KIP-1228 for version 2, KAFKA-19446).
"""

from highwater.checkers.model.explain.evidence.evidence_links import Links, RecordCase
from highwater.checkers.model.explain.trace import FrozenReplica
from highwater.checkers.model.report_types import ExplanationLink


def late_marker(case: RecordCase) -> Links:
    """Return the late marker that ended the transaction of a record, and its place on a disk.

    It reached the leader between the record's send and the end of its transaction, and the leader's
    log has a marker of the same producer and epoch right behind the record.
    """
    send, trace = case.send, case.trace
    last = trace.leaderships[-1] if trace and trace.leaderships else None
    disk = trace.last_disk if trace else None
    late = [*case.observed.late("WriteTxnMarkers", partition=send["partition"])]
    if disk is None or send["offset"] is None or not late:
        return ()
    marker = marker_behind(disk, send["offset"])
    for row in late:
        if marker is None or not case.begun_ns <= row["time_ns"] <= case.until_ns:
            continue
        if row["epoch"] != marker[2]:
            continue
        came = ExplanationLink(
            rule="late-marker",
            says=f"A WriteTxnMarkers of {row['source']} that the wire had kept reached"
            f" {row['target']} while the transaction of {send['value']} was open. It is of an"
            f" earlier one; its producer epoch is {row['epoch']}, which {send['value']} has, too.",
            event=f"WriteTxnMarkers {row['event']}: message {row['message']}",
            time_ns=row["time_ns"],
        )
        stands = ExplanationLink(
            rule="late-marker",
            says=f"Its marker is at offset {marker[0]}, behind {send['value']}, of producer id"
            f" {marker[1]} and epoch {marker[2]}. It decided about {send['value']}: the marker of"
            " its own transaction came after that.",
            event="replicas",
            broker=last.leader if last else None,
        )
        return came, stands
    return ()


def marker_behind(disk: FrozenReplica, offset: int) -> tuple[int, int | None, int | None] | None:
    """Return the first marker behind a record: its offset, producer id and producer epoch."""
    if offset not in disk.at:
        return None
    writer = disk.producers[disk.at[offset]]
    for index in range(disk.at[offset] + 1, len(disk.offsets)):
        if disk.ids[index] is None and disk.producers[index][0] == writer[0]:
            return int(disk.offsets[index]), *disk.producers[index]
    return None

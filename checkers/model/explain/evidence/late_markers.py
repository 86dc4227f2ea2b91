"""Evidence of markers that came late, and so ended a later transaction of the same producer.

A coordinator sends a marker (WriteTxnMarkers) again if its connection to a leader ends without an
answer. The leader then ends the producer's open transaction, unless the marker's producer epoch is
below the epoch that the leader knows. With version 1 all transactions of a producer have the same
epoch (``ProducerAppendInfo.checkProducerEpoch``; KIP-1228 for version 2, KAFKA-19446).
"""

from highwater.checkers.model.explain.evidence.evidence_links import Links, RecordCase
from highwater.checkers.model.explain.trace import FrozenReplica
from highwater.checkers.model.report_types import ExplanationLink


def late_marker(case: RecordCase) -> Links:
    """Return the late marker that ended a record's transaction, and the marker's place on a disk.

    The marker reached the leader between the record's send and the end of its transaction, and the
    leader's log has the marker, with the same producer and epoch, behind the record.
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
            says=f"A WriteTxnMarkers of {row['source']} that the wire had held back reached"
            f" {row['target']} while the transaction of {send['value']} was open. It is from an"
            f" earlier transaction. Its producer epoch, {row['epoch']}, is also that of"
            f" {send['value']}.",
            event=f"WriteTxnMarkers {row['event']}: message {row['message']}",
            time_ns=row["time_ns"],
        )
        stands = ExplanationLink(
            rule="late-marker",
            says=f"Its marker is at offset {marker[0]}, behind {send['value']}, with producer id"
            f" {marker[1]} and epoch {marker[2]}. It decided the outcome of {send['value']}: the"
            " marker of the record's own transaction came later.",
            event="replicas",
            broker=last.leader if last else None,
        )
        return came, stands
    return ()


def marker_behind(disk: FrozenReplica, offset: int) -> tuple[int, int | None, int | None] | None:
    """Return the first marker of a record's producer behind the record: offset, id and epoch."""
    if offset not in disk.at:
        return None
    writer = disk.producers[disk.at[offset]]
    for index in range(disk.at[offset] + 1, len(disk.offsets)):
        if disk.ids[index] is None and disk.producers[index][0] == writer[0]:
            return int(disk.offsets[index]), *disk.producers[index]
    return None

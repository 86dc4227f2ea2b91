"""Finds copies of one record with different sequence numbers, on brokers' disks.

A broker recognises a copy by producer id, epoch and sequence number (KIP-98). It does not
recognise a copy with another sequence number.
"""

from collections.abc import Iterable
from itertools import product
from typing import Final

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Links,
    RecordCase,
)
from highwater.checkers.explain.evidence.licences import NEW_EPOCH, UNKNOWN_CLIENT, explains
from highwater.checkers.explain.evidence.lost_record import LostRecord
from highwater.checkers.explain.observations import FILES
from highwater.checkers.explain.trace import Number
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import SEND

_ANEW: Final = "numbered-anew"
_BEHIND: Final = "numbered-behind"
_AS_ANOTHER: Final = "numbered-as-another"
_ANSWERED_AS_ANOTHER: Final = "answered-as-another"


def _is_idempotent(case: RecordCase) -> bool:
    return case.observed.plan.workload.idempotence


@explains(
    _ANEW,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client sent the record again with another sequence number.",
    needs=FILES,
    applies=_is_idempotent,
)
def numbered_anew(case: RecordCase) -> Links:
    """Return a link if a disk has copies of the record, each with its own sequence number."""
    record = case.anomaly["value"]
    for broker, disk in case.trace.disks.items() if case.trace else ():
        copies = disk.copies(record)
        numbers = [number for _, number in copies if None not in number]
        if len(copies) > 1 and len(numbers) == len(set(numbers)):
            placed = [(record, *copy) for copy in copies]
            return (_link(_ANEW, broker, placed, "so a broker takes them for different records"),)
    return ()


@explains(
    _BEHIND,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client gave the earlier record a higher sequence number than the later record.",
    needs=FILES,
    applies=_is_idempotent,
)
def numbered_behind(case: RecordCase) -> Links:
    """Return a link if a disk has the later record first, with the lower sequence number."""
    earlier, later = (step["value"] for step in case.anomaly["steps"])
    for broker, disk in case.trace.disks.items() if case.trace else ():
        for before, behind in product(disk.copies(later), disk.copies(earlier)):
            if before[0] < behind[0] and _after(behind[1], before[1]):
                placed = [(later, *before), (earlier, *behind)]
                return (
                    _link(
                        _BEHIND, broker, placed, "the broker kept the order of the sequence numbers"
                    ),
                )
    return ()


@explains(
    _AS_ANOTHER,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client gave the record the sequence number of another record. The leader took it for a "
    "copy.",
    needs=FILES,
)
def numbered_as_another(case: LostRecord) -> Links:
    """Return links if the leader took the lost record for a copy of another record.

    The leader then acknowledges the lost record with the offset of the other record.
    """
    lost, offset, disks = case.send["value"], case.send["offset"], case.trace.disks
    if any(lost in disk.records for disk in disks.values()):
        return ()
    for broker, disk in disks.items():
        number = disk.numbers[disk.at[offset]] if offset in disk.at else (None, None, None)
        holders = case.observed.sends(value=disk.record(offset) or "").to_pylist()
        for holder in holders if None not in number else ():
            sent = holder["invoke_ns"] < case.begun_ns
            answered = holder["offset"] == offset and holder["complete_ns"] < case.ended_ns
            if (sent or answered) and holder["process"] == case.send["process"]:
                placed = [(holder["value"], offset, number)]
                order = "sent" if sent else "answered"
                so = (
                    f"{lost}, {order} later by the same producer, was acknowledged with that offset"
                )
                return (_link(_AS_ANOTHER, broker, placed, so), case.ack)
    return ()


@explains(
    _ANSWERED_AS_ANOTHER,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client sent the record again with the sequence number of another record. The leader "
    "returned the offset of that record.",
    needs=FILES,
)
def answered_as_another(case: AnomalyCase) -> Links:
    """Return a link if the leader acknowledged a record with the offset of another record."""
    anomaly, observed = case.anomaly, case.observed
    trace = observed.traces.get(anomaly["partition"])
    for step in anomaly["steps"] or () if anomaly["offset"] is not None else ():
        answered = step["kind"] == SEND and step["offset"] == anomaly["offset"]
        for broker, disk in trace.disks.items() if trace and answered else ():
            holder = disk.record(anomaly["offset"])
            elsewhere = disk.copies(step["value"])
            sends = observed.sends(value=holder or "", process=step["process"])
            if holder == step["value"] or not elsewhere or not sends.num_rows:
                continue
            number = disk.numbers[disk.at[anomaly["offset"]]]
            if None not in number:
                placed = [(step["value"], *elsewhere[0]), (holder or "", anomaly["offset"], number)]
                so = (
                    "the leader took a copy of the first record for the second record of this "
                    "producer"
                )
                return (_link(_ANSWERED_AS_ANOTHER, broker, placed, so),)
    return ()


def _after(number: Number, other: Number) -> bool:
    """Return whether a broker accepts a record with ``number`` after a record with ``other``."""
    (producer, *at), (other_producer, *other_at) = number, other
    unnumbered = None in number or None in other
    return unnumbered or producer != other_producer or at > other_at


def _link(
    rule: str, broker: int, placed: Iterable[tuple[str, int, Number]], so: str
) -> ExplanationLink:
    places = " and ".join(f"{name} at offset {at} with {_words(by)}" for name, at, by in placed)
    says = f"The disk has {places}: {so}."
    return ExplanationLink(rule=rule, says=says, event="replicas", broker=broker)


def _words(number: Number) -> str:
    producer, epoch, sequence = number
    if None in number:
        return "no sequence number"
    return f"sequence number {sequence} of producer {producer}, epoch {epoch}"

"""Finds, on the disks, numbers with which an idempotent producer's client hides its own copies.

A broker recognises a record by producer id, epoch and sequence number, and keeps the order of the
numbers (KIP-98). What a client numbered in another way, no broker can recognise.
"""

from collections.abc import Iterable
from typing import Final

from highwater.checkers.model.explain.evidence.evidence_links import Links, RecordCase
from highwater.checkers.model.explain.licences import NEW_EPOCH, UNKNOWN_CLIENT, explains
from highwater.checkers.model.explain.observations import FILES
from highwater.checkers.model.explain.trace import Number
from highwater.checkers.model.report_types import ExplanationLink

_ANEW: Final = "numbered-anew"
_BEHIND: Final = "numbered-behind"


@explains(
    _ANEW,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client sent the record again with another sequence number.",
    needs=FILES,
)
def numbered_anew(case: RecordCase) -> Links:
    """Return a record's copies on a disk, if no two of them have the same number."""
    record = case.anomaly["value"]
    for broker, disk in case.trace.disks.items() if case.trace else ():
        copies = disk.copies(record)
        numbers = [number for _, number in copies if None not in number]
        if len(copies) > 1 and len(numbers) == len(set(numbers)):
            placed = [(record, *copy) for copy in copies]
            return (_link(_ANEW, broker, placed, "no broker can take these for one record"),)
    return ()


@explains(
    _BEHIND,
    NEW_EPOCH & UNKNOWN_CLIENT,
    "The client gave the earlier record a higher sequence number than the later one.",
    needs=FILES,
)
def numbered_behind(case: RecordCase) -> Links:
    """Return two records' places on a disk, if they stand in the order of their numbers."""
    earlier, later = (step["value"] for step in case.anomaly["steps"])
    for broker, disk in case.trace.disks.items() if case.trace else ():
        behind, before = disk.copies(earlier)[:1], disk.copies(later)[:1]
        if behind and before and behind > before and _after(behind[0][1], before[0][1]):
            placed = [(later, *before[0]), (earlier, *behind[0])]
            return (_link(_BEHIND, broker, placed, "the broker kept the order of the numbers"),)
    return ()


def _after(number: Number, other: Number) -> bool:
    """Return whether a broker has to take a number behind another one."""
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

"""Explains a coordinator that does not know a group: faults removed its records from every disk.

A group's offsets and members are records of ``__consumer_offsets``, committed as with acks=all. All
brokers may lose their disks, or unflushed records, before any broker is back. Then the next
coordinator does not know the group, and numbers the group's generations from the beginning.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Links,
    Row,
    fault_link,
)
from highwater.checkers.explain.evidence.licences import FAULT, Explainer, explains
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.groups.commits import LOST_COMMIT, READER, STALE_COMMIT, CommitRegister
from highwater.checkers.groups.events import FOREVER, ended_ns
from highwater.checkers.groups.ownership import conflict, ownerships
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval


@explains("forgotten-group", FAULT, "Faults removed the coordinators' topic from every disk.")
def _all_disks(case: AnomalyCase) -> Links:
    """Return the faults that removed a group's records from every disk."""
    observed, anomaly = case.observed, case.anomaly
    find = _overtaken if anomaly["kind"] in {LOST_COMMIT, STALE_COMMIT} else _owned
    spans = [*find(observed, anomaly)]
    losses = [[fault for fault in _losses(observed) if _within(fault, *span)] for span in spans]
    if not spans or not all(losses):
        return ()
    anew = ExplanationLink(
        rule="forgotten-group",
        says="So every replica of __consumer_offsets had lost the group's records, and the next"
        " coordinator of the group did not know them.",
        event=anomaly["copies"][0]["note"],
    )
    return (*(fault_link(fault) for fault in losses[0][-1]), anew)


def _within(faults: list[FaultInterval], since_ns: int, until_ns: int) -> bool:
    return since_ns <= faults[-1].effect_ns <= until_ns


def _losses(observed: RunTraces) -> Iterator[list[FaultInterval]]:
    """Yield lists of faults, one for each broker, after which all brokers were down and empty."""
    taking = [fault for fault in observed.faults if facts_of(fault.name).empties]
    for last in taking:
        away = {
            fault.broker: fault
            for fault in taking
            if fault.effect_ns <= last.effect_ns < fault.until_ns
        }
        if away.keys() >= {*observed.plan.broker_ids}:
            yield sorted(away.values(), key=lambda fault: fault.effect_ns)


def _overtaken(observed: RunTraces, anomaly: Row) -> Iterator[tuple[int, int]]:
    """Yield the times of a commit and of an OffsetFetch whose response lacked the commit.

    If only the disks at the end lack the commit, the second time is ``FOREVER``.
    """
    here = [row for row in observed.journal if row["partition"] == anomaly["partition"]]
    at_end = anomaly["kind"] == LOST_COMMIT
    for group in {row["group"] for row in here}:
        rows = [row for row in here if row["group"] == group]
        register = CommitRegister.of([row for row in rows if row["event"] == "commit"])
        missing = [
            (register.overtaken(row["offset"], row["invoke_ns"], ended_ns(row)), ended_ns(row))
            for row in rows
            if row["event"] == "committed" and (row["process"] == READER) is at_end
        ]
        if at_end and not any(commit for commit, _ in missing):
            missing = [(commit, FOREVER) for commit in register.done]
        for commit, until_ns in missing:
            if commit is not None and commit["offset"] == anomaly["offset"]:
                yield ended_ns(commit), until_ns


def _owned(observed: RunTraces, anomaly: Row) -> Iterator[tuple[int, int]]:
    """Yield the times at which the anomaly's two owners got the partition, by their epochs."""
    for (group, partition), owners in ownerships(observed.journal).items():
        place = f"partition {partition} of group {group}"
        for first, second in combinations(owners, 2):
            pair = sorted((first, second), key=lambda owner: owner.epoch or 0)
            if conflict(*pair).format(place=place) == anomaly["copies"][0]["note"]:
                yield first.begun_ns, second.begun_ns


forgotten: Final = Explainer(
    (_all_disks,),
    "No faults removed the coordinators' topic from every disk between the two events.",
)

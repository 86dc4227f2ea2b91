"""Find the observed effects of each fault, and the HW-lag windows just before the fault.

A recorded fault may have had no effect. So this module uses independent evidence: observations of
the replicas, the controller's metadata, and the producers' sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import UNKNOWN, Track
from highwater.reports.run_evidence import PartitionObservations, RunObservations
from highwater.reports.text import seconds

EARLY_NS: Final = 200_000_000
"""Effects within this time before a fault's row belong to the fault: the row is written after the
fault took effect."""
LATE_NS: Final = 1_000_000_000
"""The time after a fault's healing in which the controller and the disks may still show effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One fault and its observed effects.

    Attributes:
        seen: short texts about the observed effects; empty if no effect was observed.
        window: texts about brokers that had records above their own HW just before the fault.
        watched: whether LEO and HW of any replica were observed just before the fault.
    """

    fault: FaultInterval
    seen: tuple[str, ...]
    window: tuple[str, ...]
    watched: bool


def effects(evidence: RunObservations) -> list[Effect]:
    """Return every fault of a run with its effects, in order of time."""
    effects_ = []
    for fault in sorted(evidence.faults, key=lambda fault: fault.start_ns):
        window, watched = _window(evidence, fault.start_ns)
        seen = tuple(dict.fromkeys(_seen(fault, evidence)))
        effects_.append(Effect(fault=fault, seen=seen, window=window, watched=watched))
    return effects_


def _seen(fault: FaultInterval, evidence: RunObservations) -> Iterator[str]:
    end_ns = evidence.end_ns if fault.end_ns is None else fault.end_ns
    since, until = fault.start_ns - EARLY_NS, end_ns + LATE_NS
    for observed in evidence.partitions.values():
        tracks = observed.tracks.items()
        for broker, track in tracks:
            if fault.broker in (None, broker):
                yield from _of_track(broker, track, since, until)
        yield from _of_controller(fault, observed, since, until)
    failed = evidence.pace.failed_ns
    refused = int(((failed >= since) & (failed <= end_ns)).sum())
    if refused:
        yield f"{count(refused, 'send')} during the fault not acknowledged"


def _of_track(broker: int, track: Track, since: int, until: int) -> Iterator[str]:
    """Yield a text if the broker did not respond, and another if its log became shorter."""
    inside = (track.time_ns >= since) & (track.time_ns <= until)
    silent = np.flatnonzero(inside & (track.leo == UNKNOWN))
    if len(silent):
        yield (
            f"broker {broker} did not respond from {seconds(int(track.time_ns[silent[0]]), 2)} on"
        )
    for drop in track.drops():
        if since <= drop.time_ns <= until:
            yield f"broker {broker}'s LEO fell from {drop.before:,} to {drop.after:,}"
            return


def _of_controller(
    fault: FaultInterval, observed: PartitionObservations, since: int, until: int
) -> Iterator[str]:
    """Yield elections and ISR changes that concern the fault's broker.

    Without a broker, all elections and ISR changes are effects. The election of a broker is no
    effect of a fault that stops, pauses or isolates this broker.
    """
    broker = fault.broker
    for before, after in zip(observed.leaderships, observed.leaderships[1:], strict=False):
        if not since <= after.time_ns <= until:
            continue
        at = seconds(after.time_ns, 2)
        concerned = {None, before.leader} | (
            set() if facts_of(fault.name).state else {after.leader}
        )
        if before.leader != after.leader and broker in concerned:
            who = f"broker {after.leader}" if after.leader >= 0 else "no broker"
            yield f"{who} was elected at {at}"
        gone = set(before.isr) - set(after.isr)
        if gone and (broker is None or broker in gone):
            yield f"{_brokers(sorted(gone))} left the ISR at {at}"


def _window(evidence: RunObservations, at_ns: int) -> tuple[tuple[str, ...], bool]:
    moved, watched = [], False
    several = len(evidence.partitions) > 1
    for (topic, partition), observed in evidence.partitions.items():
        for broker, track in sorted(observed.tracks.items()):
            leo, hw, _ = track.at(at_ns)
            watched = watched or UNKNOWN not in (leo, hw)
            if UNKNOWN not in (leo, hw) and leo > hw:
                where = f" of {topic}-{partition}" if several else ""
                moved.append(f"broker {broker}{where}: LEO {leo:,}, HW {hw:,}")
    return tuple(moved), watched


def _brokers(ids: list[int]) -> str:
    return f"broker{'s' * (len(ids) > 1)} {', '.join(map(str, ids))}"

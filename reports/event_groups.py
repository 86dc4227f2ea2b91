"""Group an anomaly's evidence into beats (phases): written, fault, cut, elected and so on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from highwater.harness.runs.faults import legacy_sentences
from highwater.harness.runs.faults.facts import STATES, facts_of
from highwater.harness.runs.verdict import Anomaly, Witness

Group: TypeAlias = tuple[str, list[Witness]]
"""A beat (a phase of a loss) and its evidence."""

TANGLE_NS: Final = 500_000_000
NEAR: Final = 2
"""The greatest number of offsets between consecutive findings of one group."""
_BEATS: Final = {
    "step": "",
    "sent": "",
    "held": "",
    "fail": "written",
    "info": "written",
    "appended": "written",
    "acknowledged": "written",
    "committed": "written",
    "replicated": "written",
    "healed": "healed",
    "follower": "follows",
    "truncated": "cut",
    "cut": "cut",
    "elected": "elected",
    "leader": "elected",
    "replaced": "replaced",
    "read": "end",
    "passed": "end",
    "disk": "end",
}
TITLES: Final = {
    "written": "Written and acknowledged",
    "fault": "Fault",
    "healed": "Healed",
    "cut": "Log truncated",
    "follows": "A new follower",
    "elected": "New leader",
    "replaced": "Another record takes the offset",
    "end": "In the end",
}


def beat(witness: Witness) -> str:
    """Return the beat (phase) of a piece of evidence; "" if it belongs to the previous beat."""
    if witness.what == "read" and witness.who != "reader":
        return ""  # this reader is a consumer of the run, not the final read
    beat = _BEATS.get(witness.what)
    if beat is not None:
        return beat
    return "fault" if witness.who == "nemesis" or witness.what in STATES else ""


def actors(witnesses: Sequence[Witness]) -> list[int]:
    """Return the ids of the brokers in the evidence, in order of appearance."""
    brokers: dict[int, None] = {}
    for witness in witnesses:
        broker = witness.broker
        if broker is None:  # a verdict of Highwater 0.2 or earlier may name the broker in words
            broker = legacy_sentences.broker(witness.who, witness.says)
        if broker is not None:
            brokers[broker] = None
    return list(brokers)


def title(name: str, witnesses: Sequence[Witness]) -> str:
    """Return a beat's title: ``Brokers 1 and 2 are killed``, ``Wipe on broker 3``."""
    ids = actors([w for w in witnesses if beat(w) == name])
    happened = [w for w in witnesses if beat(w)]
    of_brokers = [w for w in happened if actors([w])]
    faults = [*dict.fromkeys(w.what for w in of_brokers or happened)]
    verbs = {
        "fault": ("is ", "are ", " and ".join(facts_of(fault).state or fault for fault in faults)),
        "healed": ("is ", "are ", "back"),
        "cut": ("truncates its log", "truncate their logs", ""),
        "follows": ("follows", "follow", ""),
        "elected": ("is ", "are ", "made leader"),
    }
    if name == "written" and any(witness.what in {"fail", "info"} for witness in witnesses):
        return "Written"
    if name == "written" and all(witness.what in {"held", "read"} for witness in witnesses):
        return "Written and read"
    if not ids or name not in verbs:
        return TITLES.get(name, name.capitalize())
    single, many, rest = verbs[name]
    listed = f"{', '.join(map(str, ids[:-1]))} and {ids[-1]}"
    brokers = f"broker {ids[0]}" if len(ids) == 1 else f"brokers {listed}"
    if name == "fault" and not all(facts_of(fault).state or fault in STATES for fault in faults):
        return f"{' and '.join(faults)} on {brokers}".capitalize()
    return f"{brokers} {single if len(ids) == 1 else many}{rest}".capitalize()


def grouped(witnesses: Sequence[Witness]) -> list[Group]:
    """Group evidence by beat in order of time; evidence without a time comes last."""
    last = 1 << 62
    ordered = sorted(witnesses, key=lambda w: last if w.time_ns is None else w.time_ns)
    groups: list[Group] = []
    for witness in ordered:
        name = "end" if witness.time_ns is None else beat(witness)
        if groups and (name == "" or name == groups[-1][0] != "elected"):
            groups[-1][1].append(witness)
        else:
            groups.append((name or "written", [witness]))
    return _untangled(groups)


def _untangled(groups: list[Group]) -> list[Group]:
    """Put causes before effects, because logs and polls have different delays.

    A broker may log a truncation before the observer notices the election that caused it. Evidence
    of the beat ``end`` joins a previous beat ``replaced``.
    """
    grouped: list[Group] = []
    for name, witnesses in groups:
        last = grouped[-1] if grouped else ("", [])
        cut_first = name == "elected" and last[0] == "cut" and _caused(last[1], witnesses)
        if cut_first:
            grouped[-1:] = [(name, witnesses), last]
        elif name == last[0] == "cut" or (name, last[0]) == ("end", "replaced"):
            grouped[-1] = (name, [*last[1], *witnesses])
        else:
            grouped.append((name, witnesses))
    return grouped


def _caused(cut: Sequence[Witness], election: Sequence[Witness]) -> bool:
    gap = (election[0].time_ns or 0) - (cut[-1].time_ns or 0)
    cutters, elected = (
        set(actors([w for w in event if beat(w) == name]))
        for name, event in (("cut", cut), ("elected", election))
    )
    return gap <= TANGLE_NS and not cutters & elected


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Findings of one kind at neighbouring offsets; the page explains only the first."""

    first: Anomaly
    last_offset: int | None
    count: int


def bursts(anomalies: Sequence[Anomaly]) -> list[Burst]:
    """Group neighbouring findings (at most ``NEAR`` offsets apart), in the given order."""
    grouped: list[Burst] = []
    for anomaly in anomalies:
        last = grouped[-1] if grouped else None
        if last is not None and _neighbours(last, anomaly):
            grouped[-1] = Burst(first=last.first, last_offset=anomaly.offset, count=last.count + 1)
        else:
            grouped.append(Burst(first=anomaly, last_offset=anomaly.offset, count=1))
    return grouped


def _neighbours(burst: Burst, next_: Anomaly) -> bool:
    if burst.last_offset is None or next_.offset is None:
        return False
    first = burst.first
    same = (first.kind, first.topic, first.partition) == (next_.kind, next_.topic, next_.partition)
    return same and 0 < abs(next_.offset - burst.last_offset) <= NEAR

"""The decisive moments of one record: what each replica held around its offset, and why it changed.

An anomaly's witnesses are grouped into beats (written, fault, cut, elected, end). Each beat
becomes one frame that shows every replica as it stood when the beat had taken effect.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.verdict import Anomaly, Witness
from reports.evidence import PAST, UNKNOWN, Cut, Evidence, Fault, Scene
from reports.holdings import Held, Holdings

FRAMES_MAX: Final = 9
_LINES: Final = "events/log_lines"
_BROKER: Final = re.compile(r"\bbroker (\d+)", re.IGNORECASE)
SETTLE_NS: Final = 1_000_000_000
"""How long after its last witness a beat may still show in observations, which lag behind."""
TANGLE_NS: Final = 500_000_000
BEHIND: Final = 2
AHEAD: Final = 1
"""Offsets shown before and after the record's own."""

_BEATS: Final = {
    "step": "",
    "sent": "written",
    "fail": "written",
    "info": "written",
    "appended": "written",
    "acknowledged": "written",
    "held": "written",
    "committed": "written",
    "replicated": "written",
    "healed": "healed",
    "follower": "follows",
    "truncated": "cut",
    "cut": "cut",
    "elected": "elected",
    "leader": "elected",
    "replaced": "end",
    "overwritten": "end",
    "read": "end",
    "passed": "end",
    "disk": "end",
}
TITLES: Final = {
    "written": "Written and acknowledged",
    "fault": "Fault",
    "healed": "Healed",
    "cut": "Cut",
    "follows": "A new follower",
    "elected": "New leader",
    "end": "In the end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One offset of one replica at one moment.

    Attributes:
        state: ``none`` (past the LEO), ``record`` (some record), ``subject`` (the record that the
            finding is about), ``other`` (another one at its offset), ``gone`` (cut in this beat).
        value: the record's id, where it is known.
    """

    offset: int
    state: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One replica in a frame; ``hw`` and ``leo`` are None when nobody knew them."""

    broker: int
    role: str
    in_isr: bool | None
    down: bool
    acted: bool
    leo: int | None
    hw: int | None
    cut: tuple[int, int] | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One beat: its witnesses, and every replica at its end."""

    number: int
    beat: str
    title: str
    start_ns: int | None
    end_ns: int | None
    witnesses: tuple[Witness, ...]
    lanes: tuple[Lane, ...]

    @property
    def captions(self) -> tuple[Witness, ...]:
        """The witnesses worth a line; no log line of a cut that was also observed."""
        seen = {w.who for w in self.witnesses if w.what == "truncated" and w.source != _LINES}
        return tuple(
            w
            for w in self.witnesses
            if w.what != "sent" and (w.source != _LINES or w.who not in seen)
        )


def beat(witness: Witness) -> str:
    """To which part of the story a piece of evidence belongs; "" to whichever it falls into."""
    known = _BEATS.get(witness.what)
    if known is not None:
        return known
    return "fault" if witness.who == "nemesis" or witness.what in PAST.values() else ""


def actors(witnesses: Sequence[Witness]) -> list[int]:
    """Ids of the brokers that acted: who is named, or else the first broker in the sentence."""
    found: dict[int, None] = {}
    for witness in witnesses:
        named = _BROKER.search(witness.who) or _BROKER.search(witness.says)
        if named:
            found[int(named[1])] = None
    return list(found)


def title(name: str, witnesses: Sequence[Witness]) -> str:
    """What a beat is called: ``Brokers 1 and 2 are killed``, ``Broker 3 cuts its log``."""
    ids = actors(witnesses)
    verbs = {
        "fault": (
            "is ",
            "are ",
            " and ".join(dict.fromkeys(PAST.get(w.what, w.what) for w in witnesses if beat(w))),
        ),
        "healed": ("is ", "are ", "back"),
        "cut": ("cuts its log", "cut their logs", ""),
        "follows": ("follows", "follow", ""),
        "elected": ("is ", "are ", "made leader"),
    }
    if not ids or name not in verbs:
        return TITLES.get(name, name.capitalize())
    one, many, rest = verbs[name]
    if len(ids) == 1:
        return f"Broker {ids[0]} {one}{rest}"
    return f"Brokers {', '.join(map(str, ids[:-1]))} and {ids[-1]} {many}{rest}"


def grouped(witnesses: Sequence[Witness]) -> list[tuple[str, list[Witness]]]:
    """Witnesses in order of time, neighbours of one beat together; those without a time last."""
    last = 1 << 62
    ordered = sorted(witnesses, key=lambda w: last if w.time_ns is None else w.time_ns)
    groups: list[tuple[str, list[Witness]]] = []
    for witness in ordered:
        name = "end" if witness.time_ns is None else beat(witness)
        if groups and name in {groups[-1][0], ""}:
            groups[-1][1].append(witness)
        else:
            groups.append((name or "written", [witness]))
    return _untangled(groups)


def _untangled(groups: list[tuple[str, list[Witness]]]) -> list[tuple[str, list[Witness]]]:
    """A cut that was logged just before, and observed just after, the election that caused it.

    Brokers' logs and the observer's polls bear different delays, so one cut may come in two pieces.
    """
    found = list(groups)
    for i in range(len(found) - 3, -1, -1):
        (first, early), (second, middle), (third, late) = found[i : i + 3]
        span = (late[-1].time_ns or 0) - (early[0].time_ns or 0)
        if (first, second, third) == ("cut", "elected", "cut") and span <= TANGLE_NS:
            found[i : i + 3] = [(second, middle), (first, [*early, *late])]
    return found


def frames(anomaly: Anomaly, evidence: Evidence, holdings: Holdings) -> list[Frame]:
    """One anomaly's story as at most ``FRAMES_MAX`` frames; none without offset or observations."""
    scene = evidence.scenes.get((anomaly.topic, anomaly.partition))
    if anomaly.offset is None or scene is None or not scene.tracks:
        return []
    groups = grouped(anomaly.witnesses)
    if len(groups) > FRAMES_MAX:
        half = FRAMES_MAX // 2
        groups = groups[:half] + groups[-(FRAMES_MAX - half) :]
    stage = _Stage(anomaly=anomaly, scene=scene, faults=evidence.faults, holdings=holdings)
    found = []
    since = 0
    for i, (name, witnesses) in enumerate(groups):
        times = [w.time_ns for w in witnesses if w.time_ns is not None]
        later = [w.time_ns for _, ws in groups[i + 1 :] for w in ws if w.time_ns is not None]
        until = evidence.end_ns
        if times and later:
            until = min(min(later) - 1, max(times) + SETTLE_NS)
        ruled = max([until, *times])
        found.append(
            Frame(
                number=i + 1,
                beat=name,
                title="Replaced" if name == "end" and later else title(name, witnesses),
                start_ns=min(times, default=None),
                end_ns=max(times, default=None),
                witnesses=tuple(witnesses),
                lanes=tuple(stage.lane(b, since, until, ruled, witnesses) for b in scene.brokers),
            )
        )
        since = until
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What all frames of one anomaly share."""

    anomaly: Anomaly
    scene: Scene
    faults: tuple[Fault, ...]
    holdings: Holdings

    def lane(
        self, broker: int, since: int, until: int, ruled: int, witnesses: Sequence[Witness]
    ) -> Lane:
        """A replica: its log at ``until``, its role at ``ruled``, its cuts after ``since``."""
        track = self.scene.tracks.get(broker)
        leo, hw, answers = track.at(until) if track else (UNKNOWN, UNKNOWN, False)
        cuts = [c for c in self.scene.cuts if c.broker == broker and since < c.time_ns <= until]
        before = track.at(since)[0] if track else UNKNOWN
        for cut in cuts:
            if track is None or cut.time_ns > track.told(until):
                leo, hw = min(leo, cut.offset), min(hw, cut.offset)
        ruling = self.scene.leadership(ruled)
        fault = _fault_on(self.faults, broker, until)
        role = "follower" if answers else "no answer"
        if ruling and ruling.leader == broker:
            role = "leader" if ruling.epoch is None else f"leader, epoch {ruling.epoch}"
        if fault:
            epoch = "" if ruling is None or ruling.epoch is None else f" e{ruling.epoch}"
            role = f"{fault.past}, leader{epoch}" if role.startswith("leader") else fault.past
        shortened = _real_cut(cuts, before)
        return Lane(
            broker=broker,
            role=role,
            in_isr=None if ruling is None else broker in ruling.isr,
            down=fault is not None or not answers,
            acted=any(broker in actors([w])[:1] for w in witnesses),
            leo=None if leo == UNKNOWN else leo,
            hw=None if hw == UNKNOWN else hw,
            cut=shortened,
            cells=tuple(self._cell(broker, o, leo, shortened, until) for o in self._window()),
        )

    def _window(self) -> range:
        offset = self.anomaly.offset or 0
        return range(max(0, offset - BEHIND), offset + AHEAD + 1)

    def _cell(
        self, broker: int, offset: int, leo: int, cut: tuple[int, int] | None, until: int
    ) -> Cell:
        if offset >= leo:
            gone = cut is not None and cut[1] <= offset < cut[0]
            value = self.anomaly.value if gone and offset == self.anomaly.offset else None
            return Cell(offset=offset, state="gone" if gone else "none", value=value)
        value = self._value(broker, offset, until)
        if offset != self.anomaly.offset:
            return Cell(offset=offset, state="record", value=value)
        return Cell(
            offset=offset, state="subject" if value == self.anomaly.value else "other", value=value
        )

    def _value(self, broker: int, offset: int, until: int) -> str | None:
        """What stood there: the disk tells of the last writing, the finding of earlier ones."""
        writings = self._writings(broker, offset)
        now = int(np.searchsorted(writings, until, side="right"))
        held: Held | None = self.holdings.get(broker, {}).get(offset)
        if now == len(writings) and held is not None:
            return held.value
        if offset != self.anomaly.offset:
            return None
        return self.anomaly.value if now < len(writings) or held is None else held.value

    def _writings(self, broker: int, offset: int) -> list[int]:
        """The times at which this replica came to hold the offset, ascending."""
        track = self.scene.tracks.get(broker)
        if track is None:
            return []
        told = track.leo != UNKNOWN
        marks: list[tuple[int, int]] = [
            (int(t), int(v)) for t, v in zip(track.time_ns[told], track.leo[told], strict=True)
        ]
        marks += [(c.time_ns, c.offset) for c in self.scene.cuts if c.broker == broker]
        holds, times = False, []
        for time_ns, leo in sorted(marks):
            if leo > offset and not holds:
                times.append(time_ns)
            holds = leo > offset
        return times


def _real_cut(cuts: Sequence[Cut], before: int) -> tuple[int, int] | None:
    """(LEO before, LEO after) when the log really became shorter."""
    lowest = min((cut.offset for cut in cuts), default=before)
    return (before, lowest) if lowest < before else None


def _fault_on(faults: Sequence[Fault], broker: int, time_ns: int) -> Fault | None:
    for fault in faults:
        ended = fault.end_ns is not None and fault.end_ns <= time_ns
        if fault.broker == broker and fault.start_ns <= time_ns and not ended:
            return fault
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Findings of one kind at neighbouring offsets: the first one's story is the story of all."""

    first: Anomaly
    last_offset: int | None
    count: int


def bursts(anomalies: Sequence[Anomaly]) -> list[Burst]:
    """Findings in their own order, neighbours (at most ``BEHIND`` offsets apart) together."""
    found: list[Burst] = []
    for each in anomalies:
        last = found[-1] if found else None
        if last is not None and _neighbours(last, each):
            found[-1] = Burst(first=last.first, last_offset=each.offset, count=last.count + 1)
        else:
            found.append(Burst(first=each, last_offset=each.offset, count=1))
    return found


def _neighbours(burst: Burst, next_: Anomaly) -> bool:
    if burst.last_offset is None or next_.offset is None:
        return False
    first = burst.first
    same = (first.kind, first.topic, first.partition) == (next_.kind, next_.topic, next_.partition)
    return same and 0 < abs(next_.offset - burst.last_offset) <= BEHIND

"""The frames of one record's story: each replica's records around its offset, a frame a beat.

An anomaly's witnesses are grouped into beats (written, fault, cut, elected, end). Each beat
becomes one frame that shows every replica after the beat took effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import UNKNOWN
from highwater.harness.runs.verdict import Anomaly, Witness
from highwater.reports.event_groups import actors, grouped, title
from highwater.reports.observations import (
    PartitionObservations,
    Place,
    RunObservations,
    TruncationEvent,
)
from highwater.reports.replica_contents import Holdings, RecordOnDisk

FRAMES_MAX: Final = 9
_LINES: Final = "events/log_lines"
SETTLE_NS: Final = 1_000_000_000
"""How long after its last witness a beat may still show in observations, which lag behind."""
FAULT_NS: Final = 100_000_000
"""A fault is recorded once it has taken effect; so long before that the broker was surely well."""
BEHIND: Final = 2
AHEAD: Final = 1
"""Offsets shown before and after the record's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCell:
    """One offset of one replica at one moment.

    Attributes:
        state: ``none`` (past the LEO), ``record`` (some record), ``subject`` (the record that the
            finding is about), ``other`` (another one at its offset), ``gone`` (cut in this beat).
        value: the record's id; None if unknown.
        epoch: the leader epoch in which the record was written; None if it is not to be shown.
    """

    offset: int
    state: str
    value: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One replica in a frame; ``hw`` and ``leo`` are None if unknown.

    Attributes:
        name: name of a replica of the model; empty for a broker.
    """

    broker: int
    role: str
    in_isr: bool | None
    down: bool
    acted: bool
    leo: int | None
    hw: int | None
    cut: tuple[int, int] | None
    cells: tuple[FrameCell, ...]
    name: str = ""

    @property
    def called(self) -> str:
        """Its name in a drawing."""
        return self.name or f"broker {self.broker}"


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
        """The witnesses to list, without log lines of truncations that were also observed."""
        seen = {w.who for w in self.witnesses if w.what == "truncated" and w.source != _LINES}
        return tuple(
            w
            for w in self.witnesses
            if w.what != "sent" and (w.source != _LINES or w.who not in seen)
        )


def frames(anomaly: Anomaly, evidence: RunObservations, holdings: Holdings) -> list[Frame]:
    """Return at most ``FRAMES_MAX`` frames; none without an offset or observations."""
    scene = evidence.scenes.get((anomaly.topic, anomaly.partition))
    if anomaly.offset is None or scene is None or not scene.tracks:
        return []
    groups = grouped(anomaly.witnesses)
    if len(groups) > FRAMES_MAX:
        half = FRAMES_MAX // 2
        groups = groups[:half] + groups[-(FRAMES_MAX - half) :]
    stage = _Stage(
        anomaly=anomaly,
        scene=scene,
        faults=evidence.faults,
        holdings=holdings,
        sends=evidence.sends,
    )
    frames_ = []
    since = 0
    for i, (name, witnesses) in enumerate(groups):
        times = [w.time_ns for w in witnesses if w.time_ns is not None]
        later = [w.time_ns for _, ws in groups[i + 1 :] for w in ws if w.time_ns is not None]
        until = evidence.end_ns
        if times and later:
            until = min(min(later) - 1, max(times) + SETTLE_NS)
            if groups[i + 1][0] == "fault":
                until = max(*times, until - FAULT_NS)
        ruled = max([until, *times])
        frames_.append(
            Frame(
                number=i + 1,
                beat=name,
                title=title(name, witnesses),
                start_ns=min(times, default=None),
                end_ns=max(times, default=None),
                witnesses=tuple(witnesses),
                lanes=tuple(
                    stage.lane(b, (since, until, ruled), witnesses, last=i == len(groups) - 1)
                    for b in scene.brokers
                ),
            )
        )
        since = until
    return frames_


def states(
    subject: Anomaly,
    evidence: RunObservations,
    holdings: Holdings,
    moments: Sequence[tuple[str, int, int]],
) -> list[Frame]:
    """Return a frame of every replica around an offset at each of the given moments.

    Args:
        subject: the record to show, and its offset.
        moments: title, begin and end in ns of each, in order; a frame shows the end.
    """
    scene = evidence.scenes.get((subject.topic, subject.partition))
    if scene is None or not scene.tracks:
        return []
    stage = _Stage(
        anomaly=subject,
        scene=scene,
        faults=evidence.faults,
        holdings=holdings,
        sends=evidence.sends,
    )
    sinces = [0, *(until for _, _, until in moments)]
    return [
        Frame(
            number=i + 1,
            beat="step",
            title=title,
            start_ns=at,
            end_ns=at,
            witnesses=(),
            lanes=tuple(
                stage.lane(b, (sinces[i], until, until), (), last=i == len(moments) - 1)
                for b in scene.brokers
            ),
        )
        for i, (title, at, until) in enumerate(moments)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Data shared by all frames of one anomaly."""

    anomaly: Anomaly
    scene: PartitionObservations
    faults: tuple[FaultInterval, ...]
    holdings: Holdings
    sends: Mapping[Place, tuple[tuple[int, str], ...]]

    def lane(
        self,
        broker: int,
        times: tuple[int, int, int],
        witnesses: Sequence[Witness],
        *,
        last: bool,
    ) -> Lane:
        """Return a replica's lane.

        Args:
            broker: the replica.
            times: show truncations since the first, the log at the second, the role at the third.
            witnesses: the evidence of the beat, which names the brokers that acted.
            last: whether it is the last frame, for which the frozen log gives the LEO.
        """
        since, until, ruled = times
        track = self.scene.tracks.get(broker)
        leo, hw, answers = track.at(until) if track else (UNKNOWN, UNKNOWN, False)
        cuts = [c for c in self.scene.cuts if c.broker == broker and since < c.time_ns <= until]
        before = track.at(since)[0] if track else UNKNOWN
        told_ns = track.observed_at(until) if track else -1
        acked = self._acknowledged(broker)
        if acked is not None and told_ns < acked <= until:
            leo = max(leo, (self.anomaly.offset or 0) + 1)
        for cut in self.scene.cuts:
            if cut.broker == broker and told_ns < cut.time_ns <= until:
                leo, hw = min(leo, cut.offset), min(hw, cut.offset)
        if last and self.holdings.get(broker):
            leo = max(self.holdings[broker]) + 1  # the disks know better than an observation
        ruling = self.scene.leadership(ruled)
        fault = _fault_on(self.faults, broker, until)
        role = "follower" if answers else "no answer"
        if ruling and ruling.leader == broker:
            role = "leader" if ruling.epoch == UNKNOWN else f"leader, epoch {ruling.epoch}"
        if fault:
            epoch = "" if ruling is None or ruling.epoch == UNKNOWN else f" e{ruling.epoch}"
            role = f"{fault.past}, leader{epoch}" if role.startswith("leader") else fault.past
        shortened = _real_cut(cuts, before)
        return Lane(
            broker=broker,
            role=role,
            in_isr=None if ruling is None else broker in ruling.isr,
            down=fault is not None or not answers,
            acted=broker in actors([w for w in witnesses if w.what != "step"]),
            leo=None if leo == UNKNOWN else leo,
            hw=None if hw == UNKNOWN else hw,
            cut=shortened,
            cells=tuple(self._cell(broker, o, leo, shortened, times) for o in self._window()),
        )

    def _acknowledged(self, broker: int) -> int | None:
        """Return when this broker acknowledged the record, which proves that it had it then."""
        return next(
            (
                w.time_ns
                for w in self.anomaly.witnesses
                if w.what == "acknowledged" and w.who == f"broker {broker}"
            ),
            None,
        )

    def _window(self) -> range:
        offset = self.anomaly.offset or 0
        return range(max(0, offset - BEHIND), offset + AHEAD + 1)

    def _cell(
        self,
        broker: int,
        offset: int,
        leo: int,
        cut: tuple[int, int] | None,
        times: tuple[int, ...],
    ) -> FrameCell:
        since, until, *_ = times
        if offset >= leo:
            gone = cut is not None and cut[1] <= offset < cut[0]
            value = self._value(broker, offset, since) if gone else None
            return FrameCell(offset=offset, state="gone" if gone else "none", value=value)
        value = self._value(broker, offset, until)
        if offset != self.anomaly.offset:
            return FrameCell(offset=offset, state="record", value=value)
        return FrameCell(
            offset=offset, state="subject" if value == self.anomaly.value else "other", value=value
        )

    def _value(self, broker: int, offset: int, until: int) -> str | None:
        """Return the record at an offset: the last append from disk, earlier ones from history."""
        writings = self._writings(broker, offset)
        now = int(np.searchsorted(writings, until, side="right"))
        disk: RecordOnDisk | None = self.holdings.get(broker, {}).get(offset)
        if now == len(writings) and disk is not None:
            return disk.value
        place = (*self.scene.partition, offset)
        sends = self.sends.get(place, ())
        sent = [value for time_ns, value in sends if now and time_ns <= writings[now - 1]]
        return sent[-1] if sent else self.anomaly.value if offset == self.anomaly.offset else None

    def _writings(self, broker: int, offset: int) -> list[int]:
        """Return the times at which this replica appended a record at the offset, ascending."""
        track = self.scene.tracks.get(broker)
        if track is None:
            return []
        has_leo = track.leo != UNKNOWN
        marks: list[tuple[int, int]] = [
            (int(t), int(v))
            for t, v in zip(track.time_ns[has_leo], track.leo[has_leo], strict=True)
        ]
        marks += [(c.time_ns, c.offset) for c in self.scene.cuts if c.broker == broker]
        acked = self._acknowledged(broker)
        if acked is not None and offset == self.anomaly.offset:
            marks.append((acked, offset + 1))
        holds, times = False, []
        for time_ns, leo in sorted(marks):
            if leo > offset and not holds:
                times.append(time_ns)
            holds = leo > offset
        if not holds and offset in self.holdings.get(broker, {}):
            times.append(max(time_ns for time_ns, _ in marks) + 1 if marks else 0)  # unobserved
        return times


def places(anomalies: Iterable[Anomaly]) -> set[Place]:
    """Return every place that the frames of these anomalies show."""
    return {
        (a.topic, a.partition, offset)
        for a in anomalies
        if a.offset is not None
        for offset in range(a.offset - BEHIND, a.offset + AHEAD + 1)
    }


def _real_cut(cuts: Sequence[TruncationEvent], before: int) -> tuple[int, int] | None:
    """Return (LEO before, LEO after) if the log really became shorter."""
    lowest = min((cut.offset for cut in cuts), default=before)
    return (before, lowest) if lowest < before else None


def _fault_on(faults: Sequence[FaultInterval], broker: int, time_ns: int) -> FaultInterval | None:
    for fault in faults:
        ended = fault.end_ns is not None and fault.end_ns <= time_ns
        if fault.broker == broker and fault.start_ns <= time_ns and not ended:
            return fault
    return None

"""Make the frames of a record's events; a frame shows all replicas near its offset.

An anomaly's evidence is grouped into phases, called beats: written, fault, cut (truncated),
elected, end. Each beat becomes one frame, which shows every replica at the end of the beat.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import UNKNOWN
from highwater.harness.runs.verdict import Anomaly, Witness
from highwater.reports.event_groups import actors, beat, grouped, title
from highwater.reports.replica_contents import Holdings
from highwater.reports.run_evidence import PartitionObservations, Place, RunObservations

FRAMES_MAX: Final = 9
_LINES: Final = "events/log_lines"
_POLLED: Final = {"events/partitions", "events/replicas"}
"""The observer's tables. The observer polls, so it observes events later than brokers log them."""
SETTLE_NS: Final = 1_000_000_000
"""The nanoseconds after the last evidence of a beat (a phase) in which observations may still show
its effect."""
_BORN: Final = {"sent", "held", "acknowledged"}
"""Kinds of evidence which prove that the replica had the record."""
FAULT_NS: Final = 100_000_000
"""The nanoseconds before the time of a fault's row in which the fault may already affect the
broker: the row is written late."""
BEHIND: Final = 2
AHEAD: Final = 1
"""Numbers of offsets shown before (``BEHIND``) and after (``AHEAD``) the record's offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCell:
    """One offset of one replica at one moment.

    Attributes:
        state: ``none`` (past the LEO), ``record`` (any record), ``subject`` (the record of the
            finding), ``other`` (another record at its offset), ``gone`` (truncated in this beat).
        value: the record's id; None if unknown.
        epoch: the leader epoch in which the record was written; None: the drawing shows no epoch.
    """

    offset: int
    state: str
    value: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One replica in a frame.

    Attributes:
        leo: the LEO; ``leo`` and ``hw`` are None if unknown.
        name: the name of a replica in the model; empty for a broker.
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
        """The replica's name in a drawing."""
        return self.name or f"broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A beat (phase) or step to draw. Its frame shows the replicas at the time ``until_ns``."""

    title: str
    start_ns: int | None
    end_ns: int | None
    until_ns: int
    beat: str = "step"
    witnesses: Sequence[Witness] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The drawing of one beat (phase): the beat's evidence, and every replica at the end.

    Attributes:
        seen_late: the number of an earlier frame whose time is later, or None. The earlier frame is
            the cause, but the observer noticed it only at its next poll.
    """

    number: int
    title: str
    lanes: tuple[Lane, ...]
    beat: str = "step"
    start_ns: int | None = None
    end_ns: int | None = None
    witnesses: Sequence[Witness] = ()
    seen_late: int | None = None

    @property
    def clock(self) -> str:
        """The source of the times: ``seen`` (by the observer), ``logged`` (by a broker), or ""."""
        sources = {w.source for w in self.witnesses if w.time_ns is not None and beat(w)}
        if sources == {_LINES}:
            return "logged"
        return "seen" if sources and sources <= _POLLED else ""

    @property
    def captions(self) -> tuple[Witness, ...]:
        """The evidence to list, without sends, and without log lines about observed truncations."""
        seen = {w.who for w in self.witnesses if w.what == "truncated" and w.source != _LINES}
        return tuple(
            w
            for w in self.witnesses
            if w.what != "sent" and (w.source != _LINES or w.who not in seen)
        )


def frames(anomaly: Anomaly, evidence: RunObservations, holdings: Holdings) -> list[Frame]:
    """Return at most ``FRAMES_MAX`` frames of an anomaly; an empty list without an offset."""
    groups = grouped(anomaly.witnesses)
    if len(groups) > FRAMES_MAX:
        half = FRAMES_MAX // 2
        groups = groups[:half] + groups[-(FRAMES_MAX - half) :]
    moments = []
    for i, (name, witnesses) in enumerate(groups):
        times = [w.time_ns for w in witnesses if w.time_ns is not None]
        later = [w.time_ns for _, ws in groups[i + 1 :] for w in ws if w.time_ns is not None]
        until = evidence.end_ns
        if times and later:
            until = min(min(later) - 1, max(times) + SETTLE_NS)
            if groups[i + 1][0] == "fault":
                until = max(*times, until - FAULT_NS)
        moments.append(
            Moment(
                title=title(name, witnesses),
                start_ns=min(times, default=None),
                end_ns=max(times, default=None),
                until_ns=until,
                beat=name,
                witnesses=witnesses,
            )
        )
    return states(anomaly, evidence, holdings, moments)


def states(
    subject: Anomaly, evidence: RunObservations, holdings: Holdings, moments: Sequence[Moment]
) -> list[Frame]:
    """Return a frame for each moment, with every replica near the offset of ``subject``."""
    observed = evidence.partitions.get((subject.topic, subject.partition))
    if subject.offset is None or observed is None or not observed.tracks:
        return []
    stage = _Stage(subject, subject.offset, observed, evidence, holdings)
    sinces = [0, *(moment.until_ns for moment in moments)]
    return [
        Frame(
            number=i + 1,
            title=moment.title,
            lanes=tuple(
                stage.lane(b, sinces[i], moment, last=moment is moments[-1])
                for b in observed.brokers
            ),
            beat=moment.beat,
            start_ns=moment.start_ns,
            end_ns=moment.end_ns,
            witnesses=moment.witnesses,
            seen_late=_seen_late(moments, i),
        )
        for i, moment in enumerate(moments)
    ]


def _seen_late(moments: Sequence[Moment], place: int) -> int | None:
    start = moments[place].start_ns
    latest = max(range(place), key=lambda i: moments[i].start_ns or 0, default=None)
    if start is None or latest is None or start >= (moments[latest].start_ns or 0):
        return None
    return latest + 1


def cell_of(offset: int, value: str | None, subject: Anomaly) -> FrameCell:
    """Return the cell for a record of a replica."""
    state = "subject" if value == subject.value else "other"
    here = offset == subject.offset and value is not None
    return FrameCell(offset=offset, state=state if here else "record", value=value)


def window(offset: int) -> range:
    """Return the offsets that a frame shows for a record at ``offset``."""
    return range(max(0, offset - BEHIND), offset + AHEAD + 1)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The data that all frames of a record share."""

    subject: Anomaly
    offset: int
    observed: PartitionObservations
    evidence: RunObservations
    holdings: Holdings

    def lane(self, broker: int, since: int, moment: Moment, *, last: bool) -> Lane:
        """Return a replica's lane at a moment, with its truncation since the time ``since``.

        In the last frame, the LEO is that of the log on disk.
        """
        until = moment.until_ns
        track = self.observed.tracks.get(broker)
        leo, hw, answers = track.at(until) if track else (UNKNOWN, UNKNOWN, False)
        told_ns = track.observed_at(until) if track else -1
        acked = self._acknowledged(broker)
        if acked is not None and told_ns < acked <= until:
            leo = max(leo, self.offset + 1)
        cuts = [c for c in self.observed.cuts if c.broker == broker and c.time_ns <= until]
        for cut in cuts:
            if told_ns < cut.time_ns:
                leo, hw = min(leo, cut.offset), min(hw, cut.offset)
        if last and self.holdings.get(broker):
            leo = max(self.holdings[broker]) + 1  # the disk is more exact than an observation
        before = track.at(since)[0] if track else UNKNOWN
        lowest = min([before, *(cut.offset for cut in cuts if since < cut.time_ns)])
        shortened = (before, lowest) if lowest < before else None
        ruling = self.observed.leadership(max(until, moment.end_ns or 0))
        fault = self._fault_on(broker, until)
        epoch = UNKNOWN if ruling is None else ruling.epoch
        role = ("answers" if ruling is None else "follower") if answers else "no answer"
        if ruling and ruling.leader == broker:
            role = "leader" if epoch == UNKNOWN else f"leader, epoch {epoch}"
        if fault:
            leads = "leader" if epoch == UNKNOWN else f"leader e{epoch}"
            role = f"{fault.past}, {leads}" if role.startswith("leader") else fault.past
        return Lane(
            broker=broker,
            role=role,
            in_isr=None if ruling is None else broker in ruling.isr,
            down=fault is not None or not answers,
            acted=broker in actors([w for w in moment.witnesses if w.what != "step"]),
            leo=None if leo == UNKNOWN else leo,
            hw=None if hw == UNKNOWN else hw,
            cut=shortened,
            cells=tuple(
                cell_of(o, self._value(broker, o, until, last=last), self.subject)
                if o < leo
                else self._gone(broker, o, shortened, since)
                for o in window(self.offset)
            ),
        )

    def _acknowledged(self, broker: int) -> int | None:
        """Return the time in ns at which a broker acknowledged the record; None if unknown."""
        times = (
            w.time_ns
            for w in self.subject.witnesses
            if w.what == "acknowledged" and w.who == f"broker {broker}"
        )
        return next(times, None)

    def _fault_on(self, broker: int, time_ns: int) -> FaultInterval | None:
        faults = (fault for fault in self.evidence.faults if fault.broker == broker)
        return next((f for f in faults if f.start_ns <= time_ns < f.until_ns), None)

    def _gone(self, broker: int, offset: int, cut: tuple[int, int] | None, since: int) -> FrameCell:
        if cut is None or not cut[1] <= offset < cut[0]:
            return FrameCell(offset=offset, state="none")
        return FrameCell(offset=offset, state="gone", value=self._value(broker, offset, since))

    def _value(self, broker: int, offset: int, until: int, *, last: bool = False) -> str | None:
        """Return a replica's record at an offset and a time, or None if it is unknown.

        The disk shows the record at the end of the run. If this record was sent after the last
        observed append at the offset, the observer missed a truncation of the log. Then the earlier
        record counts until that send, and later no record is known, unless the broker was down.
        Without a disk, a record is known only if it was sent and appended in one leader epoch.
        """
        writings = self._writings(broker, offset)
        now = int(np.searchsorted(writings, until, side="right"))
        disk = self.holdings.get(broker, {}).get(offset)
        births = self._births(offset)
        before = [birth for birth in births if now and birth[0] <= writings[now - 1]]
        sent = [value for _, value in before]
        if now == len(writings) and disk is not None:
            born_ns = next((born_ns for born_ns, value in births if value == disk.value), 0)
            if last or not writings or born_ns <= writings[now - 1]:
                return disk.value
            fault = self._fault_on(broker, until)
            return sent[-1] if sent and (fault.start_ns if fault else until) < born_ns else None
        if broker not in self.holdings and writings:
            written = bool(before) and self._within_an_epoch(before[-1][0], writings[now - 1])
            return sent[-1] if written else None
        return sent[-1] if sent else self.subject.value if offset == self.offset else None

    def _within_an_epoch(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether the leader epoch is known at both times and did not change."""
        epochs = [now and now.epoch for now in map(self.observed.leadership, (begin_ns, end_ns))]
        return epochs[0] == epochs[1] not in (None, UNKNOWN)

    def _births(self, offset: int) -> list[tuple[int, str]]:
        """Return (earliest possible time in ns, id) of each record at an offset, in order of time.

        This is the time of the record's send, or the later time at which its leader epoch began.
        """
        disks = (holding[offset] for holding in self.holdings.values() if offset in holding)
        epochs = {disk.value: disk.epoch for disk in disks if disk.epoch is not None}
        sends = self.evidence.sends.get((*self.observed.partition, offset), ())
        if not sends and offset == self.offset and self.subject.value is not None:
            times = [w.time_ns for w in self.subject.witnesses if w.what in _BORN and w.time_ns]
            sends = [(min(times), self.subject.value)] if times else ()
        return sorted((max(at_ns, self._begun(epochs.get(id_))), id_) for at_ns, id_ in sends)

    def _begun(self, epoch: int | None) -> int:
        """Return the time in ns at which a leader epoch began, as observed; 0 if unknown."""
        if epoch is None or epoch <= UNKNOWN:
            return 0
        return next((now.time_ns for now in self.observed.leaderships if now.epoch >= epoch), 0)

    def _writings(self, broker: int, offset: int) -> list[int]:
        """Return the times at which a broker's replica appended a record at ``offset``."""
        track = self.observed.tracks.get(broker)
        if track is None:
            return []
        marks = [
            (time_ns, leo)
            for time_ns, leo in zip(track.time_ns.tolist(), track.leo.tolist(), strict=True)
            if leo != UNKNOWN
        ]
        marks += [(c.time_ns, c.offset) for c in self.observed.cuts if c.broker == broker]
        acked = self._acknowledged(broker)
        if acked is not None and offset == self.offset:
            marks.append((acked, offset + 1))
        holds, times = False, []
        for time_ns, leo in sorted(marks):
            if leo > offset and not holds:
                times.append(time_ns)
            holds = leo > offset
        if not holds and offset in self.holdings.get(broker, {}):
            times.append(max(marks)[0] + 1 if marks else 0)  # the observer missed the last append
        return times


def places(anomalies: Iterable[Anomaly]) -> set[Place]:
    """Return each topic, partition and offset that the frames of these anomalies show."""
    return {
        (a.topic, a.partition, offset)
        for a in anomalies
        if a.offset is not None
        for offset in window(a.offset)
    }

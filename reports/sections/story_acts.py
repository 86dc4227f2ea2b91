"""Compare a story's predicted and observed states, act by act.

An act begins with a line of the story's script that has an observable effect, such as a fault or an
election. The next lines without an observable effect also belong to the act. After each act, the
model's state is compared with the replicas that were observed just before the next act.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.report_types import ModelSnapshot, Reconciliation
from highwater.harness.base.wording import joined
from highwater.harness.runs.history import FENCE
from highwater.harness.runs.verdict import Anomaly
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.replica_frames import (
    FAULT_NS,
    Frame,
    FrameCell,
    Lane,
    Moment,
    cell_of,
    states,
    window,
)
from highwater.reports.replica_contents import Holdings
from highwater.reports.run_evidence import PartitionObservations, RunObservations

Word = Literal["as predicted", "otherwise", "not observed"]
Span = tuple[int, int]
"""The observed times, in ns, at which an act's events began and ended."""

_NAME: Final = re.compile(r"\b[ABC]\b")
_PHRASES: Final = {
    "settle": "{} sent, and copied to every replica",
    "send": "{} is sent",
    "retry": "{} is sent again",
    "fetch": "fetch by {}",
    "let": "time for {} to act",
    "cut": "all records from offset {} on are removed",
    "follow": "{} learns its leader",
    "checkpoint": "{} writes its HW to the disk",
    "expire": "the session of {} ends",
    "heal": "all faults are healed{}",
    "kill": "{} killed",
    "pause": "{} paused",
    "stop": "{} stopped",
    "resume": "{} resumed",
    "start": "{} started",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryAct:
    """An act of a story, with the predicted and the observed state.

    Attributes:
        model: drawing of the predicted state.
        brokers: drawing of the observed state; None if the state was not observed.
        differs: short texts about the differences between the two states.
    """

    number: int
    title: str
    word: Word
    model: Markup
    brokers: Markup | None
    differs: tuple[str, ...] = ()


def subject(reconciliation: Reconciliation | None, topic: str) -> Anomaly | None:
    """Return the record that a story's drawings show, with its offset; None without a script.

    It is the first record that the model loses, or else the last record before the first fault.
    """
    if reconciliation is None or not reconciliation.course or reconciliation.predicted is None:
        return None
    logs = [log for beat in reconciliation.course for log in beat.logs.values()]
    longest = max(reconciliation.course[_first_blow(reconciliation.course)].logs.values(), key=len)
    record = (
        reconciliation.predicted.lost[0]
        if reconciliation.predicted.lost
        else next(reversed(longest), None)
    )
    offset = next((log.index(record) for log in logs if record in log), None)
    if record is None or offset is None:
        return None
    return Anomaly(
        kind="divergence" if offset in reconciliation.predicted.forked else "lost-write",
        topic=topic, partition=0, offset=offset, value=record, sentence="", breaks=False,
    )  # fmt: skip


def _first_blow(course: Sequence[ModelSnapshot]) -> int:
    """Return the index of the last script line before a broker fails, or else of the last line."""
    return next((max(0, i - 1) for i, beat in enumerate(course) if beat.down), len(course) - 1)


def acts(
    course: Sequence[ModelSnapshot], about: Anomaly, evidence: RunObservations, holdings: Holdings
) -> list[StoryAct]:
    """Return every act of a story; empty if the brokers' roles are not known."""
    observed = evidence.partitions.get((about.topic, about.partition))
    if observed is None or not all(name.isdecimal() for beat in course for name in beat.logs):
        return []
    grouped = list(_grouped(course, about, evidence, observed))
    moments = list(_moments(grouped, evidence))
    seen = iter(states(about, evidence, holdings, [moment for moment in moments if moment]))
    acts_, before = [], course[0]
    for number, ((beats, _), moment) in enumerate(zip(grouped, moments, strict=True), start=1):
        frame = _frame(number, beats[-1], before, about)
        brokers = next(seen, None) if moment else None
        differs: tuple[str, ...] = ()
        if brokers:
            differs = tuple(_differs(frame, brokers, about, last=number == len(grouped)))
        word: Word = "otherwise" if differs else "as predicted"
        acts_.append(
            StoryAct(
                number=number,
                title="; ".join(_says(beat) for beat in beats),
                word=word if brokers else "not observed",
                model=frame_strip.frame(frame, about, f"p{number}"),
                brokers=frame_strip.frame(brokers, about, f"o{number}") if brokers else None,
                differs=differs,
            )
        )
        before = beats[-1]
    return acts_


def _grouped(
    course: Sequence[ModelSnapshot],
    about: Anomaly,
    evidence: RunObservations,
    observed: PartitionObservations,
) -> Iterator[tuple[list[ModelSnapshot], Span | None]]:
    """Yield each act's lines, and when the effect of its first line was observed (or None)."""
    beats: list[ModelSnapshot] = []
    span: Span | None = None
    since = 0
    for beat in course:
        if beats and beat.line.split()[0] in _MARKED:
            yield beats, span
            beats = []
        if not beats:
            span = _span(beat, about, evidence, observed, since)
            since = since if span is None else span[1]
        beats.append(beat)
    yield beats, span


def _span(
    beat: ModelSnapshot,
    about: Anomaly,
    evidence: RunObservations,
    observed: PartitionObservations,
    since: int,
) -> Span | None:
    """Return when a line's effect was observed, after ``since``; None if it was not observed."""
    verb, *words = beat.line.split()
    if verb in _SENDING:
        records = words if verb == "settle" else words[:1]
        times = [evidence.acked_at[record] for record in records if record in evidence.acked_at]
        sends = evidence.sends.get((about.topic, 0, about.offset or 0), ())
        begun = {value: time_ns for time_ns, value in sends}
        if len(times) < len(records):
            return None
        return min(begun.get(records[0], times[0]), *times), max(times)
    if verb == "expire":
        leader = int(beat.leader) if beat.leader else -1
        starts = [
            e.time_ns for e in observed.leaderships if (e.leader, e.epoch) == (leader, beat.epoch)
        ]
        return (starts[0], starts[0]) if starts and starts[0] >= since else None
    if verb == "heal":
        ends = [f.end_ns for f in evidence.faults if f.end_ns is not None and f.end_ns >= since]
        return (min(ends), max(ends)) if ends else None
    ids = [int(broker) for name, broker in zip(NAMES, beat.logs, strict=True) if name in words]
    moments = {
        fault.broker: at
        for fault in reversed(evidence.faults)
        if fault.broker in ids
        and (at := fault.end_ns if verb in _ENDING else fault.start_ns) is not None
        and at >= since
    }
    return (min(moments.values()), max(moments.values())) if len(moments) == len(ids) > 0 else None


_SENDING: Final = frozenset(("settle", "send", "retry"))
_ENDING: Final = frozenset(("resume", "start"))
_MARKED: Final = _SENDING | _ENDING | {"kill", "pause", "stop", "expire", "heal"}
"""The verbs of script lines with an observable effect."""


def _moments(
    grouped: Sequence[tuple[list[ModelSnapshot], Span | None]], evidence: RunObservations
) -> Iterator[Moment | None]:
    """Yield the moment of each act; None for an act whose effect was not observed in order."""
    for i, (beats, span) in enumerate(grouped):
        after = grouped[i + 1][1] if i + 1 < len(grouped) else (evidence.end_ns + 1, 0)
        if span is None or after is None or after[0] <= span[1]:
            yield None
            continue
        until = max(span[1], after[0] - (FAULT_NS if after[1] else 1))
        yield Moment(title=beats[0].line, start_ns=span[0], end_ns=span[0], until_ns=until)


def _frame(number: int, beat: ModelSnapshot, before: ModelSnapshot, about: Anomaly) -> Frame:
    lanes = tuple(_lane(name, beat, before, about) for name in sorted(beat.logs, key=int))
    return Frame(number=number, title=f"the model's state after: {beat.line}", lanes=lanes)


def _lane(name: str, beat: ModelSnapshot, before: ModelSnapshot, about: Anomaly) -> Lane:
    down = name in beat.down
    leo, was = len(beat.logs[name]), len(before.logs[name])
    leads = f"leader, epoch {beat.epoch}" if beat.leader == name else "follower"
    return Lane(
        broker=int(name),
        role=("down, leader" if beat.leader == name else "down") if down else leads,
        in_isr=name in beat.isr,
        down=down,
        acted=beat.logs[name] != before.logs[name]
        or (beat.leader == name) != (before.leader == name),
        leo=leo,
        hw=None if down else beat.hw[name],
        cut=(was, leo) if leo < was else None,
        cells=tuple(
            _cell(offset, beat.logs[name], before.logs[name], about)
            for offset in window(about.offset or 0)
        ),
    )


def _cell(offset: int, log: Sequence[str], was: Sequence[str], about: Anomaly) -> FrameCell:
    if offset < len(log):
        return cell_of(offset, log[offset], about)
    if offset < len(was):
        return FrameCell(offset=offset, state="gone", value=was[offset])
    return FrameCell(offset=offset, state="none")


def _differs(frame: Frame, seen: Frame, about: Anomaly, *, last: bool) -> Iterator[str]:
    """Yield differences at the record's offset, of replicas that are up in both frames.

    Args:
        last: whether this is the last act. Earlier, the observer may notice an election or an
            append too late. So only in the last act a wrong leader or a missing record counts.
    """
    brokers: Mapping[int, Lane] = {lane.broker: lane for lane in seen.lanes}
    for lane in frame.lanes:
        other = brokers.get(lane.broker)
        if other is None:
            continue
        if last and ("leader" in lane.role) != ("leader" in other.role):
            word = "leads" if "leader" in other.role else "does not lead"
            yield f"broker {lane.broker} {word}"
        if lane.down or other.down:
            continue
        predicted, seen_record = _at(lane, about), _at(other, about)
        late = not seen_record and other.cut is None and not last  # may be observed a moment later
        if predicted != seen_record and seen_record is not None and not late:
            actual, instead = seen_record or "nothing", predicted or "nothing"
            yield f"broker {lane.broker} holds {actual} instead of {instead}"


def _at(lane: Lane, about: Anomaly) -> str | None:
    """Return the record id at the anomaly's offset; empty without a record, None if unknown."""
    cell = next(cell for cell in lane.cells if cell.offset == about.offset)
    if cell.state in {"none", "gone"}:
        return ""
    return "" if cell.value and cell.value.startswith(FENCE) else cell.value


def _says(beat: ModelSnapshot) -> str:
    """Return a line of the script as text, with broker ids instead of names."""
    verb, *words = beat.line.split()
    ids = dict(zip(NAMES, beat.logs, strict=True))
    who = list(dict.fromkeys(f"broker {ids[word]}" for word in words if word in ids))
    what = [word for word in words if _NAME.fullmatch(word) is None and word not in {"to", "for"}]
    if verb == "expire":
        heir = f", and broker {beat.leader} must lead" if beat.leader else ""
        return _PHRASES[verb].format(who[0]) + heir
    phrase = _PHRASES.get(verb, f"{verb} {{}}")
    return phrase.format(joined(what or who))

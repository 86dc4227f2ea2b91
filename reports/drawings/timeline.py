"""Draw a partition's timeline: a lane for each replica, faults, elections, acknowledgements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.faults.message_spans import MessageSpan
from highwater.harness.runs.partition_trace import UNKNOWN, Ints, Partition, Track, known_ranges
from highwater.reports.drawings.leaderships import BAND, bands, epochs, reigns
from highwater.reports.drawings.svg import Scale, join, line, number, rect, steps, svg, tag, text
from highwater.reports.drawings.time_axis import (
    LEFT,
    RIGHT,
    WIDTH,
    base_line,
    extent,
    grid,
    rate,
    time_scale,
)
from highwater.reports.run_evidence import PartitionObservations, RunObservations
from highwater.reports.text import seconds, short

ACKS: Final = 54.0
LANE: Final = 104.0
MESSAGES: Final = 30.0
GAP: Final = 16.0
COLUMNS: Final = 500
"""The number of columns of the drawing. In each, a LEO or HW line has at most four points."""
TICKS_MAX: Final = 80
"""Maximum number of acknowledgements that are drawn one by one; more are drawn as a rate."""
MARKS_MAX: Final = 150
BINS: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """A record to mark at the time of its acknowledgement."""

    time_ns: int
    name: str
    kind: str


def timeline(
    observed: PartitionObservations,
    evidence: RunObservations,
    marks: Sequence[TimelineMark] = (),
    *,
    uid: str = "timeline",
) -> Markup:
    """Draw a partition's timeline, ``WIDTH`` wide, with a lane for each replica, ``LANE`` high."""
    brokers = observed.brokers
    time = time_scale(evidence.end_ns)
    top = 24 + ACKS + (MESSAGES if evidence.messages else 0.0)
    bottom = top + (LANE + GAP) * len(brokers)
    offsets = _offsets(observed)
    lanes = [
        _lane(observed, evidence.faults, broker, time, offsets, top + (LANE + GAP) * i)
        for i, broker in enumerate(brokers)
    ]
    topic, partition = observed.partition
    return svg(
        WIDTH,
        bottom + 34,
        f"{topic}-{partition} over the whole run",
        describe(observed, evidence),
        *grid(time, evidence.end_ns, 24, bottom),
        _acks(evidence, observed.partition, marks, time),
        _messages(evidence.messages, time, 24 + ACKS),
        *lanes,
        _elections(observed, time, top, bottom),
        uid=uid,
    )


def describe(observed: PartitionObservations, evidence: RunObservations) -> str:
    """Describe the timeline as text: leaders, faults and truncations in order of time."""
    events = [
        (reign.time_ns, f"broker {reign.leader} leads" if reign.leader >= 0 else "no broker leads")
        for reign in reigns(observed.leaderships)
    ]
    events += [
        (f.start_ns, f"{f.name} {'' if f.broker is None else f'broker {f.broker}'}".strip())
        for f in evidence.faults
    ]
    events += [(m.start_ns, f"{m.name} is {m.verb}: {m.says}") for m in evidence.messages]
    events += [
        (
            cut.time_ns,
            f"broker {cut.broker} truncates to {cut.offset}{'' if cut.line else ' or below'}",
        )
        for cut in observed.cuts
    ]
    events.sort()
    sentence = "; ".join(f"{seconds(t, 1)}: {words}" for t, words in events[:40])
    more = f"; and {count(len(events) - 40, 'event')} more" if len(events) > 40 else ""  # noqa: PLR2004
    return f"{sentence}{more}." if sentence else "Nothing was observed."


def _offsets(observed: PartitionObservations) -> tuple[int, int]:
    offsets = [t.leo[t.leo != UNKNOWN] for t in observed.tracks.values()]
    offsets += [t.hw[t.hw != UNKNOWN] for t in observed.tracks.values()]
    all_offsets = np.concatenate(offsets) if offsets else np.empty(0, np.int64)
    return (int(all_offsets.min()), int(all_offsets.max())) if len(all_offsets) else (0, 0)


def _acks(
    evidence: RunObservations, partition: Partition, marks: Sequence[TimelineMark], time: Scale
) -> Markup:
    """Draw a line for each acknowledgement, or the rate if the acknowledgements are too many."""
    top, base = 30.0, 24 + ACKS - 12
    acks = evidence.acks.get(partition, np.empty(0, np.int64))
    name = "reads" if evidence.done == "read" else "acks"
    parts: list[Markup] = [text(LEFT - 10, top + 14, name, "lanename", "end")]
    if len(acks) <= TICKS_MAX:
        parts += [line(time(int(t)), base - 14, time(int(t)), base, "ack") for t in acks]
    else:
        path, per_s = rate(acks, BINS, time, base, top)
        words = f"{len(acks):,} {evidence.done}, at most {per_s:,.0f} records/s"
        parts.append(tag("path", tag("title", words), d=path, class_="rate"))
        parts.append(text(LEFT - 10, top + 30, f"{len(acks):,}", "axis", "end"))
    parts.append(base_line(base))
    for mark in marks[:MARKS_MAX]:
        x = time(mark.time_ns)
        words = f"{mark.name}, {evidence.done} at {seconds(mark.time_ns)}: {mark.kind}"
        parts.append(_triangle(x, base - 26, 5, 9, words, f"mark {mark.kind}"))
        parts.append(line(x, base - 17, x, base, f"ack {mark.kind}"))
        if len(marks) <= 3:  # noqa: PLR2004 - more than three names would overlap
            words = f"{short(mark.name, 14)} {mark.kind.replace('lost-write', 'lost')}"
            parts.append(_beside(x, base - 18, words, f"marktext {mark.kind}", 160))
    return join(parts)


def _triangle(x: float, top: float, half: float, high: float, says: str, class_: str) -> Markup:
    shape = (
        f"M{number(x - half)} {number(top)}H{number(x + half)}L{number(x)} {number(top + high)}Z"
    )
    return tag("path", tag("title", says), d=shape, class_=class_)


def _beside(x: float, y: float, words: str, class_: str, room: float) -> Markup:
    """Draw text to the right of a mark, or to its left if less than ``room`` remains."""
    if x > WIDTH - room:
        return text(x - 9, y, words, class_, "end")
    return text(x + 9, y, words, class_)


def _messages(messages: Sequence[MessageSpan], time: Scale, top: float) -> Markup:
    """Draw the messages that the relay's rules affected, each for the time that it was held."""
    parts: list[Markup] = []
    if messages:
        parts.append(text(LEFT - 10, top + 14, "messages", "lanename", "end"))
    free = 0.0
    for message in messages[:MARKS_MAX]:
        end_ns = time.hi if message.end_ns is None else message.end_ns
        x = time(message.start_ns)
        width = max(2.0, time(end_ns) - x)
        title = tag(
            "title",
            f"{message.name}, {message.verb} from {seconds(message.start_ns)} to"
            f" {seconds(int(end_ns))}: {message.says}",
        )
        parts.append(rect(x, top, width, MESSAGES - 10, "fault", title))
        parts.append(line(x, top, x, top + MESSAGES - 10, "faultedge"))
        words = f"{message.name} {message.verb}"
        if x >= free and x + 7 * len(words) < WIDTH - RIGHT:
            parts.append(text(x + 6, top + 14, words, "faulttext"))
            free = x + 7 * len(words)
    return join(parts)


def _lane(
    observed: PartitionObservations,
    faults: Sequence[FaultInterval],
    broker: int,
    time: Scale,
    offsets: tuple[int, int],
    top: float,
) -> Markup:
    y = Scale(lo=offsets[0], hi=offsets[1], start=top + LANE - 14, end=top + BAND + 14)
    parts = [
        rect(LEFT, top, WIDTH - RIGHT - LEFT, LANE, "lanebox"),
        text(LEFT - 10, top + 12, f"broker {broker}", "lanename", "end"),
        *_levels(offsets, y),
        *_spans(faults, broker, time, top),
        *bands(observed.leaderships, broker, time, top, LANE),
        *epochs(observed, broker, time, top),
    ]
    track = observed.tracks.get(broker)
    if track is not None:
        parts += _lines(track, time, y)
    parts += _cuts(observed, broker, time, y)
    return tag("g", *parts, class_="replica")


def _levels(offsets: tuple[int, int], y: Scale) -> list[Markup]:
    lo, hi = offsets
    middle = [(lo + hi) // 2] if hi - lo >= 4 else []  # noqa: PLR2004
    levels = sorted({lo, *middle, hi})
    return [text(LEFT - 10, y(v) + 4, f"{v:,}", "axis", "end") for v in levels]


def _spans(faults: Sequence[FaultInterval], broker: int, time: Scale, top: float) -> list[Markup]:
    parts = []
    for fault in faults:
        if fault.broker not in {broker, None} or facts_of(fault.name).of_message:
            continue
        x, width = extent(fault, time)
        until = "not healed" if fault.end_ns is None else f"until {seconds(fault.end_ns, 1)}"
        title = tag("title", f"{fault.past} at {seconds(fault.start_ns)}, {until}: {fault.says}")
        parts.append(rect(x, top, width, LANE, "fault", title))
        parts.append(line(x, top, x, top + LANE, "faultedge"))
        if width >= 7 * len(fault.past) + 10:
            parts.append(text(x + 6, top + LANE - 22, fault.past, "faulttext"))
    return parts


def _lines(track: Track, time: Scale, y: Scale) -> list[Markup]:
    """Draw LEO and HW as step lines, interrupted while the broker does not respond."""
    gaps, hws, leos = [], [], []
    for start, end in known_ranges(np.minimum(track.leo, track.hw)):
        leo, hw = (_line(track, values, start, end, time, y) for values in (track.leo, track.hw))
        back = f"L{number(hw[-1][0])} {number(hw[-1][1])}{_back(hw)}Z"
        gaps.append(tag("path", d=steps(leo) + back, class_="gap"))
        hws.append(tag("path", d=steps(hw), class_="hwline"))
    for start, end in known_ranges(track.leo):
        path = steps(_line(track, track.leo, start, end, time, y))
        leos.append(tag("path", d=path, class_="leoline"))
    return [*gaps, *hws, *leos]


def _line(
    track: Track, values: Ints, start: int, end: int, time: Scale, y: Scale
) -> list[tuple[float, float]]:
    """Return the points of the rows ``start`` to ``end``; the line lasts until row ``end``."""
    stop = int(track.time_ns[end]) if end < len(track.time_ns) else int(time.hi)
    return _thinned(track.time_ns[start:end], values[start:end], stop, time, y)


def _thinned(
    times: Ints, values: Ints, stop: int, time: Scale, y: Scale
) -> list[tuple[float, float]]:
    """Return at most four points per pixel column: the first, lowest, highest and last one."""
    width = (time.hi - time.lo) / COLUMNS
    column = ((times - time.lo) / width).astype(np.int64)
    keep: set[int] = {0, len(times) - 1}
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    for a, b in zip(starts, [*starts[1:], len(times)], strict=True):
        block = values[a:b]
        keep |= {int(a), int(a + block.argmin()), int(a + block.argmax()), int(b) - 1}
    points = [(time(int(times[i])), y(int(values[i]))) for i in sorted(keep)]
    return [*points, (time(stop), points[-1][1])]


def _back(points: Sequence[tuple[float, float]]) -> str:
    """Return SVG commands that draw a step path backwards."""
    words = []
    for (x, y), (_, before) in zip(points[::-1], [*points[-2::-1], points[0]], strict=True):
        words.append(f"H{number(x)}")
        if number(before) != number(y):
            words.append(f"V{number(before)}")
    return "".join(words)


def _cuts(observed: PartitionObservations, broker: int, time: Scale, y: Scale) -> list[Markup]:
    """Draw a downward triangle for each truncation that made the log shorter."""
    parts, last = [], -1e9
    track = observed.tracks.get(broker)
    for cut in [c for c in observed.cuts if c.broker == broker][:MARKS_MAX]:
        before = track.at(cut.time_ns - 1)[0] if track else UNKNOWN
        if before <= cut.offset:
            continue
        x, low = time(cut.time_ns), y(cut.offset)
        words = f"{'cut' if cut.line else 'LEO'} {before:,} → {cut.offset:,}"
        says = f"{seconds(cut.time_ns)}: {words}. {cut.line}"
        parts.append(_triangle(x, low - 11, 6, 10, says, "cutmark"))
        if x - last > 8 * len(words):
            parts.append(_beside(x, low - 3, words, "cuttext", 120))
            last = x
    return parts


def _elections(observed: PartitionObservations, time: Scale, top: float, bottom: float) -> Markup:
    """Draw a dashed line at each change of the leader or the leader epoch."""
    changes = reigns(observed.leaderships)
    parts = []
    for change in changes[1 : MARKS_MAX + 1]:
        x = time(change.time_ns)
        who = f"broker {change.leader} is elected" if change.leader >= 0 else "no leader"
        parts.append(
            tag(
                "g",
                tag("title", f"{seconds(change.time_ns)}: {who}"),
                line(x, top - 6, x, bottom - GAP, "election"),
            )
        )
    return join(parts)

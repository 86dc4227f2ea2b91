"""Draw the producers' view: throughput, latency and failed sends over time.

The faults are drawn behind it. Only runs with a workload have it; a story sends too few records.
"""

from typing import Final

import numpy as np
from markupsafe import Markup

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Ints
from highwater.reports.drawings.svg import (
    Scale,
    join,
    line,
    number,
    rect,
    steps,
    svg,
    tag,
    text,
    ticks,
)
from highwater.reports.observations import RunObservations
from highwater.reports.text import seconds, were

WIDTH: Final = 1120.0
LEFT: Final = 86.0
RIGHT: Final = 18.0
TOP: Final = 30.0
PANEL: Final = 96.0
GAP: Final = 26.0
BINS: Final = 140
FEWEST: Final = 50
"""Acknowledged sends below which there is nothing to see."""
_NS: Final = 1_000_000_000
_DECADES: Final = tuple(10.0**power for power in range(-4, 4))  # seconds, from 0.1 ms


def pace(evidence: RunObservations) -> Markup | None:
    """Draw throughput and latency; return None if too few sends were acknowledged."""
    sends = evidence.pace
    if len(sends.ended_ns) < FEWEST:
        return None
    time = Scale(lo=0, hi=max(evidence.end_ns, 1), start=LEFT, end=WIDTH - RIGHT)
    bottom = TOP + 2 * PANEL + GAP
    return svg(
        WIDTH,
        bottom + 34,
        f"Throughput and latency of sends that {were(evidence.done)}",
        describe(evidence),
        *_grid(time, bottom),
        *(_region(fault, time, bottom) for fault in evidence.faults),
        *_throughput(sends.ended_ns, sends.failed_ns, time),
        *_latency(sends.ended_ns, sends.took_ns, time, TOP + PANEL + GAP),
        uid="pace",
    )


def describe(evidence: RunObservations) -> str:
    """Describe the drawing in words."""
    sends = evidence.pace
    half, most = np.percentile(sends.took_ns, [50, 100])
    during_fault = np.zeros(len(sends.ended_ns), bool)
    for fault in evidence.faults:
        end = evidence.end_ns if fault.end_ns is None else fault.end_ns
        during_fault |= (sends.ended_ns >= fault.start_ns) & (sends.ended_ns <= end)
    number_of = count(len(sends.ended_ns), "send")
    sentences = [
        f"{number_of} {evidence.done}, after {_duration(half)} (median) to {_duration(most)} (most)"
    ]
    for name, chosen in (("while a fault was open", during_fault), ("otherwise", ~during_fault)):
        if chosen.any():
            sentences.append(f"median {name} {_duration(float(np.median(sends.took_ns[chosen])))}")
    if len(sends.failed_ns):
        none = "not acknowledged" if evidence.done == "acknowledged" else "failed"
        sentences.append(f"{count(len(sends.failed_ns), 'send')} {none}")
    return "; ".join(sentences) + "."


def _duration(ns: float) -> str:
    return f"{ns / 1e6:,.3g} ms" if ns < _NS else seconds(int(ns), 1)


def _grid(time: Scale, bottom: float) -> list[Markup]:
    parts = []
    for tick in ticks(time.hi / _NS):
        x = time(tick * _NS)
        parts.append(line(x, TOP, x, bottom, "grid"))
        parts.append(text(x, bottom + 16, f"{tick:g}", "axis", "middle"))
    parts.append(text(LEFT - 10, bottom + 16, "seconds", "axis", "end"))
    return parts


def _region(fault: FaultInterval, time: Scale, bottom: float) -> Markup:
    end = time.hi if fault.end_ns is None else fault.end_ns
    x, width = time(fault.start_ns), max(2.0, time(end) - time(fault.start_ns))
    who = "" if fault.broker is None else f" {fault.broker}"
    words = f"{fault.name}{who}"
    parts = [rect(x, TOP, width, bottom - TOP, "fault", tag("title", fault.says))]
    if width >= 7 * len(words) + 10:
        parts.append(text(x + 5, TOP - 8, words, "faulttext"))
    return join(parts)


def _throughput(ended: Ints, failed: Ints, time: Scale) -> list[Markup]:
    base = TOP + PANEL
    heights, edges = np.histogram(ended, bins=BINS, range=(time.lo, time.hi))
    most = max(int(heights.max()), 1)
    y = Scale(lo=0, hi=most, start=base, end=TOP + 6)
    points = [(time(float(e)), y(int(h))) for e, h in zip(edges[:-1], heights, strict=True)]
    points.append((time(time.hi), y(int(heights[-1]))))
    path = f"{steps(points)}V{number(base)}H{number(points[0][0])}Z"
    per_s = most / ((time.hi - time.lo) / BINS / _NS)
    wrong = np.unique(np.digitize(failed, edges))
    return [
        text(LEFT - 10, TOP + 14, "acks/s", "lanename", "end"),
        text(LEFT - 10, TOP + 30, f"{per_s:,.0f} at most", "axis", "end"),
        tag("path", d=path, class_="rate"),
        line(LEFT, base, WIDTH - RIGHT, base, "base"),
        *(
            tag("circle", tag("title", "sends that were not acknowledged"), class_="refused",
                cx=time(float(edges[min(int(moment), BINS) - 1])), cy=base, r=3.5)
            for moment in wrong
        ),
    ]  # fmt: skip


def _latency(ended: Ints, took: Ints, time: Scale, top: float) -> list[Markup]:
    """Draw the median and 99th percentile of each time bin on a logarithmic scale."""
    base = top + PANEL
    lo, hi = float(np.log10(max(took.min(), 1))), float(np.log10(max(took.max(), 1)))
    y = Scale(lo=lo, hi=hi, start=base - 6, end=top + 6)
    edges = np.linspace(time.lo, time.hi, BINS + 1)
    place = np.digitize(ended, edges) - 1
    halves: list[tuple[float, float]] = []
    worsts: list[tuple[float, float]] = []
    for column in np.unique(place):
        half, worst = np.percentile(took[place == column], [50, 99])
        x = time(float(edges[min(int(column), BINS)]))
        halves.append((x, y(float(np.log10(max(half, 1))))))
        worsts.append((x, y(float(np.log10(max(worst, 1))))))
    levels = [decade for decade in _DECADES if lo <= float(np.log10(decade * _NS)) <= hi]
    return [
        text(LEFT - 10, top + 4, "latency", "lanename", "end"),
        *(
            join([
                line(LEFT, y(float(np.log10(level * _NS))), WIDTH - RIGHT,
                     y(float(np.log10(level * _NS))), "grid"),
                text(LEFT - 10, y(float(np.log10(level * _NS))) + 4, _duration(level * _NS), "axis",
                     "end"),
            ])
            for level in levels
        ),
        tag("path", d=steps(worsts), class_="leoline"),
        tag("path", d=steps(halves), class_="hwline"),
        line(LEFT, base, WIDTH - RIGHT, base, "base"),
    ]  # fmt: skip

"""Draw the producers' throughput, latency and failed sends over time, and the faults.

Only runs with a workload have this drawing, because a story sends too few records.
"""

from typing import Final

import numpy as np
from markupsafe import Markup

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Ints
from highwater.reports.drawings.svg import Scale, join, line, rect, steps, svg, tag, text
from highwater.reports.drawings.time_axis import (
    LEFT,
    NS,
    RIGHT,
    WIDTH,
    base_line,
    extent,
    grid,
    rate,
    time_scale,
)
from highwater.reports.run_evidence import RunObservations
from highwater.reports.text import seconds, were

TOP: Final = 30.0
PANEL: Final = 96.0
GAP: Final = 26.0
BINS: Final = 140
FEWEST: Final = 50
"""The least number of acknowledged sends for a drawing."""
_DECADES: Final = tuple(10.0**power for power in range(-4, 4))  # seconds, from 0.1 ms


def pace(evidence: RunObservations) -> Markup | None:
    """Draw throughput and latency; return None if too few sends were acknowledged."""
    sends = evidence.pace
    if len(sends.ended_ns) < FEWEST:
        return None
    time = time_scale(evidence.end_ns)
    bottom = TOP + 2 * PANEL + GAP
    return svg(
        WIDTH,
        bottom + 34,
        f"Throughput and latency of sends that {were(evidence.done)}",
        describe(evidence),
        *grid(time, evidence.end_ns, TOP, bottom),
        *(_region(fault, time, bottom) for fault in evidence.faults),
        *_throughput(sends.ended_ns, sends.failed_ns, time),
        *_latency(sends.ended_ns, sends.took_ns, time, TOP + PANEL + GAP),
        uid="pace",
    )


def describe(evidence: RunObservations) -> str:
    """Describe the drawing of throughput and latency as text."""
    sends = evidence.pace
    half, most = np.percentile(sends.took_ns, [50, 100])
    during_fault = np.zeros(len(sends.ended_ns), bool)
    for fault in evidence.faults:
        end = evidence.end_ns if fault.end_ns is None else fault.end_ns
        during_fault |= (sends.ended_ns >= fault.start_ns) & (sends.ended_ns <= end)
    number_of = count(len(sends.ended_ns), "send")
    sentences = [
        (
            f"{number_of} {evidence.done}, after {_duration(half)} (median) to {_duration(most)}"
            " (maximum)"
        )
    ]
    for name, chosen in (("while a fault was open", during_fault), ("otherwise", ~during_fault)):
        if chosen.any():
            sentences.append(f"median {name} {_duration(float(np.median(sends.took_ns[chosen])))}")
    if len(sends.failed_ns):
        none = "not acknowledged" if evidence.done == "acknowledged" else "failed"
        sentences.append(f"{count(len(sends.failed_ns), 'send')} {none}")
    return "; ".join(sentences) + "."


def _duration(ns: float) -> str:
    return f"{ns / 1e6:,.3g} ms" if ns < NS else seconds(int(ns), 1)


def _region(fault: FaultInterval, time: Scale, bottom: float) -> Markup:
    x, width = extent(fault, time)
    who = "" if fault.broker is None else f" {fault.broker}"
    words = f"{fault.name}{who}"
    parts = [rect(x, TOP, width, bottom - TOP, "fault", tag("title", fault.says))]
    if width >= 7 * len(words) + 10:
        parts.append(text(x + 5, TOP - 8, words, "faulttext"))
    return join(parts)


def _throughput(ended: Ints, failed: Ints, time: Scale) -> list[Markup]:
    base = TOP + PANEL
    path, per_s = rate(ended, BINS, time, base, TOP + 6)
    edges = np.linspace(time.lo, time.hi, BINS + 1)
    places = [time(edges[min(i, BINS) - 1]) for i in np.unique(np.digitize(failed, edges))]
    title = tag("title", "sends that were not acknowledged")
    return [
        text(LEFT - 10, TOP + 14, "acks/s", "lanename", "end"),
        text(LEFT - 10, TOP + 30, f"{per_s:,.0f} at most", "axis", "end"),
        tag("path", d=path, class_="rate"),
        base_line(base),
        *(tag("circle", title, class_="refused", cx=x, cy=base, r=3.5) for x in places),
    ]


def _latency(ended: Ints, took: Ints, time: Scale, top: float) -> list[Markup]:
    """Draw the median and 99th percentile of the latency in each time bin, on a log scale."""
    base = top + PANEL
    lo, hi = np.log10(max(took.min(), 1)), np.log10(max(took.max(), 1))
    y = Scale(lo=lo, hi=hi, start=base - 6, end=top + 6)
    edges = np.linspace(time.lo, time.hi, BINS + 1)
    place = np.digitize(ended, edges) - 1
    curves: tuple[list[tuple[float, float]], ...] = ([], [])
    for column in np.unique(place):
        x = time(edges[min(column, BINS)])
        for curve, value in zip(
            curves, np.percentile(took[place == column], [50, 99]), strict=True
        ):
            curve.append((x, y(np.log10(max(value, 1)))))
    halves, worsts = curves
    levels: list[Markup] = []
    for decade_ns in (decade * NS for decade in _DECADES):
        level = np.log10(decade_ns)
        if lo <= level <= hi:
            levels.append(line(LEFT, y(level), WIDTH - RIGHT, y(level), "grid"))
            levels.append(text(LEFT - 10, y(level) + 4, _duration(decade_ns), "axis", "end"))
    return [
        text(LEFT - 10, top + 4, "latency", "lanename", "end"),
        *levels,
        tag("path", d=steps(worsts), class_="leoline"),
        tag("path", d=steps(halves), class_="hwline"),
        base_line(base),
    ]

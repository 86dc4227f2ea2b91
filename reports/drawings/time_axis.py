"""Draw the time axis that a run's drawings share: scale, grid, rates and faults."""

from typing import Final

import numpy as np
from markupsafe import Markup

from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Ints
from highwater.reports.drawings.svg import Scale, line, number, steps, text, ticks

WIDTH: Final = 1120.0
LEFT: Final = 86.0
RIGHT: Final = 18.0
NS: Final = 1_000_000_000


def time_scale(end_ns: int) -> Scale:
    """Return the scale that maps the nanoseconds of a run to the width of a drawing."""
    return Scale(lo=0, hi=max(end_ns, 1), start=LEFT, end=WIDTH - RIGHT)


def grid(time: Scale, end_ns: int, top: float, bottom: float) -> list[Markup]:
    """Draw vertical lines at round seconds, and below each line its number of seconds."""
    parts = []
    for tick in ticks(end_ns / NS):
        x = time(tick * NS)
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(text(x, bottom + 16, f"{tick:g}", "axis", "middle"))
    return [*parts, text(LEFT - 10, bottom + 16, "seconds", "axis", "end")]


def base_line(y: float) -> Markup:
    """Draw the baseline of a curve."""
    return line(LEFT, y, WIDTH - RIGHT, y, "base")


def rate(times: Ints, bins: int, time: Scale, base: float, top: float) -> tuple[str, float]:
    """Return the SVG path of a histogram of ``times``, and its highest rate per second."""
    heights, edges = np.histogram(times, bins=bins, range=(time.lo, time.hi))
    most = max(int(heights.max()), 1)
    y = Scale(lo=0, hi=most, start=base, end=top)
    points = [(time(float(e)), y(int(h))) for e, h in zip(edges[:-1], heights, strict=True)]
    points.append((time(time.hi), y(int(heights[-1]))))
    path = f"{steps(points)}V{number(base)}H{number(points[0][0])}Z"
    return path, most / ((time.hi - time.lo) / bins / NS)


def extent(fault: FaultInterval, time: Scale) -> tuple[float, float]:
    """Return the start and the width of a fault; an unhealed fault lasts to the run's end."""
    end = time.hi if fault.end_ns is None else fault.end_ns
    return time(fault.start_ns), max(2.0, time(end) - time(fault.start_ns))

"""Draw strips in a broker's lane of the timeline: its leaderships, the ISR, its epochs."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from markupsafe import Markup

from highwater.harness.runs.partition_trace import UNKNOWN, Leadership
from highwater.reports.drawings.svg import Scale, rect, tag, text
from highwater.reports.run_evidence import PartitionObservations

BAND: Final = 16.0
_NARROWEST: Final = 2.0
"""The least width of a strip, so that it is visible."""


def reigns(leaderships: Sequence[Leadership]) -> list[Leadership]:
    """Return the rows in which the leader or the leader epoch changed."""
    periods: list[Leadership] = []
    for leadership in leaderships:
        if not periods or (periods[-1].leader, periods[-1].epoch) != (
            leadership.leader,
            leadership.epoch,
        ):
            periods.append(leadership)
    return periods


def bands(
    rows: Sequence[Leadership], broker: int, time: Scale, top: float, lane: float
) -> list[Markup]:
    """Draw the leader band at the top of a broker's lane, and the ISR bar at the bottom."""
    parts = []
    for start, end, epoch in _intervals(reigns(rows), time, lambda r: r.leader == broker):
        name = "leader" if epoch == UNKNOWN else f"leader, epoch {epoch}"
        parts.append(rect(start, top, end - start, BAND, "band", tag("title", name)))
        room = end - start
        fitting = [name] if epoch == UNKNOWN else [name, f"epoch {epoch}", f"e{epoch}"]
        words = next((label for label in fitting if room > 7 * len(label) + 8), "")
        if words:
            parts.append(text(start + 5, top + 12, words, "bandtext"))
    for start, end, _ in _intervals(rows, time, lambda r: broker in r.isr):
        parts.append(
            rect(start, top + lane - 5, end - start, 5, "isrbar", tag("title", "in the ISR"))
        )
    return parts


def _intervals(
    rows: Sequence[Leadership], time: Scale, holds: Callable[[Leadership], bool]
) -> list[tuple[float, float, int]]:
    """Return (start x, end x, epoch) of intervals where ``holds`` is true; join equal epochs."""
    bands: list[tuple[float, float, int]] = []
    for i, row in enumerate(rows):
        if not holds(row):
            continue
        start = time(row.time_ns)
        end = time(rows[i + 1].time_ns if i + 1 < len(rows) else time.hi)
        if bands and bands[-1][1] == start and bands[-1][2] == row.epoch:
            bands[-1] = (bands[-1][0], end, row.epoch)
        else:
            bands.append((start, end, row.epoch))
    return bands


def epochs(observed: PartitionObservations, broker: int, time: Scale, top: float) -> list[Markup]:
    """Draw, in a broker's lane, the leader epochs in which its replica responded as a follower.

    A reader then sees whether a replica missed a complete epoch (see KIP-101 and KIP-279).
    """
    track = observed.tracks.get(broker)
    rows = reigns(observed.leaderships)
    parts: list[Markup] = []
    for row, after in zip_longest(rows, rows[1:]):
        if track is None or row.epoch == UNKNOWN or row.leader == broker:
            continue
        until = after.time_ns if after else int(time.hi)
        for began, ended in track.answered(int(time.hi)):
            start, end = time(max(began, row.time_ns)), time(min(ended, until))
            if end - start < _NARROWEST or ended <= row.time_ns or began >= until:
                continue
            whose = f"broker {row.leader}" if row.leader >= 0 else "no broker"
            title = tag("title", f"epoch {row.epoch}, led by {whose}")
            parts.append(rect(start, top, end - start, BAND, "epochs", title))
            words = f"e{row.epoch}"
            if end - start > 7 * len(words) + 8:
                parts.append(text(start + 5, top + 12, words, "epochtext"))
    return parts

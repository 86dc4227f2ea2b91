"""The page about many nightly runs: settings with new, ongoing and resolved failures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from markupsafe import Markup

from highwater.harness.campaigns.nightly_cells import STATES, CellResult, State, worst
from highwater.harness.campaigns.nightly_outcome import NightOutcome
from highwater.harness.releases.release import version_order
from highwater.reports.drawings.svg import join, line, number, rect, svg, tag, text
from highwater.reports.html import render, save

_HEIGHTS: Final[Mapping[State, int]] = {"good": 4, "unknown": 10, "missing": 10, "bad": 18}
_CLASSES: Final[Mapping[State, str]] = {
    "good": "bar ok",
    "unknown": "bar unknown",
    "missing": "bar failed",
    "bad": "bar lost",
}
_HEIGHT: Final = 20
_WIDEST, _NARROWEST, _WIDTH = 12.0, 3.0, 240.0
"""The greatest and the least width of a night in a sparkline (small drawing), and of all nights
together."""

_LAMPS: Final = {"green": ("bar ok", 4), "yellow": ("bar unknown", 8), "red": ("bar lost", 14)}
"""The style class and the bar height of each state of a setting."""

LOOK: Final = {"green": "valid", "yellow": "unknown", "red": "invalid"}
"""The style class of each night's colour."""

STATE_LOOK: Final = {"good": "valid", "unknown": "unknown", "missing": "unknown", "bad": "invalid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """A setting's worst result in the last night in which it ran, and its sparkline."""

    mark: CellResult
    spark: Markup


class Sparklines:
    """Draws sparklines (small drawings) of settings over the same nights, with unique ids."""

    def __init__(self, history: Iterable[CellResult]) -> None:
        self._marks: dict[str, dict[str, CellResult]] = {}
        nights: set[str] = set()
        for mark in history:
            seen = self._marks.setdefault(mark.key, {})
            seen[mark.night] = worst([seen[mark.night], mark]) if mark.night in seen else mark
            nights.add(mark.night)
        self._nights = sorted(nights)
        self._step = min(_WIDEST, max(_NARROWEST, _WIDTH / max(1, len(nights))))
        self._numbers = count(1)

    @property
    def keys(self) -> list[str]:
        """Return every setting that ever ran, ordered by release."""
        kafkas = {key: next(iter(of.values())).kafka for key, of in self._marks.items()}
        return sorted(self._marks, key=lambda key: (version_order(kafkas[key]), key))

    def line(self, key: str) -> TrendLine:
        """Return a setting's row of a table."""
        last = self._marks[key][max(self._marks[key])]
        return TrendLine(mark=last, spark=self.draw(key))

    def draw(self, key: str) -> Markup:
        """Draw a bar for each night: higher for a worse result, none if the setting did not run."""
        results = [(i, self._marks[key].get(night)) for i, night in enumerate(self._nights)]
        states = [(i, mark.state) for i, mark in results if mark]
        paths = [_bars(states, state, self._step) for state in STATES]
        number_of = Counter(state for _, state in states)
        summary = ", ".join(f"{number_of[state]} {state}" for state in STATES if number_of[state])
        width = self._step * len(self._nights)
        return svg(
            width,
            _HEIGHT,
            f"{len(states)} of {len(self._nights)} nights: {summary}",
            f"From {self._nights[0]} to {self._nights[-1]}, a bar per night.",
            line(0, _HEIGHT - 0.5, width, _HEIGHT - 0.5, "grid"),
            *paths,
            uid=f"s{next(self._numbers)}",
        )


def _bars(states: Sequence[tuple[int, State]], only: State, step: float) -> Markup:
    """Draw all bars of the state ``only`` as one path; ``step`` is the distance of two bars."""
    high = _HEIGHTS[only]
    top, wide = number(_HEIGHT - high), number(step - 1)
    moves = [
        f"M{number(i * step)} {top}h{wide}v{high}h-{wide}z" for i, state in states if state == only
    ]
    return tag("path", d="".join(moves), class_=_CLASSES[only]) if moves else Markup("")


def write(outcome: NightOutcome, path: Path) -> Path:
    """Write the trend page."""
    lines = Sparklines(outcome.history)
    changes = outcome.changes
    tables = [
        ("New", "Failed tonight, but not in the setting's previous night.", changes.new),
        ("Ongoing", "Failed tonight and in the setting's previous night.", changes.ongoing),
        ("Resolved", "Failed in the setting's previous night, but not tonight.", changes.resolved),
        (
            "Waiting",
            "Failed in the setting's previous night; did not run tonight.",
            changes.waiting,
        ),
    ]
    everything = [lines.line(key) for key in lines.keys]
    kafkas = dict.fromkeys(line_.mark.kafka for line_ in everything)
    html = render(
        "trend.html.j2",
        outcome=outcome,
        look=LOOK,
        state_look=STATE_LOOK,
        nights=_nights(outcome),
        tables=[
            (name, about, [TrendLine(mark=mark, spark=lines.draw(mark.key)) for mark in marks])
            for name, about, marks in tables
        ],
        canaries=[
            (mark, TrendLine(mark=mark, spark=lines.draw(mark.key)))
            for mark in outcome.marks
            if mark.canary in outcome.canaries
        ],
        releases={
            kafka: [line_ for line_ in everything if line_.mark.kafka == kafka] for kafka in kafkas
        },
    )
    return save(path, html)


def _nights(outcome: NightOutcome) -> Markup:
    """Draw a column for each night: its cells, stacked by state, and the night's colour below."""
    nights = outcome.nights()
    if not nights:
        return Markup("")
    most = max(states.total() for _, _, states in nights)
    step, high, left = 1080 / max(14, len(nights)), 120.0, 56.0
    parts = [
        text(left - 8, high + 4, "0", "axis", "end"),
        text(left - 8, 20, f"{most:,}", "axis", "end"),
    ]
    for i, (night, colour, states) in enumerate(nights):
        x, y = left + i * step, high
        title = tag("title", f"{night} {colour}: " + ", ".join(f"{states[s]} {s}" for s in STATES))
        columns = []
        for state in STATES:
            if states[state]:
                tall = max(3.0, states[state] / most * (high - 14))
                y -= tall
                columns.append(rect(x, y, step - 2, tall, _CLASSES[state]))
                if state == "bad":
                    columns.append(rect(x, y, step - 2, tall, "bar hatched"))
        lamp, tall = _LAMPS[colour]
        columns.append(rect(x, high + 8, step - 2, tall, lamp))
        parts.append(tag("g", title, *columns))
        if i in {0, len(nights) - 1}:
            anchor = "start" if i == 0 else "end"
            parts.append(text(x if i == 0 else x + step - 2, high + 40, night, "axis", anchor))
    label = f"{len(nights)} nights"
    about = "; ".join(f"{night} {colour}" for night, colour, _ in nights)
    return svg(left + 1080 + 4, high + 46, label, about, join(parts), uid="nights")

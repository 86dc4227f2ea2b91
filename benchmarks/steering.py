"""Compare steered with blind soaks: ``python -m benchmarks.steering [--svg FILE] FOLDER...``.

Each folder is a soak of one release, ``blind-4.4.0`` or ``steered-4.4.0``, made by such commands,
alternately on one machine:

    highwater soak --name blind-4.4.0 --kafka 4.4.0 --seed 50 --for 12m
    highwater soak --name steered-4.4.0 --kafka 4.4.0 --seed 50 --for 12m --steer

The benchmark prints how many situations of the model each soak had observed after each quarter of
the shorter soak's time, and when it first found each kind of anomaly, and broke each promise at
which it aimed. Time is that of runs: the start of clusters, the model's search and the judge are
not counted.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from highwater.campaigns.soak_results import SoakFolder, SoakRow
from highwater.checkers.model.search.kafka_model import PROMISES
from highwater.reports.drawings.svg import svg, tag, text

_QUARTERS: Final = 4
_XMLNS: Final = "http://www.w3.org/2000/svg"
_HOUR_S: Final = 3600.0
_WIDTH: Final = 640.0
_PANEL: Final = 170.0
_LEFT, _TOP, _HEIGHT, _RIGHT = 60.0, 34.0, 110.0, 24.0
_COLOURS: Final = {"blind": "#8a8a8a", "steered": "#1f6feb"}

Curve = list[tuple[float, int]]


def curve(rows: Sequence[SoakRow]) -> Curve:
    """Return the hours of all runs so far, and the number of situations observed, by run."""
    hours, seen, points = 0.0, set[str](), [(0.0, 0)]
    for row in sorted(rows, key=lambda row: row.number):
        hours += row.seconds / _HOUR_S
        seen.update(row.situations)
        points.append((hours, len(seen)))
    return points


def at(points: Curve, hours: float) -> int:
    """Return the number of situations observed after a time."""
    return max(count for end, count in points if end <= hours)


def first(rows: Sequence[SoakRow]) -> dict[str, float]:
    """Return the hours until the end of the first run with each anomaly or broken promise."""
    hours, found = 0.0, dict[str, float]()
    for row in sorted(rows, key=lambda row: row.number):
        hours += row.seconds / _HOUR_S
        broken = (row.aim,) if row.reached and row.aim in PROMISES else ()
        for name in (*row.counts, *broken):
            found.setdefault(name, hours)
    return found


def drawing(pairs: dict[str, dict[str, Curve]]) -> str:
    """Draw each release's curves, blind and steered, below each other."""
    parts = []
    for number, (kafka, curves) in enumerate(pairs.items()):
        top = number * _PANEL + _TOP
        longest = max(points[-1][0] for points in curves.values()) or 1.0
        most = max(points[-1][1] for points in curves.values()) or 1
        across = (_WIDTH - _LEFT - _RIGHT) / longest
        parts.append(text(_LEFT, top - 10, f"{kafka}: situations observed, by hours of runs"))
        parts.append(text(_LEFT - 8, top + 8, str(most), anchor="end"))
        parts.append(text(_LEFT - 8, top + _HEIGHT, "0", anchor="end"))
        parts.append(text(_WIDTH - _RIGHT, top + _HEIGHT + 16, f"{longest:.2f} h", anchor="end"))
        for mode, points in curves.items():
            line = " ".join(
                f"{_LEFT + hours * across:.1f},{top + _HEIGHT * (1 - count / most):.1f}"
                for hours, count in points
            )
            colour = _COLOURS[mode]
            parts.append(tag("polyline", points=line, fill="none", stroke=colour, stroke_width=2))
            end = top + _HEIGHT * (1 - points[-1][1] / most)
            x = min(_LEFT + points[-1][0] * across, _WIDTH - _RIGHT)
            parts.append(text(x, end + 19, f"{mode} {points[-1][1]}", anchor="end"))
    height = len(pairs) * _PANEL + 10
    words = "Situations of the model that soaks have observed, by hours of runs."
    parts.insert(0, tag("rect", width=_WIDTH, height=height, fill="#ffffff"))
    return str(
        svg(_WIDTH, height, "Steered and blind soaks", words, *parts, uid="steering", xmlns=_XMLNS)
    )


def main(arguments: Iterable[str] = ()) -> None:
    """Print the comparison of the soaks in these folders."""
    (*options,) = arguments or sys.argv[1:]
    target = Path(options[options.index("--svg") + 1]) if "--svg" in options else None
    folders = [Path(name) for name in options if name not in ("--svg", str(target))]
    soaks: dict[str, dict[str, list[SoakRow]]] = {}
    for folder in folders:
        mode, _, kafka = folder.name.partition("-")
        soaks.setdefault(kafka, {})[mode] = SoakFolder(folder).rows()
    pairs: dict[str, dict[str, Curve]] = {}
    for kafka, modes in soaks.items():
        curves = pairs[kafka] = {mode: curve(rows) for mode, rows in modes.items()}
        hours = min(points[-1][0] for points in curves.values())
        for mode, points in curves.items():
            counts = [at(points, hours * part / _QUARTERS) for part in range(1, _QUARTERS + 1)]
            anomalies = ", ".join(
                f"{kind} {found:.2f}" for kind, found in sorted(first(modes[mode]).items())
            )
            aims = {row.aim for row in modes[mode]} - {""}
            reached = sum(row.reached for row in modes[mode] if row.aim)
            print(
                f"{kafka} {mode}: {len(points) - 1} runs, {points[-1][0]:.2f} h;"
                f" situations in each quarter of {hours:.2f} h: {counts};"
                f" aims {len(aims)}, reached {reached}; anomalies at hour: {anomalies or 'none'}"
            )
    if target:
        target.write_text(drawing(pairs), "utf-8")


if __name__ == "__main__":
    main()

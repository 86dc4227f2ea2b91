"""Nights that never were: invented matrices of cells, to be read by the real summary."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from highwater.campaigns.nightly_plan import find_drivers, find_releases, newest, plan_night
from highwater.campaigns.nightly_results import mark_all, read_rows
from highwater.harness.campaigns.nightly_cells import (
    CellResult,
    Night,
    NightlyCell,
    canaries,
    fields,
)
from highwater.harness.campaigns.nightly_outcome import NightOutcome
from highwater.harness.campaigns.nightly_trend import extend

RELEASES = ("0.10.2.2", "2.8.2", "3.9.2-zk", "4.3.1")
Change = Callable[[NightlyCell], Mapping[str, object] | None]
"""What a cell's row is to have instead; None leaves the row out."""


def night_of(
    day: date, *, marks: Sequence[CellResult] = (), minutes: float = 30, jobs: int = 2
) -> Night:
    """A small night on a few releases."""
    return plan_night(
        day,
        releases=find_releases(RELEASES),
        drivers=find_drivers(("local", "docker")),
        marks=marks,
        jobs=jobs,
        minutes=minutes,
    )


def row(cell: NightlyCell) -> dict[str, object]:
    """What ``cells.json`` has of a cell that came out as it should."""
    old = cell.kafka.startswith("0.10.") and cell.story in {"loss", "divergence"}
    lost = int(old or (cell.story == "leader-kill" and cell.acks != "all") or cell.unclean)
    broken = lost and not cell.unclean and cell.acks == "all"
    return {
        **fields(cell),
        "run": f"{cell.key}-{cell.seed}".replace(" ", "-"),
        "verdict": "invalid" if broken else "valid",
        "sent": 5,
        "acknowledged": 5,
        "lost": lost,
        "unseen": 0,
        "divergent": int(old and cell.story == "divergence"),
        "as_predicted": True if cell.story else None,
        "report": "report.html",
        "problem": None,
        "seconds": 20.0 + len(cell.happened),
    }


def matrix(folder: Path, cells: Sequence[NightlyCell], change: Change = lambda _: {}) -> Path:
    """A matrix directory with a row for every cell, changed at will."""
    folder.mkdir(parents=True, exist_ok=True)
    changes = [(cell, change(cell)) for cell in cells]
    rows = [{**row(cell), **changed} for cell, changed in changes if changed is not None]
    (folder / "matrix.json").write_text("{}")
    (folder / "cells.json").write_text(json.dumps(rows))
    return folder


def is_canary(cell: NightlyCell) -> bool:
    """Whether a cell is one of a canary's."""
    return any(one.claims(cell) for one in canaries(newest()))


def outcome(night: Night, folder: Path, history: Sequence[CellResult] = ()) -> NightOutcome:
    """A night judged from the matrices below a folder."""
    rows, problems = read_rows([folder])
    wanted = canaries(newest())
    marks = mark_all(rows, night=night.night, plan=night, canaries=wanted)
    return NightOutcome(
        night=night.night,
        marks=marks,
        history=extend(history, marks, night.night),
        canaries=[one.name for one in wanted],
        problems=problems,
    )


def two_weeks(folder: Path) -> NightOutcome:
    """Fourteen nights: a regression, a flicker, lost results, a silent canary, something new."""
    dice = random.Random(14)  # noqa: S311 - invented, no secret
    history: Sequence[CellResult] = ()
    first = date(2026, 11, 8)
    for number in range(14):
        planned = night_of(first + timedelta(days=number), marks=history)

        def change(cell: NightlyCell, number: int = number) -> Mapping[str, object] | None:
            if number == 5 and cell.kafka == "2.8.2":
                return None
            if is_canary(cell):
                return {"lost": 0, "as_predicted": False} if number == 8 else {}
            if number >= 11 and (cell.kafka, cell.happened) == ("3.9.2-zk", "divergence"):
                return {"verdict": "invalid", "lost": 2, "divergent": 1, "as_predicted": False}
            if number in {12, 13} and (cell.kafka, cell.nemesis) == ("4.3.1", "kill,pause,stop"):
                return {"verdict": "invalid", "lost": 31, "acknowledged": 5804}
            if number == 13 and (cell.kafka, cell.happened) == ("2.8.2", "loss"):
                return {"verdict": "unknown", "as_predicted": None}
            return {"verdict": "unknown", "as_predicted": None} if dice.random() < 0.01 else {}

        matrix(folder / planned.night, planned.cells, change)
        found = outcome(planned, folder / planned.night, history)
        history = found.history
    return found

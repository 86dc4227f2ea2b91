"""The page docs/results.md: all measurements from the files in docs/results/, one row each."""

from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from highwater.reports.markdown import table

MEASUREMENTS: Final = Path(__file__).parent.parent / "docs" / "results"

_NOTE: Final = "<!-- Written by `make docs` from docs/results/*.toml. -->\n"
_INTRO: Final = """\
These are Highwater's measurements, with the commands that repeat them. The machine had two cores,
24 GB, Linux x86_64, Java 17 and Python 3.11. The files in `docs/results/` also have dates,
durations and the machine's load. [hazards.md](hazards.md) has the runs of stories, and
[model-results.md](model-results.md#on-real-brokers) the replays.
"""


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measurement and the command that repeats it.

    Attributes:
        what: the measured quantity.
        figure: the result, with its unit.
        date: the day of the measurement.
        command: the command that measures it; empty if it needs parts outside of this repository.
        machine: the duration, and other load of the machine.
    """

    what: str
    figure: str
    date: date
    command: str = ""
    machine: str = ""


class MeasuredTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file: measurements of one topic, in the order of the page."""

    title: str
    about: str = ""
    row: tuple[Measurement, ...]


def topics() -> list[MeasuredTopic]:
    """Return the topics in the order of their files' names."""
    return [
        msgspec.toml.decode(path.read_bytes(), type=MeasuredTopic)
        for path in sorted(MEASUREMENTS.glob("*.toml"))
    ]


def results() -> str:
    """Return the text of docs/results.md."""
    parts = ["# Results\n", _NOTE, _INTRO]
    for topic in topics():
        parts += [f"## {topic.title}\n", *([f"{topic.about}\n"] if topic.about else [])]
        rows = [(row.what, row.figure, row.command and f"`{row.command}`") for row in topic.row]
        parts.append(table(("what", "figure", "how"), rows) + "\n")
    return "\n".join(parts).rstrip() + "\n"

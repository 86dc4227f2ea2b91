"""The summary of a night as Markdown, for GitHub's step summary and a terminal."""

from collections.abc import Iterable, Sequence
from typing import Final

from highwater.harness.campaigns.nightly_cells import CellResult
from highwater.harness.campaigns.nightly_outcome import NightOutcome
from highwater.reports.markdown import escape, table

SHOWN_MAX: Final = 50
"""The greatest number of rows in a table. GitHub accepts a summary of at most one mebibyte."""

SLOWEST: Final = 10
_LAMPS: Final = {"green": "\N{LARGE GREEN CIRCLE}", "yellow": "\N{LARGE YELLOW CIRCLE}",
                 "red": "\N{LARGE RED CIRCLE}"}  # fmt: skip


def markdown(outcome: NightOutcome) -> str:
    """Return the summary as Markdown."""
    changes = outcome.changes
    unknown = [mark for mark in outcome.marks if mark.state == "unknown"]
    timed = [mark for mark in outcome.marks if mark.seconds is not None]
    slowest = sorted(timed, key=lambda mark: mark.seconds or 0.0, reverse=True)[:SLOWEST]
    parts = [
        f"## {_LAMPS[outcome.colour]} The night of {outcome.night} is {outcome.colour}\n",
        f"{outcome.headline} {outcome.counts}.\n",
        _list(outcome.reasons()),
        _cells("New", changes.new),
        _cells("Ongoing", changes.ongoing),
        _cells("Resolved", changes.resolved),
        _cells("Not as expected earlier, and not run tonight", changes.waiting),
        _canaries(outcome),
        _cells("Unknown", unknown),
        _repeat([*changes.new, *changes.ongoing]),
        _table("Slowest", ("cell", "seconds"), [(m.key, f"{m.seconds:.0f}") for m in slowest]),
        _outages(outcome),
        _list(outcome.notes),
    ]
    return "\n".join(part for part in parts if part)


def _canaries(outcome: NightOutcome) -> str:
    cells = [mark for mark in outcome.marks if mark.canary in outcome.canaries]
    rows: list[tuple[str, ...]] = [
        (m.canary or "", m.key, str(m.seed), m.state, m.losses) for m in cells
    ]
    unheard = set(outcome.canaries) - {mark.canary for mark in cells}
    rows += [(name, "not run", "", "", "") for name in sorted(unheard)]
    heads = ("canary", "cell", "seed", "state", "lost / acknowledged")
    return _table("Canaries, which must lose", heads, rows)


def _outages(outcome: NightOutcome) -> str:
    heads = ("release", "seconds", "median tonight", "median before", "cells", "")
    rows = [
        (
            row.kafka,
            row.measure,
            f"{row.now_s:.1f}",
            "-" if row.before_s is None else f"{row.before_s:.1f}",
            str(row.cells),
            "slower" if row.slower else "",
        )
        for row in outcome.outages
    ]
    return _table("Outages", heads, sorted(rows, key=lambda row: not row[-1]))


def _cells(title: str, marks: Sequence[CellResult]) -> str:
    heads = ("cell", "seed", "state", "lost / acknowledged", "divergent", "why")
    rows = [(m.key, str(m.seed), m.state, m.losses, str(m.divergent), m.why) for m in marks]
    return _table(title, heads, rows)


def _repeat(marks: Sequence[CellResult]) -> str:
    """Return a collapsed Markdown block with the commands that repeat cells."""
    if not marks:
        return ""
    commands = "\n".join(mark.command() for mark in marks[:SHOWN_MAX])
    return (
        "<details><summary>Commands that repeat new and ongoing cells</summary>\n\n"
        f"```sh\n{commands.replace('`', '')}\n```\n\n</details>\n"
    )


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    cells = [[escape(word) for word in row] for row in rows[:SHOWN_MAX]]
    more = f"\nand {len(rows) - SHOWN_MAX:,} more\n" if len(rows) > SHOWN_MAX else ""
    return f"### {title}: {len(rows):,}\n\n{table(heads, cells)}{more}"


def _list(sentences: Iterable[str]) -> str:
    return "".join(f"- {escape(sentence)}\n" for sentence in sentences)

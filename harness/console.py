"""What a person sees on the terminal: progress while runs go on, and tables at the end.

Progress goes to standard error and only to a terminal; results go to standard output.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Live
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.exits import BROKEN, OK, UNKNOWN
from reports import model

if TYPE_CHECKING:
    from harness.api import Judged, Progress

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

MODEL_LINES = 12
"""Lines about what the model does not understand; the report has all."""

COLOURS = {"valid": "green", "invalid": "red", "unknown": "yellow"}


@contextmanager
def progress(plain: Sequence[str] = ()) -> "Iterator[Progress]":
    """Show a line for each run that goes on.

    Args:
        plain: whose steps are printed where there is no terminal; all others are not.
    """
    if not err.is_terminal:
        yield lambda who, step: err.print(f"{who}: {step}") if who in plain else None
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Live(*columns, console=err, transient=True) as live:
        tasks: dict[str, TaskID] = {}

        def show(who: str, step: str) -> None:
            description = f"[bold]{escape(who)}[/bold] {escape(step)}"
            if who not in tasks:
                tasks[who] = live.add_task(description, total=None)
            live.update(tasks[who], description=description, visible=step != "frozen")

        yield show


def show_judged(judged: Sequence["Judged"]) -> None:
    """What was found about a few runs, a paragraph each."""
    for one in judged:
        verdict = one.verdict
        out.print(
            Text(verdict.verdict.upper(), style=f"bold {COLOURS[verdict.verdict]}"),
            Text(verdict.headline),
        )
        for reason in verdict.reasons:
            out.print(Text(f"  {reason}"))
        if verdict.sums:
            out.print(f"  {verdict.sums}")
        for anomaly in verdict.anomalies[:5]:
            out.print(Text(f"  {anomaly.kind}: {anomaly.sentence}"))
        if len(verdict.anomalies) > 5:  # noqa: PLR2004 - as many as fit beside the next run
            out.print(f"  … and {sum(verdict.counts.values()) - 5} more in the report")
        _show_model(one)
        if one.report.is_file():
            out.print(Text(f"  report: {one.report}"))


def finish(judged: Sequence["Judged"], *, as_json: bool) -> NoReturn:
    """Print what was found about runs, and exit with the code that it deserves."""
    if as_json:
        print_json([one.summary() for one in judged])
    else:
        show_judged(judged)
    found = {one.verdict.verdict for one in judged}
    raise typer.Exit(BROKEN if "invalid" in found else UNKNOWN if "unknown" in found else OK)


def print_json(objects: list[Any]) -> None:
    """Print one object, or a list for several."""
    shown = objects[0] if len(objects) == 1 else objects
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")


def modelled(judged: "Judged") -> Text:
    """The model's word about a run in its colour; a dash where the model was not asked."""
    if judged.model is None:
        return Text("-")
    return Text(model.WORDS[judged.model.status], style=COLOURS[model.COLOURS[judged.model.status]])


def _show_model(judged: "Judged") -> None:
    found = judged.model
    if found is None:
        return
    out.print(Text("  model: "), modelled(judged), Text(f". {model.sentence(found)}"), sep="")
    amiss = [f"not reproduced: {one}" for one in found.absent]
    amiss += model.told([one for one in found.findings if one.verdict == "unexplained"])
    for line in amiss[:MODEL_LINES]:
        out.print(Text(f"    {line}"))
    if len(amiss) > MODEL_LINES:
        out.print("    … and more in the report")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table of text; one column a heading."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def coloured(verdict: str) -> Text:
    """A verdict in its colour."""
    return Text(verdict, style=COLOURS[verdict])

"""Output on the terminal: progress while runs go on, and tables at the end.

Progress goes to standard error: a live line on a terminal, elsewhere a line every few seconds.
Results go to standard output.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Live
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.reports import model_text

if TYPE_CHECKING:
    from highwater.api import JudgedRun, Progress

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

MODEL_LINES = 12
"""Lines about what the model does not understand; the report has all."""

COLOURS = {"valid": "green", "valid, with losses": "magenta", "invalid": "red", "unknown": "yellow"}

PAUSE_S = 5.0
PAUSE_LATER_S = 30.0
LATER_S = 120.0
"""Seconds between two lines where there is no terminal, and after this many seconds longer ones."""

LOOK_S = 0.25
_LISTED = 3

Clock = Callable[[], float]


class Ticker:
    """Repeats the steps that still go on while nothing else is printed."""

    def __init__(self, say: Callable[[str], None], clock: Clock = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._began = self._spoke = clock()
        self._steps: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def show(self, who: str, step: str, *, aloud: bool = False) -> None:
        """Note that a run begins a step, and print it at once if ``aloud``."""
        now = self._clock()
        with self._lock:
            _, since = self._steps.pop(who, ("", now))
            if step != "frozen":
                self._steps[who] = step, since
            self._spoke = now if aloud else self._spoke
        if aloud:
            self._say(f"{who}: {step}")

    def tick(self) -> None:
        """Print the steps that go on, unless a line was printed a short while ago."""
        now = self._clock()
        pause = PAUSE_S if now - self._began < LATER_S else PAUSE_LATER_S
        with self._lock:
            if now - self._spoke < pause or not self._steps:
                return
            self._spoke = now
            line = self._line(now)
        self._say(line)

    def _line(self, now: float) -> str:
        parts = [
            f"{who}{': ' if who else ''}{'still ' * (now - since >= 1)}{step}, {now - since:.0f} s"
            for who, (step, since) in self._steps.items()
        ]
        left = len(parts) - _LISTED
        return "; ".join([*parts[:_LISTED], *([f"and {left} more"] if left > 0 else [])])


@contextmanager
def progress(plain: Sequence[str] = (), *, clock: Clock = time.monotonic) -> "Iterator[Progress]":
    """Show a line for each run that goes on.

    Args:
        plain: without a terminal, steps of these runs are printed at once; those of all other runs
            only when nothing else was printed for a few seconds.
        clock: returns seconds.
    """
    if err.is_terminal and not err.is_dumb_terminal:
        with _live() as show:
            yield show
        return
    ticker, ended = Ticker(_say, clock), threading.Event()

    def tick() -> None:
        while not ended.wait(LOOK_S):
            ticker.tick()

    # It is not waited for: a blocked standard error delays no end.
    threading.Thread(target=tick, name="ticker", daemon=True).start()
    try:
        yield lambda who, step: ticker.show(who, step, aloud=who in plain)
    finally:
        ended.set()


@contextmanager
def waiting(step: str, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Show that a step goes on (``judging 3 runs``) while the block lasts."""
    with progress(clock=clock) as show:
        show("", step)
        yield


@contextmanager
def _live() -> "Iterator[Progress]":
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Live(*columns, console=err, transient=True) as live:
        tasks: dict[str, TaskID] = {}

        def show(who: str, step: str) -> None:
            name = f"[bold]{escape(who)}[/bold] " if who else ""
            description = f"{name}{escape(step)}"
            if who not in tasks:
                tasks[who] = live.add_task(description, total=None)
            live.update(tasks[who], description=description, visible=step != "frozen")

        yield show


def _say(line: str) -> None:
    """Print a line without a buffer, so that a line that blocks is not printed again at exit."""
    with suppress(AttributeError, OSError, ValueError):  # closed from the start, or meanwhile
        os.write(sys.stderr.fileno(), f"{line}\n".encode())


def show_judged(judged: Sequence["JudgedRun"]) -> None:
    """Print the verdicts of a few runs, a paragraph for each run."""
    for judged_run in judged:
        verdict = judged_run.verdict
        out.print(
            Text(verdict.word.upper(), style=f"bold {COLOURS[verdict.word]}"),
            Text(verdict.headline),
        )
        for reason in verdict.reasons:
            out.print(Text(f"  {reason}"))
        if verdict.happened:
            out.print(Text(f"  happened: {verdict.happened}"))
        if verdict.sums:
            out.print(f"  {verdict.sums}")
        for anomaly in verdict.anomalies[:5]:
            out.print(Text(f"  {anomaly.kind}: {anomaly.sentence}"))
        if len(verdict.anomalies) > 5:  # noqa: PLR2004 - as many as fit beside the next run
            out.print(f"  … and {sum(verdict.counts.values()) - 5} more in the report")
        _show_model(judged_run)
        if judged_run.page:
            out.print(Text(f"  report: {judged_run.page}"))


def finish(judged: Sequence["JudgedRun"], *, as_json: bool) -> NoReturn:
    """Print the verdicts of runs, and exit with the code of the worst."""
    if as_json:
        print_all_json([judged_run.summary() for judged_run in judged])
    else:
        show_judged(judged)
    verdicts = {judged_run.verdict.verdict for judged_run in judged}
    raise typer.Exit(BROKEN if "invalid" in verdicts else UNKNOWN if "unknown" in verdicts else OK)


def print_json(value: object) -> None:
    """Print a value as JSON, structs among it as objects."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")


def print_all_json(objects: Sequence[object]) -> None:
    """Print one object as JSON, or a list for several."""
    print_json(objects[0] if len(objects) == 1 else objects)


OUTCOME = ("lost / acked", "forked offsets", "verdict", "model")


def outcome(judged: "JudgedRun") -> list[str | Text]:
    """Return the cells of a run below the headings ``OUTCOME``."""
    verdict, ledger = judged.verdict, judged.verdict.ledger
    return [
        f"{ledger.lost} of {ledger.acknowledged}" if verdict.account == "whole" else "not known",
        str(verdict.counts.get("divergence", 0)),
        Text(verdict.word, style=COLOURS[verdict.word]),
        modelled(judged),
    ]


def modelled(judged: "JudgedRun") -> Text:
    """Return the model's status of a run in its colour, or a dash without one."""
    if judged.model is None:
        return Text("-")
    status = judged.model.status
    return Text(model_text.WORDS[status], style=COLOURS[model_text.COLOURS[status]])


def _show_model(judged: "JudgedRun") -> None:
    model = judged.model
    if model is None:
        return
    out.print(Text("  model: "), modelled(judged), Text(f". {model_text.sentence(model)}"), sep="")
    amiss = [f"not reproduced: {absence}" for absence in model.absent]
    amiss += model_text.sentences(
        [finding for finding in model.findings if finding.verdict == "unexplained"]
    )
    for line in amiss[:MODEL_LINES]:
        out.print(Text(f"    {line}"))
    if len(amiss) > MODEL_LINES:
        out.print("    … and more in the report")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table of text with one column per heading."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made

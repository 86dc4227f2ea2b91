"""Terminal output: the progress of runs, and tables of results.

Progress is written to standard error: as a live line on a terminal, otherwise as a line for each
new phase. Results are written to standard output.
"""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
from highwater.harness.base.files import write_whole
from highwater.harness.runs.availability import NOT_OBSERVED
from highwater.reports import model_text
from highwater.reports.sections.program import mistake

if TYPE_CHECKING:
    from pathlib import Path

    from highwater.api import JudgedRun, Progress
    from highwater.harness.runs.store import Run
    from highwater.harness.runs.verdict import Anomaly

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

ANOMALY_LINES = 5
MODEL_LINES = 12
"""The greatest number of lines about findings that the model does not explain. The report has all
such findings."""

COLOURS = {"valid": "green", "valid, with losses": "magenta", "invalid": "red", "unknown": "yellow"}

SHORT_S = 1.0
PAUSE_S = 15.0
"""Without a terminal, a phase is printed if it lasts for ``SHORT_S`` seconds, and the longest phase
every ``PAUSE_S`` seconds."""

LOOK_S = 0.25
_NUMBERS = re.compile(r"[\d.,]+")

Clock = Callable[[], float]


@dataclass(slots=True)
class _Phase:
    step: str
    since: float
    printed: bool = False


class Ticker:
    """Prints each phase of every run once. After a pause it prints the oldest phase again.

    Steps that differ only in numbers belong to the same phase.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._spoke = clock()
        self._phases: dict[str, _Phase] = {}
        self._lock = threading.Lock()

    def show(self, who: str, step: str, *, aloud: bool = False) -> None:
        """Record that a run begins a step; if ``aloud``, print the step at once."""
        now = self._clock()
        with self._lock:
            phase = self._phases.pop(who, None)
            if phase is None or _NUMBERS.sub("", phase.step) != _NUMBERS.sub("", step):
                phase = _Phase(step, now)
            phase.step, phase.printed = step, phase.printed or aloud
            if step != "frozen":
                self._phases[who] = phase
            self._spoke = now if aloud else self._spoke
        if aloud:
            self._say(_named(who, step))

    def tick(self) -> None:
        """Print new phases; if nothing was printed for some time, print the oldest phase again."""
        now = self._clock()
        with self._lock:
            lines = []
            for who, phase in self._phases.items():
                if not phase.printed and now - phase.since >= SHORT_S:
                    phase.printed = True
                    lines.append(_named(who, phase.step))
            if not lines and self._phases and now - self._spoke >= PAUSE_S:
                lines.append(self._longest(now))
            self._spoke = now if lines else self._spoke
        for line in lines:
            self._say(line)

    def _longest(self, now: float) -> str:
        who, phase = min(self._phases.items(), key=lambda item: item[1].since)
        rest = f", and {len(self._phases) - 1} more" * (len(self._phases) > 1)
        return f"{_named(who, phase.step)}, {now - phase.since:.0f} s{rest}"


def _named(who: str, step: str) -> str:
    return f"{who}: {step}" if who else step


@contextmanager
def progress(plain: Sequence[str] = (), *, clock: Clock = time.monotonic) -> "Iterator[Progress]":
    """Show a line for each active run.

    Args:
        plain: labels whose every step is printed at once if standard error is no terminal. For
            other labels, only slow phases are printed.
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

    # The end of the command does not wait for this thread, because a blocked standard error would
    # delay it.
    threading.Thread(target=tick, name="ticker", daemon=True).start()
    try:
        yield lambda who, step: ticker.show(who, step, aloud=who in plain)
    finally:
        ended.set()


@contextmanager
def waiting(step: str, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Show a step, such as ``judging 3 runs``, while the ``with`` block runs."""
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
    """Print a line without a buffer: Python would write a blocked line a second time at exit."""
    with suppress(AttributeError, OSError, ValueError):  # standard error is closed
        os.write(sys.stderr.fileno(), f"{line}\n".encode())


def _of_each_kind(anomalies: "Sequence[Anomaly]") -> "list[Anomaly]":
    """Sort anomalies: first one of each kind, then the rest; keep the order otherwise."""
    of = {(anomaly.kind, mistake(anomaly)): id(anomaly) for anomaly in reversed(anomalies)}
    firsts = set(of.values())
    return sorted(anomalies, key=lambda anomaly: id(anomaly) not in firsts)


def show_judged(judged: Sequence["JudgedRun"]) -> None:
    """Print the verdicts of runs, one paragraph for each run."""
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
        measured = verdict.availability
        out.print(Text(f"  longest outages: {measured.says if measured else NOT_OBSERVED}"))
        for anomaly in _of_each_kind(verdict.anomalies)[:ANOMALY_LINES]:
            out.print(Text(f"  {anomaly.kind}: {anomaly.sentence}"))
        if len(verdict.anomalies) > ANOMALY_LINES:
            more = sum(verdict.counts.values()) - ANOMALY_LINES
            out.print(f"  … and {more} more in the report")
        for cure in dict.fromkeys(filter(None, map(mistake, verdict.anomalies))):
            out.print(Text(f"  mistake: {cure}"))
        _show_model(judged_run)
        if judged_run.page:
            out.print(Text(f"  report: {judged_run.page}"))


def finish(
    judged: Sequence["JudgedRun"], *, as_json: bool, junit: "Path | None" = None
) -> NoReturn:
    """Print the verdicts of runs, and exit: 1 if a run is invalid, else 3 if unknown, else 0.

    Args:
        junit: the file to which the verdicts are written as JUnit XML.
    """
    write_junit(junit, [judged_run.run for judged_run in judged])
    if as_json:
        print_all_json([judged_run.summary() for judged_run in judged])
    else:
        show_judged(judged)
    verdicts = {judged_run.verdict.verdict for judged_run in judged}
    raise typer.Exit(BROKEN if "invalid" in verdicts else UNKNOWN if "unknown" in verdicts else OK)


def write_junit(file: "Path | None", runs: "Sequence[Run]") -> None:
    """Write the verdicts of runs as JUnit XML, unless ``file`` is None."""
    if file is not None:
        from highwater.reports import formats  # noqa: PLC0415 - needed here only
        from highwater.reports.run_summary import RunSummary  # noqa: PLC0415 - beside it

        summaries = [RunSummary.of(run) for run in runs]
        write_whole(file, formats.junit(summaries).encode())


def print_json(value: object) -> None:
    """Print a value as JSON; msgspec structs become objects."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")


def print_all_json(objects: Sequence[object]) -> None:
    """Print one object as JSON, and several objects as a list."""
    print_json(objects[0] if len(objects) == 1 else objects)


OUTCOME = ("lost / acked", "forked offsets", "verdict", "model")


def outcome(judged: "JudgedRun") -> list[str | Text]:
    """Return a run's table cells, one for each heading in ``OUTCOME``."""
    verdict, ledger = judged.verdict, judged.verdict.ledger
    total = {"whole": ledger.acknowledged, "received": ledger.received}.get(verdict.account)
    return [
        "not known" if total is None else f"{ledger.lost} of {total}",
        str(verdict.counts.get("divergence", 0)),
        Text(verdict.word, style=COLOURS[verdict.word]),
        modelled(judged),
    ]


def modelled(judged: "JudgedRun") -> Text:
    """Return the coloured status of the model's explanation; a dash if there is no explanation."""
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
    """Return a table with one column for each heading."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made

"""The index page of a store: all its runs, and its pages about several runs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from highwater.harness.base.errors import NotThereError, StoreError
from highwater.harness.base.files import is_file
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import INVALID, LOSSY, UNKNOWN
from highwater.reports import model_text
from highwater.reports.html import render

_PAGES: Final = ("demo.html", "index.html", "trend.html")
"""File name patterns of pages about several runs in a store."""

RUNS_MAX: Final = 1000
"""Maximum number of listed runs; the oldest runs are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    """One run in the index.

    Attributes:
        verdict: the verdict's word; None for a run that was not judged.
        why: the reason if the run has no verdict or cannot be read; empty for a judged run.
        lost: number of lost records; None if the records could not be counted.
        model: the word for the model's status; empty without the model.
    """

    name: str
    link: str | None
    kafka: str = ""
    what: str = ""
    acks: str = ""
    verdict: str | None = None
    lost: int | None = None
    acknowledged: int = 0
    model: str = ""
    why: str = ""


def page(root: Path) -> str:
    """Read a store and return its index as HTML."""
    if not root.is_dir():
        raise NotThereError(f"there is no store at {root}", hint="Name its folder with --store.")
    names = Store(root).names()
    entries = [_entry(root, name) for name in reversed(names[-RUNS_MAX:])]
    return render(
        "shelf.html.j2",
        store=root.name,
        entries=entries,
        left_out=len(names) - len(entries),
        pages=list(_pages(root)),
        invalid=sum(entry.verdict == INVALID for entry in entries),
        open=sum(entry.verdict in (None, UNKNOWN) for entry in entries),
        lossy=sum(entry.verdict == LOSSY for entry in entries),
    )


def _pages(root: Path) -> Iterator[tuple[str, str]]:
    for name in _PAGES:
        if (root / name).is_file():
            yield name, name
    for page in sorted((*root.glob("demo-*.html"), *root.glob("compare-*.html"))):
        yield page.stem, quote(page.name)
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if is_file(MatrixFolder(folder).page):
            yield folder.name, quote(f"{folder.name}/index.html")


def _entry(root: Path, name: str) -> RunListing:
    """Return the index entry of a run, even if the run is still being written."""
    run = Run(root / name)
    link = quote(f"{name}/{run.report.name}") if is_file(run.report) else None
    try:
        plan = run.plan()
    except StoreError as error:
        return RunListing(name=name, link=link, why=error.message)
    listing = RunListing(
        name=name,
        link=link,
        kafka=plan.kafka,
        what=plan.happens.replace(",", ", "),
        acks="-" if plan.read_only else plan.workload.acks,
    )
    try:
        verdict, model = run.verdict(), model_text.read(run)
    except StoreError as error:
        return replace(listing, why=error.message if run.judged else _phase(run) or error.message)
    except OSError as error:
        return replace(listing, why=f"{error.filename or name} cannot be read: {error.strerror}")
    return replace(
        listing,
        verdict=verdict.word,
        lost=verdict.ledger.lost if verdict.account == "whole" else None,
        acknowledged=verdict.ledger.acknowledged,
        model=model_text.WORDS[model.status] if model else "",
    )


def _phase(run: Run) -> str:
    """Return the last phase of a run without a verdict; empty if unknown."""
    try:
        phase = run.status().phase
    except StoreError:
        return ""
    return "not judged yet" if phase == "frozen" else f"{phase}, or ended early in this phase"

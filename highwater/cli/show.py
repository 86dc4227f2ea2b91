"""The commands that show stored runs: ``report``, ``compare`` and ``serve``."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import DEFAULT_STORE, JsonOption, RunsArgument, StoreOption
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.exit_codes import FAILED, OK
from highwater.harness.base.files import require_writable
from highwater.harness.base.wording import count
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.runs.store import Run, Store

_T = TypeVar("_T")


def report(
    runs: RunsArgument,
    *,
    form: Annotated[
        str,
        Option(
            "--format",
            help="Format: html writes pages; md, json, junit, github (annotations) and otlp (spans)"
            " are printed.",
        ),
    ] = "html",
    show: Annotated[bool, Option("--open", help="Open the last page in a browser.")] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Write the reports of judged runs again, and an overview page for several runs."""
    from highwater.campaigns.matrix_run import row_of, write_matrix_page
    from highwater.reports import formats
    from highwater.reports.pages.matrix import write as write_page
    from highwater.reports.pages.run import write as write_report
    from highwater.reports.run_summary import RunSummary

    folder = MatrixFolder.named(runs, store)
    opened = [Store(store).open(name) for name in runs] if folder is None else folder.runs()
    if form != "html":
        if show:
            raise UsageError(
                "--open opens a page, which only --format html writes", hint="Leave --format out."
            )
        write = formats.find_format(form)
        summaries, refused = _readable(opened, RunSummary.of)
        sys.stdout.write(write(summaries))
        raise typer.Exit(FAILED if refused else OK)
    refused = 0
    with console.waiting(f"writing pages of {count(len(opened), 'run')}"):
        if folder is not None:
            written = [write_matrix_page(folder)]
        else:
            written, refused = _readable(opened, write_report)
            if len(opened) > 1 and written:
                place = home(opened, store)
                rows, _ = _readable(
                    [Run(page.parent) for page in written], partial(row_of, home=place)
                )
                written.append(write_page(rows, place / "index.html"))
    if as_json:
        console.print_all_json([str(path) for path in written])
    else:
        for path in written:
            console.out.print(str(path))
    if show and written:
        typer.launch(written[-1].resolve().as_uri())
    raise typer.Exit(FAILED if refused else OK)


def _readable(runs: Sequence[Run], tell: Callable[[Run], _T]) -> tuple[list[_T], int]:
    """Apply a function to each run; return the results, and the number of damaged runs.

    Raises:
        StoreError: there is only one run, and it is damaged.
    """
    done: list[_T] = []
    refused = 0
    for run in runs:
        try:
            done.append(tell(run))
        except StoreError as error:
            if len(runs) == 1:
                raise
            refused += 1
            console.err.print(Text(f"{run.name}: {error.message}"))
    return done, refused


def home(runs: Sequence[Run], store: Path) -> Path:
    """Return the folder for a page about several runs.

    It is the store if the store has one of the runs; otherwise it is the first run's folder.
    """
    inside = any(store.resolve() in run.path.resolve().parents for run in runs)
    return store if inside else runs[0].path.parent


def compare(
    left: Annotated[str, Argument(help="A judged run: its directory or name.")],
    right: Annotated[str, Argument(help="Another run with the same schedule.")],
    *,
    out: Annotated[
        Path | None,
        Option(
            help="File of the page.  [default: compare-LEFT-RIGHT.html in the store, or beside "
            "runs outside of the store]"
        ),
    ] = None,
    show: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compare two runs of one schedule side by side, step by step."""
    from highwater.reports.pages import comparison

    if out is not None:
        require_writable(out, "--out")
    first, second = (Store(store).open(name) for name in (left, right))
    target = out or home((first, second), store) / comparison.name(first, second)
    console.out.print(str(comparison.write(first, second, target)))
    if show:
        typer.launch(target.resolve().as_uri())


def serve(
    *,
    store: StoreOption = DEFAULT_STORE,
    port: Annotated[
        int, Option(min=0, max=65535, help="Port on 127.0.0.1; 0 chooses a free port.")
    ] = 8080,
    show: Annotated[bool, Option("--open", help="Open the store's page in a browser.")] = False,
) -> None:
    """Serve a store's runs and reports to a browser on this machine, read-only."""
    from highwater.reports.pages.store_server import Server

    with Server(store, port) as server:
        console.err.print(f"{store} is served at {server.url}; Ctrl-C ends it.")
        if show:
            typer.launch(server.url)
        server.serve_forever()

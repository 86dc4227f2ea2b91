"""The command ``highwater nightly``: plan the runs of a night, and summarise their results."""

import json
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import JsonOption
from highwater.harness.base.errors import UsageError
from highwater.harness.runs import parse_values

app = typer.Typer(
    name="nightly",
    help="Plan a night of runs over all releases, and summarise the results.",
    no_args_is_help=True,
)

FIRST: Final = date(2026, 1, 1)
"""The date of night 0; ``--night`` counts from it."""

PreviousOption = Annotated[
    Path | None, Option(help="trend.jsonl of earlier nights.", show_default=False)
]


@app.command()
def plan(  # noqa: PLR0913 - a command's options are its arguments
    *,
    night: Annotated[
        int | None, Option(help="The night as a number: days since 2026-01-01.", min=0)
    ] = None,
    on: Annotated[
        str | None, Option("--date", help="The night's date.  [default: today, UTC]")
    ] = None,
    previous: PreviousOption = None,
    kafka: Annotated[str, Option(help="Releases, separated by commas, or all.")] = "all",
    driver: Annotated[str, Option(help="Cluster drivers, if the release has them.")] = (
        "local,docker"
    ),
    jobs: Annotated[int, Option(help="Machines.", min=1, max=256)] = 8,
    minutes: Annotated[float, Option(help="Minutes for the cells of each machine.", min=1)] = 70,
    out: Annotated[
        Path | None,
        Option(help="Folder for night.json, matrices and scripts."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose a night's cells by its date and earlier nights, and distribute them over machines.

    With --json, print the matrix of a GitHub workflow on one line.
    """
    from highwater.campaigns import nightly_jobs as dealing
    from highwater.campaigns import nightly_plan as planning
    from highwater.harness.campaigns import nightly_trend

    when = _when(night, on)
    marks, notes = nightly_trend.read(previous) if previous else ([], [])
    planned = planning.plan_night(
        when,
        releases=planning.find_releases(parse_values.names(kafka)),
        drivers=planning.find_drivers(parse_values.names(driver)),
        marks=[mark for mark in marks if mark.night < when.isoformat()],
        jobs=jobs,
        minutes=minutes,
    )
    if out is not None:
        dealing.write(planned, out)
    for note in notes:
        console.err.print(note)
    if as_json:
        sys.stdout.write(json.dumps(dealing.github_matrix(planned)) + "\n")
    else:
        console.out.print(dealing.table(planned))


@app.command()
def summarize(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS...", help="Matrix directories, or folders above them."),
    ],
    *,
    planned: Annotated[
        Path | None,
        Option(
            "--plan",
            help="The night's plan, to find cells without a result.",
            show_default=False,
        ),
    ] = None,
    previous: PreviousOption = None,
    on: Annotated[
        str | None, Option("--date", help="The night's date.  [default: the plan's, or today]")
    ] = None,
    out: Annotated[Path, Option(help="Folder for trend.jsonl and trend.html.")] = Path("night"),
    step_summary: Annotated[
        Path | None,
        Option(
            envvar="GITHUB_STEP_SUMMARY",
            help="File that also gets the Markdown.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Summarise a night from its matrices: print Markdown, and write the history and trend page.

    Exit codes: 0 the night is green, 1 it is red, 3 it is yellow (a cell is unknown).
    """
    from highwater.campaigns import nightly_jobs as dealing
    from highwater.campaigns import nightly_plan as planning
    from highwater.campaigns import nightly_results as reading
    from highwater.campaigns.nightly_summary import markdown
    from highwater.harness.campaigns import nightly_trend
    from highwater.harness.campaigns.nightly_cells import canaries
    from highwater.harness.campaigns.nightly_outcome import EXIT_CODES, NightOutcome
    from highwater.reports.pages.trend import write

    whole = dealing.read(planned) if planned else None
    night = _when(None, on or (whole.night if whole else None)).isoformat()
    history, notes = nightly_trend.read(previous) if previous else ([], [])
    rows, problems = reading.read_rows(results)
    canary_list = canaries(planning.newest())
    marks = reading.mark_all(rows, night=night, plan=whole, canaries=canary_list)
    outcome = NightOutcome(
        night=night,
        marks=marks,
        history=nightly_trend.extend(history, marks, night),
        canaries=[canary.name for canary in canary_list],
        problems=problems,
        notes=notes,
    )
    nightly_trend.write(out / "trend.jsonl", outcome.history)
    write(outcome, out / "trend.html")
    text = markdown(outcome)
    sys.stdout.write(text)
    if step_summary is not None:
        with step_summary.open("a", encoding="utf-8") as summary:
            summary.write(text)
    raise typer.Exit(EXIT_CODES[outcome.colour])


@app.command()
def keep(
    results: Annotated[
        list[Path], Argument(metavar="RESULTS...", help="Folders that contain matrices.")
    ],
    *,
    out: Annotated[Path, Option(help="Folder for the copies.")] = Path("kept"),
    most: Annotated[int, Option(help="Megabytes of complete runs.", min=0)] = 400,
) -> None:
    """Copy results, pages, and complete runs of failed cells."""
    from highwater.campaigns import nightly_plan as planning
    from highwater.campaigns import nightly_results
    from highwater.harness.campaigns.nightly_cells import canaries

    canary_list = canaries(planning.newest())
    for note in nightly_results.keep(results, out, canaries=canary_list, most=most * 1_000_000):
        console.err.print(note)


def _when(night: int | None, on: str | None) -> date:
    if night is not None and on is not None:
        raise UsageError(
            "name a night by a number or a date, not both", hint="Leave out --night or --on."
        )
    if night is not None:
        return FIRST + timedelta(days=night)
    if on is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(on)
    except ValueError:
        raise UsageError(f"{on!r} is not a date", hint="Write the date as 2026-11-21.") from None

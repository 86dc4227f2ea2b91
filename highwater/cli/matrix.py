"""The command ``highwater matrix``: run all combinations of settings, and write one page."""

import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text
from typer import Option

from highwater import console
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JunitOption,
    StoreOption,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN, FAILED, OK, UNKNOWN
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.campaigns.matrix_cells import (
    DELIVERIES,
    Axes,
    Delivery,
    MatrixFolder,
    MatrixRow,
)
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.runs import parse_values
from highwater.harness.runs.options import options_of, several
from highwater.harness.runs.plan import Plan, Topic

_WIDE: Final = 13
"""The greatest number of columns that fit on a terminal."""


_FIELDS: Final = {
    "kafka": "kafkas",
    "story": "stories",
    "acks": "acks",
    "min_isr": "min_isrs",
    "unclean": "uncleans",
    "cluster": "drivers",
    "client": "clients",
    "reader_client": "reader_clients",
    "group_protocol": "group_protocols",
    "share": "shares",
    "seed": "seeds",
}
"""Settings of a plan that are axes of a matrix, with their fields in ``Axes``."""

_AXES: Final = {name: several(options_of(Plan)[name]) for name in _FIELDS}


@takes(
    given=group_of(
        _AXES | {"cluster": replace(_AXES["cluster"], typed="--cluster --driver")},
        kafka="Releases, separated by commas, or all.  [default: all]",
        story="Stories (scripted scenarios).  [default: loss,divergence]",
        acks="Values of acks: 0, 1, all.",
        min_isr=f"Values of min.insync.replicas: 1 to {Topic().replication_factor}.",
        unclean="Whether unclean elections are allowed: false, true or both.  [default: false]",
        cluster="Cluster drivers: local, docker.",
        client="Libraries of the producers: librdkafka, java, java:RELEASE, kafka-python,"
        " aiokafka.",
        reader_client="Libraries of the readers and of group members, named as for producers.",
        group_protocol=(
            "Protocols of a group of three readers, with a nemesis: classic, consumer.  "
            "[default: (no group)]"
        ),
        share="Members of a share group (KIP-932), with a nemesis; 0 for no group.",
        seed="Seeds; each cell has a run for each seed.",
    ),
    spark=spark_options,
)
def matrix(  # noqa: PLR0913 - a command's options are its arguments
    *,
    given: dict[str, Any],
    nemesis: Annotated[
        list[str] | None,
        Option(help="Faults to mix at random: kill,pause. Repeat the option for each mix."),
    ] = None,
    duration: Annotated[
        str, Option("--for", help=f"Duration of each mix, {limits.FAULTS_S.lasting}.")
    ] = "30s",
    delivery: Annotated[
        str | None,
        Option(
            help="The producers' delivery: plain, idempotent, transactional.  [default: plain; a"
            " story decides its own]"
        ),
    ] = None,
    jobs: Annotated[int, Option(min=1, max=8, help="Clusters at the same time.")] = 1,
    name: Annotated[
        str | None,
        Option(help="Name of the matrix's folder in the store.  [default: matrix-<time>]"),
    ] = None,
    resume: Annotated[
        str | None,
        Option(metavar="MATRIX", help="Continue this matrix with its own plan."),
    ] = None,
    expect: Annotated[
        bool, Option("--expect", help="Exit with 0 if every cell ended as predicted.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: Annotated[bool, Option("--json", help="Print the rows as JSON.")] = False,
    junit: JunitOption = None,
    spark: SparkOptions,
) -> None:
    """Run every combination of releases, settings and faults, and show the results on one page."""
    from highwater.campaigns.matrix_run import perform

    if resume is None:
        mixes = tuple(parse_values.nemesis(mix) for mix in nemesis or ())
        if given.get("kafka", "all") == "all":
            given["kafka"] = ",".join(CATALOGUE)
        given.setdefault("story", "none" if mixes else "loss,divergence")
        axes = Axes(
            nemeses=mixes,
            deliveries=_deliveries(delivery or ""),
            duration_s=parse_values.duration(duration),
            **{_FIELDS[name]: _AXES[name].value(text) for name, text in given.items()},
        )
        folder = _create(axes, store, name)
    else:
        folder = MatrixFolder.open(resume, store)
    with _resumable(folder, jobs), console.progress(plain=("matrix",)) as progress:
        rows = perform(folder, spark=spark, jobs=jobs, progress=progress)
    finish(folder, rows, expect=expect, as_json=as_json, junit=junit)


def _deliveries(text: str) -> tuple[Delivery, ...]:
    names = parse_values.names(text)
    if unknown := [name for name in names if name not in DELIVERIES]:
        raise UsageError(
            f"{unknown[0]} is not a kind of delivery",
            hint=f"Kinds of delivery are {', '.join(DELIVERIES)}.",
        )
    return tuple(word for word in DELIVERIES if word in names)


def finish(
    folder: MatrixFolder,
    rows: Sequence[MatrixRow],
    *,
    expect: bool = False,
    as_json: bool = False,
    junit: Path | None = None,
) -> None:
    """Print the results of a matrix, and exit with the matrix's exit code."""
    console.write_junit(junit, folder.runs())
    if as_json:
        console.print_json(rows)
    else:
        _show(folder, rows)
    code = exit_code(rows, expect=expect)
    if len(rows) < len(folder.matrix().cells):
        code = code or UNKNOWN
    raise typer.Exit(code)


def exit_code(rows: Sequence[MatrixRow], *, expect: bool) -> int:
    """Return 1 if a cell is broken, else 4 for a harness failure, 3 for an unknown cell, or 0.

    Args:
        expect: whether predicted losses are allowed. Then a cell with a prediction is broken only
            if it ended differently, or if the model cannot explain a finding.
    """
    judged = [row for row in rows if row.verdict != "unknown"]
    broken = [
        row.model == "unexplained" or row.as_predicted is False
        if expect and row.as_predicted is not None
        else row.verdict == "invalid"
        for row in judged
    ]
    if any(broken):
        return BROKEN
    if any(row.problem for row in rows):
        return FAILED
    return OK if len(judged) == len(rows) else UNKNOWN


def _create(axes: Axes, store: Path, name: str | None) -> MatrixFolder:
    from highwater.campaigns.matrix_plan import lay_out

    laid = lay_out(axes)
    folder = MatrixFolder(store / (name or f"matrix-{datetime.now(UTC):%Y%m%dT%H%M%S}"))
    if folder.path.exists():
        raise UsageError(
            f"{folder.path} exists already",
            hint=f"Continue it: highwater matrix --resume {folder.path}, or choose a --name.",
        )
    folder.write(laid)
    return folder


@contextlib.contextmanager
def _resumable(folder: MatrixFolder, jobs: int) -> Iterator[None]:
    """Print the command that resumes the matrix, if the matrix ends early."""
    try:
        yield
    except BaseException:
        words = f"highwater matrix --resume {folder.path}" + (f" --jobs {jobs}" if jobs > 1 else "")
        sys.stderr.write(f"Finished cells are kept. Continue with: {words}\n")
        raise


def _show(folder: MatrixFolder, rows: Sequence[MatrixRow]) -> None:
    from highwater.reports.pages.matrix import headline, sums

    matrix = folder.matrix()
    if rows and _columns(rows) <= _WIDE:
        console.out.print(table(rows))
    console.out.print(headline(rows))
    console.out.print("; ".join(sums(rows, matrix)) + ".")
    for row in rows:
        if row.problem:
            console.out.print(f"  {row.run}: {row.problem}")
        elif row.verdict == "unknown":
            console.out.print(f"  could not be judged: {folder.path / row.report}")
        elif row.as_predicted is False:
            console.out.print(f"  not as predicted: {folder.path / row.report}")
        elif row.model == "unexplained":
            console.out.print(f"  not explained by the model: {folder.path / row.report}")
    for reason, number in Counter(skipped.reason for skipped in matrix.skipped).items():
        console.out.print(f"  not run, {number} x: {reason}")
    console.out.print(f"Page of the whole matrix: {folder.page.resolve()}")


def _columns(rows: Sequence[MatrixRow]) -> int:
    return min(len({row.line for row in rows}), len({row.kafka for row in rows}))


def table(rows: Sequence[MatrixRow]) -> Table:
    """Return a table of settings and releases; the longer of the two lists becomes the rows."""
    words = {row.line: _words(row) for row in rows}
    varied = [len(set(column)) > 1 for column in zip(*words.values(), strict=True)]
    common = [word for word, vary in zip(_words(rows[0]), varied, strict=True) if word and not vary]
    heads = {
        line: ", ".join(itertools.compress(parts, varied)).strip(", ") or parts[0]
        for line, parts in words.items()
    }
    releases = {row.kafka: row.kafka for row in rows}
    cells: dict[tuple[object, object], list[MatrixRow]] = {}
    for row in rows:
        cells.setdefault((row.kafka, row.line), []).append(row)
        cells.setdefault((row.line, row.kafka), []).append(row)
    settings_down = len(heads) > len(releases)
    down, across = (heads, releases) if settings_down else (releases, heads)
    body: list[list[str | Text]] = [
        [name, *(_cell(cells.get((at, other), [])) for other in across)]
        for at, name in down.items()
    ]
    corner = "" if settings_down else "Kafka"
    title = (
        "Each cell: lost / acknowledged records, and forked offsets. All cells: "
        f"{', '.join(common)}"
    ).rstrip(": ")
    return console.table(title, [corner, *across.values()], body)


def _words(row: MatrixRow) -> tuple[str, ...]:
    """Return each part of a row's setting as text, such as ``acks=all``; "" for a default."""
    driver, client, delivery, *groups = row.machinery
    return (
        row.happened,
        f"acks={row.acks}",
        f"min.isr={row.min_isr}" if row.min_isr > 1 else "",
        "unclean" if row.unclean else "",
        driver,
        Path(client).name,
        delivery,
        ", ".join(groups),
    )


def _cell(rows: Sequence[MatrixRow]) -> Text:
    axes = []
    for row in rows:
        forked = f" +{row.divergent}" if row.divergent else ""
        odd = " NOT PREDICTED" if row.as_predicted is False else ""
        odd = " UNEXPLAINED" if row.model == "unexplained" else odd
        odd = " UNKNOWN" if row.verdict == "unknown" else odd
        others = f"\n{row.others}" if row.others else ""
        words = f"{row.losses.replace(' ', '')}{forked}{odd}{others}"
        axes.append(Text(words, style=console.COLOURS[row.word]))
    return Text("\n").join(axes) if axes else Text("-")

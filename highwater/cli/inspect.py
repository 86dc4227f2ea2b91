"""The command ``highwater inspect``: compare log directories, partition by partition."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text
from typer import Argument, Option

from highwater import console
from highwater.checkers.inspection.report_types import (
    InspectedPartition,
    InspectedReplica,
    Inspection,
    Verdict,
)
from highwater.cli.options.common import JsonOption, on_spark
from highwater.harness.base.files import require_writable
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.wording import count

CODES: Final[dict[Verdict, int]] = {
    "agree": 0,
    "alone": 0,
    "lag": 0,
    "fork": 1,
    "corrupt": 1,
    "unknown": 3,
}
"""Exit codes for the worst verdict; 2 means wrong usage."""

_COLOURS: Final[dict[Verdict, str]] = {
    "agree": "green",
    "alone": "cyan",
    "lag": "green",
    "fork": "red",
    "corrupt": "red",
    "unknown": "yellow",
}
_TOLD_MAX: Final = 20
"""The greatest number of partitions that the terminal shows in detail; --json and --html show all.
"""


@on_spark
def inspect(
    directories: Annotated[
        list[Path],
        Argument(
            metavar="DIR...",
            help="Log directories of brokers, folders that contain log directories, or replicas' "
            "directories.",
        ),
    ],
    *,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page, too.")] = None,
    internal: Annotated[
        bool, Option("--internal", help="Also examine Kafka's internal topics (__…).")
    ] = False,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Find replicas on disk that agree, lag, differ or are corrupt; no file is changed.

    Give one directory for each broker, of any Kafka release since 0.8. If you copy the directory
    of a running broker, records that the broker has not flushed look like a lag.
    """
    from highwater.checkers.inspection import inspect
    from highwater.checkers.inspection.log_dirs import log_dirs
    from highwater.checkers.spark.session import spark as session_of

    dirs = log_dirs(directories)  # exit after wrong usage before Spark starts
    if html is not None:
        require_writable(html, "--html")
    folders = count(len(dirs), "log directory", "log directories")
    with console.waiting(f"reading {folders} in Spark"):
        session = session_of(spark)
        inspection = inspect.inspect(directories, session, internal=internal)
    if html is not None:
        from highwater.reports.pages.inspection import write

        write(inspection, html)
    if as_json:
        console.print_json(inspection)
    else:
        _show(inspection, html)
    raise typer.Exit(CODES[inspection.verdict])


def _show(inspection: Inspection, html: Path | None) -> None:
    for note in inspection.notes:
        console.out.print(Text(note, style="yellow"))
    rows: list[list[str | Text]] = [
        [
            _label(partition),
            Text(partition.verdict, style=_COLOURS[partition.verdict]),
            f"{partition.divergent:,}" if partition.divergent else "-",
            ", ".join(f"{replica.broker}: {_offsets(replica)}" for replica in partition.replicas),
        ]
        for partition in inspection.partitions
    ]
    heads = ["partition", "verdict", "divergent", "broker: first..LEO (HW)"]
    console.out.print(console.table("Replicas on disk", heads, rows))
    telling = [partition for partition in inspection.partitions if partition.remarkable]
    for compared in telling[:_TOLD_MAX]:
        _tell(compared)
    if len(telling) > _TOLD_MAX:
        console.out.print(
            f"… and {len(telling) - _TOLD_MAX} more partitions, which --json and --html show."
        )
    if html is not None:
        console.out.print(f"page: {html}")


def _label(partition: InspectedPartition) -> str:
    return f"{partition.topic}-{partition.partition}{' (stray)' if partition.stray else ''}"


def _offsets(replica: InspectedReplica) -> str:
    if not replica.segments:
        return "no log"
    return f"{replica.start}..{replica.leo} ({'?' if replica.hw is None else replica.hw})"


def _tell(partition: InspectedPartition) -> None:
    style = f"bold {_COLOURS[partition.verdict]}"
    console.out.print(
        Text(partition.verdict.upper(), style=style),
        Text(f"{_label(partition)}: {partition.says}"),
    )
    for divergent in partition.shown[:3]:
        copies = (
            f"broker {copy.broker}: {copy.value if copy.value is not None else 'no value'}"
            + (f" (epoch {copy.epoch})" if copy.epoch is not None else "")
            for copy in divergent.copies
        )
        console.out.print(Text(f"  offset {divergent.offset}: {'; '.join(copies)}"))
    for finding in partition.findings:
        console.out.print(Text(f"  {finding.says}"))
    for replica in partition.replicas:
        for finding in replica.findings:
            console.out.print(Text(f"  broker {replica.broker}, {finding.kind}: {finding.says}"))

"""A judgement on any Spark, most of it by tasks: ``python -m tests.spark.judging --at RUN …``.

Prints what every run's verdict says and what its anomalies are. Exits as ``highwater`` does.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import typer

from highwater.checkers.history import partition_ledgers
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.judge import judge
from highwater.checkers.run_files import RunFiles
from highwater.checkers.spark import engine
from highwater.checkers.spark.session import spark as session_of
from highwater.cli.options.common import on_spark
from highwater.harness.base.errors import HighwaterError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs.store import Run


@on_spark
def judging(
    runs: list[str],
    *,
    most_here: int = engine.HERE_ROWS,
    half: str = "",
    spark: SparkOptions,
) -> None:
    """Judge runs; of more rows than ``--most-here`` kernels are run by tasks.

    A file named by ``--half`` is there when histories are read and nothing of them is judged yet.
    """
    engine.HERE_ROWS = most_here  # type: ignore[misc]
    if half:
        mark(Path(half))
    found = [Run(Path(each)) for each in runs]
    verdicts = judge(found, session_of(spark))
    shown = [
        {
            "verdict": msgspec.to_builtins(verdict),
            "anomalies": pq.read_table(run.analysis / "anomalies.parquet").to_pylist(),
        }
        for run, verdict in zip(found, verdicts, strict=True)
    ]
    typer.echo(json.dumps(shown))


def mark(path: Path) -> None:
    """Have a file made when the ledgers are."""
    ledgers = partition_ledgers.ledgers

    def marked(
        view: ClientHistory, cases: Sequence[RunFiles]
    ) -> list[partition_ledgers.PartitionLedger]:
        found = ledgers(view, cases)
        path.touch()
        return found

    partition_ledgers.ledgers = marked


app = typer.Typer(add_completion=False)
app.command()(judging)

if __name__ == "__main__":
    try:
        app()
    except HighwaterError as error:
        typer.echo(f"highwater: {error}", err=True)
        sys.exit(error.exit_code)

"""A judgement on any Spark, most of it by tasks: ``python -m tests.spark.judging --at RUN …``.

Prints what every run's verdict says and what its anomalies are. Exits as ``highwater`` does.
"""

import json
import sys
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import typer

from checkers import engine
from checkers.judge import judge
from checkers.session import spark as session_of
from harness.arguments import on_spark
from harness.errors import HighwaterError
from harness.spark import SparkOptions
from harness.store import Run


@on_spark
def judging(runs: list[str], *, most_here: int = engine.HERE_ROWS, spark: SparkOptions) -> None:
    """Judge runs; of more rows than ``--most-here`` kernels are run by tasks."""
    engine.HERE_ROWS = most_here  # type: ignore[misc]
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


app = typer.Typer(add_completion=False)
app.command()(judging)

if __name__ == "__main__":
    try:
        app()
    except HighwaterError as error:
        typer.echo(f"highwater: {error}", err=True)
        sys.exit(error.exit_code)

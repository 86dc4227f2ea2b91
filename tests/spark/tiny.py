"""A tiny job on any Spark: ``python -m tests.spark.tiny --rows N --spark-master URL``.

Prints the sum of numbers that a function of our package computes on the workers, and where the
package and its temporary files are there. Exits as the command ``highwater`` does.
"""

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from highwater.checkers.spark.session import spark as session_of
from highwater.cli.options.common import on_spark
from highwater.harness.base.errors import HighwaterError
from highwater.harness.base.spark_options import SparkOptions

_TASKS = 16
_RESULT = "total long, package string, temporary string"


def hashed(
    batches: Iterator[pa.RecordBatch], seconds: float, marks: str
) -> Iterator[pa.RecordBatch]:
    """Sum what a function of ours computes; each task leaves a mark and takes so many seconds."""
    import os  # noqa: PLC0415 - this function is sent by value, being of the module __main__
    import tempfile  # noqa: PLC0415 - for the same reason

    import highwater.checkers  # noqa: PLC0415 - for the same reason
    from highwater.checkers.history.columns import sort  # noqa: PLC0415 - for the same reason

    if marks:
        tempfile.mkstemp(prefix=os.environ["SPARK_LOCAL_IP"], dir=marks)
    time.sleep(seconds)
    with tempfile.TemporaryDirectory() as folder:
        seen = sorted(os.listdir(os.path.dirname(folder)))  # noqa: PTH120, PTH208
    for batch in batches:
        numbers = sort({"id": batch["id"].to_numpy()}, "id")["id"]
        total = int((numbers * 7919 % 1000).sum())
        where = str(highwater.checkers.__file__)
        yield pa.RecordBatch.from_pylist(
            [{"total": total, "package": where, "temporary": " ".join(seen)}]
        )


@on_spark
def tiny(
    *,
    rows: int = 1000,
    seconds: float = 0.0,
    marks: str = "",
    at: str = "",
    spark: SparkOptions,
) -> None:
    """Sum what the workers compute; with ``--at URI`` by way of Parquet there."""
    session = session_of(spark)
    kernel = partial(hashed, seconds=seconds, marks=marks)
    frame = session.range(0, rows, 1, _TASKS).mapInArrow(kernel, _RESULT)
    if at:
        frame.write.mode("overwrite").parquet(at)
        frame = session.read.parquet(at)
    found = frame.toArrow()
    shown = {
        "total": pc.sum(found["total"]).as_py(),
        "packages": found["package"].unique().to_pylist(),
        "temporary": found["temporary"].unique().to_pylist(),
    }
    typer.echo(json.dumps(shown))


app: Annotated[typer.Typer, "the program"] = typer.Typer(add_completion=False)
app.command()(tiny)

if __name__ == "__main__":
    try:
        app()
    except HighwaterError as error:
        typer.echo(f"highwater: {error}", err=True)
        sys.exit(error.exit_code)

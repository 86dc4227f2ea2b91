"""Options and arguments that several commands share."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Option

from highwater.harness.base.errors import UsageError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import parse_values

StoreOption = Annotated[Path, Option("--store", help="Folder of runs.", show_default=True)]
ControllersOption = Annotated[
    int, Option(help="KRaft controllers, or ZooKeepers of an ensemble: 1, 3 or 5.")
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON on standard output.")]
RunsArgument = Annotated[
    list[str], Argument(metavar="RUN...", help="Run directories or names, or those of one matrix.")
]
DEFAULT_STORE = Path("store")


def _spark_options(
    *,
    spark_master: Annotated[
        str | None,
        Option(
            "--spark-master",
            help="Spark master.  [default: local[*], this machine]",
            callback=parse_values.master,
        ),
    ] = None,
    spark_remote: Annotated[
        str | None,
        Option(
            "--spark-remote",
            help="Spark Connect server, sc://HOST:PORT, instead of a master.",
            callback=parse_values.remote,
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark's; may be repeated."),
    ] = None,
    driver_memory: Annotated[
        str,
        Option(
            "--driver-memory",
            help="Heap of Spark's driver: 512m, 2g.",
            callback=parse_values.memory,
        ),
    ] = "2g",
) -> SparkOptions:
    if spark_master and spark_remote:
        raise UsageError(
            "--spark-master and --spark-remote exclude each other.",
            hint="Name a master to start a session of its own, or a server that has one.",
        )
    return SparkOptions(
        master=spark_master,
        remote=spark_remote,
        driver_memory=driver_memory,
        conf=parse_values.conf(spark_conf or []),
    )


_SPARK: Final = inspect.signature(_spark_options).parameters


def on_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Add the Spark options to a command, which gets them as one keyword argument, ``spark``."""

    @functools.wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - typer's, of any type
        chosen = {name: given.pop(name) for name in _SPARK}
        command(**given, spark=_spark_options(**chosen))

    signature = inspect.signature(command, eval_str=True)
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.name != "spark"
    ]
    run.__signature__ = signature.replace(parameters=[*parameters, *_SPARK.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run

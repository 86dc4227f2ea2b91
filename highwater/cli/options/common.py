"""Options and arguments that several commands share."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec.structs import replace
from typer import Argument, Option

from highwater.harness.base.errors import UsageError
from highwater.harness.base.files import require_writable
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import options as declared
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Plan

StoreOption = Annotated[Path, Option("--store", help="Folder of runs.", show_default=True)]
JsonOption = Annotated[bool, Option("--json", help="Print JSON on standard output.")]


def _writable(junit: Path | None) -> Path | None:
    if junit is not None:
        require_writable(junit, "--junit")
    return junit


JunitOption = Annotated[
    Path | None,
    Option("--junit", metavar="FILE", help="Write JUnit XML, too.", callback=_writable),
]
MessageOption = Annotated[
    list[str] | None,
    Option(
        "--message",
        help="A message to hold, drop, repeat or delay (docs/wire.md), instead of a nemesis:"
        " 'hold EndTxn client:*>broker-1 at=2s for=5s'; may be repeated.",
        show_default=False,
    ),
]
UntilFailureOption = Annotated[
    int,
    Option(
        "--until-failure",
        metavar="RUNS",
        min=0,
        max=1000,
        help="Most runs, each with the next seed, until a run is invalid.",
        show_default=False,
    ),
]
RunsArgument = Annotated[
    list[str],
    Argument(metavar="RUN...", help="Run directories or names, or one matrix."),
]
DEFAULT_STORE = Path("store")


def following(plan: Plan, runs: int) -> list[Plan]:
    """Return copies of a plan with the seeds n, n + 1, and so on; at least one copy."""
    return [replace(plan, seed=plan.seed + number) for number in range(max(1, runs))]


def spark_options(
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
        Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="A Spark setting, NAME=VALUE; may be repeated.",
        ),
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
    """Return the Spark options from the values of the command line.

    Raises:
        UsageError: both a master and a server are given.
    """
    if spark_master and spark_remote:
        raise UsageError(
            "--spark-master and --spark-remote exclude each other.",
            hint="Use --spark-master to start a new session, or --spark-remote for a server that "
            "runs.",
        )
    return SparkOptions(
        master=spark_master,
        remote=spark_remote,
        driver_memory=driver_memory,
        conf=parse_values.conf(spark_conf or []),
    )


def takes(
    **groups: Callable[..., object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds groups of options to a command.

    Args:
        groups: for each parameter of the command, a function whose parameters are options. The
            function's result becomes the command's argument.
    """
    options = {name: inspect.signature(group).parameters for name, group in groups.items()}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401 - typer's, of any type
            for name, group in groups.items():
                given[name] = group(**{option: given.pop(option) for option in options[name]})
            command(**given)

        signature = inspect.signature(command)
        parameters = [
            option
            for name, parameter in signature.parameters.items()
            for option in (options[name].values() if name in groups else [parameter])
        ]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return add


on_spark = takes(spark=spark_options)
"""A decorator that gives a command the Spark options as its parameter ``spark``."""


def group_of(
    options: Mapping[str, declared.Option], *names: str, **texts: str
) -> Callable[..., dict[str, Any]]:
    """Return a group of options; the command receives a dict of the options that the user gave.

    Args:
        names: the options in the order of ``--help``; if empty, all options.
        texts: for an option, a help text that replaces the one in ``options``.
    """

    def given(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - of any type
        return {name: value for name, value in values.items() if value is not None}

    parameters = []
    for name in dict.fromkeys(names or options):
        option, text = options[name], texts.get(name, options[name].help)
        if option.default and "[default:" not in text:
            text += f"  [default: {option.default}]"
        typed = Option(*option.names(name), help=text, show_default=False)
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[option.kind | None, typed],
            )
        )
    given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return given

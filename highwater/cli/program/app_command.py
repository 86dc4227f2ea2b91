"""The command ``highwater app``: judges a program of the user's on real brokers."""

from typing import Annotated, Any, Final

from msgspec.structs import replace
from typer import Argument, Option

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, InventoryOption
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JsonOption,
    StoreOption,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs import parse_values
from highwater.harness.runs.options import options_of, with_options
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, RECORD_NAME, Plan, ProgramPlan, Topic
from highwater.harness.runs.store import Store

_USUAL: Final = Plan(
    kafka=MODERN,
    topic=Topic(partitions=3),
    workload=PROGRAM_WORKLOAD,
    nemesis=("app-kill",),
    duration_s=30.0,
)


@takes(
    given=group_of(
        options_of(Plan),
        *("kafka", "duration", "nemesis", "cluster", "brokers", "partitions", "rate", "seed"),
        kafka=f"Release, as highwater versions names it.  [default: {MODERN}]",
        duration=f"How long faults go on: {limits.FAULTS_S.lasting}.",
        nemesis="Faults to mix at random, or none.  [default: app-kill]",
        rate="Records per second in all, or max.  [default: 100]",
    ),
    spark=spark_options,
)
def app(  # noqa: PLR0913 - a command's options are its arguments
    command: Annotated[
        list[str],
        Argument(metavar="-- COMMAND...", help="The program (docs/apps.md)."),
    ],
    *,
    topic: Annotated[str, Option("--in", help="Topic to read.")] = "in",
    out: Annotated[str, Option("--out", help="Topic to write to.")] = "out",
    instances: Annotated[int, Option(help=f"Processes, 1 to {limits.CLIENTS.most}.")] = 1,
    guarantee: Annotated[
        str,
        Option(help="at-least-once, at-most-once or exactly-once."),
    ] = "at-least-once",
    match: Annotated[
        str,
        Option(help="Regular expression of an input in an output.", show_default=False),
    ] = RECORD_NAME,
    given: dict[str, Any],
    inventory: InventoryOption = None,
    confirm: ConfirmOption = None,
    bootstrap: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="A running cluster: only the program gets faults (docs/apps.md).",
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run a program of yours under faults: what does it lose or double?"""
    from highwater.api import perform

    if bootstrap is not None and inventory is not None:
        raise UsageError(
            "--bootstrap and --inventory both name a cluster", hint="Leave one of them out."
        )
    if inventory is not None:
        given["kafka"] = external.release_of(given.get("kafka"), "", inventory)
    plan = with_options(_USUAL, given)
    program = ProgramPlan(
        command=tuple(command),
        out=out,
        instances=instances,
        guarantee=parse_values.guarantee(guarantee),
        match=match,
    )
    read = replace(plan.topic, name=topic, replication_factor=plan.brokers)
    plan = replace(plan, topic=read, program=program)
    if bootstrap is not None:
        inventory, confirm = external.bare_inventory(bootstrap, plan.kafka)
    if inventory is not None:
        plan = external.onto(plan, inventory, confirm)
    with console.progress() as progress:
        judged = perform([plan], Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)

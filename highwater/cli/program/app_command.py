"""The command ``highwater app``: judges a program of the user's on real brokers."""

from typing import Annotated, Any, Final

from msgspec.structs import replace
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JsonOption,
    StoreOption,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base import limits
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.options import options_of, with_options
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
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
    of_program=group_of(options_of(ProgramPlan)),
    spark=spark_options,
)
def app(
    command: Annotated[
        list[str],
        Argument(metavar="-- COMMAND...", help="The program (docs/apps.md)."),
    ],
    *,
    topic: Annotated[str, Option("--in", help="Topic to read.")] = "in",
    out: Annotated[str, Option("--out", help="Topic to write to.")] = "out",
    of_program: dict[str, Any],
    given: dict[str, Any],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run a program of yours under faults: what does it lose or double?"""
    from highwater.api import perform

    plan = with_options(_USUAL, given)
    program = with_options(ProgramPlan(command=tuple(command), out=out), of_program)
    read = replace(plan.topic, name=topic, replication_factor=plan.brokers)
    plan = replace(plan, topic=read, program=program)
    with console.progress() as progress:
        judged = perform([plan], Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)

"""The command ``highwater app``: judges a program of the user's on real brokers."""

from typing import Annotated

import msgspec
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import DEFAULT_STORE, JsonOption, StoreOption, on_spark
from highwater.cli.options.workload import RateOption
from highwater.harness.base import limits
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, RECORD_NAME, Plan, ProgramPlan, Topic
from highwater.harness.runs.store import Store


@on_spark
def app(  # noqa: PLR0913 - a command's options are its arguments
    command: Annotated[
        list[str],
        Argument(metavar="-- COMMAND...", help="The program (docs/apps.md)."),
    ],
    *,
    topic: Annotated[str, Option("--in", help="Topic to read.")] = "in",
    out: Annotated[str, Option("--out", help="Topic to write to.")] = "out",
    kafka: Annotated[str, Option(help="Release, as highwater versions names it.")] = MODERN,
    duration: Annotated[
        str,
        Option("--for", help=f"How long faults go on: {limits.FAULTS_S.lasting}."),
    ] = "30s",
    instances: Annotated[int, Option(help=f"Processes, 1 to {limits.CLIENTS.most}.")] = 1,
    nemesis: Annotated[str, Option(help="Faults to mix at random, or none.")] = "app-kill",
    guarantee: Annotated[
        str,
        Option(help="at-least-once, at-most-once or exactly-once."),
    ] = "at-least-once",
    match: Annotated[
        str,
        Option(help="Regular expression of an input in an output.", show_default=False),
    ] = RECORD_NAME,
    cluster: Annotated[str, Option(help="Cluster driver: local or docker.")] = "local",
    brokers: Annotated[
        int, Option(help=f"Brokers, and replicas of each partition: {limits.BROKERS.says}.")
    ] = 3,
    partitions: Annotated[int, Option(help=f"Partitions, {limits.PARTITIONS.says}.")] = 3,
    rate: RateOption = "100",
    seed: Annotated[int, Option(help="Seed of all random choices.")] = 0,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run a program of yours under faults: what does it lose or double?"""
    from highwater.api import perform

    plan = Plan(
        kafka=kafka,
        driver=cluster,
        brokers=brokers,
        topic=Topic(name=topic, partitions=partitions, replication_factor=brokers),
        workload=msgspec.structs.replace(PROGRAM_WORKLOAD, rate=parse_values.rate(rate)),
        nemesis=parse_values.nemesis(nemesis),
        duration_s=parse_values.duration(duration),
        seed=seed,
        program=ProgramPlan(
            command=tuple(command),
            out=out,
            instances=instances,
            guarantee=parse_values.guarantee(guarantee),
            match=match,
        ),
    )
    with console.progress() as progress:
        judged = perform([plan], Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)

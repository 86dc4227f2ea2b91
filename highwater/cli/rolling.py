"""The command ``highwater rolling``: is a rolling restart of a cluster of yours safe?

It builds a plan with one step, the fault ``rolling-in-sync``, which is performed and judged like
any other run. Exit codes are those of ``run``.
"""

from pathlib import Path
from typing import Annotated, Final

from typer import Option

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, LikeOption
from highwater.cli.options.common import DEFAULT_STORE, JsonOption, StoreOption, on_spark
from highwater.cli.options.workload import (
    AcksOption,
    CompressionOption,
    ConsumersOption,
    DeliveryTimeoutOption,
    IdempotenceOption,
    RateOption,
    RecordBytesOption,
    UncleanOption,
)
from highwater.harness.base import limits
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import parse_values
from highwater.harness.runs.faults.steps import ROLLING, FaultStep
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store

BEFORE_S: Final = 3.0
AFTER_S: Final = 3.0
"""Seconds during which clients write and read before the first restart and after the last."""


@on_spark
def rolling(  # noqa: PLR0913 - a command's options are its arguments
    *,
    inventory: Annotated[
        Path,
        Option("--inventory", metavar="FILE", help="The cluster, and how to restart a broker."),
    ],
    confirm: ConfirmOption = None,
    like: LikeOption = None,
    kafka: Annotated[
        str | None, Option(help="Release, if the inventory is to be checked against it.")
    ] = None,
    duration: Annotated[
        str,
        Option(
            "--for",
            help="How long clients write and read at least, however quick the restarts are:"
            f" {limits.FAULTS_S.lasting}.",
        ),
    ] = "30s",
    acks: AcksOption = "all",
    min_isr: Annotated[
        int | None,
        Option(
            "--min-isr",
            help="min.insync.replicas, 1 to the replicas of a partition.  [default: 1]",
        ),
    ] = None,
    unclean: UncleanOption = None,
    partitions: Annotated[
        int | None, Option(help=f"Partitions, {limits.PARTITIONS.says}.  [default: 3]")
    ] = None,
    producers: Annotated[int, Option(help=f"Producers, {limits.CLIENTS.says}.")] = 3,
    consumers: ConsumersOption = 1,
    rate: RateOption = "200",
    record_bytes: RecordBytesOption = 64,
    compression: CompressionOption = "none",
    idempotence: IdempotenceOption = False,
    delivery_timeout: DeliveryTimeoutOption = "30s",
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Restart every broker of a cluster of yours, one after the other, and judge what was kept.

    Clients write to a topic of their own and read it meanwhile. The next broker is restarted when
    every replica of every topic is in sync. The inventory needs the command restart, or stop and
    start.
    """
    from highwater.api import perform

    plan = Plan(
        kafka=external.release_of(kafka, "external", inventory),
        topic=Topic(
            partitions=3 if partitions is None else partitions,
            min_insync_replicas=1 if min_isr is None else min_isr,
            unclean_leader_election=bool(unclean),
        ),
        workload=Workload(
            producers=producers,
            consumers=consumers,
            acks=parse_values.acks(acks),
            idempotence=idempotence,
            rate=parse_values.rate(rate),
            record_bytes=record_bytes,
            compression=compression,
            delivery_timeout_s=parse_values.duration(delivery_timeout),
        ),
        steps=(FaultStep(fault=ROLLING, at_s=BEFORE_S, lasts_s=AFTER_S),),
        duration_s=parse_values.duration(duration),
    )
    given = external.topic_options(partitions=partitions, min_isr=min_isr, unclean=unclean)
    plan = external.onto(plan, inventory, confirm, like=like, given=given)
    external.show_likeness(plan.topic)
    with console.progress() as progress:
        judged = perform([plan], Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)

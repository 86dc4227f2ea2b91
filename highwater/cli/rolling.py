"""The command ``highwater rolling``: restart your cluster's brokers in turn, and check the records.

The plan has one step, the fault ``rolling-in-sync``; the run is performed and judged like any
other. Exit codes are those of ``run``.
"""

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, LikeOption
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
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import ROLLING, FaultStep
from highwater.harness.runs.store import Store

BEFORE_S: Final = 3.0
AFTER_S: Final = 3.0
"""Seconds during which clients write and read before the first restart and after the last."""


@takes(
    given=group_of(
        options_of(Plan),
        *("kafka", "duration", "acks", "min_isr", "unclean", "partitions", "producers"),
        *("consumers", "rate", "record_bytes", "compression", "idempotence", "delivery_timeout"),
        "read_only",
        kafka="Kafka release; the inventory must name the same one.",
        duration=f"Least time in which clients write and read: {limits.FAULTS_S.lasting}.",
        min_isr="min.insync.replicas, from 1 to the number of replicas.",
    ),
    inventory=external.cluster_options(required=True, by_operator=True),
    spark=spark_options,
)
def rolling(
    *,
    inventory: Path,
    confirm: ConfirmOption = None,
    like: LikeOption = None,
    given: dict[str, Any],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Restart every broker of your cluster in turn, and check that all records survive.

    During the restarts clients write and read a separate topic. The inventory must have the command
    restart, or stop and start.
    """
    from highwater.api import perform
    from highwater.runtime.requested_plan import requested_plan

    given["kafka"] = external.release_of(given.get("kafka"), "external", inventory)
    steps = (FaultStep(fault=ROLLING, at_s=BEFORE_S, lasts_s=AFTER_S),)
    plan = replace(requested_plan(given), steps=steps)
    chosen = external.topic_options(given)
    plan = external.onto(plan, inventory, confirm, like=like, given=chosen)
    external.show_likeness(plan.topic)
    with console.progress() as progress:
        judged = perform([plan], Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)

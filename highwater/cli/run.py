"""The command ``highwater run``: make a plan from options, perform it, and judge the run."""

from pathlib import Path
from typing import Annotated, Any

from msgspec.structs import replace
from typer import Option

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, LikeOption
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JsonOption,
    JunitOption,
    MessageOption,
    StoreOption,
    UntilFailureOption,
    following,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base.errors import UsageError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Store

_FIRST = ("kafka", "story", "nemesis", "duration", "seed")


@takes(
    given=group_of(options_of(Plan), *_FIRST, *options_of(Plan)),
    inventory=external.cluster_options(),
    spark=spark_options,
)
def run(  # noqa: PLR0913 - a command's options are its arguments
    *,
    given: dict[str, Any],
    message: MessageOption = None,
    file: Annotated[
        Path | None,
        Option(
            "--plan",
            metavar="FILE",
            help="A plan as TOML or JSON; options override its settings.",
        ),
    ] = None,
    inventory: Path | None = None,
    confirm: ConfirmOption = None,
    like: LikeOption = None,
    repeat: Annotated[int, Option(min=1, max=1000, help="Runs, one after the other.")] = 1,
    until_failure: UntilFailureOption = 0,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    junit: JunitOption = None,
    spark: SparkOptions,
) -> None:
    """Run a story or a random schedule on real brokers, judge the run, and write its report."""
    from highwater.api import VERDICTS, perform
    from highwater.nemesis.message_spec import read_option
    from highwater.runtime.requested_plan import requested_plan
    from highwater.shrinking.replay import read_plan, refuse_external

    base = None if file is None else read_plan(file)
    if base is not None:
        refuse_external(base)
    external.require_inventory(like, given.get("read_only"), inventory)
    kafka = given.get("kafka", base.kafka if base else None)
    given["kafka"] = external.release_of(kafka, given.get("cluster", ""), inventory)
    plan = requested_plan(given, base)
    if plan.story and "duration" in given:
        raise UsageError(
            f"the story {plan.story} ends by itself, so --for {given['duration']} has no effect",
            hint="Leave --for out, or name faults with --nemesis.",
        )
    if message:
        steps = tuple(read_option(text, until_s=plan.duration_s) for text in message)
        plan = replace(plan, steps=steps)
    if until_failure and repeat > 1:
        raise UsageError("--repeat and --until-failure exclude each other.")
    plans = [plan] * repeat if repeat > 1 else following(plan, until_failure)
    if inventory is not None:
        chosen = external.topic_options(given)
        plans = [external.onto(plan, inventory, confirm, like=like, given=chosen) for plan in plans]
        external.show_likeness(plans[0].topic)
    with console.progress(plain=(VERDICTS,)) as progress:
        judged = perform(
            plans, Store(store), until_failure=until_failure > 0, spark=spark, progress=progress
        )
    console.finish(judged, as_json=as_json, junit=junit)

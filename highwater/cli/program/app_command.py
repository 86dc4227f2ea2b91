"""The command ``highwater app``: run a user's program on real brokers, and judge it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from msgspec.structs import replace
from typer import Argument, Exit, Option

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption
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
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.options import options_of
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.harness.runs.store import Store
from highwater.harness.runs.verdict import INVALID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater.api import JudgedRun

CommandArgument = Annotated[
    list[str], Argument(metavar="-- COMMAND...", help="The program (docs/apps.md).")
]
ShrinkOption = Annotated[
    bool,
    Option("--shrink", help="If a guarantee was broken, find the fewest faults that break it."),
]


@takes(
    given=group_of(
        options_of(Plan),
        *("kafka", "duration", "nemesis", "cluster", "brokers", "partitions", "rate"),
        *("transactions", "seed"),
        kafka=f"Release, named as in highwater versions.  [default: {MODERN}]",
        duration=f"Duration of the faults: {limits.FAULTS_S.lasting}.",
        nemesis="Faults to mix at random, or none.  [default: "
        "app-cut,app-pause,app-refuse-outputs,app-kill=3,app-stop]",
        rate="Records per second in total, or max.  [default: 100]",
        transactions="Write inputs in transactions, and abort some of the transactions.",
    ),
    of_program=group_of(options_of(ProgramPlan)),
    inventory=external.cluster_options(),
    spark=spark_options,
)
def app(  # noqa: PLR0913 - a command's options are its arguments
    command: CommandArgument,
    *,
    topic: Annotated[
        str | None,
        Option(
            "--in",
            help="Topic that the program reads; with --out alone, the program prints "
            "acknowledged records.  [default: in]",
        ),
    ] = None,
    out: Annotated[
        str | None,
        Option(
            "--out",
            help="Topic that the program writes; with --in alone, the program prints finished "
            "inputs.  [default: out]",
        ),
    ] = None,
    of_program: dict[str, Any],
    given: dict[str, Any],
    message: MessageOption = None,
    inventory: Path | None = None,
    confirm: ConfirmOption = None,
    bootstrap: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Your running cluster: only the program gets faults (docs/apps.md).",
        ),
    ] = None,
    until_failure: UntilFailureOption = 0,
    shrink: ShrinkOption = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    junit: JunitOption = None,
    spark: SparkOptions,
) -> None:
    """Run your program under faults; find lost and doubled inputs."""
    from highwater.api import VERDICTS, perform
    from highwater.nemesis.message_spec import read_option
    from highwater.runtime.requested_plan import requested_app
    from highwater.shrinking.replay import refuse_external

    if inventory is not None:
        given["kafka"] = external.release_of(given.get("kafka"), "", inventory)
    if message:
        given.setdefault("nemesis", "none")
    if bootstrap is not None or inventory is not None:
        _require_one_cluster(bootstrap, inventory, topic, out)
        given["wire_clients"] = False
    plan = requested_app(command, given | of_program, topic=topic, out=out)
    steps = tuple(read_option(text, until_s=plan.duration_s) for text in message or ())
    plan = replace(plan, steps=steps)
    if bootstrap is not None:
        inventory, confirm = external.bare_inventory(bootstrap, plan.kafka)
    plans = following(plan, until_failure)
    if inventory is not None:
        plans = [external.onto(plan, inventory, confirm) for plan in plans]
    if shrink:
        refuse_external(plans[0])
    with console.progress(plain=(VERDICTS,)) as progress:
        judged = perform(
            plans, Store(store), until_failure=until_failure > 0, spark=spark, progress=progress
        )
    if shrink and judged[-1].verdict.verdict == INVALID:
        _finish_shrunk(judged, as_json=as_json, junit=junit, spark=spark)
    console.finish(judged, as_json=as_json, junit=junit)


def _finish_shrunk(
    every: "Sequence[JudgedRun]", *, as_json: bool, junit: JunitOption, spark: SparkOptions
) -> NoReturn:
    """Shrink the last run, which broke a guarantee; print the run and the shrunk plan, and exit."""
    from highwater.cli.replay_and_shrink import search
    from highwater.shrinking.shrinker import Effort

    console.write_junit(junit, [judged.run for judged in every])
    judged, shrunk = every[-1], None
    if not as_json:
        console.show_judged([judged])
    try:
        shrunk = search(judged.run, effort=Effort(), as_json=as_json, spark=spark)
    finally:
        if as_json:
            console.print_json(judged.summary() | {"shrunk": shrunk})
    raise Exit(BROKEN)


def _require_one_cluster(
    bootstrap: str | None, inventory: object, topic: str | None, out: str | None
) -> None:
    """Raise an error for ``--bootstrap`` with ``--inventory``, or ``--in`` with ``--out``."""
    for pair in ({"bootstrap": bootstrap, "inventory": inventory}, {"in": topic, "out": out}):
        if all(pair.values()):
            raise UsageError(
                f"{' and '.join(f'--{name}' for name in pair)} exclude each other",
                hint="Name one cluster. On your own cluster the run chooses the names of its "
                "topics; use only --in or only --out if the program has one topic.",
            )

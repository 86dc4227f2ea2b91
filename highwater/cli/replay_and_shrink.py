"""The commands ``highwater replay`` and ``highwater shrink``.

Exit codes of ``replay`` are those of ``run``: 0 all guarantees hold, 1 a guarantee was broken, 2
wrong usage, 3 unknown. ``shrink``: 0 a smaller plan has the anomaly, 2 wrong usage, 3 the anomaly
did not happen again even with the complete plan, 130 interrupted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from typer import Argument, Option

from highwater import console
from highwater.cli.options.common import DEFAULT_STORE, JsonOption, StoreOption, on_spark
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import INTERRUPTED, OK, UNKNOWN
from highwater.harness.base.spark_options import SparkOptions
from highwater.runtime.executed_steps import By

if TYPE_CHECKING:
    from highwater.harness.runs.store import Run
    from highwater.shrinking.shrinker import Effort
    from highwater.shrinking.trials import Attempt

_BY: Final[dict[str, By]] = {"role": "role", "broker": "broker"}

ByOption = Annotated[
    str,
    Option("--by", help="Repeated steps hit the same broker, or the same role (leader)."),
]


@on_spark
def replay(
    what: Annotated[
        str, Argument(metavar="RUN|PLAN", help="A run, or a file with a plan as JSON.")
    ],
    *,
    kafka: Annotated[
        str | None, Option(help="Kafka release.  [default: that of the run]", show_default=False)
    ] = None,
    by: ByOption = "broker",
    repeat: Annotated[int, Option(min=1, max=1000, help="Runs, one after the other.")] = 1,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Repeat the executed steps of a run, or the steps of a plan, on fresh brokers."""
    from highwater.harness.runs.store import Store
    from highwater.shrinking.replay import perform, plan_again

    plan = plan_again(what, Store(store), by=resolution(by), kafka=kafka)
    with console.progress() as progress:
        judged = perform(plan, Store(store), repeat=repeat, spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)


def resolution(text: str) -> By:
    """Parse ``--by``: a repeated step hits the same broker id, or the same role (``leader``)."""
    if text not in _BY:
        raise UsageError(f"--by {text!r} is not possible", hint="Use --by broker or --by role.")
    return _BY[text]


@on_spark
def shrink(  # noqa: PLR0913 - a command's options are its arguments
    what: Annotated[
        str, Argument(metavar="RUN", help="A judged run with random faults, or with steps.")
    ],
    *,
    limit: Annotated[str, Option("--for", help="Begin no run after this time: 20m.")] = "1h",
    tries: Annotated[int, Option(min=1, max=100, help="Most runs of a plan.")] = 3,
    hits: Annotated[int, Option(min=1, help="Necessary runs with the anomaly.")] = 1,
    kind: Annotated[
        str | None, Option(help="Anomaly kinds to reproduce.  [default: the worst]")
    ] = None,
    by: ByOption = "broker",
    out: Annotated[
        Path | None, Option(help="Folder for the results.  [default: RUN/shrunk]")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Find the smallest plan, with the fewest faults, that causes a run's anomaly again."""
    from highwater.harness.runs import parse_values
    from highwater.harness.runs.store import Store
    from highwater.shrinking.shrinker import Effort
    from highwater.shrinking.trials import HitThreshold

    if hits > tries:
        raise UsageError(
            f"{hits} hits are not possible in {tries} runs",
            hint="Choose fewer --hits, or more --tries.",
        )
    effort = Effort(rule=HitThreshold(tries=tries, hits=hits), limit_s=parse_values.duration(limit))
    run, kinds = Store(store).open(what), parse_values.names(kind or "")
    shrunk = search(
        run, out, by=resolution(by), kinds=kinds, effort=effort, as_json=as_json, spark=spark
    )
    if as_json:
        console.print_json(shrunk)
    exits = {"not-reproduced": UNKNOWN, "interrupted": INTERRUPTED}
    raise typer.Exit(exits.get(shrunk["ended"], OK))


def search(
    run: "Run",
    out: Path | None = None,
    *,
    by: By = "broker",
    kinds: Sequence[str] = (),
    effort: "Effort",
    as_json: bool = False,
    spark: SparkOptions,
) -> dict[str, Any]:
    """Search for the fewest faults that cause a run's anomaly; without ``as_json``, print them.

    Returns:
        The content of ``shrunk.json``, and the path of its folder.
    """
    from highwater.cli.options import replay
    from highwater.shrinking.shrinker import shrink_run

    folder = out or run.path / "shrunk"
    with console.progress() as progress:

        def tell(attempt: "Attempt") -> None:
            (console.err if as_json else console.out).print(replay.line(attempt))

        result = shrink_run(
            run,
            folder=folder,
            by=by,
            kinds=kinds,
            effort=effort,
            spark=spark,
            tell=tell,
            progress=lambda step: progress("shrink", step),
        )
    if not as_json:
        console.out.print(replay.summary(result, folder), markup=False)
    return {**msgspec.to_builtins(result), "folder": str(folder)}

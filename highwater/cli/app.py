"""The command ``highwater``: options, results and exit codes.

Exit codes: 0 all guarantees hold, 1 a guarantee was broken, 2 wrong usage, 3 unknown, 4 the harness
failed, 130 interrupted, 141 the process that reads the output has exited. Slow imports (Spark,
clients) happen only when a command needs them.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from highwater import __version__, console
from highwater.cli import external, matrix, run, show
from highwater.cli import jepsen as foreign
from highwater.cli import replay_and_shrink as repeating
from highwater.cli.hazards.advise import advise
from highwater.cli.hazards.catalogue import app as hazards_app
from highwater.cli.inspect import inspect
from highwater.cli.model import app as model_app
from highwater.cli.nightly import app as nightly_app
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JsonOption,
    JunitOption,
    StoreOption,
    on_spark,
    takes,
)
from highwater.cli.program import app_command
from highwater.cli.program.driver_command import app as driver_app
from highwater.cli.rolling import rolling
from highwater.cli.soak import soak
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import FAILED, OK
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.wording import count
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs import parse_values
from highwater.harness.runs.store import Store

_NEXT = f"""\b
What to type next:
  highwater doctor                               what this machine lacks, and how to get it
  highwater demo                                 a loss on an old Kafka, none on a new one
  highwater advise --bootstrap HOST:9092         which known hazards apply to your cluster
  highwater hazards --kafka {MODERN}                what a release can lose, and how
  highwater run --kafka {MODERN} --nemesis kill     faults while clients send and read, judged
"""

app = typer.Typer(
    name="highwater",
    help="Which acknowledged records this Kafka can lose, or replicas can store differently, and "
    "why.",
    epilog=_NEXT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        console.out.print(f"highwater {__version__}")
        raise typer.Exit


@app.callback()
def highwater(
    *,
    _version: Annotated[
        bool,
        Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find out which acknowledged records this Kafka can lose, or store differently, and why."""


@on_spark
def demo(
    *,
    store: StoreOption = DEFAULT_STORE,
    kafka: Annotated[
        str, Option(help="Releases to compare, separated by commas.")
    ] = f"0.10.2.2,{MODERN}",
    jobs: Annotated[int, Option(min=1, max=8, help="Runs at the same time.")] = 2,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run two stories on an old and a modern Kafka, and report the losses."""
    from highwater.api import perform
    from highwater.campaigns.matrix_run import row_of
    from highwater.cli.demo import compared, demo_plans, demo_table, exit_code
    from highwater.reports.pages.matrix import write as write_page

    plans = demo_plans(parse_values.names(kafka))
    with console.progress() as progress:
        judged = perform(plans, Store(store), jobs=jobs, spark=spark, progress=progress)
    index = write_page(
        [row_of(judged_run.run, store) for judged_run in judged], store / "demo.html"
    )
    pages = compared(judged, store)
    if as_json:
        console.print_all_json([judged_run.summary() for judged_run in judged])
    else:
        console.out.print(demo_table(judged))
        console.out.print(f"All {count(len(judged), 'report')}: {index.resolve()}")
        for page in pages:
            console.out.print(f"Comparison of the two runs, step by step: {page.resolve()}")
    raise typer.Exit(exit_code(judged))


@on_spark
def check(
    runs: Annotated[
        list[str] | None,
        Argument(
            metavar="[RUN...]",
            help="Run directories, names or URIs, or one matrix.",
        ),
    ] = None,
    *,
    jepsen: Annotated[
        Path | None,
        Option(metavar="FILE", help="Instead of runs: a history.edn of jepsen.tests.kafka."),
    ] = None,
    every: Annotated[bool, Option("--all", help="With --jepsen: print every anomaly.")] = False,
    ww: Annotated[
        bool, Option("--ww-deps", help="With --jepsen: include write-write dependencies in cycles.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    junit: JunitOption = None,
    spark: SparkOptions,
) -> None:
    """Judge stored runs or a matrix again without brokers; write new reports.

    Spark reads and writes a run at a URI (s3a://bucket/run). With --jepsen, judge a history that
    Jepsen recorded.
    """
    from highwater import api
    from highwater.campaigns.matrix_run import recheck

    if jepsen:
        if runs:
            raise UsageError(
                "--jepsen and runs cannot be judged together", hint="Leave the runs out."
            )
        if junit:
            raise UsageError("--junit is only for runs", hint="Leave --junit out.")
        foreign.check(jepsen, spark=spark, every=every, ww=ww, as_json=as_json)
    if not runs:
        raise UsageError("no run and no history was named", hint="Name runs, or --jepsen FILE.")
    if every or ww:
        raise UsageError(
            "--all and --ww-deps are only for --jepsen", hint="Leave --all and --ww-deps out."
        )
    if folder := MatrixFolder.named(runs, store):
        with console.waiting(f"judging the runs of {folder.path} in Spark"):
            rows = recheck(folder, spark=spark)
        matrix.finish(folder, rows, as_json=as_json, junit=junit)
    names = [name if "://" in name else Store(store).open(name) for name in runs]
    with console.waiting(f"judging {count(len(names), 'run')} in Spark"):
        judged = api.check(names, spark=spark)
    console.finish(judged, as_json=as_json, junit=junit)


def versions(*, as_json: JsonOption = False) -> None:
    """List the Kafka releases of the catalogue and their replication rules."""
    from highwater.harness.releases.catalogue import CATALOGUE

    if as_json:
        console.print_all_json([release.describe() for release in CATALOGUE.values()])
        return
    rows = [release.row() for release in CATALOGUE.values()]
    cells = [list(row.values()) for row in rows]
    console.out.print(console.table("Kafka releases", list(rows[0]), cells))
    console.out.print("--json also explains each rule and each release.")


@takes(inventory=external.cluster_options())
def doctor(
    *,
    store: StoreOption = DEFAULT_STORE,
    inventory: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Find missing requirements of this machine or of your cluster, and how to get them."""
    from highwater.cli.doctor import examine, examine_cluster

    findings = examine(store) if inventory is None else examine_cluster(inventory)
    if as_json:
        console.print_all_json([finding.to_dict() for finding in findings])
    else:
        rows = [[finding.name, finding.state, finding.value, finding.hint] for finding in findings]
        console.out.print(
            console.table(
                "This machine" if inventory is None else "That cluster",
                ["what", "", "found", "to do"],
                rows,
            )
        )
    raise typer.Exit(OK if all(finding.ok or finding.optional for finding in findings) else FAILED)


for command in (
    *(demo, run.run, app_command.app, check, show.report, show.compare, show.serve),
    *(matrix.matrix, soak, repeating.replay, repeating.shrink, inspect, rolling, external.heal),
    *(advise, versions, doctor),
):
    app.command()(command)
app.add_typer(driver_app)
app.add_typer(hazards_app)
app.add_typer(model_app)
app.add_typer(nightly_app)

"""The command ``highwater``: words in, values out, exit codes.

Exit codes: 0 as promised, 1 a promise was broken, 2 wrong usage, 3 unknown, 4 the harness failed;
130 interrupted. Imports that take time (Spark, clients) wait until a command needs them.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harness import console, options, outside
from harness.errors import UsageError
from harness.foreign import jepsen as foreign
from harness.inspecting.command import inspect
from harness.matrix import command as matrix
from harness.matrix.cells import MatrixFolder
from harness.modelling.command import app as model_app
from harness.nightly.command import app as nightly_app
from harness.outside import ConfirmOption, InventoryOption
from harness.plan import Plan, Topic, Workload
from harness.repeating import command as repeating
from harness.soak.command import soak
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.api import Judged

app = typer.Typer(
    name="highwater",
    help="Which acknowledged records can this Kafka lose or hold differently, and why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.command()(matrix.matrix)
app.command()(soak)
app.command()(inspect)
app.command()(repeating.replay)
app.command()(outside.heal)
app.command()(repeating.shrink)
app.add_typer(model_app)
app.add_typer(nightly_app)

OK, BROKEN, UNKNOWN, FAILED = 0, 1, 3, 4

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of runs.", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
MasterOption = Annotated[
    str | None, typer.Option("--spark-master", help="Spark master; without it this machine.")
]
MemoryOption = Annotated[str, typer.Option("--driver-memory", help="Heap of Spark's driver.")]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run directories or names, or those of one matrix."),
]
DEFAULT_STORE = Path("store")


@app.command()
def demo(
    *,
    store: StoreOption = DEFAULT_STORE,
    kafka: Annotated[
        str, typer.Option(help="Releases to compare, separated by commas.")
    ] = "0.10.2.2,4.3.1",
    jobs: Annotated[int, typer.Option(min=1, max=8, help="Runs at the same time.")] = 2,
    as_json: JsonOption = False,
    spark_master: MasterOption = None,
    driver_memory: MemoryOption = "2g",
) -> None:
    """Play both stories on an old and a modern Kafka, and report what was lost."""
    from harness.api import SparkOptions, perform
    from harness.demo import compared, demo_plans, demo_table, exit_code
    from harness.matrix.run import row_of
    from reports.matrix import write as write_page

    plans = demo_plans(options.names(kafka))
    spark = SparkOptions(master=spark_master, driver_memory=driver_memory)
    with console.progress() as progress:
        judged = perform(plans, Store(store), jobs=jobs, spark=spark, progress=progress)
    index = write_page([row_of(one.run, store) for one in judged], store / "demo.html")
    pages = compared(judged, store)
    if as_json:
        _print_json([one.summary() for one in judged])
    else:
        console.out.print(demo_table(judged))
        console.out.print(f"All four reports: {index.resolve()}")
        for page in pages:
            console.out.print(f"Side by side, step by step: {page.resolve()}")
    raise typer.Exit(exit_code(judged))


@app.command()
def run(  # noqa: PLR0913 - a command's options are its arguments
    *,
    kafka: Annotated[
        str | None, typer.Option(help="Release, as highwater versions names it.")
    ] = None,
    story: Annotated[
        str | None,
        typer.Option(help="Scripted schedule, such as loss; docs/faults.md lists them."),
    ] = None,
    nemesis: Annotated[
        str | None,
        typer.Option(
            help="Faults to mix at random: kill@leader=3,pause (docs/faults.md); or none."
        ),
    ] = None,
    duration: Annotated[str, typer.Option("--for", help="How long faults go on: 60s, 2m.")] = "30s",
    seed: Annotated[int, typer.Option(help="What every random choice follows from.")] = 0,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    min_isr: Annotated[int, typer.Option("--min-isr", help="min.insync.replicas.")] = 1,
    unclean: Annotated[bool, typer.Option("--unclean", help="Allow unclean elections.")] = False,
    cluster: Annotated[str, typer.Option(help="Cluster driver: local or docker.")] = "local",
    inventory: InventoryOption = None,
    confirm: ConfirmOption = None,
    brokers: Annotated[int, typer.Option(help="Brokers, and replicas of each partition.")] = 3,
    partitions: Annotated[int | None, typer.Option(help="Partitions.  [default: 3]")] = None,
    producers: Annotated[int | None, typer.Option(help="Producers.  [default: 3]")] = None,
    consumers: Annotated[int, typer.Option(help="Readers during the run.")] = 1,
    rate: Annotated[str, typer.Option(help="Records per second in all, or max.")] = "200",
    record_bytes: Annotated[int, typer.Option("--record-bytes", help="Bytes of a value.")] = 64,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    idempotence: Annotated[
        bool, typer.Option("--idempotence", help="Idempotent producers.")
    ] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Producers send in transactions.")
    ] = False,
    aborts: Annotated[float, typer.Option(help="Share of transactions to abort.")] = 0.2,
    transform: Annotated[
        bool, typer.Option("--transform", help="Transactions also read, and commit how far.")
    ] = False,
    isolation: Annotated[
        str, typer.Option(help="Of readers: read_committed, read_uncommitted, or both.")
    ] = "read_committed",
    subscribe: Annotated[int, typer.Option(help="Members of a group of readers.")] = 0,
    churn: Annotated[
        str, typer.Option(help="How long a client lives until another replaces it: 5s.")
    ] = "none",
    delivery_timeout: Annotated[
        str, typer.Option("--delivery-timeout", help="When an unanswered send becomes info.")
    ] = "30s",
    budget: Annotated[
        str,
        typer.Option(help="The most of a fault, and of brokers hurt at a time: kill=5,brokers=1."),
    ] = "none",
    overlap: Annotated[int, typer.Option(help="Sequences of random faults at the same time.")] = 1,
    wire: Annotated[
        bool, typer.Option("--wire", help="Put the wire between brokers, and record what passes.")
    ] = False,
    to: Annotated[
        str, typer.Option(help="Releases to upgrade to: before a story, or by the fault upgrade.")
    ] = "none",
    protocol: Annotated[
        str, typer.Option(help="Newest inter.broker.protocol.version to speak: 0.10.2.")
    ] = "",
    message_format: Annotated[
        str, typer.Option("--format", help="Newest log.message.format.version to write.")
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs, one after the other.")] = 1,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark_master: MasterOption = None,
    driver_memory: MemoryOption = "2g",
) -> None:
    """Run one story or one random schedule on real brokers, judge it, and write its report."""
    from harness.api import SparkOptions, perform
    from nemesis.stories import find_story

    kafka = outside.release_of(kafka, cluster, inventory)
    workload = Workload(
        producers=(0 if story else 3) if producers is None else producers,
        consumers=consumers,
        acks=options.acks(acks),
        idempotence=idempotence or transactions,
        transactions=transactions,
        aborts=aborts,
        transform=transform,
        isolation=options.isolation(isolation),
        subscribe=subscribe,
        churn_s=options.churn(churn),
        rate=options.rate(rate),
        record_bytes=record_bytes,
        compression=compression,
        delivery_timeout_s=options.duration(delivery_timeout),
    )
    plan = Plan(
        kafka=kafka,
        driver=cluster,
        brokers=brokers,
        topic=Topic(
            partitions=(1 if story else 3) if partitions is None else partitions,
            replication_factor=brokers,
            min_insync_replicas=min_isr,
            unclean_leader_election=unclean,
            config=dict(find_story(story).topic_config) if story else {},
        ),
        workload=workload,
        story=story,
        nemesis=options.names(nemesis or ""),
        budget=options.budget(budget),
        overlap=overlap,
        duration_s=0.0 if story else options.duration(duration),
        seed=seed,
        broker_config=dict(find_story(story).broker_config) if story else {},
        wire=wire,
        to=options.names(to),
        protocol=protocol,
        format=message_format,
    )
    plans = [plan] * repeat
    if inventory is not None:
        plans = [outside.onto(one, inventory, confirm) for one in plans]
    spark = SparkOptions(master=spark_master, driver_memory=driver_memory)
    with console.progress() as progress:
        judged = perform(plans, Store(store), spark=spark, progress=progress)
    _finish(judged, as_json=as_json)


@app.command()
def check(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN...]", help="Run directories or names, or those of one matrix."
        ),
    ] = None,
    *,
    jepsen: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead of runs: a history.edn of jepsen.tests.kafka."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="With --jepsen: list every anomaly.")
    ] = False,
    ww: Annotated[
        bool, typer.Option("--ww-deps", help="With --jepsen: cycles count the order of writes.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark_master: MasterOption = None,
    driver_memory: MemoryOption = "2g",
) -> None:
    """Judge stored runs, or all of a matrix, again without any broker; write reports anew.

    Or judge what Jepsen recorded.
    """
    from harness import api
    from harness.matrix.run import recheck

    spark = api.SparkOptions(master=spark_master, driver_memory=driver_memory)
    if jepsen:
        if runs:
            raise UsageError("--jepsen is judged alone.", hint="Leave the runs out.")
        foreign.check(jepsen, spark=spark, every=every, ww=ww, as_json=as_json)
    if not runs:
        raise UsageError("Nothing to check was named.", hint="Name runs, or --jepsen FILE.")
    if every or ww:
        raise UsageError("--all and --ww-deps go with --jepsen.", hint="Leave them out.")
    if folder := _matrix(runs, store):
        matrix.finish(folder, recheck(folder, spark=spark), as_json=as_json)
    found = [Store(store).open(name) for name in runs]
    _finish(api.check(found, spark=spark), as_json=as_json)


@app.command()
def report(
    runs: RunsArgument,
    *,
    form: Annotated[
        str, typer.Option("--format", help="html writes pages; md, json and junit are printed.")
    ] = "html",
    show: Annotated[bool, typer.Option("--open", help="Open the last page in a browser.")] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Write the reports of judged runs again, and a page of all where there are several."""
    from harness.matrix.run import row_of, write_matrix_page
    from reports import formats
    from reports.matrix import write as write_page
    from reports.run import write as write_report

    folder = _matrix(runs, store)
    found = [Store(store).open(name) for name in runs] if folder is None else folder.found()
    if form != "html":
        if show:
            raise UsageError("--open shows pages.", hint="Leave --format out.")
        sys.stdout.write(formats.find_format(form)([formats.Told.of(one) for one in found]))
        return
    if folder is not None:
        written = [write_matrix_page(folder)]
    else:
        written = [write_report(one) for one in found]
        if len(found) > 1:
            rows = [row_of(one, store) for one in found]
            written.append(write_page(rows, store / "index.html"))
    if as_json:
        _print_json([str(path) for path in written])
    else:
        for path in written:
            console.out.print(str(path))
    if show:
        typer.launch(written[-1].resolve().as_uri())


@app.command()
def compare(
    left: Annotated[str, typer.Argument(help="A judged run: its directory or name.")],
    right: Annotated[str, typer.Argument(help="Another of the same schedule.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="The page.  [default: compare-LEFT-RIGHT.html in the store]"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Put two runs of one schedule side by side, step by step, up to where they part and on."""
    from reports import comparison

    one, two = (Store(store).open(name) for name in (left, right))
    target = out or store / comparison.name(one, two)
    console.out.print(str(comparison.write(one, two, target)))
    if show:
        typer.launch(target.resolve().as_uri())


@app.command()
def serve(
    *,
    store: StoreOption = DEFAULT_STORE,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 is one that is free.")
    ] = 8080,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Show a store in the browser: all runs and their reports, read-only, on loopback alone."""
    from harness.serving import Server

    with Server(store, port) as server:
        console.err.print(f"{store} is at {server.url}; Ctrl-C ends it.")
        if show:
            typer.launch(server.url)
        server.serve_forever()


@app.command()
def versions(*, as_json: JsonOption = False) -> None:
    """List the Kafka releases of the catalogue and how each replicates."""
    from clusters.versions import CATALOGUE

    if as_json:
        _print_json([release.describe() for release in CATALOGUE.values()])
        return
    rows = [release.row() for release in CATALOGUE.values()]
    cells = [list(row.values()) for row in rows]
    console.out.print(console.table("Kafka releases", list(rows[0]), cells))
    console.out.print("What each rule means, and what to know of each release: --json.")


@app.command()
def doctor(
    *,
    store: StoreOption = DEFAULT_STORE,
    inventory: InventoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what this machine has and lacks, or what a cluster of yours does, and how to get it."""
    from harness.doctor import examine, examine_cluster

    findings = examine(store) if inventory is None else examine_cluster(inventory)
    if as_json:
        _print_json([finding.to_dict() for finding in findings])
    else:
        rows = [[one.name, "ok" if one.ok else "MISSING", one.found, one.hint] for one in findings]
        console.out.print(
            console.table(
                "This machine" if inventory is None else "That cluster",
                ["what", "", "found", "to do"],
                rows,
            )
        )
    raise typer.Exit(OK if all(one.ok or one.optional for one in findings) else FAILED)


def _matrix(names: list[str], store: Path) -> MatrixFolder | None:
    """The matrix that is named, if it is one."""
    found = [MatrixFolder(path) for path in (Path(names[0]), store / names[0])]
    folder = next((each for each in found if each.exists()), None)
    if folder and len(names) > 1:
        raise UsageError(f"{names[0]} is a matrix", hint="Name it alone, or runs alone.")
    return folder


def _finish(judged: "Sequence[Judged]", *, as_json: bool) -> NoReturn:
    if as_json:
        _print_json([one.summary() for one in judged])
    else:
        console.show_judged(judged)
    found = {one.verdict.verdict for one in judged}
    code = BROKEN if "invalid" in found else UNKNOWN if "unknown" in found else OK
    raise typer.Exit(code)


def _print_json(objects: list[Any]) -> None:
    """Print one object, or a list for several."""
    shown = objects[0] if len(objects) == 1 else objects
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")

"""The commands ``highwater model``: search for counterexamples, and replay them on brokers.

Exit codes: 0 every guarantee holds within the search bounds, 1 a guarantee is broken, 2 wrong
usage, 3 unknown: a limit was reached.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from highwater import console
from highwater.checkers.model.protocol.scope import BOUNDS, By, Scope
from highwater.cli.model_rules import model_beside, rules
from highwater.cli.options.common import (
    DEFAULT_STORE,
    JsonOption,
    RunsArgument,
    StoreOption,
    group_of,
    spark_options,
    takes,
)
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.base.files import require_writable
from highwater.harness.base.limits import Limit
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.runs import options, parse_values
from highwater.harness.runs.plan import Plan

if TYPE_CHECKING:
    from highwater.checkers.model.search.breadth_first import Limits, SearchProgress
    from highwater.checkers.model.search.result import SearchAnswer
    from highwater.cli.options.model import Words

app = typer.Typer(
    name="model",
    help="The reference model: finds records that a release may lose, without running brokers.",
    no_args_is_help=True,
)

MemoryOption = Annotated[
    str | None, Option(help="Greatest memory of the search.  [default: half of the free memory]")
]
LimitOption = Annotated[str | None, Option(help="Stop after this time: 300s.", show_default=False)]
JobsOption = Annotated[int, Option(min=1, max=64, help="Search threads.")]

_DRAWING_SUFFIXES = (".html", ".svg")


def _bound(name: str, text: str) -> options.Option:
    usual = getattr(Scope(), name)
    return options.Option(f"{text}, {Limit(*BOUNDS[name]).says}.", default=str(usual), kind=int)


def _step(text: str) -> By:
    granularities: dict[str, By] = {"message": "message", "round": "round"}
    if text not in granularities:
        raise UsageError(
            f"{text!r} is not a kind of step", hint="Kinds of step are message and round."
        )
    return granularities[text]


_SCOPE: Final = {
    "acks": options.Option(
        "acks: 0, 1 or all.", notation=options.Notation(parse_values.acks), default="all"
    ),
    "brokers": _bound("brokers", "Replicas"),
    "records": _bound("records", "Records sent"),
    "failures": _bound("failures", "Kills, pauses and lags"),
    "moves": _bound("moves", "Leadership moves and orderly stops"),
    "late": _bound("late", "Late fetch responses"),
    "batch": _bound("batch", "Records in a batch"),
    "failovers": _bound("failovers", "Controllers that crash"),
    "wipes": _bound("wipes", "Disks replaced outside of the ISR"),
    "joins": _bound("joins", "Late requests to enlarge the ISR"),
    "reassignments": _bound("reassignments", "Requests for another replica assignment"),
    "min_isr": options.Option("min.insync.replicas, 1 to --brokers.", default="1", kind=int),
    "unclean": options.Option("Allow unclean elections.", kind=bool),
    "by_hand": options.Option(
        "Let an operator elect any live replica if no broker leads.", kind=bool
    ),
    "interrupts": options.Option(
        "Let an operator cancel a reassignment, or request another one instead.", kind=bool
    ),
    "by": options.Option(
        "Kind of step: message (only brokers with ZooKeeper can replay it), or round (all "
        "brokers can).",
        notation=options.Notation(_step),
        default="message",
    ),
    "stops": options.Option(
        "Planned moves may be orderly stops.",
        typed="--stops/--no-stops",
        default="stops",
        kind=bool,
    ),
    "old_format": options.Option("Write records as before 0.11, without leader epochs.", kind=bool),
}
"""Options of ``explore`` that the transaction model does not have."""


@app.callback()
def model() -> None:
    """Find out by the reference model which records a release may lose, without running brokers."""


app.command()(rules)


@app.command()
@takes(given=group_of(_SCOPE))
def explore(  # noqa: PLR0913 - a command's options are its arguments
    *,
    kafka: Annotated[str, Option(help="Release, named as in highwater versions.")],
    invariant: Annotated[
        str, Option(help="Guarantees to check: names separated by commas, promises, or all.")
    ] = "promises",
    given: dict[str, Any],
    transactions: Annotated[
        bool,
        Option("--transactions", help="Search the transaction model instead."),
    ] = False,
    quorum: Annotated[
        bool, Option("--quorum", help="Search the model of KRaft's controllers instead.")
    ] = False,
    client: Annotated[
        str | None,
        Option(
            help="With --transactions, the client: librdkafka, java, or java-v1 (without "
            "KIP-890).  [default: librdkafka]"
        ),
    ] = None,
    bound: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=NUMBER",
            help="With --transactions or --quorum: a bound of the search (docs/model.md).",
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        Option(metavar="NAME=on|off", help="Change a rule of the release."),
    ] = None,
    memory: MemoryOption = None,
    limit: LimitOption = None,
    jobs: JobsOption = 1,
    out: Annotated[
        Path | None, Option(help="File for the counterexample.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None,
        Option(help="Draw the counterexample: FILE.html or FILE.svg.", show_default=False),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Search all orders of events in a small cluster for the shortest way to break a guarantee.

    Numbers of records and of events are upper bounds.
    """
    from highwater.checkers.model.search.result import search
    from highwater.cli.options import model

    other = model_beside(transactions=transactions, quorum=quorum)
    beside = {"client": client, "bound": bound}
    question, names = _question(other, kafka, given, beside, rule or [], invariant)
    question.rules()
    words = model.words_of(question)
    _check_drawn(report, words.drawings)
    if out is not None:
        require_writable(out, "--out")
    with _limits(memory, limit) as limits, console.progress() as progress:
        watch = _watch(progress, kafka)
        answers = search(question, names, limits=limits, jobs=jobs, watch=watch)
    written = [made for path in (out, report) for made in _write(answers, path, words)]
    if as_json:
        console.print_all_json([answer.summary() for answer in answers])
    else:
        model.show(answers, words, written)
    raise typer.Exit(exit_code(answers))


@app.command()
@takes(given=group_of(_SCOPE))
def coverage(  # noqa: PLR0913 - a command's options are its arguments
    runs: RunsArgument,
    *,
    kafka: Annotated[
        str | None,
        Option(help="Release whose rules apply.  [default: that of the first run]"),
    ] = None,
    given: dict[str, Any],
    memory: MemoryOption = None,
    limit: LimitOption = None,
    jobs: JobsOption = 1,
    out: Annotated[
        Path | None,
        Option(
            help="Folder for a path to each situation. highwater model replay plays it.",
            show_default=False,
        ),
    ] = None,
    most: Annotated[
        int, Option("--paths", min=1, help="With --out: the most paths to write.")
    ] = 20,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List the situations of the model in which no run was observed; the nearest come first.

    A situation consists of the replicas that respond, the ISR, and for each replica whether its LEO
    and HW are below the leader's. Exit codes: 0, or 2 for wrong usage.
    """
    from highwater.checkers.coverage.model_coverage import coverage as covered
    from highwater.checkers.coverage.reachable import reachable_situations
    from highwater.checkers.model.search.kafka_model import ModelSettings
    from highwater.cli.options import model
    from highwater.harness.runs.store import Store

    folder = MatrixFolder.named(runs, store)
    opened = [Store(store).open(name) for name in runs] if folder is None else folder.runs()
    settings = ModelSettings(kafka=kafka or opened[0].plan().kafka, scope=_scope(given))
    settings.rules()
    with _limits(memory, limit) as limits, console.progress() as progress:
        watch = _watch(progress, settings.kafka)
        reachable = reachable_situations(settings, limits=limits, jobs=jobs, watch=watch)
        answer = covered(opened, reachable)
        written = ([], 0) if out is None else model.write_paths(answer, reachable, out, most)
    if as_json:
        console.print_json(answer)
    else:
        model.show_coverage(answer)
        model.show_paths(*written)


def _scope(given: Mapping[str, Any]) -> Scope:
    return Scope(**{name: _SCOPE[name].value(value) for name, value in given.items()})


def _question(
    other: str | None,
    kafka: str,
    given: Mapping[str, Any],
    beside: Mapping[str, Any],
    rules: Sequence[str],
    invariant: str,
) -> tuple[Any, tuple[str, ...]]:
    """Return the settings of a search, and the invariants to check.

    Args:
        other: the model, if it is not that of replication.
        given: the bounds of the model of replication.
        beside: the client and the bounds of another model.
    """
    from highwater.checkers.model.search.kafka_model import ModelSettings, invariants
    from highwater.cli.options.model import question_of

    switched, listed = _switched(rules), parse_values.names(invariant)
    if other is None:
        _refuse(beside, "without --transactions or --quorum", "Add one, or leave this option out.")
        question = ModelSettings(kafka=kafka, scope=_scope(given), switched=switched)
        return question, invariants(listed)
    _refuse(given, f"with --{other}", "Its bounds are --bound NAME=NUMBER: --bound epochs=3.")
    client = {"client": beside["client"]}
    if other == "quorum":
        _refuse(client, "with --quorum", "Controllers have no clients.")
    settings = {"kafka": kafka, "switched": switched, **client}
    return question_of(other, listed, beside["bound"] or [], settings)


def _refuse(given: Mapping[str, object], word: str, hint: str) -> None:
    """Raise an error if an option does not exist in the chosen model."""
    for name, value in given.items():
        if value not in (None, []):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} has no effect {word}", hint=hint)


@app.command()
@takes(
    given=group_of(
        options.options_of(Plan),
        *("kafka", "seed", "min_isr", "cluster", "client"),
        kafka="Releases, separated by commas.  [default: the release of the search]",
        seed="Seed of the first run; each next run adds one.",
        min_isr="min.insync.replicas.  [default: as in the search]",
        cluster="Cluster driver: local, docker.",
        client="Library of the producers: librdkafka, java, or a release of Java's clients "
        "(java:3.9.2); without transactions also kafka-python or aiokafka.  [default: "
        "the library of the search, or librdkafka]",
    ),
    spark=spark_options,
)
def replay(
    file: Annotated[
        Path,
        Argument(
            help="File of a counterexample or schedule, or the name of one that is installed with "
            "Highwater."
        ),
    ],
    *,
    given: dict[str, Any],
    runs: Annotated[int, Option(min=1, max=1000, help="Runs on each release.")] = 1,
    store: StoreOption = DEFAULT_STORE,
    report: Annotated[
        Path | None,
        Option(
            help="Draw the counterexample with the brokers' states: FILE.html. Or write "
            "the page of a finding: DIR."
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False,
    spark: SparkOptions,
) -> None:
    """Replay a counterexample on real brokers, and compare the results with the model.

    Exit codes: 0 every run ended as predicted, with or without a loss; 1 a finding is unexplained;
    2 wrong usage; 3 a run ended differently, or could not be judged.
    """
    from highwater.campaigns import model_schedules as work
    from highwater.harness.runs.store import Store

    source = work.Source.load(file, min_isr=given.get("min_isr"), client=given.get("client"))
    kafkas = parse_values.names(given.get("kafka") or source.content.kafka)
    folder = report if report is not None and not report.suffix else None
    if folder is None:
        _check_drawn(report)
    else:
        work.check_finding(source)
    with console.progress() as progress:
        judged = work.perform(
            source,
            kafkas,
            Store(store),
            runs=runs,
            seed=given.get("seed", 0),
            driver=given.get("cluster", "local"),
            spark=spark,
            progress=progress,
        )
    counted = work.tally(source, judged)
    if folder is not None:
        from highwater.cli.options.model_finding import tried_rules, write_finding

        tried = tried_rules(work.check_finding(source))
        page: Path | None = write_finding(source, counted, tried, folder)
    else:
        page = source.draw(report, judged) if report else None
    if as_json:
        summaries = [judged_run.summary() for judged_run in judged]
        console.print_json({"replays": counted, "runs": summaries})
    else:
        console.out.print(work.table(judged))
        for tally in counted:
            console.out.print(
                f"Kafka {tally.kafka}: {tally.reproduced} of {tally.runs} runs lost or forked "
                f"records as predicted, {tally.kept} kept all records as predicted"
            )
        if page:
            console.out.print(f"drawn: {page}")
    raise typer.Exit(work.exit_code(judged))


def _check_drawn(report: Path | None, suffixes: Sequence[str] = _DRAWING_SUFFIXES) -> None:
    if report and not suffixes:
        raise UsageError("this model has no drawings", hint="Use --out FILE.json.")
    if report and report.suffix not in suffixes:
        names = ", or ".join(f"FILE{suffix}" for suffix in suffixes)
        raise UsageError(f"{report} is not a name for a page", hint=f"The name must be {names}.")
    if report is not None:
        require_writable(report, "--report")


def exit_code(answers: "Sequence[SearchAnswer[Any]]") -> int:
    """Return 1 if an invariant is broken, 3 if an invariant is unknown, else 0."""
    if any(answer.holds is False for answer in answers):
        return BROKEN
    return UNKNOWN if any(answer.holds is None for answer in answers) else OK


def _switched(texts: Sequence[str]) -> dict[str, bool]:
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        if value not in {"on", "off"}:
            raise UsageError(
                f"{text!r} does not switch a rule on or off",
                hint="Write NAME=on or NAME=off, such as epochs=off.",
            )
        options[name] = value == "on"
    return options


@contextmanager
def _limits(memory: str | None, limit: str | None) -> "Iterator[Limits]":
    """Yield the limits of a search; the first Ctrl-C stops the search, the second the command."""
    from highwater.checkers.model.search.breadth_first import Limits, half_of_free_memory

    stop, before = threading.Event(), dict[int, Any]()

    def wind_up(number: int, _: Any) -> None:  # noqa: ANN401 - a stack frame
        stop.set()
        signal.signal(number, before[number])

    if threading.current_thread() is threading.main_thread():
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            before[number] = signal.signal(number, wind_up)
    try:
        yield Limits(
            memory=parse_values.size(memory) if memory else half_of_free_memory(),
            seconds=parse_values.duration(limit) if limit else None,
            stop=stop.is_set,
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(progress: Callable[[str, str], None], kafka: str) -> "Callable[[SearchProgress], None]":
    progress(
        f"model of {kafka}", "compiling the rules to machine code (20 s and more, the first time)"
    )

    def show(seen: "SearchProgress") -> None:
        rate = seen.states / max(seen.seconds, 1e-9)
        progress(
            f"model of {kafka}",
            f"{seen.states:,} states, {seen.depth} moves deep, {rate:,.0f} states a second",
        )

    return show


def _write(
    answers: "Sequence[SearchAnswer[Any]]",
    out: Path | None,
    words: "Words",
) -> list[Path]:
    """Write a file for each counterexample; if there are several, the invariant is in the name."""
    if out is None:
        return []
    broken = [answer.counterexample for answer in answers if answer.counterexample is not None]
    written = []
    for counterexample in broken:
        several = len(broken) > 1
        path = out.with_stem(f"{out.stem}-{counterexample.invariant}") if several else out
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in words.drawings:
            words.draw(counterexample, path)
        else:
            path.write_bytes(counterexample.to_json())
        written.append(path)
    return written

"""The pytest plugin, which runs tests on real brokers of the Kafka releases that they name.

It defines the marker ``kafka`` and the fixtures ``kafka_run``, ``kafka_app``, ``kafka_cluster`` and
``highwater_case`` (docs/pytest.md). pytest imports this module in every environment with Highwater.
So at first the module imports only pytest and the standard library. It imports other modules when a
test uses a fixture or the session uses an option.
"""

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from highwater.clusters.core.interfaces import Cluster
    from highwater.testing.kafka_app import KafkaApp
    from highwater.testing.kafka_run import KafkaRun
    from highwater.testing.parametrize import Case, SessionChoice
    from highwater.testing.results import Result
    from highwater.testing.session import Laboratory

_CASE: Final = "highwater_case"
_HEADINGS: Final = ("kafka", "driver", "what", "lost / acked", "verdict", "model", "report")
_PROPERTIES: Final = (
    *("kafka", "driver", "acks", "verdict", "lost", "acknowledged"),
    *("model", "report"),
)
_ROWS: Final = pytest.StashKey[list[dict[str, str]]]()
_CHOICE: Final = pytest.StashKey["SessionChoice"]()
_MARKER: Final = (
    'kafka("0.10.2.2", …, acks=["1", "all"], min_isr=[1], unclean=[False]): starts real brokers;'
    " a test that uses kafka_run, kafka_app or kafka_cluster runs for every release and setting."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add three options; the ini file can also set them."""
    group = parser.getgroup("highwater", "Highwater: fault injection against real Kafka")
    for name, metavar, says in (
        ("kafka", "LIST", "releases: 0.10.2.2,2.8.2, all or sample; tests skip other releases"),
        ("driver", "NAME", "kind of brokers: local (processes) or docker"),
        ("store", "DIR", "folder for runs and their reports"),
    ):  # fmt: skip
        group.addoption(f"--highwater-{name}", metavar=metavar, default=None, help=says)
    parser.addini(
        "highwater_kafka", "Kafka releases of tests that name no release (default: sample)"
    )
    parser.addini("highwater_driver", "kind of brokers (default: local)")
    parser.addini(
        "highwater_store", "folder for runs, relative to the root directory", default="store"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; raise an error for unknown releases and drivers."""
    config.addinivalue_line("markers", _MARKER)
    if any(_option(config, name) for name in ("kafka", "driver")):
        _choice(config)


def _option(config: pytest.Config, name: str) -> str:
    """Return an option from the command line, else from the ini file; empty if both lack it."""
    return config.getoption(f"highwater_{name}") or config.getini(f"highwater_{name}") or ""


def _choice(config: pytest.Config) -> "SessionChoice":
    """Return the releases, the driver and the store of the session."""
    if _CHOICE not in config.stash:
        from highwater.harness.base.errors import UsageError  # noqa: PLC0415 - see the module
        from highwater.testing.parametrize import session_choice  # noqa: PLC0415

        store = config.getoption("highwater_store")
        try:
            config.stash[_CHOICE] = session_choice(
                kafka=config.getini("highwater_kafka"),
                only=config.getoption("highwater_kafka"),
                driver=_option(config, "driver"),
                store=config.invocation_params.dir / store
                if store
                else config.rootpath / config.getini("highwater_store"),
            )
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_CHOICE]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses Highwater once for each release and setting of its markers."""
    if _CASE not in metafunc.fixturenames:
        return
    from highwater.harness.base.errors import UsageError  # noqa: PLC0415 - see the module
    from highwater.testing.parametrize import cases  # noqa: PLC0415

    marks = list(metafunc.definition.iter_markers("kafka"))  # the closest marker first
    named = next((mark.args for mark in marks if mark.args), ())
    settings: dict[str, Any] = {}
    for mark in reversed(marks):
        settings.update(mark.kwargs)
    try:
        parameters = [_parameter(case) for case in cases(named, settings, _choice(metafunc.config))]
    except UsageError as error:
        where = metafunc.definition.nodeid
        raise pytest.Collector.CollectError(f"{where}: {error}") from None
    metafunc.parametrize(_CASE, parameters, indirect=True)


def _parameter(case: "Case") -> Any:  # noqa: ANN401 - pytest keeps its ParameterSet to itself
    skip = [pytest.mark.skip(reason=case.left_out)] if case.left_out else []
    return pytest.param(case, id=case.id, marks=[pytest.mark.kafka, *skip])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Move tests with brokers to the end, grouped by release, so that they share clusters.

    With pytest-xdist and ``--dist loadgroup``, all tests of a release run in one worker. (xdist 3.8
    cannot group tests on pytest 9.2.)
    """
    if not any(_case(item) for item in items):
        return
    from highwater.harness.releases.catalogue import CATALOGUE  # noqa: PLC0415 - see the module

    places = {name: place for place, name in enumerate(CATALOGUE)}
    grouped = config.pluginmanager.hasplugin("xdist")

    def place(item: pytest.Item) -> int:
        case = _case(item)
        if case is not None and grouped:
            item.add_marker(pytest.mark.xdist_group(f"kafka-{case.kafka}"))
        return -1 if case is None else places[case.kafka]

    items.sort(key=place)


def _case(item: pytest.Item) -> "Case | None":
    call = getattr(item, "callspec", None)
    return call.params.get(_CASE) if call is not None else None


@pytest.fixture
def highwater_case(request: pytest.FixtureRequest) -> "Case":
    """Return the release and the settings for which the current test runs."""
    from highwater.harness.base.errors import UsageError  # noqa: PLC0415 - see the module
    from highwater.testing.parametrize import Case  # noqa: PLC0415

    case = getattr(request, "param", None)
    if not isinstance(case, Case):
        raise UsageError(
            "kafka_run, kafka_app and kafka_cluster are not available by getfixturevalue",
            hint="Make the fixture an argument of the test, which then runs for every release.",
        )
    return case


@pytest.fixture(scope="session")
def _highwater_laboratory(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Callable[[], Laboratory]"]:
    """Yield a function that returns the session's ``Laboratory``; its first call creates it."""
    with contextlib.ExitStack() as stack:
        made: list[Laboratory] = []

        def laboratory() -> "Laboratory":
            if not made:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # libraries' own, at their import
                    from highwater.testing.session import Laboratory  # noqa: PLC0415
                store = _choice(pytestconfig).store
                folder = tmp_path_factory.mktemp("highwater")
                new = Laboratory(store, folder, partial(_say, pytestconfig))
                made.append(stack.enter_context(new))
            return made[0]

        yield laboratory


def _say(config: pytest.Config, words: str) -> None:
    """Write a line to the terminal, although pytest captures output."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or config.get_verbosity() < 0:
        return
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        reporter.ensure_newline()
        reporter.write_line(f"highwater: {words} …")


@pytest.fixture
def kafka_run(
    highwater_case: "Case",
    _highwater_laboratory: "Callable[[], Laboratory]",
    request: pytest.FixtureRequest,
) -> "KafkaRun":
    """Return a ``KafkaRun``, which runs stories and schedules on real brokers and judges the runs.

    ``kafka_run(story="loss")`` fails the test if a guarantee was broken; ``KafkaRun`` documents the
    arguments.
    """
    from highwater.testing.kafka_run import KafkaRun  # noqa: PLC0415 - see the module

    return KafkaRun(highwater_case, _highwater_laboratory, partial(_note, request.node))


@pytest.fixture
def kafka_app(
    highwater_case: "Case",
    _highwater_laboratory: "Callable[[], Laboratory]",
    request: pytest.FixtureRequest,
) -> "KafkaApp":
    """Return a ``KafkaApp``, which runs the user's program under faults and judges it.

    ``kafka_app("python service.py")`` fails the test if inputs were lost; ``KafkaApp`` documents
    the arguments.
    """
    from highwater.testing.kafka_app import KafkaApp  # noqa: PLC0415 - see the module

    return KafkaApp(highwater_case, _highwater_laboratory, partial(_note, request.node))


def _note(node: pytest.Item, result: "Result") -> None:
    """Store a judged run for the session's summary, and in the properties of its test."""
    row = result.row()
    node.stash.setdefault(_ROWS, []).append(row)
    node.user_properties.extend((name, row[name]) for name in _PROPERTIES)
    node.user_properties.extend((f"inputs-{name}", n) for name, n in result.inputs.items())


@pytest.fixture
def kafka_cluster(
    highwater_case: "Case", _highwater_laboratory: "Callable[[], Laboratory]"
) -> "Cluster":
    """Return a ``highwater.Cluster``: three running brokers of this test's release.

    All tests of the release use the same cluster. A broken cluster is replaced for the next test.
    """
    from highwater.harness.base.errors import HighwaterError  # noqa: PLC0415 - see the module

    __tracebackhide__ = True
    try:
        return _highwater_laboratory().cluster(highwater_case)
    except HighwaterError as error:
        raise error.with_traceback(None) from None  # the message says everything


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a harness failure as an error of the test, like an error in a fixture.

    pytest reports an exception in a test as a failure, and an expected exception (``xfail``) as a
    success. A failure must mean a broken guarantee. If the harness cannot judge the run, the test
    has neither failed nor succeeded.
    """
    report = yield
    case = _case(item)
    if case is None:
        return report
    from highwater.harness.base.errors import HighwaterError  # noqa: PLC0415 - see the module

    if call.when == "call":
        report.__dict__["highwater_runs"] = item.stash.get(_ROWS, [])
    elif call.when == "setup":
        report.__dict__["highwater_left_out"] = case.left_out
    if call.excinfo is not None and isinstance(call.excinfo.value, HighwaterError):
        report.outcome = "failed"
        report.__dict__.pop("wasxfail", None)
        if report.when == "call":
            report.when = "setup"
    return report


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line about releases, driver and store, if the command line names releases."""
    if config.getoption("highwater_kafka") is None:
        return None
    choice = _choice(config)
    assert choice.only is not None
    return f"highwater: Kafka {', '.join(choice.only)} ({choice.driver}), runs in {choice.store}"


def pytest_terminal_summary(
    terminalreporter: "pytest.TerminalReporter", config: pytest.Config
) -> None:
    """Print a line for each run (release, faults, losses), and the skipped tests."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    reports.sort(key=lambda report: getattr(report, "start", 0.0))
    here = config.invocation_params.dir
    rows = [_line(row, here) for report in reports for row in getattr(report, "highwater_runs", ())]
    left_out = Counter(getattr(report, "highwater_left_out", "") for report in reports)
    del left_out[""]
    if rows or left_out:
        terminalreporter.section("Highwater: what was lost")
    for line in _aligned([_HEADINGS, *rows]) if rows else ():
        terminalreporter.line(line)
    for reason, count in left_out.items():
        terminalreporter.line(f"skipped {count} test{'s' * (count > 1)}: {reason}")


def _line(row: dict[str, str], here: Path) -> tuple[str, ...]:
    report = Path(row["report"])
    path = report.relative_to(here) if report.is_relative_to(here) else report
    lost = f"{row['lost']} / {row['acknowledged']}"
    words = (row["verdict"], row["model"] or "-")
    return row["kafka"], row["driver"], row["what"], lost, *words, str(path)


def _aligned(lines: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()

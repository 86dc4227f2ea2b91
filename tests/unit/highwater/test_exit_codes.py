"""Exit code 1 is a verdict's alone: commands into closed pipes, full devices, closed folders."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import typer.main

from highwater.cli.app import app
from highwater.harness.base.exit_codes import CLOSED, FAILED, INTERRUPTED
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Run
from tests.browser.samples import SAMPLES
from tests.support.commands import perform, run_python
from tests.support.forked import Output, outcomes

pytestmark = pytest.mark.slow

HIGHWATER: Final = (sys.executable, "-m", "highwater")
COMMANDS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("demo",): ("--kafka", "9.9", "--store", "{new}"),
    ("run",): ("--kafka", "9.9", "--story", "loss", "--store", "{new}"),
    ("app",): ("--in", "a", "--out", "b", "--kafka", "9.9", "--store", "{new}", "--", "true"),
    ("check",): ("nowhere", "--store", "{store}"),
    ("report",): ("valid", "loss", "--format", "md", "--store", "{store}"),
    ("compare",): ("valid", "loss", "--store", "{store}", "--out", "{new}/page.html"),
    ("serve",): ("--store", "/nowhere"),
    ("matrix",): ("--kafka", "9.9", "--store", "{new}"),
    ("soak",): ("--kafka", "9.9", "--store", "{new}"),
    ("replay",): ("nowhere", "--store", "{store}"),
    ("shrink",): ("valid", "--store", "{store}"),
    ("inspect",): ("/nowhere", "--html", "{new}/page.html"),
    ("rolling",): ("--inventory", "/nowhere", "--store", "{new}"),
    ("heal",): ("--inventory", "/nowhere"),
    ("driver", "check"): ("--kafka", "9.9", "--", "./no-driver"),
    ("hazards", "show"): ("KIP-101",),
    ("advise",): ("--bootstrap", "127.0.0.1:1"),
    ("versions",): ("--json",),
    ("doctor",): ("--store", "{new}"),
    ("model", "rules"): ("--kafka", "2.0.0,2.0.1"),
    ("model", "explore"): ("--kafka", "4.3.1", "--out", "{new}/found.json", "--acks", "7"),
    ("model", "replay"): ("/nowhere",),
    ("model", "coverage"): ("/nowhere",),
    ("nightly", "plan"): ("--out", "{new}/night"),
    ("nightly", "summarize"): ("/nowhere", "--out", "{new}/night"),
    ("nightly", "keep"): ("/nowhere", "--out", "{new}/night"),
}
"""Every command, so that it prints something or fails early."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:  # noqa: ANN401 - Click has no types
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from commands(inner, (*path, name))
        else:
            yield (*path, name)


def test_every_command_is_tried() -> None:
    assert set(commands(typer.main.get_command(app))) == set(COMMANDS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("store")
    for name in ("valid", "loss"):
        SAMPLES[name]().write(home).path.rename(home / name)
    return home


def highwater(
    *words: str,
    stdout: int = subprocess.PIPE,
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*HIGHWATER, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def nobody() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


def words(command: tuple[str, ...], store: Path, new: Path) -> list[str]:
    given = (word.format(store=store, new=new) for word in COMMANDS[command])
    return [*command, *given]


@pytest.mark.parametrize(
    "output",
    ["full", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("nobody", "closed"))],
)
def test_what_keeps_output_back_is_no_broken_promise(
    output: Output, store: Path, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    cases = [(words(command, store, closed / "new"), output) for command in COMMANDS]
    for (given, _), (code, said, _) in zip(cases, outcomes(cases), strict=True):
        assert code in (0, 2, 3, FAILED, CLOSED), f"{given}: {code}, {said}"
        assert "Traceback" not in said, f"{given}: {said}"
        assert said or code in (0, 3, CLOSED), f"{given} failed silently"


def test_what_is_written_to_nobody_ends_quietly(nobody: int) -> None:
    done = highwater("versions", stdout=nobody)
    assert (done.returncode, done.stderr) == (CLOSED, "")


NEWEST: Final = ("run", "--kafka", MODERN)
WRONG: Final[tuple[tuple[tuple[str, ...], int, str], ...]] = (
    (("check", "vald"), 2, "Did you mean valid?"),
    (("check", "nowhere"), 2, "nowhere is not a run directory"),
    (("report", "nowhere"), 2, "nowhere is not a run directory"),
    (("serve", "--store", "/nowhere"), 2, "there is no store at /nowhere"),
    (("check", "valid", "--driver-memory", "lots"), 2, "Write 512m, 2g"),
    (("check", "valid", "--spark-master", "foo://bar"), 2, "not a Spark master"),
    (("inspect", ".", "--html", "."), 2, "--html . is a folder, not a file"),
    (("compare", "valid", "loss", "--out", "."), 2, "--out . is a folder, not a file"),
    (("compare", "valid", "loss", "--out", "/proc/x/page.html"), FAILED, "cannot be written"),
    (("model", "explore", "--kafka", "4.3.1", "--out", "."), 2, "--out . is a folder"),
    (("model", "explore", "--kafka", "4.3.1", "--report", "/proc/x.html"), FAILED, "/proc/x"),
    (("run", "--kafka", "4.3.1", "--partitions", "2000000000"), 2, "2,000,000,000 partitions"),
    (("run", "--kafka", "0.10.2.1", "--story", "loss"), 2, "0.10.2.2"),
    ((*NEWEST, "--acks", "2"), 2, "0, 1 or all"),
    ((*NEWEST, "--for", "soon"), 2, "60s"),
    ((*NEWEST, "--rate", "fast"), 2, "max"),
    ((*NEWEST, "--story", "los"), 2, "loss"),
    ((*NEWEST, "--nemesis", "kil"), 2, "kill"),
    ((*NEWEST, "--message", "hold EndTxm"), 2, "EndTxn"),
    (("run", "--kafka", "0.10.2.2", "--message", "hold EndTxn"), 2, "it came with Kafka 0.11"),
    (("run",), 2, "--kafka"),
    (("ran",), 2, "ran"),
)


def test_wrong_usage_is_told_in_a_sentence_before_any_work(store: Path) -> None:
    def is_elsewhere(given: tuple[str, ...]) -> bool:
        return "--store" in given or given[0] in ("inspect", "model", "ran")

    cases: list[tuple[tuple[str, ...], Output]] = [
        (given if is_elsewhere(given) else (*given, "--store", str(store)), "kept")
        for given, *_ in WRONG
    ]
    before = [*store.rglob("*")]
    for (given, code, says), (ended, said, out) in zip(WRONG, outcomes(cases, store), strict=True):
        assert (ended, out) == (code, ""), f"{given}: {said}"
        assert says in said, given
        assert "Traceback" not in said, given
    assert [*store.rglob("*")] == before


def test_one_broken_run_keeps_back_no_report(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path, dirs_exist_ok=True)
    (tmp_path / "loss" / "plan.json").write_text("{")
    done = highwater("report", "loss", "valid", "--store", str(tmp_path))
    assert done.returncode == FAILED
    assert f"loss: {tmp_path / 'loss' / 'plan.json'} is not a plan" in done.stderr
    assert str(tmp_path / "valid" / "report.html") in done.stdout


@pytest.mark.spark
def test_one_broken_run_keeps_back_no_verdict(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path, dirs_exist_ok=True)
    (tmp_path / "loss" / "plan.json").write_text("{")
    code, out = perform("check", "loss", "valid", "--store", tmp_path)
    assert code == 3
    assert "UNKNOWN This run could not be judged" in out
    assert Run(tmp_path / "valid").verdict().run == "valid"


def _folder(process: psutil.Process, temporary: Path) -> list[object]:  # noqa: ARG001 - called alike
    """Spark is about to be started."""
    return [*temporary.glob("highwater-scratch-*")]


def _spark(process: psutil.Process, temporary: Path) -> list[object]:  # noqa: ARG001 - as above
    """Its JVM runs."""
    return [child for child in process.children(recursive=True) if child.name() == "java"]


def _judge(process: psutil.Process, temporary: Path) -> list[object]:  # noqa: ARG001 - as above
    """It judges."""
    return [*temporary.glob("highwater-scratch-*/judge-*/*")]


@pytest.mark.spark
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(
    "moment", [pytest.param(_folder, marks=pytest.mark.nightly), _spark, _judge]
)
def test_an_interruption_leaves_a_sentence_and_nothing_else(
    how: signal.Signals,
    moment: Callable[[psutil.Process, Path], list[object]],
    store: Path,
    tmp_path: Path,
) -> None:
    before = Run(store / "valid").verdict()
    process = subprocess.Popen(
        [*HIGHWATER, "check", "valid", "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    seen = psutil.Process(process.pid)
    await_condition(
        lambda: moment(seen, tmp_path),
        bool,
        what=f"the moment {moment.__doc__}",
        limit_s=60,
        every_s=0.01,
        passing=(psutil.NoSuchProcess,),
    )
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    name = "Ctrl-C" if how == signal.SIGINT else "SIGTERM"
    lines = [line for line in said.splitlines() if not line.startswith("judging ")]
    assert (process.returncode, lines) == (INTERRUPTED, [f"highwater: interrupted by {name}"])
    assert [*tmp_path.iterdir()] == []
    await_condition(
        lambda: [*_processes_about(tmp_path)],
        lambda left: not left,
        what="every JVM of the command to end",
        limit_s=30,
    )
    assert Run(store / "valid").verdict() == before


def _processes_about(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in process.cmdline()):
                yield process


_IN_A_CALLBACK: Final = """
import itertools, signal, sys, threading, time, weakref
from highwater import __main__ as main
from highwater.cli import app as commands


class Forgotten:
    pass


def wait():
    one = Forgotten()
    watched = weakref.ref(one, lambda _: signal.raise_signal(signal.SIGTERM))
    del one  # Python ignores what its callback raises
    print("ignored", watched(), flush=True)
    for _ in itertools.count():
        time.sleep(0.01)


class Early(threading.Timer):
    def start(self):
        threading.Timer = Early.__base__
        signal.raise_signal(signal.SIGTERM)  # the hook has not returned


main._AGAIN_S = 1.0
if "early" in sys.argv:
    threading.Timer = Early
commands.app = wait
main.main()
"""


@pytest.mark.parametrize("when", ["late", "early"])
def test_an_interruption_in_a_callback_that_ignores_errors_comes_again(when: str) -> None:
    told = run_python(_IN_A_CALLBACK, when)
    assert told == (INTERRUPTED, "ignored None\n", "highwater: interrupted by SIGTERM\n")


_UNHEALED = """
import logging, signal, sys
from highwater import __main__ as main
from highwater.cli import app as commands


def wait():
    logging.getLogger("highwater.external").warning("broker 1 is not healed")
    signal.raise_signal(signal.SIGINT)


commands.app = wait
sys.argv = ["highwater", "rolling", "--inventory=staging.toml"]
main.main()
"""


def test_what_a_cluster_of_one_s_own_cannot_heal_is_said() -> None:
    """Logs of libraries are silenced, and ours are not."""
    code, _, err = run_python(_UNHEALED)
    assert code == INTERRUPTED
    assert err.splitlines() == [
        "highwater: broker 1 is not healed",
        "highwater: interrupted by Ctrl-C",
        "Everything recorded so far is in the store.",
    ]

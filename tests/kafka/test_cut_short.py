"""A run that is killed, terminated or interrupted at any moment claims no more than it recorded.

Nor does it leave a process or a temporary folder. ``HIGHWATER_CUTS`` is at how many random moments
(60 is what is published, 50 of runs with controllers), ``HIGHWATER_SEED`` the dice's seed.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import psutil
import pytest
from pyspark.sql import SparkSession

from highwater import console
from highwater.api import judge_all
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Run, Store
from tests.support import spoiled as sweep
from tests.support.seeds import FIRST

COUNT: Final = int(os.environ.get("HIGHWATER_CUTS", "3"))
LAST_S: Final = 32.0
"""About when such a run has ended and is judged, on two cores."""

SIGNALS: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
RUN: Final = (
    *(sys.executable, "-m", "highwater", "run", "--kafka"),
    *("0.10.2.2", "--nemesis", "kill,pause", "--for", "10s", "--seed", "3"),
)
FULL: Final = (
    *(sys.executable, "-m", "highwater", "run", "--kafka", MODERN, "--controllers", "3"),
    *("--wire-clients", "--transactions", "--for", "20s", "--seed"),
)
"""A run with clients on the wire and three controllers, without its seed and faults."""

FAULTS: Final = (
    ("--nemesis", "isolate,controller-isolate,controller-kill,cut-client,lose-answers"),
    ("--message", "hold EndTxn client:*>* at=1s", "--message", "hold AlterPartition at=0s"),
    ("--client", "java", "--nemesis", "kill,cut-client"),
)
FORKS: Final = (
    "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
)
APP: Final = (
    *(sys.executable, "-m", "highwater", "app", "--for", "20s"),
    *("--instances", "2", "--seed"),
)
"""A run of a program that forks and ignores SIGTERM, without its seed."""

APPS: Final = (
    ("--nemesis", "app-kill,app-pause,kill,pause"),
    ("--nemesis", "app-scale,app-cut,app-hold-commit"),
)
MARK: Final = "HIGHWATER_CUT"

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(300 + 90 * COUNT)]
"""``make test`` ends commands at moments that it chooses (test_command.py)."""


def cut(how: signal.Signals, after_s: float, store: Path) -> str:
    """Begin a run, send it a signal, and wait until nothing of it is left; what it said."""
    process = subprocess.Popen(
        [*RUN, "--store", str(store)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    family: list[psutil.Process] = []
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, how)
    _, said = process.communicate(timeout=120)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a run that was cut short left.

    Attributes:
        runs: its directory; none where it had not begun.
        said: what it said on standard error.
    """

    name: str
    runs: tuple[Run, ...]
    said: str


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> list[Cut]:
    found = []
    dice = Random(FIRST)  # noqa: S311 - moments, not secrets
    for number in range(COUNT):
        store = tmp_path_factory.mktemp("store")
        how = SIGNALS[number % len(SIGNALS)]
        # A moment of each stretch of the run, so that few moments meet different phases, too.
        at_s = LAST_S * (number + dice.random()) / COUNT
        said = cut(how, at_s, store)
        runs = tuple(Store(store).open(name) for name in Store(store).names())
        found.append(Cut(name=f"{how.name} after {at_s:.1f} s", runs=runs, said=said))
    return found


def test_cut_run_ends_with_a_sentence(cuts: list[Cut]) -> None:
    odd = ("Traceback", "Exception", "py4j", "Error:")
    assert not [f"{each.name}: {each.said}" for each in cuts if any(o in each.said for o in odd)]


def test_cut_run_claims_no_more_than_it_recorded(
    cuts: list[Cut], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run for each in cuts for run in each.runs]
    assert runs
    wrong: list[str] = []
    met = []
    for answer in judge_all(runs, spark):
        verdict = answer.verdict
        if verdict.complete:  # it was frozen before the signal came
            continue
        met.append(verdict.cut)
        console.show_judged([answer])
        said = capsys.readouterr().out + sweep.shown(answer.report) + "\n".join(verdict.reasons)
        name = f"{answer.run.name}, {verdict.cut}"
        wrong += [f"{name} says {each}" for each in sweep.claims(said, sweep.UNFINISHED)]
        if verdict.verdict != "unknown" or answer.model is None or answer.model.findings:
            wrong.append(f"{name}: {verdict.verdict}, {answer.model}")
        if f"ended early, in its phase {verdict.cut}" not in said:
            wrong.append(f"{name} does not say that it was cut short")
    assert not wrong, "\n".join(wrong)
    assert met


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["controllers", "program"])
def test_nothing_is_left_of_a_killed_run_with_controllers_or_a_program_on_the_wire(
    tmp_path: Path, what: str
) -> None:
    """Processes end at once; temporary folders are gone when the next run has judged."""
    dice = Random(FIRST)  # noqa: S311 - moments, not secrets
    folders = tmp_path / "temporary"
    folders.mkdir()
    token = secrets.token_hex(8)
    environment = {**os.environ, MARK: token, "TMPDIR": str(folders)}
    phases = Counter[str]()
    runs: list[Run] = []
    for number in range(COUNT):
        store = tmp_path / str(number)
        command, more = (FULL, FAULTS) if what == "controllers" else (APP, APPS)
        words = [*command, str(FIRST + number), *more[number % len(more)], "--store", str(store)]
        words += ["--", sys.executable, "-c", FORKS] if command is APP else []
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            at_s = LAST_S * (number + dice.random()) / COUNT
            try:
                process.wait(at_s)
            except subprocess.TimeoutExpired:
                process.kill()
        await_condition(
            lambda: [_words(each) for each in psutil.process_iter() if _is_of(each, token)],
            lambda left: not left,
            what="every process of the run to end",
            limit_s=60,
        )
        started = [Store(store).open(name) for name in Store(store).names()]
        phases[started[0].status().phase if started else "before"] += 1
        runs += started
    check = [sys.executable, "-m", "highwater", "check", str(runs[-1].path)]
    subprocess.run(check, env=environment, capture_output=True, timeout=120, check=False)
    left = [path.name for path in folders.iterdir()]
    sys.stdout.write(f"{COUNT} killed, seed {FIRST}: {dict(phases)}; left: {left}\n")
    assert not left


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[-400:]
    except psutil.Error:
        return f"process {process.pid}"


def _is_of(process: psutil.Process, token: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == token)
    except psutil.Error:
        return False

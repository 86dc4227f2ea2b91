"""A run that is killed, terminated or interrupted at any moment claims no more than it recorded.

``HIGHWATER_CUTS`` is at how many random moments (60 is what is published), ``HIGHWATER_SEED`` the
dice's seed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import psutil
import pytest
from pyspark.sql import SparkSession

from harness import console
from harness.api import judge_all
from harness.store import Run, Store
from tests import sweep

COUNT: Final = int(os.environ.get("HIGHWATER_CUTS", "3"))
SEED: Final = int(os.environ.get("HIGHWATER_SEED", "0"))
LAST_S: Final = 32.0
"""About when such a run has ended and is judged, on two cores."""

SIGNALS: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
RUN: Final = (
    *(sys.executable, "-m", "harness", "run", "--kafka"),
    *("0.10.2.2", "--nemesis", "kill,pause", "--for", "10s", "--seed", "3"),
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300 + 90 * COUNT)]


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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """What such runs left in their stores; some had not begun."""
    found = []
    dice = Random(SEED)  # noqa: S311 - moments, not secrets
    for number in range(COUNT):
        store = tmp_path_factory.mktemp("store")
        how = SIGNALS[number % len(SIGNALS)]
        # A moment of each stretch of the run, so that few moments meet different phases, too.
        at_s = LAST_S * (number + dice.random()) / COUNT
        assert "Traceback" not in cut(how, at_s, store)
        found += [Store(store).open(name) for name in Store(store).names()]
    return found


def test_cut_run_claims_no_more_than_it_recorded(
    runs: list[Run], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
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
        if f"cut short in its phase {verdict.cut}" not in said:
            wrong.append(f"{name} does not say that it was cut short")
    assert not wrong, "\n".join(wrong)
    assert met

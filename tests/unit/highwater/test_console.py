"""What is said while something goes on: at once, every few seconds, and never into the result."""

import fcntl
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater import console
from highwater.console import LATER_S, PAUSE_LATER_S, PAUSE_S, Ticker
from tests.support.logdirs import brokers, plain


class Seconds:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def test_what_goes_on_is_repeated_every_few_seconds(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.show("", "judging 3 runs in Spark")
    for _ in range(12):
        ticker.tick()
        seconds.go(1)
    assert said == [f"still judging 3 runs in Spark, {after} s" for after in (5, 10)]


def test_what_takes_long_is_repeated_less_often(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.show("", "judging")
    for _ in range(600):
        ticker.tick()
        seconds.go(1)
    often = int(LATER_S / PAUSE_S) - 1
    assert len(said) == often + int((600 - LATER_S) / PAUSE_LATER_S)


def test_nothing_is_repeated_that_was_said_a_moment_ago_or_is_over(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.tick()
    seconds.go(9)
    ticker.tick()
    assert said == []
    ticker.show("matrix", "1 of 2 cells done", aloud=True)
    ticker.show("4.3.1 loss", "running")
    ticker.tick()
    assert said == ["matrix: 1 of 2 cells done"]
    seconds.go(6)
    ticker.tick()
    assert said[1:] == ["matrix: still 1 of 2 cells done, 6 s; 4.3.1 loss: still running, 6 s"]
    seconds.go(6)
    ticker.show("4.3.1 loss", "healing")
    ticker.show("matrix", "frozen")
    ticker.tick()
    assert said[2:] == ["4.3.1 loss: still healing, 12 s"]


def test_of_many_a_few_are_named(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    for run in range(5):
        ticker.show(f"run {run}", "running")
    seconds.go(6)
    ticker.tick()
    assert said[0].endswith("run 2: still running, 6 s; and 2 more")


@contextmanager
def piped() -> Iterator[tuple[int, int]]:
    """Make standard error a pipe; both its ends."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", file)
        yield read, write
    os.close(read)


def test_a_pipe_gets_a_line_while_a_step_goes_on(seconds: Seconds) -> None:
    with piped() as (read, _), console.waiting("judging 3 runs in Spark", clock=seconds):
        seconds.go(7)
        assert os.read(read, 4096) == b"still judging 3 runs in Spark, 7 s\n"


class Line:
    """Writes a line of a ticker, and knows in which thread, and how far it has come."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.done = threading.Event(), threading.Event()
        self.ticker = threading.current_thread()
        self._write = console._say
        patch.setattr(console, "_say", self.write)

    def write(self, text: str) -> None:
        self.ticker = threading.current_thread()
        self.begun.set()
        self._write(text)
        self.done.set()


def test_a_standard_error_that_was_closed_is_no_matter(
    monkeypatch: pytest.MonkeyPatch, seconds: Seconds
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    line = Line(monkeypatch)
    with console.waiting("judging", clock=seconds):
        seconds.go(7)
        assert line.done.wait(60)
    assert failed == []


def test_a_pipe_that_nobody_empties_delays_no_end(
    monkeypatch: pytest.MonkeyPatch, seconds: Seconds
) -> None:
    line = Line(monkeypatch)
    with piped() as (read, write):
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.write(write, bytes(4096))
        with console.waiting("judging", clock=seconds):
            seconds.go(7)
            assert line.begun.wait(60)
        assert not line.done.is_set()  # it still waits for room, and nobody waits for it
        os.read(read, 4096)
        line.ticker.join(60)
        assert line.done.is_set()


@pytest.mark.spark
def test_a_command_on_a_terminal_shows_that_it_goes_on(tmp_path: Path) -> None:
    for broker in brokers(tmp_path, 2):
        broker.log("events-0", plain("ab"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "highwater", "inspect", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as child:
        os.close(theirs)
        shown = b""
        while b"reading 2 log directories in Spark" not in shown:
            shown += os.read(ours, 4096)
        assert child.poll() is None
        os.set_blocking(ours, False)
        assert child.stdout is not None
        assert child.stdout.read().startswith("{")
    os.close(ours)
    assert child.returncode == 0

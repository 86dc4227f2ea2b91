"""What is said while something goes on: each phase, now and then, and never into the result."""

import fcntl
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from highwater import console
from highwater.console import SHORT_S, Ticker
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


def ticked(ticker: Ticker, seconds: Seconds, count: int) -> None:
    """Let so many seconds go by."""
    for _ in range(count):
        seconds.go(1)
        ticker.tick()


def test_a_phase_is_said_once_and_again_every_fifteen_seconds(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.show("", "judging 3 runs in Spark")
    ticked(ticker, seconds, 40)
    first = "judging 3 runs in Spark"
    assert said == [first, f"{first}, 16 s", f"{first}, 31 s"]


def test_each_change_of_phase_is_a_line_of_one_run(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.show("a", "starting brokers")
    ticker.show("b", "starting brokers")
    ticked(ticker, seconds, 9)
    ticker.show("a", "running")
    ticked(ticker, seconds, 9)
    assert said == ["a: starting brokers", "b: starting brokers", "a: running"]
    ticked(ticker, seconds, 9)
    assert said[3:] == ["b: starting brokers, 25 s, and 1 more"]
    ticker.show("b", "frozen")
    ticked(ticker, seconds, 16)
    assert said[4:] == ["a: running, 31 s"]


def test_a_number_that_grows_is_no_change_of_phase(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    for states in range(30):
        ticker.show("", f"searching, {states:,} states")
        ticked(ticker, seconds, 1)
    assert said == ["searching, 0 states", "searching, 15 states, 16 s"]


def test_nothing_is_said_of_what_is_over_in_a_moment(seconds: Seconds) -> None:
    said: list[str] = []
    ticker = Ticker(said.append, seconds)
    ticker.show("a", "planning")
    seconds.go(SHORT_S / 2)
    ticker.tick()
    ticker.show("a", "frozen")
    ticked(ticker, seconds, 60)
    assert said == []
    ticker.show("matrix", "1 of 2 cells done", aloud=True)
    ticker.show("matrix", "2 of 2 cells done", aloud=True)
    assert said == ["matrix: 1 of 2 cells done", "matrix: 2 of 2 cells done"]
    ticked(ticker, seconds, 9)
    assert len(said) == 2


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
        assert os.read(read, 4096) == b"judging 3 runs in Spark\n"


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
        assert not line.done.is_set()  # it still waits for room, and no client waits for it
        os.read(read, 4096)
        line.ticker.join(60)
        assert line.done.is_set()


@pytest.mark.spark
@pytest.mark.nightly
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
        # A terminal reads on: a command on one that does not waits for it.
        terminal = threading.Thread(target=_read_on, args=(ours,), daemon=True)
        terminal.start()
        assert child.stdout is not None
        assert child.stdout.read().startswith("{")
    terminal.join(60)
    os.close(ours)
    assert child.returncode == 0


def _read_on(terminal: int) -> None:
    with suppress(OSError):  # as soon as no process has it open
        while os.read(terminal, 4096):
            pass

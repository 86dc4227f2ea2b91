"""Calls of a running process are delayed, or fail, while strace is attached, and not afterwards."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.clusters.core.system_calls import FLUSHES, WRITES, CallRule
from highwater.clusters.nodes import syscall_injection
from highwater.clusters.nodes.syscall_injection import injected, why_not
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition

WRITER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    try:
        os.write(file, b"x")
        os.fsync(file)
    except OSError as error:
        print(error.strerror, flush=True)
    time.sleep(0.01)
"""
LIMIT_S = 30.0
traced = pytest.mark.skipif(bool(why_not()), reason="a process cannot be traced here")


@contextlib.contextmanager
def writer(file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            await_condition(lambda: str(file.exists()), "True".__eq__, what="it", limit_s=LIMIT_S)
            yield process
        finally:
            process.kill()


def size(file: Path) -> int:
    return file.stat().st_size


def grows(file: Path) -> None:
    before = size(file)
    await_condition(lambda: size(file), lambda now: now > before, what="more", limit_s=LIMIT_S)


@traced
def test_a_write_waits_until_the_end_and_other_files_do_not(tmp_path: Path) -> None:
    file, other = tmp_path / "0.log", tmp_path / "other"
    rule = CallRule(calls=WRITES, action="delay_enter=600000000", files=[file])
    with writer(file) as process, writer(other):
        with injected(process.pid, rule, tmp_path / "broker-1.log"):
            before, deadline = size(file), time.monotonic() + 1.0
            while time.monotonic() < deadline:
                grows(other)
            assert size(file) <= before + 1
        grows(file)


@traced
def test_a_flush_fails_once(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    rule = CallRule(calls=FLUSHES, action="error=EIO:when=1")
    with writer(file) as process:
        with injected(process.pid, rule, tmp_path / "broker-1.log") as failed:
            await_condition(failed, lambda count: count > 0, what="a failure", limit_s=LIMIT_S)
            grows(file)
            assert failed() == 1
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read().decode().splitlines() == [os.strerror(5)]


@traced
def test_a_process_that_is_not_there_cannot_be_traced(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    rule = CallRule(calls=FLUSHES, action="error=EIO:when=1")
    with (
        pytest.raises(HarnessError, match="strace cannot trace the broker"),
        injected(gone.pid, rule, tmp_path / "broker-1.log"),
    ):
        pass


@pytest.mark.parametrize(
    ("program", "scope", "user", "why"),
    [
        (None, "0", 0, "needs strace"),
        ("/usr/bin/strace", "1", 1000, "ptrace_scope"),
        ("/usr/bin/strace", "1", 0, ""),
        ("/usr/bin/strace", "0", 1000, ""),
    ],
)
def test_tracing_needs_strace_and_the_right_to_trace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str | None,
    scope: str,
    user: int,
    why: str,
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(syscall_injection, "_SCOPE", tmp_path / "scope")
    monkeypatch.setattr("shutil.which", lambda _: program)
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert why in why_not()
    assert bool(why) == bool(why_not())
    if why:
        rule = CallRule(calls=FLUSHES, action="error=EIO")
        with pytest.raises(HarnessError, match=why), injected(1, rule, tmp_path / "broker-1.log"):
            pass

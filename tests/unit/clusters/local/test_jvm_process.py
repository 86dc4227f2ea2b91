"""Processes under their wardens, with sleeping children in the place of JVMs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from highwater.clusters.local import jvm_process
from highwater.clusters.local.jvm_process import ChildProcess
from highwater.harness.base.waiting import await_condition
from tests.support.processes import GONE, status_of

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(60)
""",
]
HOLDER = """
import os, signal, sys, time
from pathlib import Path
from highwater.clusters.local.jvm_process import ChildProcess
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which below nohup is ignored
child = ChildProcess("child", sys.argv[2:], log=Path(sys.argv[1]), directory=Path("/"),
                     environment=os.environ)
while not child.pid:
    time.sleep(0.01)
print(child.pid, child.guard_pid, flush=True)
time.sleep(60)
"""
FAMILY = [
    "/bin/sh",
    "-c",
    "sleep 60 & echo $! > {pid}; echo up; wait",
]
"""A program that forks."""
DAEMONS = [
    sys.executable,
    "-c",
    """
import subprocess, sys, time
leaves = "import subprocess as s; print(s.Popen(['sleep', '60'], stdout=s.DEVNULL).pid)"
parent = subprocess.run([sys.executable, "-c", leaves], stdout=subprocess.PIPE, process_group=0)
orphan = parent.stdout.decode()
own = subprocess.Popen(["sleep", "60"], start_new_session=True).pid
open("{pid}", "w").write(f"{{own}} {{orphan}}")
print("up", flush=True)
time.sleep(60)
""",
]
"""A program with a child in a session of its own, and with another whose parent has ended."""
Starter = Callable[[list[str]], ChildProcess]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


@pytest.fixture
def start(log: Path, tmp_path: Path) -> Iterator[Starter]:
    started: list[ChildProcess] = []

    def begin(command: list[str]) -> ChildProcess:
        child = ChildProcess("child", command, log=log, directory=tmp_path, environment=os.environ)
        started.append(child)
        return child

    yield begin
    for child in started:
        child.release()
        assert child.wait(60)


def await_up(log: Path) -> None:
    await_condition(
        log.read_text,
        lambda text: "up" in text,
        what="a sign of life",
        limit_s=60,
        passing=(FileNotFoundError,),
    )


def test_each_verb_has_taken_effect_when_it_returns(start: Starter, log: Path) -> None:
    child = start(SLEEPER)
    await_up(log)
    child.pause()
    seen = psutil.Process(child.pid)  # told before anything that was asked has taken effect
    assert (child.state, seen.status()) == ("paused", psutil.STATUS_STOPPED)
    child.resume()
    assert seen.status() != psutil.STATUS_STOPPED  # asleep again, or waiting for a core
    child.pause()
    child.kill()
    assert (child.state, child.status) == ("down", -signal.SIGKILL)
    assert status_of(seen.pid) in GONE


def test_a_verb_before_the_child_exists_is_not_lost(start: Starter) -> None:
    child = start(SLEEPER)
    child.pause()
    assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED


def test_termination_is_graceful_or_reported(start: Starter, log: Path) -> None:
    child = start(STUBBORN)
    await_up(log)
    assert not child.terminate(limit_s=0.2)
    assert child.state == "running"
    child.kill()
    log.unlink()
    second = start(SLEEPER)
    await_up(log)
    assert second.terminate(limit_s=60)
    assert second.status == -signal.SIGTERM


def test_verbs_on_a_dead_child_do_nothing(start: Starter) -> None:
    child = start(["/bin/sh", "-c", "exit 3"])
    assert child.wait(60)
    for verb in (child.pause, child.resume, child.kill):
        verb()
    assert child.terminate(limit_s=1)
    assert child.status == 3


def test_a_missing_program_is_told_in_the_log(start: Starter, log: Path) -> None:
    child = start(["/no/such/java"])
    assert child.wait(60)
    assert child.status == 127
    assert "/no/such/java: No such file or directory" in log.read_text()


def test_the_log_is_appended_to(start: Starter, log: Path) -> None:
    for word in ("one", "two"):
        assert start(["/bin/sh", "-c", f"echo {word}; echo {word} >&2"]).wait(10)
    assert log.read_text().split() == ["one", "one", "two", "two"]


def test_letting_go_kills_even_a_paused_child(start: Starter) -> None:
    child = start(SLEEPER)
    child.pause()
    pid = child.pid
    child.release()
    assert child.wait(60)
    assert status_of(pid) in GONE


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["harness", "warden"])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_child_dies_with_harness_or_warden(
    log: Path, victim: str, sent: signal.Signals
) -> None:
    if victim == "warden" and sent == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux tells a child of its parent's death")
    command = [sys.executable, "-c", HOLDER, str(log), *SLEEPER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        pid, warden = (int(word) for word in harness.stdout.readline().split())
        await_up(log)
        os.kill(warden if victim == "warden" else harness.pid, sent)
        for gone in (pid, warden):
            await_condition(
                partial(status_of, gone),
                lambda status: status in GONE,
                what=f"{gone} to be gone",
                limit_s=60,
            )
        harness.kill()


def test_a_terminals_ctrl_c_does_not_reach_it(start: Starter) -> None:
    child = start(SLEEPER)
    child.pause()
    assert os.getsid(child.guard_pid) != os.getsid(0)
    assert os.getsid(child.pid) == os.getsid(child.guard_pid)


def test_the_warden_imports_the_standard_library_alone() -> None:
    source = jvm_process._GUARD.read_text()
    imported = {line.split()[1] for line in source.splitlines() if line.startswith("import ")}
    assert imported <= sys.stdlib_module_names
    assert "\nfrom " not in source


def family(
    log: Path, directory: Path, command: Sequence[str] = FAMILY
) -> tuple[ChildProcess, list[int]]:
    """A process that leads a group, and the ids of what it has started."""
    file = directory / "pid"
    child = ChildProcess(
        "family",
        [word.format(pid=file) for word in command],
        log=log,
        directory=directory,
        environment=os.environ,
        grouped=True,
    )
    await_up(log)
    return child, [*map(int, file.read_text().split())]


def test_a_group_gets_every_signal_and_nothing_of_it_is_left(log: Path, tmp_path: Path) -> None:
    child, [grandchild] = family(log, tmp_path)
    child.pause()
    await_status(grandchild, {psutil.STATUS_STOPPED})
    child.resume()
    child.kill()
    await_gone(grandchild)
    child.release()


def test_what_a_leader_leaves_behind_is_killed(log: Path, tmp_path: Path) -> None:
    child, [grandchild] = family(log, tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(60)
    await_gone(grandchild)
    child.release()


def test_a_group_ends_with_the_harness(log: Path, tmp_path: Path) -> None:
    child, [grandchild] = family(log, tmp_path)
    child.release()
    await_gone(grandchild)
    assert child.wait(60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a guard")
@pytest.mark.parametrize("end", ["kill", "release", "leader"])
def test_what_has_left_the_group_is_paused_and_ends_with_it(
    log: Path, tmp_path: Path, end: str
) -> None:
    child, others = family(log, tmp_path, DAEMONS)
    child.pause()
    for other in others:
        await_status(other, {psutil.STATUS_STOPPED})
    child.resume()
    for other in others:
        await_status(other, {psutil.STATUS_SLEEPING})
    if end == "leader":
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(60)
    else:
        getattr(child, end)()
    for other in others:
        await_gone(other)
    child.release()
    assert child.wait(60)


def await_gone(pid: int) -> None:
    await_status(pid, GONE)


def await_status(pid: int, expected: Collection[str]) -> None:
    await_condition(
        lambda: status_of(pid),
        lambda status: status in expected,
        what=f"{pid} to be in {expected}",
        limit_s=60,
    )

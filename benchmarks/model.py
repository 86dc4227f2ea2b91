"""How fast the model is searched, and what memory that takes.

Compiling is told apart from searching. Other programs on the same machine slow a search down, so
beside the clock's seconds there are those of the processor that this process had, and where Spark
searches those of its JVM and of its Python workers too.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from benchmarks.judge import peak_memory
from checkers.model import spark as on_spark
from checkers.model.explore import Limits, Outcome, compile_all, explore
from checkers.model.fingerprints import collisions
from checkers.model.machine import Machine
from checkers.model.paths import successors
from checkers.model.reference import Setting
from checkers.model.scope import Scope
from checkers.session import spark

FIXED: Final = Scope(brokers=3, records=2, failures=0, moves=2)
SCOPES: Final = (
    Scope(brokers=2, records=2, failures=1, moves=1),
    Scope(brokers=3, records=1, failures=1, moves=1),
    FIXED,
    Scope(brokers=2, records=2, failures=2, moves=2),
)
PYTHON: Final = Scope(brokers=2, records=2, failures=1, moves=1)
SPARK_SCOPES: Final = (
    Scope(brokers=3, records=1, failures=0, moves=2),
    FIXED,
    Scope(brokers=3, records=1, failures=1, moves=2),
    Scope(brokers=2, records=2, failures=2, moves=2),
)
_OLD, _NEW = "0.10.2.2", "4.3.1"
_SMALL: Final = 1 << 14  # so that Spark has levels to make in scopes that a benchmark has time for
_MB: Final = 1 << 20
_PLENTY: Final = Limits(memory=4 << 30, seconds=120)


def main() -> None:
    """Measure the fixed scope, growth, plain Python, and Spark."""
    machine = Setting(kafka=_OLD, scope=FIXED).machine()
    print(f"compiled or loaded in {compile_all(machine):.1f} s")
    print(f"{'brokers/records/failures/moves':>40} {'states':>11} {'s':>7} {'CPU s':>7}")
    for kafka in (_OLD, _NEW):
        for jobs in (1, 2):
            measure(Setting(kafka=kafka, scope=FIXED), jobs=jobs)
    for scope in SCOPES:
        measure(Setting(kafka=_OLD, scope=scope))
    against_python()
    scaling()


def measure(setting: Setting, *, jobs: int = 1) -> Outcome:
    """Meet every state of a scope, and print what that took."""
    with peak_memory() as peak:
        found, cpu = _search(setting.machine(), jobs)
    whole = "" if found.exhausted else f" stopped by {found.reason}"
    print(
        f"{_name(setting, jobs):>40} {found.states:>11,} {found.seconds:>7.2f} {cpu:>7.2f}"
        f" {found.states / max(cpu, 1e-9):>10,.0f} a CPU second, {peak.python // _MB:,} MB,"
        f" collision {collisions(found.states):.0e}{whole}",
        flush=True,
    )
    return found


def against_python() -> None:
    """The same states by the same rules, run as plain Python over a set of bytes."""
    machine = Setting(kafka=_OLD, scope=PYTHON).machine()
    began = time.process_time()
    states = interpreted(machine)
    by_python = time.process_time() - began
    found, by_kernel = _search(machine, 1)
    assert found.states == states, (found.states, states)
    print(
        f"plain Python: {states:,} states in {by_python:.2f} CPU s, machine code {by_kernel:.3f}:"
        f" {by_python / max(by_kernel, 1e-9):,.0f} times as fast",
        flush=True,
    )


def interpreted(machine: Machine) -> int:
    """How many states there are, by the rules as plain Python."""
    form = machine.initial.copy()
    machine.laws.canonical(machine.initial, form, machine.constants)
    seen, frontier = {form.tobytes()}, [form]
    while frontier:
        sources, frontier = frontier, []
        for state in sources:
            for _, after in successors(machine, state):
                form = after.copy()
                machine.laws.canonical(after, form, machine.constants)
                if (key := form.tobytes()) not in seen:
                    seen.add(key)
                    frontier.append(form)
    return len(seen)


def scaling() -> None:
    """Spark on one core and on two: a process each, because a process has one session."""
    for cores in (1, 2):
        subprocess.run([sys.executable, "-m", "benchmarks.model", f"local[{cores}]"], check=True)


def on_cores(master: str) -> None:
    """Spark's pace on so many cores and what it leaves on disk, the session's start not counted."""
    session = spark(master, driver_memory="2g")
    cores = int(master.removeprefix("local[").removesuffix("]"))
    for scope in SPARK_SCOPES:
        setting = Setting(kafka=_OLD, scope=scope)
        with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
            began = _cpu()
            found = on_spark.explore(
                lambda: session, setting, [], folder=Path(folder), limits=_PLENTY, small=_SMALL
            )
            cpu = _cpu() - began
            files = [each for each in Path(folder).rglob("*") if each.is_file()]
            jobs = sum(each.name == "_SUCCESS" and _by_spark(each.parent) for each in files)
            disk = sum(each.stat().st_size for each in files)
        print(
            f"Spark: {_name(setting, cores):>33} {found.states:>11,} {found.seconds:>7.1f}"
            f" {cpu:>7.1f} {found.states / cpu:>10,.0f} a CPU second,"
            f" {disk / found.states:.0f} bytes a state on disk,"
            f" {jobs} of {found.depth + 1} levels by Spark"
            + (f", stopped by {found.reason}" if found.reason else ""),
            flush=True,
        )


def _by_spark(level: Path) -> bool:
    return any(level.glob("*/part-*"))


def _cpu() -> float:
    """CPU seconds of this process and of all that it started."""
    process = psutil.Process()
    spent = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            spent += sum(one.cpu_times()[:4])
    return spent


def _search(machine: Machine, jobs: int) -> tuple[Outcome, float]:
    process = psutil.Process()
    began = sum(process.cpu_times()[:2])
    found = explore(machine, [], limits=_PLENTY, jobs=jobs)
    return found, sum(process.cpu_times()[:2]) - began


def _name(setting: Setting, jobs: int) -> str:
    scope = setting.scope
    counted = (scope.brokers, scope.records, scope.failures, scope.moves)
    return f"{setting.kafka} {'/'.join(map(str, counted))} on {jobs} core{'' if jobs == 1 else 's'}"


if __name__ == "__main__":
    on_cores(sys.argv[1]) if sys.argv[1:] else main()

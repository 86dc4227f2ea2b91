"""Measure the time and the memory of the model's search.

Compile time is separate from search time. Other programs on the machine slow a search down, so the
benchmark prints wall time and this process's CPU time.
"""

import time
from typing import Final

import psutil

from benchmarks.judge import peak_memory
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import (
    Limits,
    SearchOutcome,
    compile_all,
    explore,
)
from highwater.checkers.model.search.fingerprints import collisions
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.paths import successors
from highwater.harness.releases.catalogue import MODERN

FIXED: Final = Scope(brokers=3, records=2, failures=0, moves=2)
SCOPES: Final = (
    Scope(brokers=2, records=2, failures=1, moves=1),
    Scope(brokers=3, records=1, failures=1, moves=1),
    FIXED,
    Scope(brokers=2, records=2, failures=2, moves=2),
)
PYTHON: Final = Scope(brokers=2, records=2, failures=1, moves=1)
_OLD, _NEW = "0.10.2.2", MODERN
_MB: Final = 1 << 20
_PLENTY: Final = Limits(memory=4 << 30, seconds=120)


def main() -> None:
    """Measure the search of a fixed scope, larger scopes, and the same search in plain Python."""
    machine = ModelSettings(kafka=_OLD, scope=FIXED).machine()
    print(f"compiled or loaded in {compile_all(machine):.1f} s")
    print(f"{'brokers/records/failures/moves':>40} {'states':>11} {'s':>7} {'CPU s':>7}")
    for kafka in (_OLD, _NEW):
        for jobs in (1, 2):
            measure(ModelSettings(kafka=kafka, scope=FIXED), jobs=jobs)
    for scope in SCOPES:
        measure(ModelSettings(kafka=_OLD, scope=scope))
    against_python()


def measure(setting: ModelSettings, *, jobs: int = 1) -> SearchOutcome:
    """Search all states of a scope, and print the time and the memory."""
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
    """Search a scope in plain Python and in machine code, and compare the CPU times."""
    machine = ModelSettings(kafka=_OLD, scope=PYTHON).machine()
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
    """Return the number of states that the rules reach in plain Python."""
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


def _search(machine: Machine, jobs: int) -> tuple[SearchOutcome, float]:
    process = psutil.Process()
    began = sum(process.cpu_times()[:2])
    found = explore(machine, [], limits=_PLENTY, jobs=jobs)
    return found, sum(process.cpu_times()[:2]) - began


def _name(setting: ModelSettings, jobs: int) -> str:
    scope = setting.scope
    counted = (scope.brokers, scope.records, scope.failures, scope.moves)
    return f"{setting.kafka} {'/'.join(map(str, counted))} on {jobs} core{'' if jobs == 1 else 's'}"


if __name__ == "__main__":
    main()

"""Measure which program mistakes random faults find: ``python -m benchmarks.mistakes [names]``.

Each program of docs/examples/apps runs for 60 s on 4.4.0, with the default faults of ``highwater
app``. ``HIGHWATER_MISTAKE_RUNS`` is the number of its runs (default 1), with seeds from 1.
``HIGHWATER_MISTAKE_JOBS`` programs (default 2) run at the same time. The benchmark prints a line
for each run: *named* if the report names the program's mistake, *right* if a correct program was
valid, or else the headline and the run's directory.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from highwater.api import JudgedRun, perform_groups
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs.store import Store
from highwater.runtime.campaign import Campaign, PlannedRun
from highwater.runtime.requested_plan import requested_app
from tests.kafka.test_mistakes import APPS, INPUTS, PROGRAMS

RUNS: Final = int(os.environ.get("HIGHWATER_MISTAKE_RUNS", "1"))
JOBS: Final = int(os.environ.get("HIGHWATER_MISTAKE_JOBS", "2"))


def planned(name: str, seed: int) -> PlannedRun:
    """Return the plan of a program's run, with the guarantee and instances that its test has."""
    program = PROGRAMS[name][0]
    command = [sys.executable, str(APPS / f"{name}.py")]
    given = {"duration": "60s", "seed": seed, **INPUTS.get(name, {})}
    plan = requested_app(command, given)
    program = replace(program, command=tuple(command))
    return PlannedRun(plan=replace(plan, program=program), label=f"{name} {seed}")


def outcome(name: str, judged: JudgedRun) -> str:
    """Return ``named``, ``right`` or the run's headline; see the module."""
    verdict, mistake = judged.verdict, PROGRAMS[name][2]
    if mistake is None:
        return "right" if verdict.verdict == "valid" else verdict.headline
    return (
        "named"
        if any(f": {mistake}." in a.sentence for a in verdict.anomalies)
        else verdict.headline
    )


def main(names: list[str] | None = None) -> None:
    """Print a line for each run, and a row for each program."""
    names = names or [*PROGRAMS]
    store = Store(Path(tempfile.mkdtemp(prefix="highwater-mistakes-")))
    groups = [[planned(name, seed) for seed in range(1, RUNS + 1)] for name in names]
    every = perform_groups(groups, Campaign(store=store, jobs=JOBS), SparkOptions())
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for judged in every:
        program = judged.run.plan().program
        assert program is not None
        name = Path(program.command[-1]).stem
        came_to = outcome(name, judged)
        known = came_to in {"named", "right"}
        counts[name][came_to if known else judged.verdict.verdict] += 1
        print(f"{name} {judged.run.plan().seed}: {came_to}{'' if known else f' {judged.run.path}'}")
    for name, found in counts.items():
        print(f"{name}: {', '.join(f'{number} {word}' for word, number in found.items())}")


if __name__ == "__main__":
    main(sys.argv[1:])

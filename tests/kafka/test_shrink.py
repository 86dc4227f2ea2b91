"""A lossy schedule on real brokers: shrunk to the fault that does it, recorded, and pasted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.steps import FaultStep, end_of
from highwater.harness.runs.store import Store
from highwater.runtime.executed_steps import ExecutedSteps
from highwater.shrinking.replay import as_taken
from highwater.shrinking.shrinker import Effort, shrink
from highwater.shrinking.trials import Attempt, Goal, HitThreshold, read_attempts

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.nightly,
]

LOSSY = Plan(
    kafka="0.10.2.2",
    topic=Topic(partitions=1, replication_factor=1),
    workload=Workload(producers=1, consumers=0, rate=50),
    steps=(
        FaultStep(fault="pause", at_s=0.3, lasts_s=0.2, target="3"),
        # What the only replica has never flushed is gone, each time.
        FaultStep(fault="power-failure", at_s=1.0, lasts_s=0.5, target="leader"),
    ),
    duration_s=2.0,
)

LIMIT_S = 240.0
"""Time enough to leave a fault out; what is tried after that may be cut short."""


def test_a_lossy_run_shrinks_to_the_fault_that_does_it(tmp_path: Path) -> None:
    folder, told = tmp_path / "shrunk", list[Attempt]()
    goal = Goal(verdict="invalid", kinds=("lost-write",))
    effort = Effort(rule=HitThreshold(tries=1, hits=1), counts=1, limit_s=LIMIT_S)
    found = shrink(LOSSY, goal, folder, sent=200, effort=effort, tell=told.append)
    assert found.ended in {"smallest", "time"}, told
    [step] = found.plan.steps
    assert (step.fault, step.target) == ("power-failure", "leader")
    assert (found.before.faults, found.after.faults) == (2, 1)
    assert found.after.seconds < found.before.seconds
    assert [one.number for one in told] == [*range(1, found.attempts + 1)]
    assert len(read_attempts(folder / "attempts.jsonl")) == found.attempts
    assert Plan.from_json((folder / "plan.json").read_bytes()) == found.plan

    runs = Store(folder / "runs")
    last = runs.open(runs.names()[-1])  # runs that did not do it are gone
    [taken] = ExecutedSteps.from_json((last.path / "steps.json").read_bytes()).taken
    assert (taken.fault, taken.target, taken.broker) == ("power-failure", "leader", 1)
    [again] = as_taken(last, by="role").steps
    assert (again.fault, again.target) == ("power-failure", "leader")
    assert end_of([again]) == pytest.approx(end_of([step]), abs=1)

    # Not by pytester: it forgets our modules, and what they register would be registered twice.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--basetemp={folder / 'pytest'}",
            folder / "test_shrunk.py",
        ],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert re.search(r"AssertionError: Kafka 0\.10\.2\.2 lost \d+ of \d+ ack", done.stdout), (
        done.stdout
    )

"""The texts that ``highwater shrink`` prints while it searches and at its end."""

from pathlib import Path

from highwater.harness.base.wording import count
from highwater.harness.runs.steps import FaultStep
from highwater.nemesis.faults.registry import find_fault
from highwater.nemesis.schedules.executor import named_client
from highwater.shrinking.shrinker import ShrinkResult, Size
from highwater.shrinking.trials import Attempt

_ENDED = {
    "smallest": "No single fault can be removed without losing the anomaly.",
    "time": "The time limit has passed: this is the smallest plan so far. The same command "
    "continues.",
    "interrupted": "Interrupted: this is the smallest plan so far. The same command continues.",
}


def line(attempt: Attempt) -> str:
    """Return a line about a plan: ``12  no churn: 2 of 3 runs had the anomaly, kept (71 s)``."""
    did = f"{attempt.hits} of {count(attempt.runs, 'run')} had the anomaly"
    return (
        f"{attempt.number:3}  {attempt.says}: {did}{', kept' * attempt.holds}"
        f" ({attempt.seconds:.0f} s)"
    )


def summary(result: ShrinkResult, folder: Path) -> str:
    """Return the result as text, with the command that replays the shrunk plan."""
    kinds = " and ".join(result.goal.kinds)
    effort = f"{count(result.attempts, 'plan')} tried, {count(result.ran, 'run')},"
    effort += f" {result.seconds:.0f} s."
    if result.ended == "not-reproduced":
        return (
            f"Not reproduced: {kinds} did not happen again. {effort}\n"
            "Try --by role, or more runs with --tries."
        )
    return "\n".join(
        [
            f"{kinds}: from {_size(result.before)}",
            f"  to {_size(result.after)};",
            f"  {result.hits} of {count(result.runs, 'run')} had the anomaly. {effort}",
            *(
                f"  {step.at_s:g} s: {step.fault}{_aim(step)} for {step.lasts_s:g} s"
                for step in result.plan.steps
            ),
            _ENDED[result.ended],
            f"again: highwater replay {folder / 'plan.json'}",
            f"test to paste: {folder / 'test_shrunk.py'}",
        ]
    )


def _aim(step: FaultStep) -> str:
    """Return a text of a step's target; empty if the step has no target."""
    scoped = find_fault(step.fault).scope in {"broker", "coordination"}
    target = step.target if scoped else named_client(step) or step.message
    return f" {target}" if target else ""


def _size(size: Size) -> str:
    counts = [(size.partitions, "partition"), (size.clients, "client"), (size.records, "record")]
    words = [count(number, name) for number, name in counts]
    return ", ".join([count(size.faults, "fault"), f"{size.seconds:g} s", *words])

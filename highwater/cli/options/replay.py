"""What a person reads while a run shrinks, and when it is done."""

import json
from pathlib import Path

import msgspec

from highwater.harness.base.wording import count
from highwater.shrinking.shrinker import ShrinkResult, Size
from highwater.shrinking.trials import Attempt

_ENDED = {
    "smallest": "No single fault of it can be left out.",
    "time": "The time is up: this is the best so far. The same command goes on from here.",
    "interrupted": "Interrupted: this is the best so far. The same command goes on from here.",
}


def line(attempt: Attempt) -> str:
    """One plan that was tried."""
    did = f"{attempt.hits} of {count(attempt.runs, 'run')} did it"
    return (
        f"{attempt.number:3}  {attempt.says}: {did}{', kept' * attempt.holds}"
        f" ({attempt.seconds:.0f} s)"
    )


def summary(found: ShrinkResult, folder: Path) -> str:
    """What it came to, and what to do with it."""
    effort = (
        f"{count(found.attempts, 'plan')} tried, {count(found.ran, 'run')}, {found.seconds:.0f} s."
    )
    if found.ended == "not-reproduced":
        return (
            f"Not reproduced: {_kinds(found)} did not come again. {effort}\n"
            "Try --by role, or more runs with --tries."
        )
    return "\n".join(
        [
            f"{_kinds(found)}: from {_size(found.before)}",
            f"  to {_size(found.after)};",
            f"  {found.hits} of {count(found.runs, 'run')} of that did it. {effort}",
            *(f"  {_step(found, index)}" for index in range(len(found.plan.steps))),
            f"{_ENDED[found.ended]}",
            f"again: highwater replay {folder / 'plan.json'}",
            f"test to paste: {folder / 'test_shrunk.py'}",
        ]
    )


def as_json(found: ShrinkResult, folder: Path) -> str:
    """The object that ``--json`` prints."""
    said = msgspec.to_builtins(found) | {"folder": str(folder)}
    return json.dumps(said, indent=2) + "\n"


def _kinds(found: ShrinkResult) -> str:
    return " and ".join(found.goal.kinds)


def _size(size: Size) -> str:
    parts = [
        count(size.faults, "fault"),
        f"{size.seconds:g} s",
        count(size.partitions, "partition"),
        count(size.clients, "client"),
        count(size.records, "record"),
    ]
    return ", ".join(parts)


def _step(found: ShrinkResult, index: int) -> str:
    step = found.plan.steps[index]
    return f"{step.at_s:g} s: {step.fault} {step.target} for {step.lasts_s:g} s"

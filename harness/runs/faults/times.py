"""When faults began: one is recorded once it has taken effect, and a restart when it is over."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.history import STEPS_TABLE
from highwater.harness.runs.store import Run

Strikes: TypeAlias = Mapping[tuple[str, int | None], Sequence[int]]
"""Fault and broker (None for a fault without one) to when a schedule's steps began to inject it."""


def strikes(run: Run) -> Strikes:
    """Return what the schedule of a run says; nothing of a story, or where the table is missing."""
    numbers: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    try:
        rows = run.table(STEPS_TABLE).to_pylist()
    except StoreError:  # a run of before there was this table
        return numbers
    for row in rows:
        if row["event"] == "strike":
            numbers[row["fault"], row["broker"]].append(row["time_ns"])
    return numbers


def begun(strikes: Strikes, fault: str, broker: int | None, time_ns: int) -> int:
    """Return when a fault began that had taken effect by a time; else that time itself."""
    return max((at for at in strikes.get((fault, broker), ()) if at <= time_ns), default=time_ns)

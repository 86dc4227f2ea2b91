"""When faults began, and their healing: each is recorded once it has taken effect."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.history import STEPS_TABLE
from highwater.harness.runs.store import Run, is_table_among


class Strike(NamedTuple):
    """When a schedule's step began to inject a fault, and to heal it (None: never, or unknown)."""

    begun_ns: int
    healing_ns: int | None = None


Strikes: TypeAlias = Mapping[tuple[str, int | None], Sequence[Strike]]
"""Fault and broker (None for a fault without one) to the steps of a schedule that injected it."""


def strikes(run: Run, *, without: Iterable[str] = ()) -> Strikes:
    """Return the fault events of a run's schedule; none for a story or without the table.

    Args:
        run: the run.
        without: paths of its files that are no evidence; a table among them counts as missing.
    """
    steps: dict[tuple[str, int | None], list[Strike]] = defaultdict(list)
    if is_table_among(STEPS_TABLE, without):
        return steps
    try:
        rows = run.table(STEPS_TABLE).to_pylist()
    except StoreError:  # a run of before there was this table
        return steps
    healing = {row["step"]: row["time_ns"] for row in rows if row["event"] == "heal"}
    for row in rows:
        if row["event"] == "strike":
            strike = Strike(row["time_ns"], healing.get(row["step"]))
            steps[row["fault"], row["broker"]].append(strike)
    return steps


def strike_of(strikes: Strikes, fault: str, broker: int | None, time_ns: int) -> Strike:
    """Return the times of a fault that had taken effect by a time; else that time is its begin."""
    before = [strike for strike in strikes.get((fault, broker), ()) if strike.begun_ns <= time_ns]
    return max(before, key=itemgetter(0), default=Strike(time_ns))

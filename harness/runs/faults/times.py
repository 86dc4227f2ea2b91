"""When faults and healings began; ``events/faults`` only has when they had taken effect."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.history import STEPS_TABLE
from highwater.harness.runs.store import Run, is_table_among


class Strike(NamedTuple):
    """When a step began to inject a fault, and its planned healing (None: never or unknown)."""

    begun_ns: int
    healing_ns: int | None = None


Strikes: TypeAlias = Mapping[tuple[str, int | None], Sequence[Strike]]
"""The times of the steps that injected a fault, by fault and broker (None: a fault without a
broker)."""


def strikes(run: Run, *, without: Iterable[str] = ()) -> Strikes:
    """Return when a run's schedule injected and healed faults; empty for a story.

    Args:
        run: the run.
        without: paths of the run's files that cannot be used. Such a table is handled like a
            missing one.
    """
    steps: dict[tuple[str, int | None], list[Strike]] = defaultdict(list)
    if is_table_among(STEPS_TABLE, without):
        return steps
    try:
        rows = run.table(STEPS_TABLE).to_pylist()
    except StoreError:  # an older run, recorded without this table
        return steps
    healing = {row["step"]: row["time_ns"] for row in rows if row["event"] == "heal"}
    for row in rows:
        if row["event"] == "strike":
            strike = Strike(row["time_ns"], healing.get(row["step"]))
            steps[row["fault"], row["broker"]].append(strike)
    return steps


def strike_of(strikes: Strikes, fault: str, broker: int | None, time_ns: int) -> Strike:
    """Return when a fault that was in effect at ``time_ns`` began; else ``time_ns``."""
    before = [strike for strike in strikes.get((fault, broker), ()) if strike.begun_ns <= time_ns]
    return max(before, key=itemgetter(0), default=Strike(time_ns))

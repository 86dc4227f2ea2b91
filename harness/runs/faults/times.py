"""The times at which the steps of a schedule began to inject and to heal faults.

``events/faults`` has only the times at which an injection or a healing was complete.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.history import STEPS_TABLE
from highwater.harness.runs.store import Run, is_table_among


class Strike(NamedTuple):
    """The time at which a step began to inject a fault, and the time at which its healing began.

    ``healing_ns`` is None if the fault is never healed, or the time is unknown.
    """

    begun_ns: int
    healing_ns: int | None = None


Strikes: TypeAlias = Mapping[tuple[str, int | None], Sequence[Strike]]
"""The times of the steps that injected a fault, by fault and broker. The broker is None for a fault
without a broker."""


def strikes(run: Run, *, without: Iterable[str] = ()) -> Strikes:
    """Return the times at which a run's steps injected and healed faults; empty for a story.

    Args:
        run: the run.
        without: paths of files that must not be read. If the table of steps is among them, the
            result is empty.
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
    """Return the last strike of a fault up to ``time_ns``; if unknown, ``Strike(time_ns)``."""
    before = [strike for strike in strikes.get((fault, broker), ()) if strike.begun_ns <= time_ns]
    return max(before, key=itemgetter(0), default=Strike(time_ns))

"""The intervals in which a fault or its later effects may explain an anomaly of a share group.

A leader stores in memory which member has acquired which record. It loses this state when it fails,
or when the member's connection ends. A coordinator that does not respond may remove the member.

So anomalies of share groups are not reported during a fault, and after it until every client has
noticed that its connections are dead. They are not reported around a change of leader, either.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, Self

from highwater.checkers.groups.events import FOREVER, Row
from highwater.checkers.run_files import RunFiles

AFTERWARDS_NS: Final = 15_000_000_000
"""The time within which clients notice a fault, because requests time out after 10 s
(``socket.timeout.ms``)."""

BEFORE_NS: Final = 5_000_000_000
"""The time within which the harness's observer notices a new leader."""

_FAULTS: Final = "events/faults"
_PARTITIONS: Final = "events/partitions"


class Disturbances:
    """Sorted, disjoint intervals of a run, in which a fault may explain an anomaly."""

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(intervals):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    @classmethod
    def of(cls, case: RunFiles) -> Self:
        """Return the disturbances of a run; the complete run if its faults are unknown."""
        if _FAULTS not in case.tables or _PARTITIONS not in case.tables:
            return cls([(-FOREVER, FOREVER)])
        faults = case.rows(_FAULTS)
        leaders = case.rows(_PARTITIONS)
        return cls([*_faults(faults), *_changes(leaders)])

    def touch(self, begin: int, end: int) -> bool:
        """Return whether any disturbance overlaps the interval from ``begin`` to ``end``."""
        before = bisect_right(self._begins, end)
        return before > 0 and self._ends[before - 1] >= begin


def _faults(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return the interval of each fault, extended by ``BEFORE_NS`` and ``AFTERWARDS_NS``.

    ``rows`` are in order of time. A fault that never ended has an interval that never ends.
    """
    opened: dict[tuple[str, int | None], int] = {}
    intervals = []
    for row in rows:
        key = row["fault"], row["broker"]
        if row["phase"] == "inject":
            opened.setdefault(key, row["time_ns"] - BEFORE_NS)
        elif row["phase"] == "heal" and key in opened:
            intervals.append((opened.pop(key), row["time_ns"] + AFTERWARDS_NS))
    return intervals + [(begin, FOREVER) for begin in opened.values()]


def _changes(rows: Iterable[Row]) -> list[tuple[int, int]]:
    last: dict[tuple[str, int], tuple[int, int | None]] = {}
    intervals = []
    for row in rows:
        key, leader = (row["topic"], row["partition"]), (row["leader"], row["leader_epoch"])
        if last.setdefault(key, leader) != leader:
            last[key] = leader
            intervals.append((row["time_ns"] - BEFORE_NS, row["time_ns"] + AFTERWARDS_NS))
    return intervals

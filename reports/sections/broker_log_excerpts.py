"""Select the brokers' log lines near the events that decided a record's outcome."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.harness.runs.partition_trace import Ints
from highwater.harness.runs.verdict import Anomaly

LINES_MAX: Final = 30
"""Maximum number of lines that are shown for one finding; the rest is only counted."""
BEFORE_NS: Final = 500_000_000
AFTER_NS: Final = 1_500_000_000
"""The time after the last evidence from which lines are still shown: brokers log events late."""
_CONTROLLER: Final = -1
"""The value in the column ``broker`` that stands for a KRaft controller."""
_OF_BROKERS: Final = pa.array(["start", "stop"])
"""Kinds of lines that matter to every partition. An error line matters only if it names the
partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptLine:
    """One line of a broker's log, with its time on the run's clock."""

    time_ns: int
    who: str
    kind: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """The log lines of a record's events in order of time, and the number of lines left out."""

    lines: tuple[ExcerptLine, ...]
    left_out: int


def around(table: pa.Table, anomaly: Anomaly) -> LogExcerpt:
    """Return log lines near the evidence: on the anomaly's partition, or on starts and stops."""
    times = [w.time_ns for w in anomaly.witnesses if w.time_ns is not None]
    if not times:
        return LogExcerpt(lines=(), left_out=0)
    named = pc.and_kleene(
        pc.equal(table["topic"], anomaly.topic), pc.equal(table["partition"], anomaly.partition)
    )
    general = pc.and_kleene(pc.is_null(table["topic"]), pc.is_in(table["kind"], _OF_BROKERS))
    within = pc.and_kleene(
        pc.greater_equal(table["time_ns"], min(times) - BEFORE_NS),
        pc.less_equal(table["time_ns"], max(times) + AFTER_NS),
    )
    rows = table.filter(pc.and_kleene(within, pc.or_kleene(named, general)))
    rows = rows.sort_by([("time_ns", "ascending"), ("broker", "ascending")])
    nearest = rows.take(_nearest(rows["time_ns"].to_numpy(), np.array(times)))
    return LogExcerpt(
        lines=tuple(
            ExcerptLine(
                time_ns=row["time_ns"],
                who="controller" if row["broker"] == _CONTROLLER else f"broker {row['broker']}",
                kind=row["kind"],
                says=row["line"],
            )
            for row in nearest.to_pylist()
        ),
        left_out=rows.num_rows - nearest.num_rows,
    )


def _nearest(lines: Ints, times: Ints) -> Ints:
    """Return the indices of the ``LINES_MAX`` lines nearest in time to any evidence, ascending."""
    distances = np.abs(lines[:, None] - times).min(axis=1)
    return np.sort(distances.argsort(kind="stable")[:LINES_MAX])

"""The journals of group members, and the findings in them, as plain Python values.

Journals are small: a few rows a second for each member (``harness.runs.history.GROUPS``).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import GROUPS_TABLE

Row = dict[str, Any]
Place = tuple[str, int]
"""A group and a partition."""

FOREVER: Final = 1 << 62
"""The time that stands for the end of an event, if the history has no end of this event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFinding:
    """An anomaly of a group.

    Attributes:
        offset: None if the anomaly does not concern one offset.
        topic: the partition's topic; None for the topic under test.
        says: the sentence that describes the anomaly.
        records: the records of the coordinators' topic that show the anomaly: offset, producer id
            of the transaction or None, and a sentence.
    """

    kind: str
    group: str
    partition: int
    says: str
    offset: int | None = None
    topic: str | None = None
    records: tuple[tuple[int, int | None, str], ...] = ()


def no_group(_tables: Tables, case: RunFiles) -> str:
    """Return why a checker of consumer groups has nothing to judge in a run."""
    workload = case.plan.workload
    journals = workload.subscribe or workload.joined
    if case.lacks(GROUPS_TABLE) or (GROUPS_TABLE in case.tables and journals):
        return ""
    return "no member of a group recorded a journal"


def by_place(rows: Iterable[Row]) -> dict[Place, list[Row]]:
    """Return the rows of each group and partition, sorted by ``ended_ns``."""
    places: dict[Place, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=ended_ns):
        if row["partition"] is not None:
            places[row["group"], row["partition"]].append(row)
    return dict(sorted(places.items()))


def ended_ns(row: Row) -> int:
    """Return when a row's event ended; ``FOREVER`` without an end."""
    at = row["complete_ns"]
    return FOREVER if at is None else int(at)


def anomalies(
    tables: Tables, find: Callable[[RunFiles, list[Row]], Iterable[GroupFinding]]
) -> pa.Table:
    """Return the anomalies that ``find`` finds in runs with group members, as ``SCHEMA`` rows."""
    return pa.Table.from_pylist(list(_rows(tables, find)), schema=SCHEMA)


def _rows(
    tables: Tables, find: Callable[[RunFiles, list[Row]], Iterable[GroupFinding]]
) -> Iterator[Row]:
    for case in tables.cases:
        rows = case.rows(GROUPS_TABLE)
        for finding in find(case, rows) if rows else ():
            yield row_of(case, finding)


def row_of(case: RunFiles, finding: GroupFinding) -> Row:
    """Return a finding about a group as an anomaly, a row of ``SCHEMA``."""
    records = [
        {"offset": at, "value": None if producer is None else str(producer), "note": says}
        for at, producer, says in finding.records
    ]
    return {
        "run": case.key,
        "kind": finding.kind,
        "topic": finding.topic or case.plan.topic.name,
        "partition": finding.partition,
        "offset": finding.offset,
        "copies": [{"partition": finding.partition, "note": finding.says}, *records],
    }


def in_words(row: Row) -> str:
    """Return the sentence about a group's anomaly from its row, which ``row_of`` made."""
    return str(row["copies"][0]["note"])

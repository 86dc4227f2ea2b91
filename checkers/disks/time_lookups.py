"""``wrong-lookup``: a leader's response to ListOffsets with a time does not agree with its disk.

The leader searches an index of timestamps for the first record that is not older than a time
(``LogSegment.findOffsetByTimestamp``, KIP-33, KIP-79), or for the largest timestamp (KIP-734).
Markers of transactions count as records. These responses are not judged:

- if not all replicas were in sync at the end, because the leader's HW may have changed;
- if the leader's log on disk is damaged, or lacks an offset between the leader's log start and its
  HW at the time of the request: retention may have removed it, or the remote tier may have it;
- an offset from the HW on, because the record may be younger than the request.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import WRONG_LOOKUP, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.kafka_files.reader import read_segment
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark import kafka_log
from highwater.harness.runs.history import LOOKUPS_TABLE
from highwater.harness.runs.verdict import Witness

_COLUMNS: Final = ["offset", "last_offset", "timestamp_ms"]
NO_TIME: Final = -1

LAST_OF_BATCH: Final = "the last record of its batch"
"""Words of the note about a response that is the offset of a batch instead of a record."""

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Row = dict[str, Any]
Leader = tuple[int, int]
"""A broker, and a partition."""


class Log(NamedTuple):
    """The records of a log: their offsets, their batches' last offsets, and their timestamps."""

    offsets: Numbers
    last_offsets: Numbers
    times: Numbers


def _idle(_tables: Tables, case: RunFiles) -> str:
    if case.lacks(LOOKUPS_TABLE) or case.rows(LOOKUPS_TABLE, ["partition"]):
        return ""
    return "no response to a request with a time was recorded"


def _says(row: Row) -> str:
    copy = row["copies"][0]
    return f"Broker {copy['broker']}, {row['topic']}-{row['partition']}: {copy['note']}"


def _evidence(row: Row) -> tuple[Witness, ...]:
    broker, who = row["copies"][0]["broker"], f"broker {row['copies'][0]['broker']}"
    return (Witness(who=who, what="read", says=_says(row), source=LOOKUPS_TABLE, broker=broker),)


@checker(
    Kind(
        WRONG_LOOKUP,
        guarantee="A leader returns the first record that is not older than a time.",
        singular="leader's response to a request with a time is wrong",
        plural="leaders' responses to requests with a time are wrong",
        severity=Severity.SERIOUS,
        promise="search: offsetsForTimes (KIP-79, KIP-734)",
        breaks=always,
        says=_says,
        evidence=_evidence,
    ),
    idle=_idle,
)
def wrong_lookup(tables: Tables) -> pa.Table:
    """Return the responses to requests with a time that do not agree with the leader's disk."""
    rows = []
    for case, leader, responses in _responses(tables):
        log = _log(tables, case, *leader)
        rows += [_anomaly(case, row, says) for row in responses if (says := _wrong(row, log))]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _responses(tables: Tables) -> Iterator[tuple[RunFiles, Leader, list[Row]]]:
    """Yield each leader with its responses, if its disk has every record that it could return."""
    ends = {(end.run, end.broker, end.partition): end for end in log_ends(tables)}
    for case in tables.cases:
        judged: dict[Leader, list[Row]] = defaultdict(list)
        for row in case.rows(LOOKUPS_TABLE) if case.status.quiesced and not case.compacted else ():
            end = ends.get((case.key, row["broker"], row["partition"]))
            if end is None or end.damaged or end.first is None or end.last is None:
                continue
            if end.first > row["start"] or end.last < row["hw"] - 1:
                continue
            if row["timestamp_ms"] is None and end.first < row["start"]:
                continue  # the index of a segment also has timestamps before the log start
            judged[row["broker"], row["partition"]].append(row)
        yield from ((case, leader, responses) for leader, responses in judged.items())


def _log(tables: Tables, case: RunFiles, broker: int, partition: int) -> Log:
    """Read the log of a leader; its records are in the order of their offsets."""
    segments = [
        segment
        for segment in case.segments
        if (segment.broker, segment.partition) == (broker, partition)
    ]
    if any(segment.remote for segment in segments):
        table = kafka_log.read_segments(tables.spark, segments, _COLUMNS).toArrow()
    else:
        batches = [part.select(_COLUMNS) for s in segments for part in read_segment(s)]
        table = pa.Table.from_batches(batches)
    table = table.filter(pc.is_valid(table["offset"])).sort_by("offset")
    times = pc.fill_null(table["timestamp_ms"], NO_TIME)
    columns = [table["offset"], table["last_offset"], times]
    return Log(*(column.to_numpy() for column in columns))


def _wrong(response: Row, log: Log) -> str:
    """Return how a response differs from the disk, as a sentence; empty if it does not."""
    answer, hw, time = response["offset"], response["hw"], response["timestamp_ms"]
    inside = slice(*np.searchsorted(log.offsets, (response["start"], hw)))
    offsets, times = log.offsets[inside], log.times[inside]
    if not len(offsets) or (answer is not None and answer >= hw and time is None):
        return ""
    returned = "no offset" if answer is None else f"offset {answer}"
    if time is None:
        newest = int(np.argmax(times))
        if times[newest] == NO_TIME or times[newest] in times[offsets == answer]:
            return ""
        last = answer == log.last_offsets[inside][newest]
        batch = f" That is {LAST_OF_BATCH}." if last else ""
        right = f"which the record at {offsets[newest]} has"
        return f"it returned {returned} for the largest timestamp, {right}.{batch}"
    later = np.flatnonzero(times >= time)
    first = int(offsets[later[0]]) if len(later) else None
    if answer == first or (first is None and answer >= hw):
        return ""
    right = "no record is so young" if first is None else f"the first such record is at {first}"
    return f"it returned {returned} for records from time {time} on, but {right}."


def _anomaly(case: RunFiles, response: Row, says: str) -> Row:
    place = {"partition": response["partition"], "offset": response["offset"]}
    copy = {**place, "broker": response["broker"], "note": says}
    head = {"run": case.key, "kind": WRONG_LOOKUP, "topic": case.plan.topic.name}
    return {**head, **place, "copies": [copy]}

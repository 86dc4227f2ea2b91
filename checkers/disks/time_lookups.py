"""``wrong-lookup``: a leader's response to ListOffsets with a time does not agree with its disk.

The leader searches an index of timestamps for the first record that is not older than a time
(``LogSegment.findOffsetByTimestamp``, KIP-33, KIP-79), or for the largest timestamp (KIP-734).
Markers of transactions count as records. These responses are not judged:

- if not all replicas were in sync at the end, because the leader's HW may have changed;
- if the leader's log on disk is damaged, or lacks an offset between the leader's log start and its
  HW at the time of the request: retention may have removed it, or the remote tier may have it;
- an offset from the HW on, because the record may be younger than the request.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import WRONG_LOOKUP, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark import kafka_log
from highwater.harness.runs.history import LOOKUPS_TABLE
from highwater.harness.runs.verdict import Witness

_REPLICA: Final = ("run", "broker", "partition")
_COLUMNS: Final = (*_REPLICA, "offset", "last_offset", "timestamp_ms")

LAST_OF_BATCH: Final = "the last record of its batch"
"""Words of the note about a response that is the offset of a batch instead of a record."""

Row = dict[str, Any]


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
    responses = list(_responses(tables))
    if not responses:
        return SCHEMA.empty_table()
    leaders = {tuple(row[name] for name in _REPLICA) for row in responses}
    segments = [
        segment
        for case in tables.cases
        for segment in case.segments
        if (segment.run, segment.broker, segment.partition) in leaders
    ]
    log = kafka_log.read_segments(tables.spark, segments, _COLUMNS)
    numbered = pa.Table.from_pylist(
        [{**row, "number": n} for n, row in enumerate(responses)], _RESPONSES
    )
    time = F.col("timestamp_ms")
    on_disk = (
        log.join(F.broadcast(tables.local(numbered)), [*_REPLICA])
        .where((F.col("offset") >= F.col("start")) & (F.col("offset") < F.col("hw")))
        .groupBy("number")
        .agg(
            F.min(F.when(time >= F.col("time"), F.col("offset"))).alias("first"),
            F.max(time).alias("largest"),
            F.max_by(F.struct("offset", "last_offset"), F.struct(time, -F.col("offset"))).alias(
                "newest"
            ),
            F.max(F.when(F.col("offset") == F.col("answer"), time)).alias("there"),
        )
    )
    rows = [
        _anomaly(row, says)
        for seen in sorted(on_disk.toArrow().to_pylist(), key=lambda row: row["number"])
        if (says := _wrong(row := responses[seen["number"]], seen))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


_RESPONSES: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("hw", pa.int64()),
        ("time", pa.int64()),
        ("answer", pa.int64()),
    ]
)


def _responses(tables: Tables) -> Iterator[Row]:
    """Yield the responses whose leader's disk has every record that the leader could return."""
    ends = {(end.run, end.broker, end.partition): end for end in log_ends(tables)}
    for case in tables.cases:
        if not case.status.quiesced or case.compacted:
            continue
        for row in case.rows(LOOKUPS_TABLE):
            end = ends.get((case.key, row["broker"], row["partition"]))
            if end is None or end.damaged or end.first is None or end.last is None:
                continue
            if end.first > row["start"] or end.last < row["hw"] - 1:
                continue
            if row["timestamp_ms"] is None and end.first < row["start"]:
                continue  # the index of a segment also has timestamps before the log start
            place = {name: row[name] for name in ("broker", "partition", "start", "hw")}
            times = {"time": row["timestamp_ms"], "answer": row["offset"]}
            yield {"run": case.key, "topic": case.plan.topic.name, **place, **times}


def _wrong(response: Row, seen: Row) -> str:
    """Return how a response differs from the disk, as a sentence; empty if it does not."""
    answer, hw, time, first = response["answer"], response["hw"], response["time"], seen["first"]
    returned = "no offset" if answer is None else f"offset {answer}"
    younger = answer is not None and answer >= hw
    if time is None:
        if younger or seen["largest"] == (None if answer is None else seen["there"]):
            return ""
        newest = seen["newest"]
        batch = f" That is {LAST_OF_BATCH}." if answer == newest["last_offset"] else ""
        right = f"which the record at {newest['offset']} has"
        return f"it returned {returned} for the largest timestamp, {right}.{batch}"
    if answer == first or (first is None and younger):
        return ""
    right = "no record is so young" if first is None else f"the first such record is at {first}"
    return f"it returned {returned} for records from time {time} on, but {right}."


def _anomaly(response: Row, says: str) -> Row:
    place = {"partition": response["partition"], "offset": response["answer"]}
    copy = {**place, "broker": response["broker"], "note": says}
    head = {"run": response["run"], "kind": WRONG_LOOKUP, "topic": response["topic"]}
    return {**head, **place, "copies": [copy]}

"""``coordinator-divergence``: replicas of a coordinator's topic hold different records.

``__transaction_state`` and ``__consumer_offsets`` decide which transactions are committed and at
which offsets groups continue. Kafka replicates and compacts these topics like other topics, so the
checker compares them in the same way (``checkers.inspection``).
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import COORDINATOR_DIVERGENCE, Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import AGREED, always
from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.inspection.report_types import InspectedPartition
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables


def _says(row: dict[str, Any]) -> str:
    copies = "; ".join(
        f"broker {copy['broker']}: {copy['value'] or 'a record'} of leader epoch"
        f" {copy['leader_epoch']}"
        for copy in row["copies"]
    )
    place = f"{row['topic']}-{row['partition']} at offset {row['offset']}"
    return f"Replicas differ in {place}{': ' if copies else ''}{copies}."


@checker(
    Kind(
        COORDINATOR_DIVERGENCE,
        guarantee="Replicas of the coordinators' topics hold the same record at every offset "
        "that both replicas hold.",
        singular="partition of a coordinator's topic differs between replicas",
        plural="partitions of coordinators' topics differ between replicas",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=always,
        says=_says,
    ),
    idle=without_disks,
)
def coordinator_divergence(tables: Tables) -> pa.Table:
    """Return the coordinators' partitions whose replicas differ, each with its first such offset.

    If the replicas were not in sync at the end, only differences below the HW of every replica are
    reported. Above the HW a follower may have records that it will truncate.
    """
    rows = [
        _row(case, partition)
        for case in tables.cases
        for partition in _partitions(case, tables)
        if (partition.divergent if case.status.quiesced else partition.below_hw)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _partitions(case: RunFiles, tables: Tables) -> Iterator[InspectedPartition]:
    folder = case.run.coordinators
    unsound = any(unused.path.startswith(f"{folder.name}/") for unused in case.unread)
    if not unsound and not _alike(folder):
        yield from inspect([folder], tables.spark, internal=True, related=True).partitions


def _alike(folder: Path) -> bool:
    """Return whether the logs of each partition have equal bytes, up to the end of the shorter log.

    They nearly always do, because followers append the bytes that they fetch. Then no other
    comparison is needed.
    """
    logs: dict[str, list[bytes]] = defaultdict(list)
    for replica in sorted(folder.glob("*/*/")):
        logs[replica.name].append(
            b"".join(segment.read_bytes() for segment in sorted(replica.glob("*.log")))
        )
    return all(
        max(replicas, key=len).startswith(log) for replicas in logs.values() for log in replicas
    )


def _row(case: RunFiles, partition: InspectedPartition) -> dict[str, object]:
    offset = partition.divergent_offsets[0]
    copies = [
        copy for record in partition.shown if record.offset == offset for copy in record.copies
    ]
    return {
        "run": case.key,
        "kind": COORDINATOR_DIVERGENCE,
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset,
        "copies": [
            {
                "broker": copy.broker,
                "partition": partition.partition,
                "offset": offset,
                "leader_epoch": copy.epoch,
                "value": copy.value,
            }
            for copy in copies
        ],
    }

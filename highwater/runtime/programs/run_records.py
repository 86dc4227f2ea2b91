"""Copy the user's records from a run's disks, as input for a program in another run."""

from pathlib import Path
from typing import Final

import pyarrow as pa

from highwater.checkers.kafka_files.reader import SCHEMA, read_segment
from highwater.checkers.kafka_files.segment_files import segments
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.store import Run

_FILE: Final = "analysis/feed.jsonl"
_COLUMNS: Final = ["offset", "timestamp_ms", "key", "value"]


def write_feed(run: Run) -> Path:
    """Write a run's user records to a file, one per line; return the file's path.

    The records are in timestamp order, and within each partition in offset order.

    Raises:
        UsageError: Highwater generated the run's inputs, or the run's disks have no user records.
        StoreError: the run's plan or history cannot be read.
    """
    plan = run.plan()
    if not plan.named_by_keys:
        raise UsageError(
            f"{run.path} has no records from --feed",
            hint="Name a file or a run that used --feed. To repeat a run's faults, use highwater "
            "replay.",
        )
    names = {*run.table("history/ops")["value"].to_pylist()}
    places: dict[tuple[int, int], tuple[int, bytes]] = {}
    for segment in segments(run.replicas):
        if segment.topic != plan.topic.name:
            continue
        records = pa.Table.from_batches(read_segment(segment), SCHEMA).select(_COLUMNS)
        for row in records.to_pylist():
            if row["key"] is not None and row["key"].decode(errors="replace") in names:
                places.setdefault(
                    (segment.partition, row["offset"]), (row["timestamp_ms"], row["value"])
                )
    if not places:
        raise UsageError(f"the disks of {run.path} contain none of its input records")
    order = sorted(places, key=lambda place: (places[place][0], *place))
    lines = {places[place][1]: None for place in order}  # a repeated record is written once
    return run.write(_FILE, b"".join(line + b"\n" for line in lines)).absolute()

"""Copy the user's records of a run from its disks, as the input of another program."""

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
    """Write the user's records of the topic under test to a file, one per line; return its path.

    The records are in the order of timestamps, and in each partition in the order of offsets.

    Raises:
        UsageError: the run generated its inputs, or its disks have no input.
        StoreError: its plan or its history cannot be read.
    """
    plan = run.plan()
    if not plan.named_by_keys:
        raise UsageError(
            f"{run.path} has no records from --feed",
            hint="Name a run with --feed, or a file; highwater replay repeats a run's faults.",
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
        raise UsageError(f"the disks of {run.path} have none of its records")
    order = sorted(places, key=lambda place: (places[place][0], *place))
    lines = {places[place][1]: None for place in order}  # one that was written twice is fed once
    return run.write(_FILE, b"".join(line + b"\n" for line in lines)).absolute()

"""The coordinators' topics on disk (``harness.runs.store.COORDINATOR_TOPICS``)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from highwater.checkers.kafka_files.reader import read_segment
from highwater.checkers.kafka_files.segment_files import Segment, inside, limited
from highwater.checkers.run_files import RunFiles

_COLUMNS: Final = [
    *("leader_epoch", "offset", "control", "control_type", "timestamp_ms", "transactional"),
    *("producer_id", "key", "value"),
]

Row = dict[str, Any]


def coordinator_records(case: RunFiles, topic: str) -> list[Row] | None:
    """Return every record of a coordinators' topic, in columns of ``reader.SCHEMA``.

    The records of each partition are in order, and come from the most up-to-date replica. (The
    checker ``coordinator_divergence`` compares the replicas.) The result is None if the run has no
    complete copy of the topic.
    """
    copies = coordinator_copies(case, topic)
    if copies is None:
        return None
    return [row for logs in copies.values() for row in newest(logs)]


def coordinator_copies(case: RunFiles, topic: str) -> dict[int, list[list[Row]]] | None:
    """Return, for each partition of a coordinators' topic, the records of every replica, in order.

    The result is None if the run has no complete copy of the topic.
    """
    folder = case.run.coordinators
    if any(unused.path.startswith(f"{folder.name}/") for unused in case.unread):
        return None
    replicas: dict[int, dict[int, list[Segment]]] = defaultdict(lambda: defaultdict(list))
    files = [segment for replica in folder.glob(f"*/{topic}-*/") for segment in inside(replica)]
    for segment in limited(files) if files else ():
        replicas[segment.partition][segment.broker].append(segment)
    if not replicas:
        return None
    return {
        partition: [list(_records(segments)) for segments in copies.values()]
        for partition, copies in sorted(replicas.items())
    }


def newest(logs: list[list[Row]]) -> list[Row]:
    """Return the most up-to-date log: the greatest last leader epoch, then the last offset."""
    return max(logs, key=_end)


def _end(rows: list[Row]) -> tuple[int, int]:
    if not rows:
        return -1, -1
    epoch = rows[-1]["leader_epoch"]
    return -1 if epoch is None else epoch, rows[-1]["offset"]


def _records(segments: list[Segment]) -> Iterator[Row]:
    for segment in segments:
        for batch in read_segment(segment):
            for row in batch.select(_COLUMNS).to_pylist():
                if row["offset"] is not None:
                    yield row

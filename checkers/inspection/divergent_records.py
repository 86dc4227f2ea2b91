"""The first divergent records of a partition, read from the segments, as text."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.log_tables import LogTables, Row
from highwater.checkers.inspection.partition_comparison import Comparison
from highwater.checkers.inspection.report_types import Copy, DivergentOffset
from highwater.checkers.kafka_files.reader import read_segment

OFFSETS_MAX: Final = 10
"""The greatest number of divergent offsets of a partition for which a report shows the records."""

PARTITIONS_MAX: Final = 50
"""The greatest number of partitions for which a report shows divergent records."""

_TEXT_MAX: Final = 120


def divergent_records(
    evidence: LogTables, compared: Mapping[int, Comparison]
) -> dict[int, tuple[DivergentOffset, ...]]:
    """Return the records of every replica at the first divergent offsets of each partition."""
    offsets_of = {
        part: dict(comparison.offsets[:OFFSETS_MAX])
        for part, comparison in sorted(compared.items())
        if comparison.offsets
    }
    offsets_of = dict(list(offsets_of.items())[:PARTITIONS_MAX])
    if not offsets_of:
        return {}
    places = [
        {"part": part, "offset": offset}
        for part, offsets in offsets_of.items()
        for offset in offsets
    ]
    columns = [("part", pa.int32()), ("offset", pa.int64())]
    rows = (
        evidence.records.join(F.broadcast(evidence.local(places, columns)), ["part", "offset"])
        .select("part", "offset", "replica", "segment", "position", "leader_epoch")
        .collect()
    )
    copies: dict[tuple[int, int], list[Copy]] = {}
    for row in sorted(rows, key=lambda row: evidence.replicas[row["replica"]].broker):
        copies.setdefault((row["part"], row["offset"]), []).append(_copy(evidence, row.asDict()))
    return {
        part: tuple(
            DivergentOffset(offset=offset, below_hw=below, copies=tuple(copies[part, offset]))
            for offset, below in offsets.items()
        )
        for part, offsets in offsets_of.items()
    }


def _copy(evidence: LogTables, row: Row) -> Copy:
    replica = evidence.replicas[row["replica"]]
    segment = next(segment for segment in replica.segments if segment.base_offset == row["segment"])
    at = row["position"]
    record: Row = {"key": None, "value": None}
    for batch in read_segment(segment, start=at, stop=at + 1):
        rows = batch.filter(pa.compute.equal(batch["offset"], row["offset"]))
        if rows.num_rows:
            record = rows.select(["key", "value"]).to_pylist()[0]
    return Copy(
        broker=replica.broker,
        epoch=row["leader_epoch"],
        key=_text(record["key"]),
        value=_text(record["value"]),
    )


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    words = data[:_TEXT_MAX].decode("utf-8", "backslashreplace")
    return words if len(data) <= _TEXT_MAX else f"{words}… ({len(data):,} bytes)"

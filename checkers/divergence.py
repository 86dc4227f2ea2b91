"""``divergence``: replicas of one partition hold different records at one offset.

Followers append batches byte for byte (ReplicaFetcherThread), so what must agree is the record:
key, value, whether it is a control record, and the leader epoch it was written in. What may differ
is left alone: where a log begins (DeleteRecords), where it ends (lag), how compaction left the
batches, timestamps and segments.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.checkpoints import CheckpointError, read_offsets
from checkers.registry import anomalies, checker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.disks import End
    from checkers.staging import Case
    from checkers.tables import Tables

_PLACE = ("run", "topic", "partition", "offset")
_NO_EPOCH = -1  # message formats before v2 have none
_EVERYTHING = (1 << 63) - 1

_SPANS = pa.schema(
    [
        ("run", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("bound", pa.int64()),  # only offsets below it are compared
        (
            "spans",  # the extents of the replicas that must have no holes
            pa.list_(pa.struct([("broker", pa.int32()), ("lo", pa.int64()), ("hi", pa.int64())])),
        ),
    ]
)


@checker(
    "divergence", guarantee="Replicas hold the same record at every offset that they both hold."
)
def divergence(tables: "Tables") -> "DataFrame":
    """Offsets at which replicas differ, or that one skips; its copies are what each holds there.

    Where the cluster did not quiesce, only offsets below every replica's checkpointed high
    watermark are compared, because a follower may rightly still hold there what it is about to
    cut.
    """
    spans = F.broadcast(tables.local(_spans(tables)))
    compared = (
        tables.log.where(F.col("offset").isNotNull())
        .join(spans, ["run", "topic", "partition"])
        .where(F.col("offset") < F.col("bound"))
    )
    places = compared.groupBy(*_PLACE).agg(
        _differs("fingerprint").alias("other_record"),
        _differs("leader_epoch", _NO_EPOCH).alias("other_epoch"),
        F.count_if(F.exists("spans", lambda span: span.broker == F.col("broker"))).alias("held"),
        F.first(_expected()).alias("expected"),
    )
    differing = places.where(
        F.col("other_record") | F.col("other_epoch") | (F.col("held") < F.col("expected"))
    ).select(*_PLACE)
    copy = F.struct(
        "broker",
        "partition",
        "offset",
        "leader_epoch",
        F.col("record_id").alias("value"),
        F.lit(None).cast("string").alias("note"),
    )
    found = (
        tables.log.join(differing, list(_PLACE), "left_semi")
        .groupBy(*_PLACE)
        .agg(F.array_sort(F.collect_list(copy)).alias("copies"))
    )
    return anomalies(found, "divergence", value=F.element_at("copies", 1)["value"])


def _differs(name: str, absent: int | None = None) -> Column:
    column = F.col(name) if absent is None else F.coalesce(F.col(name), F.lit(absent))
    return F.min(column) != F.max(column)


def _expected() -> Column:
    """How many replicas' extents cover the offset: that many must hold a record there."""
    offset = F.col("offset")
    return F.size(F.filter("spans", lambda span: offset.between(span.lo, span.hi)))


def _spans(tables: "Tables") -> pa.Table:
    """One row a partition. A replica that is damaged or compacted may have holes."""
    rows: dict[tuple[str, str, int], dict[str, object]] = {}
    cases = {case.key: case for case in tables.cases}
    for end in tables.ends:
        case = cases[end.run]
        place = (end.run, end.topic, end.partition)
        row = rows.setdefault(
            place, {"run": end.run, "topic": end.topic, "partition": end.partition, "spans": []}
        )
        bound = _EVERYTHING if case.status.quiesced else _watermark(case, end)
        row["bound"] = min(int(str(row.get("bound", _EVERYTHING))), bound)
        if end.first is not None and not end.damaged and not case.compacted:
            spans = row["spans"]
            assert isinstance(spans, list)
            spans.append({"broker": end.broker, "lo": end.first, "hi": end.last})
    return pa.Table.from_pylist(list(rows.values()), schema=_SPANS)


def _watermark(case: "Case", end: "End") -> int:
    """A replica's high watermark as its broker last wrote it down; 0 when it did not."""
    path = case.run.replicas / str(end.broker) / "replication-offset-checkpoint"
    try:
        return read_offsets(path).get((end.topic, end.partition), 0)
    except CheckpointError:
        return 0

"""``corrupt``: bytes on a replica's disk that are not a valid record batch."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA, anomalies
from highwater.checkers.core.anomaly_kinds import CORRUPT, Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import always
from highwater.checkers.disks.log_ends import log_ends, log_spans
from highwater.checkers.inspection.replica_extents import ORDINARY, TORN, UNREADABLE
from highwater.checkers.run_tables import Tables


@checker(
    Kind(
        CORRUPT,
        guarantee="Every batch on every replica's disk passes its checksum.",
        singular="range of a log is corrupt",
        plural="ranges of logs are corrupt",
        severity=Severity.CRITICAL,
        promise="integrity: every batch on a disk passes its checksum",
        breaks=always,
    ),
    idle=without_disks,
)
def corrupt(tables: Tables) -> DataFrame | pa.Table:
    """Return the ranges of logs that hold no valid batch.

    A log that ends inside a batch after a kill is no anomaly. Unreadable files are not judged: the
    verdict lists them (``checkers.verdicts``).
    """
    if not any(span.marked for span in log_spans(tables)):
        return SCHEMA.empty_table()
    last = tables.local(_last_segments(tables))
    ordinary = F.col("damage").isin(*ORDINARY, UNREADABLE)
    torn_inside = (F.col("damage") == TORN) & (F.col("segment") < F.col("last_segment"))
    damaged = (
        tables.log.where(F.col("damage").isNotNull())
        .join(F.broadcast(last), ["run", "broker", "topic", "partition"])
        .where(~ordinary | torn_inside)
    )
    where = F.format_string("%020d.log, byte %d: %s", "segment", "position", "error")
    copy = F.struct(
        "broker",
        "partition",
        F.col("base_offset").alias("offset"),
        "leader_epoch",
        F.lit(None).cast("string").alias("value"),
        where.alias("note"),
    )
    return anomalies(
        damaged,
        CORRUPT,
        offset=F.col("base_offset"),
        value=F.lit(None),
        copies=F.array(copy),
    )


def _last_segments(tables: Tables) -> pa.Table:
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("broker", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("last_segment", pa.int64()),
        ]
    )
    rows = [
        {
            "run": end.run,
            "broker": end.broker,
            "topic": end.topic,
            "partition": end.partition,
            "last_segment": end.segment,
        }
        for end in log_ends(tables)
    ]
    return pa.Table.from_pylist(rows, schema=schema)

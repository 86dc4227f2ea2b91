"""Acknowledgements that came late."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater import Kind, Plan, Severity, Tables, anomalies, checker, operation_step

LIMIT_NS: Final = 1_000_000_000
"""What this service can wait for."""


def breaks(plan: Plan, _faults: int) -> bool:
    """Return whether a run was promised this; with acks=0 no broker acknowledges."""
    return plan.workload.acks != "0"


def says(row: dict[str, Any]) -> str:
    """Return a sentence for an anomaly: what is wrong."""
    [sent] = row["steps"]
    seconds = (sent["complete_ns"] - sent["invoke_ns"]) / 1e9
    return f"{sent['process']} waited {seconds:.1f} s for the acknowledgement of {row['value']}."


@checker(
    Kind(
        "late-acknowledgement",
        guarantee="A record is acknowledged within a second.",
        singular="acknowledgement came late",
        plural="acknowledgements came late",
        severity=Severity.MINOR,
        promise="service: what we promise our own users",
        breaks=breaks,
        says=says,
    )
)
def late(tables: Tables) -> DataFrame:
    """Return sends that were acknowledged after the limit."""
    took = F.col("complete_ns") - F.col("invoke_ns")
    acknowledged = (F.col("kind") == "send") & (F.col("outcome") == "ok")
    sends = tables.operations.where(acknowledged & (took > LIMIT_NS))
    return anomalies(sends, "late-acknowledgement", steps=F.array(operation_step()))

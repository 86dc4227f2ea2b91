"""Acknowledgements that came late."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.anomaly import SCHEMA, anomalies
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import OK, SEND
from highwater.harness.runs.plan import Plan

LIMIT_NS: Final = 1_000_000_000
"""What this service can wait for."""


def breaks(plan: Plan, _faults: int) -> bool:
    """Return whether a run was promised that; with acks=0 nobody acknowledges."""
    return plan.workload.acks != "0"


def says(row: dict[str, Any]) -> str:
    """What is wrong, a sentence, of an anomaly."""
    [sent] = row["steps"]
    seconds = (sent["complete_ns"] - sent["invoke_ns"]) / 1e9
    return f"{sent['process']} waited {seconds:.1f} s for the acknowledgement of {row['value']}."


@checker(
    Kind(
        "late-acknowledgement",
        guarantee="A record is acknowledged within a second.",
        one="acknowledgement came late",
        many="acknowledgements came late",
        severity=Severity.MINOR,
        promise="service: what we promise our own users",
        breaks=breaks,
        says=says,
    )
)
def late(tables: Tables) -> DataFrame:
    """Sends that were acknowledged after the limit."""
    took = F.col("complete_ns") - F.col("invoke_ns")
    sent = (F.col("kind") == SEND) & (F.col("outcome") == OK)
    step = SCHEMA.field("steps").type.value_type.names
    found = tables.operations.where(sent & (took > LIMIT_NS))
    return anomalies(found, "late-acknowledgement", steps=F.array(F.struct(*step)))

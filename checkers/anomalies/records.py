"""``lost-write``, ``unseen`` and ``duplicate``: wrong outcomes of records, as anomalies."""

from highwater.checkers.core import anomaly_kinds
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import DURABLE, if_acknowledged_is_kept, if_idempotent, never
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows


@checker(
    Kind(
        anomaly_kinds.LOST,
        guarantee="An acknowledged record is read by every reader that passes its offset.",
        singular="acknowledged record was lost",
        plural="acknowledged records were lost",
        severity=Severity.CRITICAL,
        promise=DURABLE,
        breaks=if_acknowledged_is_kept,
    ),
    Kind(
        anomaly_kinds.UNSEEN,
        guarantee="The final read reaches the offset of every acknowledged record.",
        singular="acknowledged record is out of sight",
        plural="acknowledged records are out of sight",
        severity=Severity.UNDECIDED,
        promise=DURABLE,
        breaks=never,
        absence=True,
    ),
    Kind(
        anomaly_kinds.DUPLICATE,
        guarantee="A record that was sent once is read at one offset.",
        singular="record stands in the log twice",
        plural="records stand in the log twice",
        severity=Severity.SERIOUS,
        promise="exactly once: an idempotent producer writes a record once (KIP-98)",
        breaks=if_idempotent,
    ),
)
def records(tables: Tables) -> Rows:
    """Return records with a wrong outcome."""
    return tables.client_anomalies.only("kind", *records.names)

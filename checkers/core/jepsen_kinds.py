"""Kinds of anomaly that only Jepsen's histories show (``checkers.jepsen``)."""

from typing import Final

from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.promises import DURABLE, UNORDERED, never

FOREIGN: Final = (
    Kind(
        "vanished",
        guarantee="A record that was acknowledged and read stays where it was.",
        singular="record was read and disappeared",
        plural="records were read and disappeared",
        severity=Severity.CRITICAL,
        promise=DURABLE,
        breaks=never,
    ),
    Kind(
        "G0",
        guarantee="No transaction wrote before itself, directly or through other transactions.",
        singular="cycle of transactions that wrote before one another",
        plural="cycles of transactions that wrote before one another",
        severity=Severity.EXPECTED,
        promise=UNORDERED,
        breaks=never,
    ),
)

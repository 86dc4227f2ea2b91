"""Kinds of anomaly that only Jepsen's histories show (``checkers.jepsen``)."""

from typing import Final

from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.promises import UNORDERED, never

FOREIGN: Final = (
    Kind(
        "G0",
        guarantee="The writes of transactions have an order: no transaction wrote both before "
        "and after another.",
        singular="cycle of transactions that each wrote before the next",
        plural="cycles of transactions that each wrote before the next",
        severity=Severity.EXPECTED,
        promise=UNORDERED,
        breaks=never,
    ),
)

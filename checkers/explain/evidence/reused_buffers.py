"""Finds expired batches of a Java producer, which may have reused their buffers (KAFKA-19012)."""

from typing import Final

from highwater.checkers.explain.evidence.evidence_links import Row
from highwater.checkers.explain.evidence.licences import hazard_of_clients
from highwater.checkers.explain.trace import RunTraces

REUSES: Final = hazard_of_clients("KAFKA-19012")
_EXPIRED: Final = "TimeoutException"
"""The Java exception for a batch without a response in time."""


def expired_sends(observed: RunTraces, partition: int | None) -> list[Row]:
    """Return the expired sends to a partition; empty if KAFKA-19012 does not affect the client."""
    if not REUSES.holds(observed, None):
        return []
    rows: list[Row] = observed.sends(error=_EXPIRED, partition=partition).to_pylist()
    return rows

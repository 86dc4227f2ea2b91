"""Explains a replica that yields another last value of a key: it was away while the others cleaned.

Tombstones and the markers of aborted transactions go from a compacted log ``delete.retention.ms``
after they were cleaned. A replica that was not in sync for as long never gets them: it keeps the
value that was deleted, or takes records of an aborted transaction for those of its producer's next
one, which commits (KAFKA-8522 and KIP-354 say how long consumers have; nothing says it of
followers).
"""

from highwater.checkers.model.explain.evidence.evidence_links import Chain, Row, refuse
from highwater.checkers.model.explain.trace import RunTraces
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.topics.derived_settings import DELETE_RETENTION

DAY_MS = 24 * 60 * 60 * 1000
"""``delete.retention.ms`` by default."""


def stale(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a stale replica by the time for which it, or the one ahead of it, was out of sync."""
    trace = observed.traces.get(anomaly["partition"])
    retention_ms = int(observed.plan.topic.config.get(DELETE_RETENTION, DAY_MS))
    brokers = {copy["broker"] for copy in anomaly["copies"]}
    rows = trace.leaderships if trace else []
    for broker in sorted(brokers):
        since: int | None = None
        for row in rows:
            if broker not in row.isr:
                since = row.time_ns if since is None else since
                continue
            if since is not None and row.time_ns - since >= retention_ms * 1_000_000:
                return Chain(links=(_away(broker, since, row.time_ns, retention_ms),))
            since = None
    return refuse(f"No replica was out of sync for as long as {DELETE_RETENTION}.")


def _away(broker: int, since_ns: int, until_ns: int, retention_ms: int) -> ExplanationLink:
    seconds = (until_ns - since_ns) / 1e9
    return ExplanationLink(
        rule="delete-retention",
        says=f"Broker {broker} was out of the ISR for {seconds:.1f} s, and {DELETE_RETENTION} is"
        f" {retention_ms / 1000:g} s: it never got tombstones and markers that went meanwhile.",
        event=f"broker {broker} is in the ISR again",
        broker=broker,
        time_ns=until_ns,
    )

"""Explains a stale replica of a compacted log: it was out of sync during compaction.

Compaction removes tombstones and abort markers after ``delete.retention.ms``. A replica that is out
of sync for longer never fetches them. So this replica keeps deleted values. It may also count
aborted records as part of the producer's next transaction, which is committed. (KAFKA-8522 and
KIP-354 describe this for consumers, not for followers.)
"""

from typing import Any, Final

from highwater.checkers.explain.evidence.evidence_links import AnomalyCase, Links
from highwater.checkers.explain.evidence.licences import (
    SEEN_TO_HAPPEN,
    Explainer,
    Explanation,
    explains,
)
from highwater.checkers.explain.observations import LEADERS
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.derived_settings import DELETE_RETENTION

DAY_MS = 24 * 60 * 60 * 1000
"""The default of ``delete.retention.ms``."""


def _out_of_sync(case: AnomalyCase) -> Links:
    """Return a link if a replica was out of the ISR for longer than ``delete.retention.ms``.

    The replicas are those in the anomaly's copies. Without copies, the last leader is checked,
    because clients read from it.
    """
    observed, anomaly = case.observed, case.anomaly
    trace = observed.traces.get(anomaly["partition"])
    retention_ms = int(observed.plan.topic.config.get(DELETE_RETENTION, DAY_MS))
    rows = trace.leaderships if trace else []
    brokers = {copy["broker"] for copy in anomaly["copies"] or ()} - {None}
    brokers = brokers or {row.leader for row in rows[-1:]}
    for broker in sorted(brokers):
        since: int | None = None
        for row in rows:
            if broker not in row.isr:
                since = row.time_ns if since is None else since
                continue
            if since is not None and row.time_ns - since >= retention_ms * 1_000_000:
                return (_away(broker, since, row.time_ns, retention_ms),)
            since = None
    return ()


away_for_long: Final[Explanation[Any]] = explains(
    "delete-retention",
    SEEN_TO_HAPPEN,
    "A replica was out of sync for longer than delete.retention.ms, while the others removed"
    " tombstones and markers.",
    applies=lambda case: case.observed.plan.workload.keys > 0,
    needs=LEADERS,
)(_out_of_sync)


def _away(broker: int, since_ns: int, until_ns: int, retention_ms: int) -> ExplanationLink:
    seconds = (until_ns - since_ns) / 1e9
    return ExplanationLink(
        rule="delete-retention",
        says=f"Broker {broker} was out of the ISR for {seconds:.1f} s, and {DELETE_RETENTION} is"
        f" {retention_ms / 1000:g} s. So it never fetched the tombstones and markers that were "
        f"removed in that time.",
        event=f"broker {broker} is in the ISR again",
        broker=broker,
        time_ns=until_ns,
    )


stale: Final = Explainer(
    (away_for_long,), f"No replica was out of the ISR for longer than {DELETE_RETENTION}."
)

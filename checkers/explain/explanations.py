"""Compares a run with its release's rules: a finding for each anomaly and each wrong event."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq

from highwater.checkers.catalogue import our_kinds
from highwater.checkers.core.anomaly_kinds import OF_PROGRAMS, Severity
from highwater.checkers.explain.consistency import contradictions
from highwater.checkers.explain.elections import wrong_elections
from highwater.checkers.explain.evidence.coordinator_memory import contradiction
from highwater.checkers.explain.evidence.evidence_links import Chain, Row, refuse
from highwater.checkers.explain.evidence.forgotten_groups import forgotten
from highwater.checkers.explain.evidence.group_beginnings import foreign, undelivered
from highwater.checkers.explain.evidence.licences import Explainer, Explanation
from highwater.checkers.explain.evidence.markers import WITHDRAWN
from highwater.checkers.explain.evidence.other_losses import OTHERWISE
from highwater.checkers.explain.evidence.stale_values import stale
from highwater.checkers.explain.evidence.successions import SUCCESSION
from highwater.checkers.explain.evidence.unanswered_sends import UNANSWERED
from highwater.checkers.explain.evidence.unfenced_members import processed_twice
from highwater.checkers.explain.forks import fork
from highwater.checkers.explain.lost_records import lost, replaced, vanished
from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.other_anomalies import (
    corrupt,
    decided,
    duplicate,
    lookup,
    phantom,
    reordered,
    seen,
    unseen,
)
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.explain.trace import RunTraces, Trace
from highwater.checkers.explain.transaction_anomalies import (
    aborted_read,
    hanging,
    repeated,
)
from highwater.checkers.explain.truncations import wrong_cuts
from highwater.checkers.model.report_types import (
    ExplanationLink,
    ModelFinding,
    PartitionOutcome,
    Word,
)
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.store import Run

_EXPLAINERS: Final[Mapping[str, Explainer[Any]]] = {
    "divergence": fork,
    "duplicate": duplicate,
    "nonmonotonic-send": reordered,
    "G1a": aborted_read,
    "hanging-transaction": hanging,
    "repeated-sequence": repeated,
    "phantom": phantom,
    "undelivered": undelivered,
    "foreign-offset": foreign,
    "processed-twice": processed_twice,
    "stale-replica": stale,
    "resurrected-value": stale,
    "unseen": unseen,
    "corrupt": corrupt,
    "lost-decision": decided,
    "wrong-lookup": lookup,
    "lost-commit": forgotten,
    "coordinator-contradiction": contradiction,
}
"""The explainer of each kind of anomaly, by the name of the kind."""

_EXPLAIN: Final[Mapping[str, Callable[[RunTraces, Row], Chain]]] = {
    **_EXPLAINERS,
    "lost-write": lost,
    "vanished": vanished,
    "inconsistent-offsets": lambda observed, row: replaced(observed, row) or seen(observed, row),
    "int-nonmonotonic-send": reordered,
    "stale-commit": forgotten,
    "two-owners": forgotten,
}
"""The function that explains an anomaly, by the kind's name. ``seen`` explains all other kinds."""

EXPLANATIONS: Final[Mapping[str, tuple[Explanation[Any], ...]]] = {
    "lost-write, in the log and not read": WITHDRAWN,
    "lost-write without an offset": UNANSWERED,
    "lost-write, a later leader without it": SUCCESSION,
    "lost-write, otherwise": OTHERWISE,
    **{kind: explainer.explanations for kind, explainer in _EXPLAINERS.items()},
    "any other": seen.explanations,
}
"""All explanations, by the kind of anomaly that they explain."""

UNKNOWN_RULE: Final = "unknown"
"""The ``rule`` of a link if no evidence contradicts the events, but no known rule leads to them."""

UNOBSERVED: Final = "not-observed"
"""The ``rule`` of a link if the events that may explain an anomaly were not observed."""

_WORDS_MAX: Final = 300


@dataclass(slots=True, kw_only=True)
class PartitionExplanations:
    """A run's anomalies and wrong events, with their explanations by the release's rules.

    Attributes:
        observed: the lost records, and the offsets at which replicas hold different records.
        findings: one for each anomaly and for each event that no rule allows.
        checked: the number of checked events of each kind.
        unread: the reason why the run's evidence could not be read; else empty.
        trace: the observations of the run; None if they could not be read.
    """

    observed: PartitionOutcome
    findings: list[ModelFinding]
    checked: dict[str, int] = field(default_factory=dict)
    unread: str = ""
    trace: RunTraces | None = None

    @property
    def upgraded_to(self) -> str:
        """The newest release to which a broker was upgraded; empty if no broker was upgraded."""
        software = self.trace.software if self.trace else None
        return software.newest if software and software.newest != software.first.kafka else ""


def explain(run: Run) -> PartitionExplanations:
    """Explain every anomaly of a judged run, and find every event that no rule allows.

    If the run's evidence cannot be read, all anomalies stay unexplained.
    """
    rows = _anomalies(run)
    lost = sorted({row["value"] for row in rows if row["kind"] == "lost-write" and row["value"]})
    forked = {row["offset"] for row in rows if row["kind"] == "divergence"} - {None}
    outcome = PartitionOutcome(lost=tuple(lost), forked=tuple(sorted(forked)))
    try:
        observed = observe(run)
        wrong = list(_wrong(observed))
    except HarnessError as error:
        return _unread(outcome, rows, error.message)
    except Exception as error:  # noqa: BLE001 - whatever a broken file leads to, nothing is explained
        return _unread(outcome, rows, f"the run's trace could not be read: {error!r}"[:_WORDS_MAX])
    observed.suspect(_records(rows))
    findings = [_finding(row, _EXPLAIN.get(row["kind"], seen)(observed, row)) for row in rows]
    return PartitionExplanations(
        observed=outcome,
        findings=[*_merged(findings), *wrong],
        checked=_checked(observed),
        trace=observed,
    )


def _unread(outcome: PartitionOutcome, rows: Iterable[Row], why: str) -> PartitionExplanations:
    says = f"{why[:1].upper()}{why[1:].rstrip('.')}."
    findings = _merged(_finding(row, refuse(says)) for row in rows)
    return PartitionExplanations(observed=outcome, findings=findings, unread=says)


def _anomalies(run: Run) -> list[Row]:
    """Return the anomalies to explain: those without a known cause that Kafka must not show."""
    kinds = our_kinds().items()
    names = {name for name, kind in kinds if kind.severity is not Severity.EXPECTED} - OF_PROGRAMS
    rows: list[Row] = pq.read_table(run.anomalies).to_pylist() if run.anomalies.exists() else []
    return [row for row in rows if row.get("cause") is None and row["kind"] in names]


def _records(rows: Iterable[Row]) -> set[str]:
    values = {row["value"] for row in rows}
    values |= {copy["value"] for row in rows for copy in row["copies"] or ()}
    return {value for value in values if value is not None}


def _wrong(observed: RunTraces) -> Iterator[ModelFinding]:
    """Yield a finding for each event that no rule allows, and for contradictory evidence."""
    violations: list[tuple[str, int | None, ExplanationLink]] = [
        ("trace", partition, link)
        for partition, trace in observed.traces.items()
        for link in (*_wrong_cuts(observed, trace), *wrong_elections(observed, trace))
    ]
    violations += [("books", partition, link) for partition, link in contradictions(observed)]
    for kind, partition, link in violations:
        yield ModelFinding(
            kind=kind,
            topic=observed.topic,
            partition=partition,
            offset=None,
            record=None,
            verdict="unexplained",
            because=(link,),
        )


def _wrong_cuts(observed: RunTraces, trace: Trace) -> Iterator[ExplanationLink]:
    if not observed.lacks(Observation.LEADERSHIPS, Observation.REPLICAS):
        yield from wrong_cuts(trace, observed.software)


def _finding(row: Row, chain: Chain) -> ModelFinding:
    rule = UNKNOWN_RULE if chain.open else "none"
    verdict: Word = "unexplained" if chain.why_not else "explained"
    if chain.unobserved:
        rule, verdict = UNOBSERVED, "unknown"
    reason = (ExplanationLink(rule=rule, says=chain.why_not),) if chain.why_not else ()
    return ModelFinding(
        kind=row["kind"],
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        record=row["value"],
        verdict=verdict,
        because=(*chain.links, *reason),
    )


def _merged(findings: Iterable[ModelFinding]) -> list[ModelFinding]:
    """Return one finding for all anomalies that differ only in their record, with their count."""
    by_subject: dict[tuple[object, ...], ModelFinding] = {}
    for finding in findings:
        links = (link for link in finding.because if not link.rule.startswith("acks="))
        events = tuple((link.rule, link.broker, link.time_ns) for link in links)
        reason = finding.because[-1].says if finding.verdict != "explained" else ""
        key = (finding.kind, finding.partition, finding.verdict, events, reason)
        before = by_subject.get(key)
        count = finding.count + (before.count if before else 0)
        by_subject[key] = msgspec.structs.replace(before or finding, count=count)
    return list(by_subject.values())


def _checked(observed: RunTraces) -> dict[str, int]:
    """Return the number of checked events of each kind, without kinds that were not observed."""
    traces = observed.traces.values()
    counts = {
        "elections": sum(len(trace.starts) for trace in traces),
        "decisions": sum(len(trace.leaderships) for trace in traces),
        "cuts": sum(len(trace.of_kind(b, "truncation")) for trace in traces for b in trace.lines),
        "operations": observed.ops.num_rows,
        "records": sum(len(disk.ids) for trace in traces for disk in trace.disks.values()),
    }
    rests = {
        "elections": Observation.LEADERSHIPS,
        "decisions": Observation.LEADERSHIPS,
        "cuts": Observation.BROKER_LOGS,
        "records": Observation.DISKS,
    }
    return {name: n for name, n in counts.items() if n or rests.get(name) not in observed.missing}

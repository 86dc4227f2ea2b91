"""Compares a run with the model: predicted, observed, explained and unexplained events."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from highwater.checkers.explain.explanations import (
    UNKNOWN_RULE,
    UNOBSERVED,
    PartitionExplanations,
    explain,
)
from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.model.protocol.rules_by_release import Rules
from highwater.checkers.model.report_types import (
    Difference,
    ExplanationLink,
    ModelFinding,
    ModelSnapshot,
    PartitionOutcome,
    Reconciliation,
    Status,
)
from highwater.checkers.model.schedules.script_trace import recast
from highwater.harness.base.wording import count
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import UNKNOWN, Verdict

_FENCE: Final = "fence"


def as_random(run: Run, verdict: Verdict) -> Reconciliation:
    """Return the result for a run without a script: a comparison with the release's rules."""
    explained = explain(run)
    return Reconciliation(
        run=run.name,
        kafka=verdict.kafka,
        to=explained.upgraded_to,
        kind="random",
        status=_random_status(explained, verdict),
        reasons=_reasons(explained, verdict),
        observed=explained.observed,
        findings=tuple(explained.findings),
        checked=explained.checked,
    )


def as_scripted(
    run: Run,
    verdict: Verdict,
    expected: PartitionOutcome,
    remedies: Sequence[tuple[str, ...]] = (),
    course: Sequence[ModelSnapshot] = (),
) -> Reconciliation:
    """Return the result for a run whose script the model has also executed.

    Args:
        run: the run.
        verdict: the verdict on the run.
        expected: the predicted outcome; its ``logs`` are in the order of the assignment.
        remedies: sets of the model's switches. With all switches of one set on, the model loses no
            record.
        course: the model's state after each line of the script, with replicas A, B and C.
    """
    explained = explain(run)
    predicted = _cast(expected, explained.trace)
    observed = _with_logs(explained)
    seen = explained.trace is None or not explained.trace.lacks(Observation.DISKS)
    differences = tuple(_differences(predicted, observed)) if seen else ()
    findings = tuple(
        _with_prediction(finding, predicted, remedies) for finding in explained.findings
    )
    absent = tuple(_absent(predicted, observed))
    missed = run.status().problems
    return Reconciliation(
        run=run.name,
        kafka=verdict.kafka,
        kind="scripted",
        status=_scripted_status(explained, verdict, findings, absent, differences, missed),
        reasons=missed or _reasons(explained, verdict),
        predicted=predicted,
        observed=observed,
        findings=findings,
        absent=absent,
        differences=differences,
        course=recast(course, list(predicted.logs)),
        checked=explained.checked,
    )


def _reasons(explanations: PartitionExplanations, verdict: Verdict) -> tuple[str, ...]:
    unread = (explanations.unread,) if explanations.unread else ()
    return unread + _unobserved(explanations) + _undecided(verdict)


def _undecided(verdict: Verdict) -> tuple[str, ...]:
    return tuple(verdict.reasons) if verdict.verdict == UNKNOWN else ()


def _unobserved(explanations: PartitionExplanations) -> tuple[str, ...]:
    """Return one sentence about the findings that lack observations; empty if there are none."""
    findings = [finding for finding in explanations.findings if finding.verdict == "unknown"]
    if not findings or explanations.trace is None:
        return ()
    number = sum(finding.count for finding in findings)
    verb = "is" if number == 1 else "are"
    return (
        f"{count(number, 'finding')} {verb} without a known cause. {findings[0].because[-1].says}",
    )


def _random_status(explanations: PartitionExplanations, verdict: Verdict) -> Status:
    if explanations.unread:
        return "unknown"
    words = {finding.verdict for finding in explanations.findings}
    if "unexplained" in words:
        return "unexplained"
    return "unknown" if verdict.verdict == UNKNOWN or "unknown" in words else "explained"


def _scripted_status(
    explanations: PartitionExplanations,
    verdict: Verdict,
    findings: Iterable[ModelFinding],
    absent: tuple[str, ...],
    differences: tuple[Difference, ...],
    missed: tuple[str, ...],
) -> Status:
    if missed:
        return "not-reproduced"
    if explanations.unread:
        return "unknown"
    words = {finding.verdict for finding in findings}
    if "unexplained" in words:
        return "unexplained"
    if verdict.verdict == UNKNOWN or "unknown" in words:
        return "unknown"
    if absent:
        return "not-reproduced"
    return "unexplained" if differences else "as-predicted"


def _cast(expected: PartitionOutcome, trace: RunTraces | None) -> PartitionOutcome:
    """Return the prediction with broker ids for replicas, in the order of the first ISR."""
    rows = trace.scripted.leaderships if trace else []
    brokers = list(rows[0].isr) if rows else []
    if len(brokers) != len(expected.logs) or brokers[0] != rows[0].leader:
        return expected
    logs = {str(b): log for b, log in zip(brokers, expected.logs.values(), strict=True)}
    return msgspec.structs.replace(expected, logs=logs)


def _with_logs(explanations: PartitionExplanations) -> PartitionOutcome:
    """Return the observed outcome with the replicas' logs, without the fence (the last record)."""
    if explanations.trace is None:
        return explanations.observed
    disks = explanations.trace.scripted.disks
    logs = {
        str(broker): tuple(
            str(record) for record in disk.ids if record and not record.startswith(_FENCE)
        )
        for broker, disk in sorted(disks.items())
    }
    return msgspec.structs.replace(explanations.observed, logs=logs)


def _differences(predicted: PartitionOutcome, observed: PartitionOutcome) -> Iterable[Difference]:
    for broker, log in predicted.logs.items():
        if not broker.isdecimal():
            continue  # the run does not show which broker had the role of this replica
        for offset, (predicted_id, observed_id) in enumerate(
            zip_longest(log, observed.logs.get(broker, ()))
        ):
            if predicted_id != observed_id:
                yield Difference(
                    broker=int(broker), offset=offset, predicted=predicted_id, observed=observed_id
                )


def _absent(predicted: PartitionOutcome, observed: PartitionOutcome) -> Iterable[str]:
    for record in sorted({*predicted.lost} - {*observed.lost}):
        yield f"The model predicted the loss of {record}, but it was not lost."
    for offset in sorted({*predicted.forked} - {*observed.forked}):
        yield (
            f"The model predicted different records at offset {offset}, but the replicas agree "
            f"there."
        )


def _with_prediction(
    finding: ModelFinding, predicted: PartitionOutcome, remedies: Sequence[tuple[str, ...]]
) -> ModelFinding:
    """Return a lost or forked record's finding, with a verdict that depends on the prediction.

    A finding that the model does not predict is unexplained; with missing observations it is
    unknown. If the model predicts a finding without a known cause, the first remedy explains it.
    """
    expected = (finding.kind == "lost-write" and finding.record in predicted.lost) or (
        finding.kind == "divergence" and finding.offset in predicted.forked
    )
    if finding.kind not in {"lost-write", "divergence"}:
        return finding
    if expected and remedies and finding.because[-1].rule in (UNKNOWN_RULE, UNOBSERVED):
        switches = remedies[0]
        descriptions = " ".join(
            Rules.__dataclass_fields__[name].metadata["says"] for name in switches
        )
        because = ExplanationLink(
            rule=switches[0],
            says="The model, which executes the same script, predicts this, too. It does not "
            "happen under"
            f" this rule: {descriptions}",
            event=f"predicted: lost {[*predicted.lost]}, forked {[*predicted.forked]}",
        )
        links = (*finding.because[:-1], because)
        return msgspec.structs.replace(finding, verdict="explained", because=links)
    if expected or finding.because[-1].rule == UNOBSERVED:
        return finding
    link = ExplanationLink(
        rule="none", says="The model, which executes the same script, does not predict this."
    )
    return msgspec.structs.replace(finding, verdict="unexplained", because=(*finding.because, link))

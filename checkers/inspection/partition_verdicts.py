"""The verdict on a partition, with its reasons as sentences."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from highwater.checkers.inspection.partition_comparison import Comparison
from highwater.checkers.inspection.partition_groups import PartitionGroup
from highwater.checkers.inspection.replica_findings import LATE_START, Facts, log_start, state
from highwater.checkers.inspection.report_types import (
    UNTOLD,
    DivergentOffset,
    InspectedPartition,
    InspectedReplica,
    LogFinding,
    Verdict,
)
from highwater.harness.base.wording import joined


def partition(
    group: PartitionGroup,
    sides: Sequence[Facts],
    compared: Comparison,
    records: Sequence[DivergentOffset],
) -> InspectedPartition:
    """Return the verdict on one partition with its reasons.

    Args:
        group: the partition, as the files of its replicas describe it.
        sides: the facts about the partition's replicas.
        compared: the result of comparing these replicas.
        records: the records at the first divergent offsets.
    """
    end = max(side.leo for side in sides)
    start = max(log_start(side) or 0 for side in sides)
    states = tuple(
        state(side, end=end, start=start, twice=side.replica.number in group.twice)
        for side in sides
    )
    findings = (*group.findings, *_alone(states))
    verdict = _verdict(states, findings, compared)
    return InspectedPartition(
        topic=sides[0].replica.topic,
        partition=sides[0].replica.partition,
        verdict=verdict,
        says=" ".join(_sentences(verdict, states, findings, compared, records)),
        replicas=states,
        topic_id=group.topic_id,
        stray=group.stray,
        divergent_offsets=tuple(offset for offset, _ in compared.offsets),
        divergent=compared.divergent,
        below_hw=compared.below_hw,
        shown=tuple(records),
        findings=findings,
    )


def _verdict(
    states: Sequence[InspectedReplica], findings: Sequence[LogFinding], compared: Comparison
) -> Verdict:
    if compared.divergent:
        return "fork"
    everything = [*findings, *(finding for replica in states for finding in replica.findings)]
    wrong = {finding.kind for finding in everything if finding.severity == "error"}
    if wrong - UNTOLD:
        return "corrupt"
    if wrong:
        return "unknown"
    if len(states) == 1:
        return "alone"
    return "lag" if len({replica.leo for replica in states}) > 1 else "agree"


def _alone(states: Sequence[InspectedReplica]) -> Iterable[LogFinding]:
    if len(states) == 1:
        says = "Only one replica was given, so no comparison was possible."
        yield LogFinding("alone", "note", says)


def _sentences(
    verdict: Verdict,
    states: Sequence[InspectedReplica],
    findings: Sequence[LogFinding],
    compared: Comparison,
    records: Sequence[DivergentOffset],
) -> Iterable[str]:
    if verdict == "fork":
        yield from _fork(states, compared, records)
    elif verdict in ("corrupt", "unknown"):
        yield from _wrong(verdict, states, findings)
    else:
        yield _lag(states) if verdict == "lag" else _agree(states)
        yield from _doubt(states)


def _wrong(
    verdict: Verdict, states: Sequence[InspectedReplica], findings: Sequence[LogFinding]
) -> Iterable[str]:
    """Yield the main reason for a verdict, and a sentence if the other replicas agree."""
    reasons = [(f"Broker {side.broker}: ", reason) for side in states for reason in side.findings]
    reasons = [*(("", reason) for reason in findings), *reasons]
    kinds = [
        (who, finding)
        for who, finding in reasons
        if finding.severity == "error" and (verdict == "unknown") == (finding.kind in UNTOLD)
    ]
    who, finding = kinds[0]
    yield f"{who}{finding.says}"
    once = [
        side for side in states if all(reason.kind != "same-replica" for reason in side.findings)
    ]
    if sum(replica.records > 0 for replica in once) > 1 and finding.kind not in (
        "another-log",
        "no-broker",
    ):
        others = "the others" if len(once) < len(states) else "what can be read"
        yield f"In {others}, replicas hold the same record at every offset that they share."


def _fork(
    states: Sequence[InspectedReplica], compared: Comparison, records: Sequence[DivergentOffset]
) -> Iterable[str]:
    number, first = compared.divergent, compared.offsets[0][0]
    offsets = f"offset {first}" if number == 1 else f"{number:,} offsets, the first {first}"
    yield f"Replicas have different records at {offsets}."
    if records:
        epochs = [f"broker {copy.broker} {_in(copy.epoch)}" for copy in records[0].copies]
        if any(copy.epoch is not None for copy in records[0].copies):
            yield f"At that offset the records are: {joined(epochs)}."
    if compared.below_hw:
        lies = _lies(compared.below_hw, number)
        yield (
            f"{lies} below the HW of every replica that has a record at it, so no replica "
            "will "
            "truncate its record."
        )
    above = number - compared.below_hw
    if above and all(replica.hw is None for replica in states):
        yield "For at least one replica, no checkpoint file has the HW."
    elif above:
        replicas = [replica for replica in states if replica.hw is not None]
        lowest = min(replicas, key=lambda replica: replica.hw or 0)
        yield (
            f"{_lies(above, number)} above the last checkpointed HW of some replica "
            f"(broker {lowest.broker} has the lowest, {lowest.hw}). That replica may "
            "still truncate these records."
        )


def _lies(count: int, number: int) -> str:
    if number == 1:
        return "This offset lies"
    return (
        "All of these offsets lie"
        if count == number
        else (f"{count:,} of these offsets lie{'s' * (count == 1)}")
    )


def _in(epoch: int | None) -> str:
    return "without an epoch" if epoch is None else f"in epoch {epoch}"


def _lag(states: Sequence[InspectedReplica]) -> str:
    end = max(replica.leo for replica in states)
    behind = [
        f"broker {replica.broker} ends at {replica.leo}, {end - replica.leo:,} behind"
        for replica in states
        if replica.leo < end
    ]
    shared = any(max(a.start, b.start) < min(a.leo, b.leo) for a, b in combinations(states, 2))
    says = (
        "At shared offsets the replicas have the same records."
        if shared
        else "No two of these replicas have a common offset."
    )
    return f"The longest log ends at {end}; {joined(behind)}. {says}"


def _agree(states: Sequence[InspectedReplica]) -> str:
    end = states[0].leo
    if len(states) == 1:
        return f"The only replica is valid; its LEO is {end}."
    starts = {replica.start for replica in states}
    says = f"All {len(states)} replicas have the same records, up to LEO {end}."
    if len(starts) > 1:
        says += " Their logs begin at different offsets, because of retention or compaction."
    return says


def _doubt(states: Sequence[InspectedReplica]) -> Iterable[str]:
    late = [
        str(replica.broker)
        for replica in states
        if any(finding.kind == LATE_START for finding in replica.findings)
    ]
    if late:
        logs = f"log of broker {late[0]}" if len(late) == 1 else f"logs of brokers {joined(late)}"
        yield f"No file shows whether retention or an incomplete copy shortened the {logs}."

"""The verdict on a partition, with its reasons as sentences."""

from collections.abc import Iterable, Sequence
from typing import Final

from highwater.checkers.inspection.partition_comparison import Comparison
from highwater.checkers.inspection.replica_findings import Facts, state
from highwater.checkers.inspection.report_types import (
    DivergentOffset,
    InspectedPartition,
    InspectedReplica,
    LogFinding,
    Verdict,
)

_UNTOLD: Final = frozenset({"unreadable", "zeros"})
"""Kinds of errors that make the content of a log unknown; they are no fault of a replica."""


def partition(
    sides: Sequence[Facts], compared: Comparison, records: Sequence[DivergentOffset]
) -> InspectedPartition:
    """Return the verdict on one partition with its reasons.

    Args:
        sides: its replicas.
        compared: the result of comparing them.
        records: the records at the first divergent offsets.
    """
    end = max(side.leo for side in sides)
    states = tuple(state(side, lacking=(side.replica.hw or 0) > end) for side in sides)
    verdict = _verdict(states, compared)
    return InspectedPartition(
        topic=sides[0].replica.topic,
        partition=sides[0].replica.partition,
        verdict=verdict,
        says=" ".join(_sentences(verdict, states, compared, records)),
        replicas=states,
        divergent_offsets=tuple(offset for offset, _ in compared.offsets),
        divergent=compared.divergent,
        below_hw=compared.below_hw,
        shown=tuple(records),
        findings=tuple(_findings(sides)),
    )


def _verdict(states: Sequence[InspectedReplica], compared: Comparison) -> Verdict:
    if compared.divergent:
        return "fork"
    wrong = {
        finding.kind
        for replica in states
        for finding in replica.findings
        if finding.severity == "error"
    }
    if wrong - _UNTOLD:
        return "corrupt"
    if wrong:
        return "unknown"
    return "lag" if len({replica.leo for replica in states}) > 1 else "agree"


def _findings(sides: Sequence[Facts]) -> Iterable[LogFinding]:
    if len(sides) == 1:
        says = "Only one replica was given: there was nothing to hold it against."
        yield LogFinding("alone", "note", says)
    ids = {side.replica.topic_id for side in sides} - {None}
    if len(ids) > 1:
        says = "Its replicas bear different topic ids: of a topic that was deleted and made anew?"
        yield LogFinding("topic-id", "warning", says)


def _sentences(
    verdict: Verdict,
    states: Sequence[InspectedReplica],
    compared: Comparison,
    records: Sequence[DivergentOffset],
) -> Iterable[str]:
    if verdict == "fork":
        yield from _fork(states, compared, records)
    elif verdict in ("corrupt", "unknown"):
        holder, finding = next(
            (replica, finding)
            for replica in states
            for finding in replica.findings
            if finding.severity == "error" and (verdict == "unknown") == (finding.kind in _UNTOLD)
        )
        yield f"Broker {holder.broker}: {finding.says}"
        if sum(replica.records > 0 for replica in states) > 1:
            yield "Of what can be read, replicas hold the same record at every offset they share."
    elif verdict == "lag":
        yield _lag(states)
    else:
        yield _agree(states)


def _fork(
    states: Sequence[InspectedReplica], compared: Comparison, records: Sequence[DivergentOffset]
) -> Iterable[str]:
    number, first = compared.divergent, compared.offsets[0][0]
    offsets = f"offset {first}" if number == 1 else f"{number:,} offsets, the first {first}"
    yield f"Replicas hold different records at {offsets}."
    if records:
        epochs = [f"broker {copy.broker} {_in(copy.epoch)}" for copy in records[0].copies]
        if any(copy.epoch is not None for copy in records[0].copies):
            yield f"There stands a record of {_joined(epochs)}."
    if compared.below_hw:
        lies = _lies(compared.below_hw, number)
        yield f"{lies} below the HW of every replica that holds it: no replica will cut it off."
    above = number - compared.below_hw
    if above and all(replica.hw is None for replica in states):
        yield "No checkpoint says how far each replica's HW had come."
    elif above:
        replicas = [replica for replica in states if replica.hw is not None]
        lowest = min(replicas, key=lambda replica: replica.hw or 0)
        yield (
            f"{_lies(above, number)} above the HW that some replica had last written down (the"
            f" lowest is {lowest.hw}, of broker {lowest.broker}): it may yet cut off what it holds"
            " there."
        )


def _lies(count: int, number: int) -> str:
    if number == 1:
        return "It lies"
    return "All of them lie" if count == number else f"{count:,} of them lie{'s' * (count == 1)}"


def _in(epoch: int | None) -> str:
    return "without an epoch" if epoch is None else f"in epoch {epoch}"


def _lag(states: Sequence[InspectedReplica]) -> str:
    end = max(replica.leo for replica in states)
    behind = [
        f"broker {replica.broker} ends at {replica.leo}, {end - replica.leo:,} behind"
        for replica in states
        if replica.leo < end
    ]
    return f"The longest log ends at {end}; {_joined(behind)}. Up to there they hold the same."


def _agree(states: Sequence[InspectedReplica]) -> str:
    end = states[0].leo
    if len(states) == 1:
        return f"The only replica is sound; its log ends at {end}."
    starts = {replica.start for replica in states}
    says = f"All {len(states)} replicas hold the same records and end at {end}."
    if len(starts) > 1:
        says += " Their logs begin at different offsets, as retention and compaction leave them."
    return says


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

"""From log directories to what ``highwater inspect`` says of every partition in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from highwater.checkers.inspection.compare import Comparison, Extent, compare
from highwater.checkers.inspection.divergent_records import shown
from highwater.checkers.inspection.log_dirs import LogDir, log_dirs
from highwater.checkers.inspection.log_tables import LogTables
from highwater.checkers.inspection.partition_verdicts import partition
from highwater.checkers.inspection.producers import repeated, transactions
from highwater.checkers.inspection.replica_files import ReplicaFolder, replicas
from highwater.checkers.inspection.replica_findings import Facts
from highwater.checkers.inspection.report_types import InspectedPartition, Inspection, worst
from highwater.checkers.spark.engine import Engine
from highwater.harness.base.errors import UsageError

EVERYTHING: Final = (1 << 63) - 1


def inspect(given: Sequence[Path], spark: SparkSession, *, internal: bool = False) -> Inspection:
    """Hold the replicas in some folders against one another. Nothing is written into them.

    Args:
        given: log directories of brokers, or folders that hold them, see ``places.log_dirs``.
        spark: from ``checkers.spark.session.spark``.
        internal: whether Kafka's own topics are looked at as well.

    Raises:
        UsageError: a folder is missing, cannot be read, or holds no log.
    """
    dirs = log_dirs(given)
    found = replicas(dirs, internal=internal)
    if not any(one.segments or one.findings for one in found):
        hint = "Topics whose names begin with __ are Kafka's own: --internal looks at these, too."
        raise UsageError(
            f"there is no segment of a topic in {', '.join(map(str, given))}", hint=hint
        )
    with Engine(spark) as engine:
        states = _inspect(LogTables(engine, found))
    return Inspection(
        verdict=worst([each.verdict for each in states]),
        partitions=tuple(states),
        notes=tuple(_notes(dirs, found)),
    )


def _inspect(evidence: LogTables) -> list[InspectedPartition]:
    facts = {
        one.number: Facts(
            replica=one,
            spans=evidence.spans.get(one.number, ()),
            damage=evidence.damage.get(one.number, ()),
        )
        for one in evidence.replicas
    }
    if any(one.sum("sequences") for one in facts.values()):
        for number, rows in repeated(evidence).items():
            facts[number].repeated = rows
    if any(one.sum("transactional") for one in facts.values()):
        for number, rows in transactions(evidence).items():
            facts[number].transactions = rows
    parts: dict[int, list[Facts]] = {}
    for number, part in evidence.part_of.items():
        parts.setdefault(part, []).append(facts[number])
    compared = compare(evidence, _extents(parts))
    for comparison in compared.values():
        for number, hole in comparison.holes.items():
            facts[number].hole = hole
        for number, odd in comparison.epochs.items():
            facts[number].odd_epochs = odd
    records = shown(evidence, compared)
    return [
        partition(sides, compared.get(part, Comparison()), records.get(part, ()))
        for part, sides in sorted(parts.items())
    ]


def _extents(parts: Mapping[int, Sequence[Facts]]) -> dict[int, Extent]:
    found = {}
    for sides in parts.values():
        gaps_till = _gaps_till(sides)
        for one in sides:
            if one.sum("records"):
                found[one.replica.number] = Extent(
                    first=one.first,
                    leo=one.leo,
                    hw=one.replica.hw,
                    epochs_told=one.epochs_told,
                    gaps_till=gaps_till,
                )
    return found


def _gaps_till(sides: Sequence[Facts]) -> int:
    """Up to where compaction may have been at work on any replica: what it left is replicated."""
    if any(one.sum("emptied") for one in sides):
        return EVERYTHING
    return max((one.replica.cleaned or 0 for one in sides), default=0)


def _notes(dirs: Sequence[LogDir], found: Sequence[ReplicaFolder]) -> list[str]:
    """What to know of the folders: those without a replica, and a partition twice on a broker."""
    used = {one.log_dir.path for one in found}
    notes = [
        f"{one.name} (broker {one.broker}) holds no replica of a topic that is looked at."
        for one in dirs
        if one.path not in used
    ]
    seen: dict[tuple[str, int, int], ReplicaFolder] = {}
    for one in found:
        before = seen.setdefault((one.topic, one.partition, one.broker), one)
        if before is not one:
            notes.append(
                f"{one.topic}-{one.partition} of broker {one.broker} lies in {before.log_dir.name}"
                f" and in {one.log_dir.name}: they are compared as two replicas."
            )
    return notes

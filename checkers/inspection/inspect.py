"""From log directories to the result of ``highwater inspect`` for every partition in them."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from highwater.checkers.inspection.divergent_records import divergent_records
from highwater.checkers.inspection.log_dirs import LogDir, log_dirs
from highwater.checkers.inspection.log_tables import LogTables
from highwater.checkers.inspection.partition_comparison import Comparison, comparisons
from highwater.checkers.inspection.partition_verdicts import partition
from highwater.checkers.inspection.producers import repeated, transactions
from highwater.checkers.inspection.replica_files import ReplicaFolder, replicas
from highwater.checkers.inspection.replica_findings import Facts
from highwater.checkers.inspection.report_types import InspectedPartition, Inspection, worst
from highwater.checkers.spark.engine import Engine
from highwater.harness.base.errors import UsageError


def inspect(given: Sequence[Path], spark: SparkSession, *, internal: bool = False) -> Inspection:
    """Compare the replicas in some folders. Nothing is written into them.

    Args:
        given: log directories of brokers, or folders that hold them, see ``places.log_dirs``.
        spark: from ``checkers.spark.session.spark``.
        internal: whether Kafka's own topics are compared as well.

    Raises:
        UsageError: a folder is missing, cannot be read, or holds no log.
    """
    dirs = log_dirs(given)
    replica_list = replicas(dirs, internal=internal)
    if not any(folder.segments or folder.findings for folder in replica_list):
        hint = "Topics whose names begin with __ are Kafka's own: --internal looks at these, too."
        raise UsageError(
            f"there is no segment of a topic in {', '.join(map(str, given))}", hint=hint
        )
    with Engine(spark) as engine:
        states = _inspect(LogTables(engine, replica_list))
    return Inspection(
        verdict=worst([state.verdict for state in states]),
        partitions=tuple(states),
        notes=tuple(_notes(dirs, replica_list)),
    )


def _inspect(evidence: LogTables) -> list[InspectedPartition]:
    facts = {
        replica.number: Facts(
            replica=replica,
            spans=evidence.spans.get(replica.number, ()),
            damage=evidence.damage.get(replica.number, ()),
        )
        for replica in evidence.replicas
    }
    if any(fact.sum("sequences") for fact in facts.values()):
        for number, rows in repeated(evidence).items():
            facts[number].repeated = rows
    if any(fact.sum("transactional") for fact in facts.values()):
        for number, rows in transactions(evidence).items():
            facts[number].transactions = rows
    parts: dict[int, list[Facts]] = {}
    for number, part in evidence.part_of.items():
        parts.setdefault(part, []).append(facts[number])
    compared = comparisons(evidence, parts)
    for comparison in compared.values():
        for number, hole in comparison.holes.items():
            facts[number].hole = hole
        for number, odd in comparison.epochs.items():
            facts[number].odd_epochs = odd
    records = divergent_records(evidence, compared)
    return [
        partition(sides, compared.get(part, Comparison()), records.get(part, ()))
        for part, sides in sorted(parts.items())
    ]


def _notes(dirs: Sequence[LogDir], folders: Sequence[ReplicaFolder]) -> list[str]:
    """Return notes about the folders: without a replica, or a partition twice on a broker."""
    used = {folder.log_dir.path for folder in folders}
    notes = [
        f"{log_dir.name} (broker {log_dir.broker}) holds no replica of a topic that is looked at."
        for log_dir in dirs
        if log_dir.path not in used
    ]
    seen: dict[tuple[str, int, int], ReplicaFolder] = {}
    for path in folders:
        before = seen.setdefault((path.topic, path.partition, path.broker), path)
        if before is not path:
            notes.append(
                f"{path.topic}-{path.partition} of broker {path.broker} lies in"
                f" {before.log_dir.name} and in {path.log_dir.name}: they are compared as two"
                " replicas."
            )
    return notes

"""Inspect log directories: the result of ``highwater inspect`` for every partition in them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from highwater.checkers.inspection.divergent_records import divergent_records
from highwater.checkers.inspection.log_dirs import LogDir, log_dirs
from highwater.checkers.inspection.log_tables import LogTables
from highwater.checkers.inspection.partition_comparison import (
    Comparison,
    comparisons,
    gaps_till,
    joined,
)
from highwater.checkers.inspection.partition_groups import PartitionGroup, groups, notes
from highwater.checkers.inspection.partition_verdicts import partition
from highwater.checkers.inspection.producers import repeated, transactions
from highwater.checkers.inspection.replica_files import (
    ReplicaFolder,
    internal_partitions,
    replicas,
    set_aside,
)
from highwater.checkers.inspection.replica_findings import Facts
from highwater.checkers.inspection.report_types import InspectedPartition, Inspection, worst
from highwater.checkers.inspection.unrelated_logs import placed, unrelated
from highwater.checkers.spark.engine import Engine
from highwater.harness.base.errors import UsageError
from highwater.harness.base.wording import count

_INCOMPLETE: Final = (
    "Files are missing in these directories, or were copied at different times. "
    "Possible "
    "causes are a "
    ".gitignore, "
    "an rsync "
    "filter, or a "
    "broker that "
    "ran during "
    "the copy."
)
_NAMED_MAX: Final = 3


def inspect(
    given: Sequence[Path], spark: SparkSession, *, internal: bool = False, related: bool = False
) -> Inspection:
    """Compare the replicas in the given folders, without writing into these folders.

    Args:
        given: log directories of brokers, or directories that contain log directories.
        spark: the session from ``checkers.spark.session.spark``.
        internal: whether Kafka's internal topics are also compared.
        related: true if logs with the same name are certainly replicas of one log, as in a run's
            directory.

    Raises:
        UsageError: a directory is missing, cannot be read, or contains no log.
    """
    dirs = log_dirs(given)
    replica_list = replicas(dirs, internal=internal)
    if not any(folder.segments or folder.findings for folder in replica_list):
        hint = "Write --internal to also compare Kafka's internal topics (__*)."
        raise UsageError(f"no topic has a segment in {', '.join(map(str, given))}", hint=hint)
    partition_groups = groups(replica_list)
    with Engine(spark) as engine:
        states = _inspect(engine, replica_list, partition_groups, related=related)
    return Inspection(
        verdict=worst(states),
        partitions=tuple(states),
        notes=(
            *notes(partition_groups),
            *([_INCOMPLETE] if any(state.incomplete for state in states) else []),
            *_left_out(dirs, replica_list, internal=internal),
        ),
    )


def _inspect(
    engine: Engine,
    replica_list: Sequence[ReplicaFolder],
    partition_groups: Sequence[PartitionGroup],
    *,
    related: bool,
) -> list[InspectedPartition]:
    evidence = LogTables(engine, replica_list, _parts(partition_groups))
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
    evidence, compared = _compare(evidence, facts, partition_groups, related=related)
    for comparison in compared.values():
        for name in ("hole", "between", "uncleaned", "odd_epochs"):
            for number, value in getattr(comparison, name).items():
                setattr(facts[number], name, value)
    records = divergent_records(evidence, compared)
    states = []
    for group in partition_groups:
        of_group = sorted({evidence.part_of[replica.number] for replica in group.replicas})
        states.append(
            partition(
                group,
                [facts[replica.number] for replica in group.replicas],
                joined([compared[part] for part in of_group if part in compared]),
                [record for part in of_group for record in records.get(part, ())],
            )
        )
    return states


def _parts(partition_groups: Sequence[PartitionGroup]) -> dict[int, int]:
    """Return a number for each replica; the replicas of one partition share a number."""
    part_of = {}
    alone = itertools.count(len(partition_groups))
    for part, group in enumerate(partition_groups):
        for replica in group.replicas:
            twice = replica.number in group.twice
            part_of[replica.number] = next(alone) if twice else part
    return part_of


def _sides(evidence: LogTables, facts: Mapping[int, Facts]) -> dict[int, list[Facts]]:
    """Return the facts about the replicas of each partition, and set their ``gaps_till``."""
    parts: dict[int, list[Facts]] = {}
    for number, part in evidence.part_of.items():
        parts.setdefault(part, []).append(facts[number])
    for sides in parts.values():
        till = gaps_till(sides)
        for side in sides:
            side.gaps_till = till
    return parts


def _compare(
    evidence: LogTables,
    facts: Mapping[int, Facts],
    partition_groups: Sequence[PartitionGroup],
    *,
    related: bool,
) -> tuple[LogTables, dict[int, Comparison]]:
    """Compare the replicas of every partition. Unrelated logs become separate groups."""
    parts = _sides(evidence, facts)
    compared = comparisons(evidence, parts)
    strangers = {}
    if not related:
        strangers = unrelated(evidence, parts, compared) | placed(parts, compared)
    if not strangers:
        return evidence, compared
    part_of = dict(evidence.part_of)
    last = max(parts)
    free = itertools.count(last + 1)
    for part, (sets, doubt) in strangers.items():
        partition_groups[part].findings.append(doubt)
        del compared[part]
        for sides in sets:
            part_of |= dict.fromkeys((side.replica.number for side in sides), next(free))
    evidence = evidence.regrouped(part_of)
    parts = {part: sides for part, sides in _sides(evidence, facts).items() if part > last}
    return evidence, compared | comparisons(evidence, parts)


def _left_out(
    dirs: Sequence[LogDir], folders: Sequence[ReplicaFolder], *, internal: bool
) -> Iterator[str]:
    """Yield sentences about the directories and replicas that were not compared."""
    used = {folder.log_dir.path for folder in folders}
    for log_dir in dirs:
        if log_dir.path not in used:
            yield (
                f"{log_dir.name} (broker {log_dir.broker}) contains no replica of the compared"
                " topics."
            )
    if not internal and (names := internal_partitions(dirs)):
        topics = sorted({name.rpartition("-")[0] for name in names})
        yield (
            "Kafka's internal topics were not compared, "
            f"{count(len(names), 'partition')} of "
            f"{', '.join(topics)}. Write --internal "
            "to compare them."
        )
    if moved := set_aside(dirs):
        named = ", ".join(moved[:_NAMED_MAX])
        more = f" and {len(moved) - _NAMED_MAX} more" if len(moved) > _NAMED_MAX else ""
        yield (
            "Replicas that brokers had deleted, moved or renamed as stray were not "
            f"compared: {named}{more}."
        )

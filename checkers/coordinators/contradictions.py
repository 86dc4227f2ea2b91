"""``coordinator-contradiction``: a coordinator's responses, its log and other logs disagree.

Coordinators write to ``__consumer_offsets``, ``__transaction_state`` and ``__share_group_state``.
The modules ``offsets``, ``transactions`` and ``shares`` state what each log must contain. These
cases are not judged:

- an external cluster, because its topics may have more partitions;
- a response, if the log's end at the time of the request is unknown;
- a response, if no replica is complete up to that end: from offset 0, without compacted offsets;
- a response, if one complete replica agrees with it. (Another checker compares the replicas.)
- a log whose most up-to-date replica is incomplete;
- differences between logs, if a fault or an unclean election may have removed records.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.coordinator_logs import coordinator_copies, newest
from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer, Row, whole
from highwater.checkers.coordinators.groups import wrong_groups
from highwater.checkers.coordinators.offsets import Commits, offset_answers, wrong_offsets
from highwater.checkers.coordinators.shares import TOPIC as SHARES
from highwater.checkers.coordinators.shares import wrong_shares
from highwater.checkers.coordinators.transactions import (
    Marker,
    PartitionFacts,
    wrong_transactions,
)
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.groups.events import GroupFinding, in_words, row_of
from highwater.checkers.groups.offsets_topic import TOPIC as OFFSETS
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.transactions.coordinated import TOPIC as TRANSACTIONS
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.group_protocols import CONSUMER_SINCE
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.history import ANSWERS_TABLE, GROUPS_TABLE, OK, SEND

_FAULTS: Final = "events/faults"
_PRODUCER: Final = ("run", "producer_id", "producer_epoch")


def _unanswered(_tables: Tables, case: RunFiles) -> str:
    workload = case.plan.workload
    has_log = case.plan.external is None and (workload.transactions or workload.members)
    if case.lacks(GROUPS_TABLE) or has_log or _offsets(case):
        return ""
    return f"no coordinator's response was recorded together with the end of {OFFSETS}"


@checker(
    Kind(
        COORDINATOR_CONTRADICTION,
        guarantee="A coordinator's responses agree with its log, and this log agrees with the "
        "transactions and acknowledgements that clients and partitions show.",
        singular="contradiction between a coordinator's responses, its log, and the clients or "
        "partitions",
        plural="contradictions between coordinators' responses, their logs, and the clients or "
        "partitions",
        severity=Severity.CRITICAL,
        promise="durability: a coordinator's state is the state in its log (KIP-98, KIP-848, "
        "KIP-932)",
        breaks=always,
        says=in_words,
    ),
    idle=_unanswered,
)
def coordinator_contradiction(tables: Tables) -> pa.Table:
    """Return contradictions between a coordinator's responses, its log, and other logs."""
    cases = [case for case in tables.cases if case.plan.external is None]
    facts = _partition_facts(tables, [case for case in cases if _keeps_disks(case)])
    rows = [
        row_of(case, finding) for case in cases for finding in _of_run(case, facts.get(case.key))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_run(case: RunFiles, facts: PartitionFacts | None) -> Iterator[GroupFinding]:
    """Yield the contradictions of one run, whose coordinators' topics have one partition each."""
    topic, workload = case.plan.topic.name, case.plan.workload
    if offsets := _offsets(case):
        yield from wrong_offsets(offsets, _replicas(case, OFFSETS), topic, _acknowledged(case))
    if workload.members and (logs := _replicas(case, OFFSETS)):
        groups = {row["group"] for row in case.rows(GROUPS_TABLE)}
        yield from (finding for finding in wrong_groups(_whole(logs)) if finding.group in groups)
    if workload.transactions and (logs := _replicas(case, TRANSACTIONS)):
        answers = _answers(case, TRANSACTIONS)
        yield from wrong_transactions(answers, logs, _whole(logs), topic, facts)
    if workload.share and (logs := _replicas(case, SHARES)):
        members = case.rows(GROUPS_TABLE) if _whole(logs) else []
        yield from wrong_shares(
            _answers(case, SHARES), logs, _whole(logs), members, undamaged=_keeps_disks(case)
        )


def _replicas(case: RunFiles, topic: str) -> list[list[Row]]:
    copies = coordinator_copies(case, topic) or {}
    return copies[0] if [*copies] == [0] else []


def _whole(logs: list[list[Row]]) -> Sequence[Row]:
    """Return the most up-to-date replica; an empty log if this replica is incomplete."""
    log = newest(logs)
    return log if whole(log) else []


def _offsets(case: RunFiles) -> list[CoordinatorAnswer]:
    return [] if case.plan.external else offset_answers(case.rows(GROUPS_TABLE))


def _acknowledged(case: RunFiles) -> Commits | None:
    if release(case.plan.kafka).number >= CONSUMER_SINCE:
        return None
    rows = (row for row in case.rows(GROUPS_TABLE) if row["event"] == "commit")
    return {(row["group"], row["partition"], row["offset"]) for row in rows if row["outcome"] == OK}


def _answers(case: RunFiles, topic: str) -> list[CoordinatorAnswer]:
    return [
        CoordinatorAnswer(
            (row["name"], row["partition"]),
            row["offset"]
            if topic == SHARES
            else row["state"] and (row["state"], row["producer_id"], row["epoch"]),
            row["end"],
        )
        for row in case.rows(ANSWERS_TABLE)
        if row["topic"] == topic
    ]


def _keeps_disks(case: RunFiles) -> bool:
    """Return whether no fault or unclean election of a run may have removed records from a log."""
    return (
        _FAULTS in case.tables
        and not case.plan.topic.unclean_leader_election
        and not any(
            facts_of(row["fault"]).empties or row.get("removed") for row in case.rows(_FAULTS)
        )
    )


def _partition_facts(tables: Tables, cases: Sequence[RunFiles]) -> dict[str, PartitionFacts]:
    """Return facts from partitions' logs, for each run with transactions and all replicas' disks.

    Runs with compacted topics are excluded, because compaction removes markers.
    """
    runs = [
        case.key
        for case in cases
        if case.plan.workload.transactions
        and any(case.run.coordinators.glob(f"*/{TRANSACTIONS}-0/"))
        and not case.compacted
        and len(case.replicas) >= case.plan.topic.partitions * case.plan.topic.replication_factor
    ]
    if not runs:
        return {}
    ends = log_ends(tables)
    cut = {(end.run, end.partition) for end in ends if end.damaged or end.first != 0}
    most: dict[str, dict[Marker, int]] = defaultdict(dict)
    everywhere: dict[str, set[Marker]] = defaultdict(set)
    replicas = {case.key: case.plan.topic.replication_factor for case in cases}
    for row in _markers(tables, runs):
        run, marker = row["run"], Marker(*(row[name] for name in _MARKER))
        most[run][marker] = row["most"]
        if row["copies"] >= replicas[run] and (run, marker.partition) not in cut:
            everywhere[run].add(marker)
    acknowledged: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for row in _commits(tables, runs):
        acknowledged[row["run"]][row["producer_id"], row["producer_epoch"]] = row["count"]
    return {
        run: PartitionFacts(
            most=most[run],
            everywhere=frozenset(everywhere[run]),
            whole=frozenset(
                end.partition for end in ends if end.run == run and (run, end.partition) not in cut
            ),
            acknowledged=acknowledged[run],
        )
        for run in runs
    }


_MARKER: Final = ("partition", "producer_id", "producer_epoch", "control_type")


def _markers(tables: Tables, runs: list[str]) -> list[Row]:
    """Return, for each marker, how many replicas have it, and its greatest count in a replica."""
    rows: list[Row] = (
        tables.log.where(F.col("run").isin(runs) & F.col("control") & F.col("offset").isNotNull())
        .groupBy("run", *_MARKER, "broker")
        .count()
        .groupBy("run", *_MARKER)
        .agg(F.max("count").alias("most"), F.count("*").alias("copies"))
        .toArrow()
        .to_pylist()
    )
    return rows


def _commits(tables: Tables, runs: list[str]) -> list[Row]:
    """Return the number of acknowledged commits for each producer id and epoch.

    A transaction was committed if its sends were acknowledged. The producer id comes from the
    record in the partition's log.
    """
    sends = tables.operations.where(
        F.col("run").isin(runs)
        & (F.col("kind") == SEND)
        & (F.col("outcome") == OK)
        & F.col("op").isNotNull()
        & F.col("offset").isNotNull()
    )
    first = F.min(F.struct("partition", "offset")).alias("first")
    transactions = sends.groupBy("run", "process", "op").agg(first)
    log = tables.log.where(F.col("transactional") & ~F.col("control"))
    rows: list[Row] = (
        transactions.select("run", "process", "op", "first.*")
        .join(log, ["run", "partition", "offset"])
        .select("process", "op", *_PRODUCER)
        .distinct()
        .groupBy(*_PRODUCER)
        .count()
        .toArrow()
        .to_pylist()
    )
    return rows

"""Find logs that have the same name but no record in common, perhaps of two topics.

Releases before 2.8 write no topic id, and ``__cluster_metadata`` has the same id in every cluster.
Two replicas of one log begin with the same records, unless retention removed all shared records. So
two logs that differ at every shared offset either belong to two topics with one name, or diverged
before their first shared offset.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.inspection.log_tables import LogTables, Row
from highwater.checkers.inspection.partition_comparison import Comparison
from highwater.checkers.inspection.partition_groups import METADATA_TOPIC_ID
from highwater.checkers.inspection.replica_findings import Facts
from highwater.checkers.inspection.report_types import LogFinding
from highwater.harness.base.wording import count as counted
from highwater.harness.releases.famous_cluster_ids import FAMOUS_CLUSTER_IDS


def unrelated(
    evidence: LogTables, parts: Mapping[int, Sequence[Facts]], compared: Mapping[int, Comparison]
) -> dict[int, tuple[list[list[Facts]], LogFinding]]:
    """Return, by partition, sets of replicas without a common record, and a finding.

    The search covers only partitions with divergent offsets. It skips pairs of replicas that have
    the same topic id.
    """
    pairs = [
        {"part": part, "one": first.replica.number, "other": second.replica.number}
        for part, comparison in compared.items()
        if comparison.divergent
        for first, second in combinations(parts[part], 2)
        if not _of_one_topic(first, second)
    ]
    if not pairs:
        return {}
    strangers: dict[int, list[Row]] = {}
    for row in _without_common_record(evidence, pairs):
        strangers.setdefault(row["part"], []).append(row)
    strangers_of = {}
    for part, rows in strangers.items():
        sets = _sets(parts[part], rows)
        if len(sets) > 1:
            strangers_of[part] = sets, _doubt(sets, min(rows, key=lambda row: -row["shared"]))
    return strangers_of


def placed(
    parts: Mapping[int, Sequence[Facts]], compared: Mapping[int, Comparison]
) -> dict[int, tuple[list[list[Facts]], LogFinding]]:
    """Return, for divergent partitions, each replica of an unknown broker as its own set.

    Such a replica may be an older copy of another replica. A broker may truncate its log between
    two copies, so they may differ although Kafka made no error.
    """
    strangers_of = {}
    for part, comparison in compared.items():
        of_unknown = [side for side in parts[part] if side.replica.log_dir.placed]
        if comparison.divergent and of_unknown:
            rest = [side for side in parts[part] if not side.replica.log_dir.placed]
            names = " and ".join(side.replica.log_dir.name for side in of_unknown)
            says = (
                "Replicas have different records at "
                f"{counted(comparison.divergent, 'offset')}, the first "
                f"{comparison.offsets[0][0]}, and no meta.properties file has the broker "
                f"id "
                f"of "
                f"{names}. An older copy of a replica may differ from a newer "
                "copy, so directories of unknown brokers are not compared."
            )
            sets = [*filter(None, [rest]), *([side] for side in of_unknown)]
            strangers_of[part] = sets, LogFinding("no-broker", "error", says, None)
    return strangers_of


def _of_one_topic(first: Facts, second: Facts) -> bool:
    topic_id = first.replica.topic_id
    return topic_id not in (None, METADATA_TOPIC_ID) and topic_id == second.replica.topic_id


def _without_common_record(evidence: LogTables, pairs: list[Row]) -> list[Row]:
    """Return the pairs of replicas that differ at every shared offset, with the first offset.

    Records that differ only in their timestamps were written separately, so they are different. A
    record whose format has no timestamp may equal a record with any timestamp.
    """
    numbers = [(name, pa.int32()) for name in ("part", "one", "other")]
    pair_rows = F.broadcast(evidence.local(pairs, numbers))
    records = evidence.records.where(F.col("offset").isNotNull()).join(
        F.broadcast(pair_rows.select("part").distinct()), "part", "left_semi"
    )
    columns = ("print", "timestamp_ms", "leader_epoch")
    sides = [
        records.select(
            *("part", "offset", F.col("replica").alias(side)),
            *(F.col(name).alias(f"{side}_{name}") for name in columns),
        )
        for side in ("one", "other")
    ]
    same_time = F.coalesce(F.col("one_timestamp_ms") == F.col("other_timestamp_ms"), F.lit(True))
    same = (F.col("one_print") == F.col("other_print")) & same_time
    first_shared = F.struct(
        "offset", *(f"{side}_{name}" for side in ("one", "other") for name in columns[1:])
    )
    rows = (
        sides[0]
        .join(sides[1], ["part", "offset"])
        .join(pair_rows, ["part", "one", "other"])
        .groupBy("part", "one", "other")
        .agg(
            F.count("*").alias("shared"),
            F.count(F.when(same, 1)).alias("same"),
            F.min_by(first_shared, "offset").alias("first"),
        )
        .where(F.col("same") == 0)
    )
    return [row.asDict(recursive=True) for row in rows.collect()]


def _sets(sides: Sequence[Facts], strangers: Sequence[Row]) -> list[list[Facts]]:
    """Return sets of replicas. Replicas of different sets have no record in common."""
    apart = {(row["one"], row["other"]) for row in strangers}
    sets: list[list[Facts]] = []
    for side in sides:
        number = side.replica.number
        near = [
            group
            for group in sets
            if any((member.replica.number, number) not in apart for member in group)
        ]
        joined = [member for group in near for member in group]
        sets = [*(group for group in sets if group not in near), [*joined, side]]
    return sets


def _doubt(sets: Sequence[Sequence[Facts]], row: Row) -> LogFinding:
    brokers = [
        f"broker{'s' * (len(group) > 1)} "
        + " and ".join(str(broker) for broker in sorted(side.replica.broker for side in group))
        for group in sets
    ]
    first = row["first"]
    broker_of = {side.replica.number: side.replica.broker for group in sets for side in group}
    stands = [
        f"broker {broker_of[row[side]]} has a record{_epoch_and_time(first, side)}"
        for side in ("one", "other")
    ]
    ids = {side.replica.log_dir.cluster_id for group in sets for side in group} - {None}
    famous = (
        (
            f" Their cluster id {next(iter(ids))} is used in many quickstarts, so it "
            "does not "
            "prove "
            "that the "
            "logs are "
            "from one "
            "cluster."
        )
        if ids and ids <= FAMOUS_CLUSTER_IDS
        else ""
    )
    says = (
        f"The logs of {', of '.join(brokers)} differ at each of the "
        f"{counted(row['shared'], 'offset')} that both have: at {first['offset']}, "
        f"the first, {' and '.join(stands)}. No topic id shows whether these are "
        "replicas of one log. The topic may have been deleted and created again, or "
        "a log may come from another cluster. These logs are not compared with each "
        f"other.{famous}"
    )
    return LogFinding("another-log", "error", says, first["offset"])


def _epoch_and_time(first: Row, side: str) -> str:
    """Return a record's leader epoch and time as text, if the record's format has them."""
    words = []
    if (epoch := first[f"{side}_leader_epoch"]) is not None:
        words.append(f"in epoch {epoch}")
    if (time_ms := first[f"{side}_timestamp_ms"]) is not None and 0 <= time_ms < 1 << 47:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
        words.append(f"of {time:%Y-%m-%d %H:%M:%S} UTC")
    return f" {' '.join(words)}" if words else ""

"""Group replicas' directories into partitions: separate topics with one name, and duplicates."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from highwater.checkers.inspection.replica_files import ReplicaFolder
from highwater.checkers.inspection.report_types import LogFinding
from highwater.harness.base.wording import count as counted

METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The id of ``__cluster_metadata`` (Uuid.METADATA_TOPIC_ID). Every cluster has this id, so the id
does not prove that two logs belong together."""

_NAMED_MAX: Final = 3


@dataclass(slots=True, kw_only=True)
class PartitionGroup:
    """The replicas of one partition, according to their files.

    Attributes:
        replicas: the replicas with one topic id, or without an id, ordered by broker.
        topic_id: the topic's id; None if no replica has an id.
        stray: true if another topic with the same name has more replicas.
        twice: the numbers of replicas whose broker has several directories for the partition. These
            are not compared.
        findings: the findings about the partition as a whole.
    """

    replicas: list[ReplicaFolder]
    topic_id: str | None = None
    stray: bool = False
    twice: frozenset[int] = frozenset()
    findings: list[LogFinding] = field(default_factory=list)


def groups(replicas: Sequence[ReplicaFolder]) -> list[PartitionGroup]:
    """Group the replicas by partition. Each replica is in exactly one group.

    Replicas with the same topic name but another topic id belong to another topic (KIP-516). A
    replica without an id belongs to the topic with its name, if only one topic has this name.
    """
    main = _main_ids(replicas)
    partition_groups = []
    for (topic, _), same_name in groupby(
        replicas, lambda replica: (replica.topic, replica.partition)
    ):
        by_id: dict[str | None, list[ReplicaFolder]] = {}
        ids = main[topic]
        for replica in same_name:
            single = ids[0] if ids and (len(ids) == 1 or not replica.here) else None
            by_id.setdefault(replica.topic_id or single, []).append(replica)
        for topic_id, members in by_id.items():
            group = PartitionGroup(replicas=members, topic_id=topic_id, twice=_twice(members))
            group.stray = topic_id is not None and topic_id in ids[1:] and ids[0] is not None
            if topic_id is None and len(ids) > 1:
                says = (
                    "The partition has no partition.metadata, and several topic ids "
                    "have its "
                    "topic's "
                    "name. So "
                    "the topic "
                    "id is "
                    "unknown."
                )
                group.findings.append(LogFinding("topic-id", "error", says))
            partition_groups.append(group)
    return partition_groups


def _main_ids(replicas: Sequence[ReplicaFolder]) -> dict[str, list[str | None]]:
    """Return the topic ids of each topic name. The id of most replicas comes first.

    If two ids have the most replicas, the first entry is None, and no topic is a stray.
    """
    counts: dict[str, Counter[str]] = {}
    for replica in replicas:
        of_topic = counts.setdefault(replica.topic, Counter())
        if replica.topic_id is not None:
            of_topic[replica.topic_id] += 1
    main: dict[str, list[str | None]] = {}
    for topic, of_topic in counts.items():
        ranked = of_topic.most_common()
        tie = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
        main[topic] = [*([None] if tie else []), *(name for name, _ in ranked)]
    return main


def _twice(members: Iterable[ReplicaFolder]) -> frozenset[int]:
    """Return the replicas whose broker has another folder for the same partition."""
    by_broker: dict[int, list[int]] = {}
    for replica in members:
        by_broker.setdefault(replica.broker, []).append(replica.number)
    return frozenset(number for same in by_broker.values() if len(same) > 1 for number in same)


def notes(partition_groups: Sequence[PartitionGroup]) -> list[str]:
    """Return sentences about topic names with several ids, and about duplicate directories."""
    return [*_other_topics(partition_groups), *_same_replicas(partition_groups)]


def _other_topics(partition_groups: Sequence[PartitionGroup]) -> Iterable[str]:
    of_topic: dict[str, dict[str, tuple[set[int], bool]]] = {}
    for group in partition_groups:
        if group.topic_id is not None:
            ids = of_topic.setdefault(group.replicas[0].topic, {})
            brokers, _ = ids.setdefault(group.topic_id, (set(), group.stray))
            brokers |= {replica.broker for replica in group.replicas}
    for topic, ids in of_topic.items():
        if len(ids) > 1:
            named = [
                f"{topic_id} ({_brokers(brokers)}{': a stray' if stray else ''})"
                for topic_id, (brokers, stray) in ids.items()
            ]
            yield (
                f"{counted(len(ids), 'topic')} have the name {topic}, because "
                f"partition.metadata has different ids: {', '.join(named)}. Their "
                "replicas are not compared with each other."
            )


def _brokers(brokers: Iterable[int]) -> str:
    numbers = [str(broker) for broker in sorted(brokers)]
    return f"broker{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def _same_replicas(partition_groups: Sequence[PartitionGroup]) -> Iterable[str]:
    """Yield a sentence for log directories of one broker that contain the same partitions."""
    clashes: dict[tuple[int, tuple[str, ...]], list[list[ReplicaFolder]]] = {}
    for group in partition_groups:
        same = [replica for replica in group.replicas if replica.number in group.twice]
        for broker, folders in groupby(same, lambda replica: replica.broker):
            sides = list(folders)
            paths = tuple(side.log_dir.name for side in sides)
            clashes.setdefault((broker, paths), []).append(sides)
    for (broker, paths), partitions in clashes.items():
        names = [sides[0].name for sides in partitions]
        more = len(names) - _NAMED_MAX
        listed = ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"{' and '.join(paths)} {'both' if len(paths) == 2 else 'all'}"  # noqa: PLR2004
            f" claim to be broker {broker}, and have {listed}. These replicas are not compared."
            f"{_directories(partitions[0])} {_later(partitions)}"
        )


def _directories(sides: Sequence[ReplicaFolder]) -> str:
    """Return a sentence about whether the directories are copies of one log directory; or empty."""
    ids = {side.log_dir.directory_id for side in sides}
    if None in ids:
        return ""
    if len(ids) == len(sides):
        return (
            " Their directory.id differs, so they are different log directories. A "
            "broker has a partition in only one of its log directories, so they were "
            "copied at different times."
        )
    which = "They" if len(ids) == 1 else "Some of them"
    return f" {which} are copies of one log directory: directory.id is equal."


def _last_epoch(replica: ReplicaFolder) -> int | None:
    return replica.epochs[-1][0] if replica.epochs else None


def _modified_s(replica: ReplicaFolder) -> float | None:
    times = []
    for segment in replica.segments:
        with contextlib.suppress(OSError):
            times.append(Path(segment.path).stat().st_mtime)
    return max(times, default=None)


_SIGNS: Final[tuple[tuple[str, Callable[[ReplicaFolder], float | None], str], ...]] = (
    ("last leader epoch", _last_epoch, "{:d}"),
    ("HW", lambda replica: replica.hw, "{:d}"),
    ("recovery point", lambda replica: replica.recovery_point, "{:d}"),
    ("log's size", lambda replica: replica.bytes, "{:,} bytes"),
)
"""The values in a replica's directory that grow with time, the most reliable value first."""


def _later(partitions: Sequence[Sequence[ReplicaFolder]]) -> str:
    """Return a sentence that names the newer directory, and the value that shows this."""
    for sign, value, form in _SIGNS:
        rows = []
        for sides in partitions:
            values = [number for side in sides if (number := value(side)) is not None]
            if len(values) == len(sides):
                rows.append((sides, values))
        best = [
            place
            for place in range(len(partitions[0]))
            if all(values[place] == max(values) for _, values in rows)
        ]
        if len(best) == 1 and rows:
            sides, values = next(row for row in rows if len(set(row[1])) > 1)
            latest, least = values[best[0]], min(values)
            return (
                f"{sides[best[0]].log_dir.name} is newer: its {sign} of "
                f"{sides[0].name} is {form.format(latest)}, and {form.format(least)} "
                f"in {sides[values.index(least)].log_dir.name}."
            )
    times: dict[str, float] = {}
    for side in (side for sides in partitions for side in sides):
        times[side.log_dir.name] = max(times.get(side.log_dir.name, 0), _modified_s(side) or 0)
    newest = max(times, key=lambda name: times[name])
    if list(times.values()).count(times[newest]) > 1:
        return "No file in the directories shows which directory is newer."
    return f"{newest} has files with later times, but the copying may have changed these times."

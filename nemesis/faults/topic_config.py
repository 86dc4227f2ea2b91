"""Faults that change a topic setting while the topic is in use; healing restores the plan's value.

No changed setting deletes records that the run wrote: such records would count as lost. Other
faults in this module add partitions, delete records, or delete a second topic. The healing of these
faults does not restore deleted data.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect, RemovedOffsets
from highwater.nemesis.faults.registry import (
    NO_GROUPS,
    FaultTarget,
    NothingDoneError,
    aimed,
    by_request,
)

_OLD_FORMAT: Final = "0.10.0"
_PUT_BACK_S: Final = 90.0
_CODEC: Final = "gzip"
"""A compression codec that every release supports, other than the plans' default codec."""


def changed(
    cluster: Cluster, aim: FaultTarget, name: str, value: str, *, topic: str = ""
) -> Iterator[str]:
    """Change a setting of a topic, by default of the topic under test; healing restores it."""
    topic, before = topic or aim.topic.name, aim.topic.settings().get(name)
    cluster.configure(topic, {name: value})
    try:
        yield f"{name} of {topic} is {value}"
    finally:
        _put_back(cluster, topic, {name: before})


def _put_back(cluster: Cluster, topic: str, setting: Mapping[str, str | None]) -> None:
    """Set a topic setting; repeat the request while the controllers do not respond."""
    await_condition(
        lambda: cluster.configure(topic, setting),
        what=f"the cluster to accept the setting {next(iter(setting))} of {topic} again",
        limit_s=_PUT_BACK_S,
        passing=(UnreachableError,),
    )


@aimed("set-min-isr", at="topic", why_not=by_request, commands=())
def set_min_isr(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Require every replica to be in sync (min.insync.replicas) for acks=all."""
    yield from changed(cluster, aim, "min.insync.replicas", str(aim.topic.replication_factor))


@aimed("set-retention", at="topic", why_not=by_request, commands=())
def set_retention(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Set retention.ms to a week, so that brokers check segments for expiry."""
    yield from changed(cluster, aim, "retention.ms", str(7 * 86_400_000))


@aimed("set-segment", at="topic", why_not=by_request, commands=())
def set_segment(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Set segment.ms to a second: brokers often begin a segment, and flush the previous one."""
    yield from changed(cluster, aim, "segment.ms", "1000")


@aimed("set-compression", at="topic", why_not=by_request, commands=())
def set_compression(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Set compression.type, so that the leader compresses every batch again."""
    yield from changed(cluster, aim, "compression.type", _CODEC)


def _unclean(kafka: Release, _: str) -> str:
    return (
        ""
        if kafka.elects_unclean
        else ("on KRaft the setting has an effect only since 3.9 (KAFKA-12670)")
    )


@aimed("set-unclean", at="topic", why_not=_unclean, needs="--unclean")
def set_unclean(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Forbid unclean elections (unclean.leader.election.enable); healing allows them again."""
    yield from changed(cluster, aim, "unclean.leader.election.enable", "false")


def _formats(kafka: Release, _: str) -> str:
    if kafka.number < (0, 10):
        return "message.format.version came with 0.10.0 (KIP-31)"
    return "" if kafka.number < (3,) else "the setting is ignored since 3.0 (KIP-724)"


@aimed("set-format", at="topic", why_not=_formats)
def set_format(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Write records in the format of 0.10.0 (message.format.version), without leader epochs."""
    yield from changed(cluster, aim, "message.format.version", _OLD_FORMAT)


@aimed("add-partitions", at="topic", why_not=by_request, commands=(), awaits_coordination=True)
def add_partitions(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Add a partition to the topic; the workload does not send to it, but groups read it."""
    topic = aim.topic
    with contextlib.closing(cluster.probe()) as probe:
        live = sorted(probe.live_brokers())
        added = next(n for n in itertools.count(topic.partitions) if not _exists(probe, aim, n))
    if len(live) < topic.replication_factor:
        raise NothingDoneError(f"{topic.name} needs {topic.replication_factor} live brokers")
    first = added % len(live)
    replicas = [*live[first:], *live[:first]][: topic.replication_factor]
    cluster.add_partitions(topic.name, {added: replicas})
    yield f"{topic.name} has {added + 1} partitions"


def _exists(probe: Probe, aim: FaultTarget, partition: int) -> bool:
    try:
        probe.partition(aim.topic.name, partition)
    except UnreachableError:
        return False
    return True


def _requested_deletions(kafka: Release, driver: str) -> str:
    if kafka.number < (0, 11):
        return "DeleteRecords came with 0.11 (KIP-107)"
    return by_request(kafka, driver)


@aimed("delete-records", at="topic", why_not=_requested_deletions, needs=NO_GROUPS)
def delete_records(cluster: Cluster, aim: FaultTarget) -> Iterator[FaultEffect]:
    """Delete the oldest quarter to half of a partition's records (DeleteRecords, KIP-107).

    The checkers know that these records may be missing from the final read. A group that lags could
    miss the records, too, so runs with groups do not have this fault.
    """
    name, number = aim.topic.name, aim.partition
    with contextlib.closing(cluster.probe()) as probe:
        leader = probe.partition(name, number).leader
        if leader < 0:
            raise NothingDoneError(f"{name}-{number} has no leader")
        first = probe.log_start(leader, name, number)
        records = probe.replica(leader, name, number).hw - first
        before = first + int(records * (1 + aim.choice) / 4)
    if before <= first:
        raise NothingDoneError(f"{name}-{number} has too few records to delete any")
    cluster.delete_records(name, number, before)
    yield FaultEffect(
        f"the records of {name}-{number} below offset {before} were deleted",
        [RemovedOffsets(name, number, first, before)],
    )


def _deletes_topics(kafka: Release, _: str) -> str:
    return "" if kafka.coordination == "kraft" else "the fault uses KRaft's way to delete topics"


@aimed("recreate-topic", at="topic", why_not=_deletes_topics, awaits_coordination=True)
def recreate_topic(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Create, delete and re-create a second topic beside the topic under test; healing deletes it.

    The second topic has as many partitions and replicas as the first. It gets a new topic id when
    it is created again (KIP-516).
    """
    name, live = f"{aim.topic.name}-neighbour", sorted(cluster.brokers)
    replicas = [live[: aim.topic.replication_factor]] * aim.topic.partitions
    if any(broker.state != "running" for broker in cluster.brokers.values()):
        raise NothingDoneError("Highwater creates a topic only when every broker runs")
    cluster.create_topic(name, replicas, {})
    try:
        cluster.delete_topic(name)
        cluster.create_topic(name, replicas, {})
        yield f"{name} was deleted and created again"
    finally:
        _delete(cluster, name)


def _delete(cluster: Cluster, topic: str) -> None:
    """Request the topic's deletion until the cluster accepts the request."""
    await_condition(
        lambda: cluster.delete_topic(topic),
        what=f"the cluster to accept the deletion of topic {topic}",
        limit_s=_PUT_BACK_S,
        passing=(UnreachableError,),
    )

"""Faults that change a setting of the topic while it is in use; healing restores the plan's value.

No changed setting deletes records that the run wrote: such records would look lost.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from highwater.clusters.core.interfaces import Cluster, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.nemesis.faults.registry import FaultTarget, aimed, by_request

_OLD_FORMAT: Final = "0.10.0"
_PUT_BACK_S: Final = 90.0
_CODEC: Final = "gzip"
"""A codec that every release has, and that is not the default codec of a plan's producers."""


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
    """Repeat a request for a setting until the cluster responds: controllers may have no leader."""
    await_condition(
        lambda: cluster.configure(topic, setting),
        what=f"the setting {next(iter(setting))} of {topic} to be put back",
        limit_s=_PUT_BACK_S,
        passing=(UnreachableError,),
    )


@aimed("set-min-isr", at="topic", why_not=by_request, commands=())
def set_min_isr(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Require every replica to be in sync (min.insync.replicas) for acks=all."""
    yield from changed(cluster, aim, "min.insync.replicas", str(aim.topic.replication_factor))


@aimed("set-retention", at="topic", why_not=by_request, commands=())
def set_retention(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delete records after a week (retention.ms), so that brokers check segments for expiry."""
    yield from changed(cluster, aim, "retention.ms", str(7 * 86_400_000))


@aimed("set-segment", at="topic", why_not=by_request, commands=())
def set_segment(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Begin a new segment every second (segment.ms), and flush the segment before."""
    yield from changed(cluster, aim, "segment.ms", "1000")


@aimed("set-compression", at="topic", why_not=by_request, commands=())
def set_compression(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let the leader compress every batch anew (compression.type), and write its own bytes."""
    yield from changed(cluster, aim, "compression.type", _CODEC)


def _unclean(kafka: Release, _: str) -> str:
    return "" if kafka.elects_unclean else "KRaft heeds the setting since 3.9 (KAFKA-12670)"


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

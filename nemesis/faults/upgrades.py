"""Upgrades and downgrades under load: brokers are restarted one by one at the next level.

A level is a combination of jars, protocol version and message format
(``clusters.releases.software_level``). The option ``--to`` names the releases of the upgrade. The
procedure follows Kafka's upgrade notes. ZooKeeper keeps the version of the first release. On KRaft
the controllers are restarted before the brokers; then the whole cluster gets the new
``metadata.version`` at once.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from highwater.clusters.admin.sessions import Note, await_sessions
from highwater.clusters.core.interfaces import Cluster, ClusterNode, Probe, UnreachableError
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.registry import FaultTarget, NothingDoneError, aimed

_SESSION_LIMIT_S: Final = 60.0
_ISR_LIMIT_S: Final = 60.0


@aimed("upgrade", at="cluster", needs="--to", awaits_coordination=True)
def upgrade(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Restart every broker in turn at the next level of --to: new jars, protocol or message format.

    On KRaft the controllers are restarted first, and metadata.version changes without a restart.
    After each restart, the fault waits until every replica is in sync. Healing changes nothing: the
    cluster stays at its new level, and the next injection continues from there.
    """
    at = _height(cluster, aim.levels)
    if at + 1 >= len(aim.levels):
        raise NothingDoneError("the plan has no newer level to which brokers could be upgraded")
    roll(cluster, aim.levels[at + 1], aim.note, aim.topic)
    yield f"every broker runs {aim.levels[at + 1]}"


@aimed("downgrade", at="cluster", needs="--to", awaits_coordination=True)
def downgrade(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Restart every broker in turn with the previous jars, if the cluster still has their protocol.

    Kafka's upgrade notes forbid a downgrade after brokers have used the newer protocol; then the
    fault has no effect. On KRaft the controllers are restarted first.
    """
    at = _height(cluster, aim.levels)
    now, before = aim.levels[at], aim.levels[max(at - 1, 0)]
    if now == before or (now.protocol, now.format) != (before.protocol, before.format):
        raise NothingDoneError(f"Kafka forbids a downgrade from {now}")
    roll(cluster, before, aim.note, aim.topic)
    yield f"every broker runs {before} again"


def climb_all(cluster: Cluster, levels: Sequence[Level]) -> None:
    """Upgrade a cluster through all remaining levels; the cluster must have no records.

    Raises:
        HarnessError: a broker does not start, or has no session in time.
    """
    for level in levels[_height(cluster, levels) + 1 :]:
        roll(cluster, level, lambda _says, _broker: None)


def roll(cluster: Cluster, level: Level, note: Note, topic: Topic | None = None) -> None:
    """Restart each broker in turn at a level; then wait until all replicas are in sync.

    If the brokers of a KRaft cluster already run these jars, no broker is restarted: the cluster
    only gets the level's features.

    Args:
        note: records a text about each broker that runs again.
        topic: the topic whose replicas must be in sync; None without a topic.

    Raises:
        HarnessError: a broker does not start, or the replicas are not in sync in time.
    """
    with contextlib.closing(cluster.probe()) as probe:
        whole = _in_sync(probe, topic)
        if level.release.coordination == "kraft":
            if all(broker.level.release == level.release for broker in cluster.brokers.values()):
                cluster.finalize(level)
                note(f"the cluster has {level}", None)
                return
            for controller in cluster.controllers.values():
                _restart(controller, level)
                which = f" {controller.id}" if len(cluster.controllers) > 1 else ""
                note(f"the controller{which} runs {level}", None)
        for broker in cluster.brokers.values():
            if broker.level != level:
                _restart(broker, level)
                note(f"broker {broker.id} runs {level}", broker.id)
                _await_whole(cluster, probe, note, topic, whole)


def _restart(node: ClusterNode, level: Level) -> None:
    node.stop()
    try:
        node.install(level)
    finally:
        node.start()


def _height(cluster: Cluster, levels: Sequence[Level]) -> int:
    """Return the index in ``levels`` of the oldest level that a broker runs."""
    return min(levels.index(broker.level) for broker in cluster.brokers.values())


def _in_sync(probe: Probe, topic: Topic | None) -> list[frozenset[int]]:
    """Return the present ISR of each partition; none without a topic."""
    if topic is None:
        return []
    return [
        frozenset(
            await_condition(
                partial(probe.partition, topic.name, partition),
                lambda state: bool(state.isr),
                what=f"a response that names the ISR of {topic.name}-{partition}",
                limit_s=_ISR_LIMIT_S,
                passing=(UnreachableError,),
            ).isr
        )
        for partition in range(topic.partitions)
    ]


def _await_whole(
    cluster: Cluster,
    probe: Probe,
    note: Note,
    topic: Topic | None,
    whole: Sequence[frozenset[int]],
) -> None:
    """Wait until every broker has a session, and each ISR has the brokers in ``whole``."""
    await_sessions(
        cluster,
        probe,
        what="every broker to have a session before the next is stopped",
        limit_s=_SESSION_LIMIT_S,
        note=note,
    )
    if topic is None:
        return
    for partition, before in enumerate(whole):
        await_condition(
            partial(probe.partition, topic.name, partition),
            lambda state, before=before: before <= {*state.isr},  # type: ignore[misc]
            what=f"every replica of {topic.name}-{partition} to be in sync before the next broker",
            limit_s=_ISR_LIMIT_S,
            passing=(UnreachableError,),
        )

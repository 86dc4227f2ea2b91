"""Faults of the coordination: of ZooKeepers and KRaft controllers, and of brokers' sessions.

If no ZooKeeper or controller runs, brokers continue, but no partition gets a new leader. If a
majority of the controllers runs, it elects another leader of the quorum, and brokers find this
leader.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from highwater.clusters.core.interfaces import Cluster, ClusterNode, Coordinator
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.release import Release
from highwater.nemesis.faults.registry import CONTROLLERS, FaultTarget, aimed, fault

_KIP_853: Final = (3, 9)


def controllers_says(cluster: Cluster, ids: Sequence[int], says: str) -> str:
    """Return a sentence such as ``ZooKeeper is killed``, or ``controllers 100, 101 are killed``.

    Args:
        says: a word for the state, such as ``killed``.
    """
    zookeeper = cluster.release.coordination == "zookeeper"
    if len(cluster.controllers) == 1:
        return f"{'ZooKeeper' if zookeeper else 'the KRaft controller'} is {says}"
    name = "ZooKeeper" if zookeeper else "controller"
    if len(ids) == 1:
        return f"{name} {ids[0]} is {says}"
    return f"{name}s {', '.join(map(str, ids))} are {says}"


@aimed("controller-kill", at="coordination")
def controller_kill(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """SIGKILL ZooKeepers or KRaft controllers."""
    victims = _victims(cluster, aim)
    try:
        for victim in victims:
            victim.kill()
        yield controllers_says(cluster, aim.controllers, "killed")
    finally:
        start_nodes(victims)


@aimed("controller-pause", at="coordination")
def controller_pause(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Freeze ZooKeepers or KRaft controllers (SIGSTOP)."""
    victims = _victims(cluster, aim)
    try:
        for victim in victims:
            victim.pause()
        yield controllers_says(cluster, aim.controllers, "paused")
    finally:
        for victim in victims:
            victim.resume()


@aimed("controller-disk-loss", at="coordination", needs=CONTROLLERS, spares_majority=True)
def controller_disk_loss(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a ZooKeeper or KRaft controller and empty its disk; it restarts with its old id.

    The controller still votes, although it has lost acknowledged entries. Suppose that only this
    controller and the leader had an entry. A third voter without the entry can then become leader,
    because this controller votes for it, and the entry is lost. To prevent this, KIP-853 gives each
    voter's disk an id. Here the empty disk keeps the old id, unlike in ``controller_replace``.
    """
    victims = _victims(cluster, aim)
    try:
        for victim in victims:
            victim.kill()
            victim.lose_disk()
        yield controllers_says(cluster, aim.controllers, "killed, with an empty disk")
    finally:
        start_nodes(victims)


def fixed_voters(kafka: Release, _: str = "") -> str:
    """Return why a release cannot change the voters of a running quorum; empty if it can."""
    if kafka.coordination == "kraft" and kafka.number >= _KIP_853:
        return ""
    return "only KRaft from 3.9 on can add and remove voters of a running quorum (KIP-853)"


@aimed(
    "controller-leave",
    at="coordination",
    needs=CONTROLLERS,
    why_not=fixed_voters,
    spares_majority=True,
    changes_voters=True,
)
def controller_leave(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Remove a running controller from the KRaft quorum's voters; healing adds it back."""
    victims = _victims(cluster, aim)
    try:
        for victim in victims:
            cluster.remove_voter(victim.id)
        yield controllers_says(cluster, aim.controllers, "removed from the voters")
    finally:
        for victim in victims:
            cluster.add_voter(victim.id)


@aimed(
    "controller-replace",
    at="coordination",
    needs=CONTROLLERS,
    why_not=fixed_voters,
    spares_majority=True,
    changes_voters=True,
)
def controller_replace(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a KRaft controller and remove it from the voters; healing adds it with a new disk.

    KIP-853 replaces a lost disk in this way. The new disk has a new id, so no node assumes that the
    old entries are on it.
    """
    victims = _victims(cluster, aim)
    try:
        for victim in victims:
            victim.kill()
        for victim in victims:
            cluster.remove_voter(victim.id)
            victim.lose_disk(renewed=True)
        yield controllers_says(cluster, aim.controllers, "killed, and removed from the voters")
    finally:
        start_nodes(victims)
        for victim in victims:
            cluster.add_voter(victim.id)


def _victims(cluster: Cluster, aim: FaultTarget) -> list[Coordinator]:
    if not aim.controllers:
        raise HarnessError("the fault needs a target controller, but the step names none")
    return [cluster.controllers[controller] for controller in aim.controllers]


def start_nodes(nodes: Sequence[ClusterNode]) -> None:
    """Start nodes in parallel, because a controller's start ends only when a majority runs."""
    with ThreadPoolExecutor(len(nodes), thread_name_prefix="start") as pool:
        for started in [pool.submit(node.start) for node in nodes]:
            started.result()


def _zookeeper(kafka: Release, _: str) -> str:
    if kafka.coordination == "zookeeper":
        return ""
    return "on KRaft a session ends only if the broker sends no heartbeats (see pause and zombie)"


@fault("session-expiry", why_not=_zookeeper)
def session_expiry(cluster: Cluster, broker: int) -> Iterator[str]:
    """End a broker's ZooKeeper session, as if heartbeats were lost; the broker registers again."""
    cluster.end_session(broker)
    yield f"the session of broker {broker} was ended"

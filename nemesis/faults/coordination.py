"""Faults of the coordination: ZooKeeper, the KRaft controller, and brokers' sessions there.

Brokers go on without them: leaders stay leaders, and there are no elections.
"""

from collections.abc import Iterator

from highwater.clusters.core.interfaces import Cluster
from highwater.harness.releases.release import Release
from highwater.nemesis.faults.registry import FaultTarget, aimed, fault


def _who(cluster: Cluster) -> str:
    return "ZooKeeper" if cluster.release.coordination == "zookeeper" else "the KRaft controller"


@aimed("controller-kill", at="coordination")
def controller_kill(cluster: Cluster, _: FaultTarget) -> Iterator[str]:
    """SIGKILL ZooKeeper or the KRaft controller; healing starts it on what it left."""
    cluster.coordinator.kill()
    try:
        yield f"{_who(cluster)} is killed"
    finally:
        cluster.coordinator.start()


@aimed("controller-pause", at="coordination")
def controller_pause(cluster: Cluster, _: FaultTarget) -> Iterator[str]:
    """Freeze ZooKeeper or the KRaft controller (SIGSTOP); healing wakes it."""
    cluster.coordinator.pause()
    try:
        yield f"{_who(cluster)} is paused"
    finally:
        cluster.coordinator.resume()


def _zookeeper(kafka: Release, _: str) -> str:
    if kafka.coordination == "zookeeper":
        return ""
    return "on KRaft a session ends by silence alone (see pause and zombie)"


@fault("session-expiry", why_not=_zookeeper)
def session_expiry(cluster: Cluster, broker: int) -> Iterator[str]:
    """End a broker's session in ZooKeeper, as if it had been silent; it registers again itself."""
    cluster.end_session(broker)
    yield f"the session of broker {broker} was ended"

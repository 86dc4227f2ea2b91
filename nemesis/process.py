"""Faults of the broker's process: what kill, pause and an orderly restart do to replication.

SIGKILL keeps the page cache, so nothing that was written is lost from disk by any of these.
"""

from collections.abc import Iterator

from clusters.cluster import Cluster
from nemesis.fault import fault


@fault("kill")
def kill(cluster: Cluster, broker: int) -> Iterator[str]:
    """SIGKILL a broker; healing starts it again on the data it left."""
    target = cluster.brokers[broker]
    target.kill()
    try:
        yield f"broker {broker} is killed"
    finally:
        target.start()


@fault("pause")
def pause(cluster: Cluster, broker: int) -> Iterator[str]:
    """Freeze a broker (SIGSTOP), long enough for its session to end or not; healing wakes it."""
    target = cluster.brokers[broker]
    target.pause()
    try:
        yield f"broker {broker} is paused"
    finally:
        target.resume()


@fault("stop")
def stop(cluster: Cluster, broker: int) -> Iterator[str]:
    """Shut a broker down in order, as a rolling restart does; healing starts it again."""
    target = cluster.brokers[broker]
    target.stop()
    try:
        yield f"broker {broker} is shut down"
    finally:
        target.start()

"""A broker that is killed again as soon as it has come back."""

from collections.abc import Iterator

from highwater import Cluster, fault


@fault("stumble")
def stumble(cluster: Cluster, broker: int) -> Iterator[str]:
    """Kill a broker, start it, and kill it again when it answers; healing starts it."""
    target = cluster.brokers[broker]
    target.kill()
    try:
        target.start()
        target.kill()
        yield f"broker {broker} was killed, came back, and was killed again"
    finally:
        target.start()

"""List the partitions of all topics in which a replica is not in sync."""

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.clusters.core.interfaces import Cluster, UnreachableError

_ANSWER_S: Final = 10.0
_LISTED: Final = 5


class ReplicationView:
    """Reads the metadata of every topic in a cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, "log_level": "0"}
        self._admin = AdminClient({**settings, **cluster.client})

    def behind(self) -> list[str]:
        """Return up to 5 partitions without a leader or a full ISR, then a text ``and 3 more``.

        Raises:
            UnreachableError: no broker responds.
        """
        try:
            topics = self._admin.list_topics(timeout=_ANSWER_S).topics
        except KafkaException as error:
            raise UnreachableError(f"no broker returns the list of topics: {error}") from error
        behind = [
            f"{name}-{number} (in sync: {sorted(partition.isrs)} of {sorted(partition.replicas)})"
            for name, topic in sorted(topics.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader < 0 or set(partition.replicas) - set(partition.isrs)
        ]
        more = [f"and {len(behind) - _LISTED} more"] if len(behind) > _LISTED else []
        return behind[:_LISTED] + more

    def close(self) -> None:
        """Close the client's connections."""
        del self._admin

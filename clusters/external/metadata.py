"""A cluster's metadata as its brokers report it, for clients from outside.

Every broker has its own copy of the metadata. While a broker is paused or partitioned, its copy is
old. The copy is also old for a short time after the fault.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from highwater.clusters.admin.kafka_protocol import BrokerConnection, ProtocolClient
from highwater.clusters.admin.metadata import METADATA_WITH_IDS, BrokersView, quorum_request
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import PartitionState, UnreachableError
from highwater.harness.releases.release import Release

_ANSWER_S: Final = 5.0
_WITH_CLUSTER_ID: Final = 2  # KIP-78, in 0.10.1
_FETCH, _DESCRIBE_QUORUM = 1, 55


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """A cluster's id, and other facts that a client can request.

    Attributes:
        place: the cluster's name and uid in Kubernetes, of its inventory.
    """

    cluster_id: str
    addresses: Mapping[int, Address]
    topics: frozenset[str]
    fetch_version: int
    kraft: bool
    place: str = ""

    @property
    def stands_for(self) -> str:
        """Return the text whose digest is ``code``: the cluster's id, brokers and addresses."""
        brokers = (f"{broker}={self.addresses[broker]}" for broker in sorted(self.addresses))
        words = f"cluster {self.cluster_id}, brokers {', '.join(brokers)}"
        return f"{self.place}, {words}" if self.place else words

    @property
    def code(self) -> str:
        """Return 8 hexadecimal digits that change when an id or an address changes.

        A cluster's id is not enough: all clusters made from one compose file have the same id.
        """
        return hashlib.sha256(self.stands_for.encode()).hexdigest()[:8]


def query_identity(address: Address) -> ClusterIdentity:
    """Request the identity of a cluster from one broker."""
    with contextlib.closing(BrokerConnection(address, timeout_s=_ANSWER_S)) as connection:
        [metadata] = connection.ask(MetadataRequest(version=_WITH_CLUSTER_ID, topics=None))
        [versions] = connection.ask(ApiVersionsRequest(version=0))
    if not metadata.cluster_id:
        raise UnreachableError(f"{address} does not return the id of its cluster")
    newest = {api.api_key: api.max_version for api in versions.api_keys}
    return ClusterIdentity(
        cluster_id=metadata.cluster_id,
        addresses={
            broker.node_id: Address(host=broker.host, port=broker.port, dial=address.dial)
            for broker in metadata.brokers
        },
        topics=frozenset(topic.name for topic in metadata.topics),
        fetch_version=newest[_FETCH],
        kraft=_DESCRIBE_QUORUM in newest,
    )


def answers(address: Address, *, timeout_s: float = 0.5) -> bool:
    """Return whether a broker responds to a request. A paused broker only accepts connections."""
    try:
        with contextlib.closing(BrokerConnection(address, timeout_s=timeout_s)) as connection:
            connection.ask(MetadataRequest(version=1, topics=[]))
    except UnreachableError:
        return False
    return True


class LastingConnection:
    """A connection to a running broker. It ends when the broker's process exits.

    Raises:
        UnreachableError: the broker does not respond.
    """

    def __init__(self, address: Address) -> None:
        self._connection = BrokerConnection(address, timeout_s=_ANSWER_S)
        self._connection.ask(MetadataRequest(version=1, topics=[]))

    def answers(self) -> bool:
        """Return whether the same broker process still responds."""
        try:
            self._connection.ask(MetadataRequest(version=1, topics=[]))
        except UnreachableError:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class MetadataView(BrokersView):
    """A CoordinationView (``clusters.admin.metadata``) that sends requests only to brokers.

    Args:
        ours: ids of the brokers that may get faults. ``live_brokers`` returns only these.
    """

    def __init__(
        self, release: Release, addresses: Mapping[int, Address], ours: frozenset[int]
    ) -> None:
        super().__init__(addresses, ProtocolClient(addresses), release.wire.metadata)
        self._kraft = release.coordination == "kraft"
        self._ours = ours
        self._epochs: dict[tuple[str, int], int] = {}

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Read the partition's metadata.

        Raises:
            UnreachableError: no broker knows the partition, or a response has an older leader epoch
                than an earlier response.
        """
        state = super().partition(topic, partition)
        epoch, newest = state.leader_epoch, self._epochs.get((topic, partition), -1)
        if epoch is not None and epoch < newest:
            raise UnreachableError(
                f"the broker reports leader epoch {epoch} for {topic}-{partition},"
                f" but an earlier response had epoch {newest}"
            )
        self._epochs[topic, partition] = newest if epoch is None else epoch
        return state

    def controller(self) -> int:
        """Return the controller in the metadata, or the quorum's leader on KRaft.

        On KRaft the metadata has a random broker as the controller.
        """
        controller = self._described_leader() if self._kraft else int(self._ask([]).controller_id)
        if controller < 0:
            raise UnreachableError("the cluster has no controller")
        return controller

    def quorum_leader(self) -> int:
        """Return the leader of the KRaft quorum.

        Raises:
            UnreachableError: the quorum has no leader, or the cluster has ZooKeepers, which are not
                accessible.
        """
        if not self._kraft:
            raise UnreachableError("ZooKeeper is not accessible")
        return self.controller()

    def _described_leader(self) -> int:
        """Send DescribeQuorum, which brokers forward to the controller."""
        [response] = self._client.ask_any(self._brokers, quorum_request(version=0))
        states = (state for topic in response.topics for state in topic.partitions)
        return next((int(state.leader_id) for state in states), -1)

    def live_brokers(self) -> frozenset[int]:
        """Return the inventory's brokers that the metadata lists."""
        return super().live_brokers() & self._ours

    def unlisted(self, brokers: Iterable[int]) -> str:
        """Return a sentence about a broker whose metadata does not list all ``brokers``, or ""."""
        expected = frozenset(brokers)
        request = MetadataRequest(version=self._metadata, topics=[])
        for broker in sorted(expected):
            try:
                [response] = self._client.ask(broker, request)
            except UnreachableError as error:
                return error.message
            missing = expected - {listed.node_id for listed in response.brokers}
            if missing:
                return f"broker {broker} does not list {sorted(missing)}"
        return ""

    def topics(self) -> frozenset[str]:
        """Return the names of all topics."""
        return frozenset(topic.name for topic in self._ask(None).topics)

    def topic_id(self, topic: str) -> str:
        return super().topic_id(topic) if self._metadata >= METADATA_WITH_IDS else ""

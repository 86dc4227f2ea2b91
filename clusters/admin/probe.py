"""Read the LEO, HW, leader, epoch and ISR of a running cluster's replicas by Kafka's protocol."""

from collections.abc import Callable, Mapping, Sequence

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from highwater.clusters.admin import coordinator_states
from highwater.clusters.admin.kafka_protocol import ProtocolClient, Request, Response
from highwater.clusters.admin.metadata import CoordinationView
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import (
    CoordinatedState,
    PartitionState,
    QuorumState,
    ReplicaState,
    TopicState,
    UnreachableError,
)
from highwater.harness.releases.release import RequestVersions as Versions

_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
_LATEST, _EARLIEST, _LARGEST = -1, -2, -3
_LARGEST_SINCE = 7
_OFFSET_OUT_OF_RANGE = 1
_LEADER_ERRORS = frozenset({0, 5})  # 5: a new leader's HW is still before its epoch (KIP-207)
_UNKNOWN_LEADER_EPOCH = 75
_SESSIONLESS = -1


class ClusterProbe:
    """Implements Probe in ``clusters.core.interfaces``. Not thread-safe.

    The LEO comes from ListOffsets with the replica id -2 of a debugging consumer. Every release
    allows this consumer to read beyond the high watermark. The HW comes from a Fetch at the log's
    end, whose response has no records. The Fetch is sent before the ListOffsets. So the HW is above
    the LEO only if the replica was truncated between the two requests.

    Args:
        versions: returns the request versions for a broker id; they change with an upgrade.
    """

    def __init__(
        self,
        versions: Callable[[int], Versions],
        brokers: Mapping[int, Address],
        view: CoordinationView,
    ) -> None:
        self._versions = versions
        self._view = view
        self._client = ProtocolClient(brokers)
        self._last_leo: dict[tuple[int, str, int], int] = {}

    def controller(self) -> int:
        """Return the id of the active controller. On KRaft this is the quorum's leader."""
        return self._view.controller()

    def quorum_leader(self) -> int:
        """Return the id of the ZooKeeper or KRaft controller that is the leader."""
        return self._view.quorum_leader()

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Return a partition's leader, leader epoch and ISR in ZooKeeper or KRaft."""
        return self._view.partition(topic, partition)

    def live_brokers(self) -> frozenset[int]:
        """Return the brokers that have a session (ZooKeeper) or are unfenced (KRaft)."""
        return self._view.live_brokers()

    def quorum(self) -> QuorumState | None:
        """Return the KRaft quorum's state; None for ZooKeeper and for external clusters."""
        return self._view.quorum()

    def topic_state(self, topic: str) -> TopicState | None:
        """Return a topic's state in ZooKeeper; None if the topic does not exist."""
        return self._view.topic_state(topic)

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        """Request the LEO and the HW of a broker's replica."""
        key = (broker, topic, partition)
        offset = self._last_leo.pop(key, None)
        if offset is None:
            [listed] = self._client.ask(broker, self._list_offsets(broker, topic, partition))
            offset = _offset(listed)
        fetched, listed = self._ask_both(broker, topic, partition, offset)
        leo = _offset(listed)
        if (
            fetched.error_code == _OFFSET_OUT_OF_RANGE
        ):  # the replica was truncated since the last call
            fetched, listed = self._ask_both(broker, topic, partition, leo)
            leo = _offset(listed)
        if fetched.error_code:
            raise UnreachableError(
                f"broker {broker} does not serve {topic}-{partition}: error {fetched.error_code}"
            )
        self._last_leo[key] = leo
        return ReplicaState(leo=leo, hw=fetched.high_watermark)

    def log_start(self, broker: int, topic: str, partition: int) -> int:
        """Request the log start offset of a broker's replica."""
        request = self._list_offsets(broker, topic, partition, timestamp=_EARLIEST)
        [listed] = self._client.ask(broker, request)
        return _offset(listed)

    def offset_of(
        self, broker: int, topic: str, partition: int, timestamp_ms: int | None
    ) -> int | None:
        """Return the offset of a leader's first record with this timestamp or a later one.

        None asks for a record with the largest timestamp (KIP-734). The response does not depend on
        open transactions, because the request's isolation level is read_uncommitted.
        """
        request = self._list_offsets(
            *(broker, topic, partition),
            replica_id=_CONSUMER,
            timestamp=_LARGEST if timestamp_ms is None else timestamp_ms,
        )
        [listed] = self._client.ask(broker, request)
        offset = _offset(listed)
        return None if offset < 0 else offset

    def leads(self, broker: int, topic: str, partition: int) -> bool:
        """Return whether a broker acts as leader: it responds to a consumer without an error."""
        request = self._list_offsets(broker, topic, partition, replica_id=_CONSUMER)
        [listed] = self._client.ask(broker, request)
        return listed.topics[0].partitions[0].error_code in _LEADER_ERRORS

    def knows_epoch(self, broker: int, topic: str, partition: int, epoch: int) -> bool:
        """Return whether a broker knows a leader epoch, and so does not refuse it in a Fetch."""
        fetch = self._fetch(broker, topic, partition, 0, epoch=epoch)
        [fetched] = self._client.ask(broker, fetch)
        if fetched.error_code or not fetched.responses:
            raise UnreachableError(f"broker {broker} refused a fetch: error {fetched.error_code}")
        return bool(fetched.responses[0].partitions[0].error_code != _UNKNOWN_LEADER_EPOCH)

    def producers(self, broker: int, topic: str, partition: int) -> frozenset[int]:
        """Return the producer ids for which a leader stores a state (KIP-664)."""
        place = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        request = DescribeProducersRequest(version=0, topics=[place])
        [answer] = self._client.ask(broker, request)
        seen = answer.topics[0].partitions[0]
        if seen.error_code:
            raise UnreachableError(
                f"broker {broker} does not report producers of {topic}-{partition}:"
                f" error {seen.error_code}"
            )
        return frozenset(int(state.producer_id) for state in seen.active_producers)

    def transactions(self, broker: int) -> frozenset[CoordinatedState]:
        """Return the states of all transactional ids that a broker coordinates (KIP-664)."""
        return coordinator_states.transactions(self._client, broker)

    def share_starts(
        self, broker: int, group: str, topic: str, partitions: Sequence[int]
    ) -> Mapping[int, int | None]:
        """Return partition -> start offset of a share group; None without an offset (KIP-932)."""
        return coordinator_states.share_starts(self._client, broker, group, topic, partitions)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()
        self._view.close()

    def _ask_both(
        self, broker: int, topic: str, partition: int, offset: int
    ) -> tuple[Response, Response]:
        fetch = self._fetch(broker, topic, partition, offset)
        fetched, listed = self._client.ask(
            broker, fetch, self._list_offsets(broker, topic, partition)
        )
        if fetched.error_code or not fetched.responses:
            raise UnreachableError(f"broker {broker} refused a fetch: error {fetched.error_code}")
        return fetched.responses[0].partitions[0], listed

    def _fetch(
        self, broker: int, topic: str, partition: int, offset: int, *, epoch: int = -1
    ) -> Request:
        versions = self._versions(broker)
        fetched_partition = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1,
        )
        return FetchRequest(
            version=versions.fetch,
            replica_id=versions.fetch_as,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=0,
            session_id=0,
            session_epoch=_SESSIONLESS,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[fetched_partition])],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _list_offsets(
        self,
        broker: int,
        topic: str,
        partition: int,
        *,
        replica_id: int = _DEBUGGING_CONSUMER,
        timestamp: int = _LATEST,
    ) -> Request:
        listed_partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition,
            current_leader_epoch=-1,
            timestamp=timestamp,
            max_num_offsets=1,
        )
        return ListOffsetsRequest(
            version=_LARGEST_SINCE
            if timestamp == _LARGEST
            else self._versions(broker).list_offsets,
            replica_id=replica_id,
            isolation_level=0,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[listed_partition])],
        )


def _offset(listed: Response) -> int:
    listed_partition = listed.topics[0].partitions[0]
    if listed_partition.error_code:
        raise UnreachableError(
            f"the broker does not serve the replica: error {listed_partition.error_code}"
        )
    return int(
        listed_partition.old_style_offsets[0]
        if listed.API_VERSION == 0
        else listed_partition.offset
    )

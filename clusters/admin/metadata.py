"""Read leaders, ISRs and live brokers from ZooKeeper, or from KRaft controllers and brokers."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from kafka.protocol.admin import DescribeClusterRequest, DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from highwater.clusters.admin.kafka_protocol import BrokerConnection, ProtocolClient, Response
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import (
    ClusterView,
    PartitionState,
    QuorumState,
    TopicState,
    UnreachableError,
)
from highwater.clusters.relay.kafka_frames import topic_id

METADATA_WITH_IDS = 10  # KIP-516
_CONTROLLER_ENDPOINTS = 2  # DescribeCluster's endpoint_type (KIP-919)

_SESSION_SECRET: Final = 0xB3415C00  # ZooKeeperServer.superSecret, the same in 3.4 to 3.8
_SESSION_S: Final = 10
_ENSEMBLE_SESSION_S: Final = 2
"""The session timeout in seconds. If a ZooKeeper is paused, its clients connect to another
ZooKeeper after this time."""

_UPDATES: Final = 20
_STATUS: Final = b"srvr"
_LEADS: Final = b"Mode: leader"
# By default kazoo doubles its delay each time: it could wait as long as the outage lasted.
_RETRY_DELAY_MAX_S: Final = 0.25
_LCG_FACTOR, _LCG_STEP, _LCG_MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1  # java.util.Random


class CoordinationView(ClusterView, Protocol):
    """The cluster's state in ZooKeeper or KRaft. Every method may raise UnreachableError."""

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return a partition's assignment; the preferred leader is first."""

    def topic_id(self, topic: str) -> str:
        """Return the topic's id (KIP-516) in Kafka's text form, or "" if the topic has no id."""


class ZooKeeperView:
    """Reads the controller's own znodes.

    Args:
        servers: id to address, for each ZooKeeper server. A request may go to any server.
        timeout_s: limit for each response.
    """

    def __init__(self, servers: Mapping[int, Address], *, timeout_s: float = 1.0) -> None:
        self._servers = servers
        quiet = logging.getLogger("highwater.kazoo")
        quiet.setLevel(logging.CRITICAL)
        self._timeout_s = timeout_s
        self._new_client = partial(
            KazooClient,
            hosts=",".join(map(str, servers.values())),
            timeout=_SESSION_S if len(servers) == 1 else _ENSEMBLE_SESSION_S,
            logger=quiet,
            connection_retry={
                "max_tries": -1,
                "delay": 0.1,
                "backoff": 1,
                "max_delay": _RETRY_DELAY_MAX_S,
            },
        )
        self._client = self._new_client()
        self._started = False

    def controller(self) -> int:
        """Return the broker id in the znode ``/controller``."""
        return int(self.read("/controller")["brokerid"])

    def quorum_leader(self) -> int:
        """Return the id of the ZooKeeper that is the leader, or the id of a single ZooKeeper."""
        if len(self._servers) == 1:
            return next(iter(self._servers))
        for server, address in self._servers.items():
            with contextlib.suppress(UnreachableError):
                if _LEADS in zookeeper_status(address, timeout_s=self._timeout_s):
                    return server
        raise UnreachableError("no ZooKeeper is the leader of the ensemble")

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Read the partition's znode ``state``."""
        state: dict[str, Any] = self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return PartitionState(
            leader=state["leader"], leader_epoch=state["leader_epoch"], isr=tuple(state["isr"])
        )

    def live_brokers(self) -> frozenset[int]:
        """Return the broker ids below ``/brokers/ids``. Each id exists as long as its session."""
        try:
            names = self._wait(self._connected().get_children_async("/brokers/ids"))
        except NoNodeError:  # no broker has started, so the node does not exist yet
            return frozenset()
        return frozenset(int(name) for name in names)

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the partition's assignment in the topic's znode."""
        return tuple(self.read(f"/brokers/topics/{topic}")["partitions"][str(partition)])

    def topic_id(self, topic: str) -> str:
        """Return the topic's id in the topic's znode; "" before 2.8."""
        return str(self.read(f"/brokers/topics/{topic}").get("topic_id", ""))

    def quorum(self) -> None:
        """Return None, because ZooKeepers report no log end offsets."""

    def topic_state(self, topic: str) -> TopicState | None:
        """Read the topic's znode, the znode with its settings, and the state of each partition."""
        if not self.exists(f"/brokers/topics/{topic}"):
            return None
        assigned = self.read(f"/brokers/topics/{topic}")["partitions"]
        settings = f"/config/topics/{topic}"
        return TopicState(
            settings=self.read(settings)["config"] if self.exists(settings) else {},
            replicas={int(number): tuple(replicas) for number, replicas in assigned.items()},
            partitions={int(number): self.partition(topic, int(number)) for number in assigned},
        )

    def exists(self, path: str) -> bool:
        """Return whether the znode exists."""
        return self._wait(self._connected().exists_async(path)) is not None

    def end_session(self, broker: int) -> None:
        """End a broker's session at once, as if the session timeout had passed.

        ZooKeeper derives a session's password from the session id. So any client can attach to the
        session and close it (``SessionTrackerImpl``, ``ZooKeeperServer.generatePasswd``). A live
        broker gets the event that its session has expired, and registers again.

        Raises:
            UnreachableError: ZooKeeper does not respond, or has no session of that broker.
        """
        path = f"/brokers/ids/{broker}"
        try:
            _, stat = self._wait(self._connected().get_async(path))
        except NoNodeError as error:
            raise UnreachableError(f"broker {broker} has no session") from error
        owner = stat.ephemeralOwner
        client = self._new_client(client_id=(owner, session_password(owner)))
        try:
            client.start(timeout=self._timeout_s)
            client.stop()
        except KazooTimeoutError as error:
            raise UnreachableError(
                f"ZooKeeper refuses to attach to the session of broker {broker}"
            ) from error
        finally:
            client.close()

    def create(self, path: str, node: Mapping[str, Any], *, ephemeral: bool = False) -> bool:
        """Create a znode and its parents; return False if the znode already exists.

        Args:
            ephemeral: whether ZooKeeper deletes the znode at the end of this client's session.
        """
        data = json.dumps(node).encode()
        client = self._connected()
        try:
            self._wait(client.create_async(path, data, ephemeral=ephemeral, makepath=True))
        except NodeExistsError:
            return False
        return True

    def read(self, path: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the JSON value in a znode."""
        data, _ = self._at(path, self._connected().get_async)
        return json.loads(data)

    def update(self, path: str, change: Callable[[Any], object]) -> None:
        """Read a znode, change its JSON value in place, and write it. Retry after a conflict.

        Raises:
            UnreachableError: ZooKeeper does not respond, or other clients change the znode each
                time.
        """
        for _ in range(_UPDATES):
            data, state = self._at(path, self._connected().get_async)
            change(node := json.loads(data))
            with contextlib.suppress(BadVersionError):
                content = json.dumps(node).encode()
                self._at(path, self._connected().set_async, content, state.version)
                return
        raise UnreachableError(
            f"other clients changed {path} in ZooKeeper during each of {_UPDATES} attempts"
        )

    def append(self, path: str, node: Mapping[str, Any]) -> None:
        """Create a znode. The znode's name is ``path`` plus the next sequence number."""
        data = json.dumps(node).encode()
        result = self._connected().create_async(path, data, sequence=True, makepath=True)
        self._wait(result)

    def delete(self, path: str) -> None:
        """Delete a znode."""
        self._at(path, self._connected().delete_async)

    def _at(self, path: str, verb: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of kazoo on a znode; raise UnreachableError if the znode does not exist."""
        try:
            return self._wait(verb(path, *arguments))
        except NoNodeError as error:
            raise UnreachableError(f"ZooKeeper has no node {path}") from error

    def _wait(self, result: Any) -> Any:  # noqa: ANN401 - kazoo is not typed
        try:
            return result.get(timeout=self._timeout_s)
        except (BadVersionError, NoNodeError, NodeExistsError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise UnreachableError(f"ZooKeeper does not respond: {type(error).__name__}") from error

    def _connected(self) -> KazooClient:
        if not self._started:
            try:
                self._client.start(timeout=self._timeout_s)
            except KazooTimeoutError as error:
                raise UnreachableError("ZooKeeper does not respond yet") from error
            self._started = True
        return self._client

    def close(self) -> None:
        """End the session. Ignore errors, because the client may have been interrupted."""
        with contextlib.suppress(KazooException, KazooTimeoutError, OSError, AttributeError):
            self._client.stop()
            self._client.close()


class BrokersView:
    """A cluster's state as brokers report it. Every broker has its own copy of the metadata.

    A broker's copy is old while the broker is paused or partitioned, and for a short time after.

    Args:
        brokers: ids of the brokers to which requests may go.
        metadata: version of the Metadata request.
    """

    def __init__(self, brokers: Iterable[int], client: ProtocolClient, metadata: int) -> None:
        self._brokers = tuple(brokers)
        self._client = client
        self._metadata = metadata

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Read the partition's metadata."""
        metadata = self._metadata_of(topic, partition)
        epoch = getattr(metadata, "leader_epoch", None)
        return PartitionState(
            leader=metadata.leader_id, leader_epoch=epoch, isr=tuple(metadata.isr_nodes)
        )

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        """Read the replicas in the partition's metadata."""
        return tuple(self._metadata_of(topic, partition).replica_nodes)

    def live_brokers(self) -> frozenset[int]:
        """Return the brokers that Metadata lists. On KRaft these are the unfenced brokers."""
        return frozenset(broker.node_id for broker in self._ask([]).brokers)

    def topic_id(self, topic: str) -> str:
        """Read the id in the topic's metadata, by a request version that has ids."""
        request_topics = [MetadataRequest.MetadataRequestTopic(name=topic, topic_id=None)]
        topics = self._ask(request_topics, version=max(self._metadata, METADATA_WITH_IDS)).topics
        return topic_id(topics[0].topic_id.bytes) if topics and topics[0].topic_id else ""

    def quorum(self) -> QuorumState | None:
        """Return None, because brokers do not have the controllers' logs."""
        return None

    def topic_state(self, topic: str) -> TopicState | None:
        """Raise NotImplementedError: the state in ZooKeeper cannot be read through brokers."""
        raise NotImplementedError(f"the state of {topic} in ZooKeeper cannot be read")

    def _metadata_of(self, topic: str, partition: int) -> Any:  # noqa: ANN401 - kafka-python's
        request_topics = [MetadataRequest.MetadataRequestTopic(name=topic, topic_id=None)]
        for topic_metadata in self._ask(request_topics).topics:
            for metadata in topic_metadata.partitions:
                if metadata.partition_index == partition:
                    return metadata
        raise UnreachableError(f"the brokers do not know {topic}-{partition} yet")

    def _ask(self, topics: list[Any] | None, *, version: int | None = None) -> Response:
        request = MetadataRequest(
            version=version or self._metadata, topics=topics, allow_auto_topic_creation=False
        )
        with contextlib.suppress(UnreachableError):
            [response] = self._client.ask_any(self._foremost(), request)
            return response
        [response] = self._client.ask_any(self._brokers, request)
        return response

    def _foremost(self) -> tuple[int, ...]:
        """Return the ids of the brokers that get requests before the other brokers."""
        return ()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class KraftView(BrokersView):
    """A KRaft cluster's state. Controllers report the quorum's leader, brokers report partitions.

    A broker's copy of the metadata log is milliseconds behind the controller's log. So the view
    first asks the quorum's leader for each broker's end offset (DescribeQuorum, KIP-595). Then the
    view sends its request to a broker with the greatest end offset. If no such broker responds, the
    view asks any broker.

    Args:
        brokers: broker id to broker address.
        controllers: controller id to controller address.
        metadata: version of the Metadata request.
        timeout_s: limit for each response.
    """

    def __init__(
        self,
        brokers: Mapping[int, Address],
        controllers: Mapping[int, Address],
        *,
        metadata: int,
        timeout_s: float = 0.5,
    ) -> None:
        self._controllers = tuple(controllers)
        client = ProtocolClient({**brokers, **controllers}, timeout_s=timeout_s)
        super().__init__(brokers, client, metadata)

    def controller(self) -> int:
        """Return the id of the quorum's leader, which is the active controller."""
        return int(self._leader_state().leader_id)

    quorum_leader = controller

    def _leader_state(self) -> Any:  # noqa: ANN401 - kafka-python's
        return leader_state(self._client, self._controllers)

    def quorum(self) -> QuorumState:
        """Return the quorum's state, with each controller's log end, as the leader reports it."""
        state = self._leader_state()
        voters = {voter.replica_id: voter.log_end_offset for voter in state.current_voters}
        # A leader still lists a removed voter for 5 minutes, even if the id is a voter again.
        others = {*self._brokers, *voters}
        return QuorumState(
            leader=state.leader_id,
            epoch=state.leader_epoch,
            hw=state.high_watermark,
            voters=voters,
            observers={
                observer.replica_id: observer.log_end_offset
                for observer in state.observers
                if observer.replica_id not in others
            },
        )

    def _foremost(self) -> tuple[int, ...]:
        """Return the brokers whose copy of the metadata log has the greatest end offset."""
        end_offsets = {
            observer.replica_id: observer.log_end_offset
            for observer in self._leader_state().observers
            if observer.replica_id in self._brokers
        }
        return tuple(
            broker for broker, offset in end_offsets.items() if offset == max(end_offsets.values())
        )


def leader_state(client: ProtocolClient, controllers: Iterable[int]) -> Any:  # noqa: ANN401 - kafka-python's
    """Return the quorum's state from the response of the quorum's leader to DescribeQuorum.

    An isolated leader does not resign at once. So two controllers may respond as the leader. The
    function then returns the response with the greater epoch.

    Raises:
        UnreachableError: no controller is the leader.
    """
    states = []
    for controller in controllers:
        with contextlib.suppress(UnreachableError):
            [response] = client.ask(controller, quorum_request(version=1))
            states += [
                state
                for topic in response.topics
                for state in topic.partitions
                if not state.error_code and state.leader_id >= 0
            ]
    if not states:
        raise UnreachableError("the KRaft quorum has no leader")
    return max(states, key=lambda state: state.leader_epoch)


def known_leader(controller: Address, *, timeout_s: float = 1.0) -> int:
    """Return the id of the quorum's leader, as one controller reports it; -1 if unknown.

    Raises:
        UnreachableError: the controller does not respond.
    """
    request = DescribeClusterRequest(version=1, endpoint_type=_CONTROLLER_ENDPOINTS)
    with contextlib.closing(BrokerConnection(controller, timeout_s=timeout_s)) as connection:
        [response] = connection.ask(request)
    return int(response.controller_id)


def require_answer(controller: Address, *, timeout_s: float = 1.0) -> None:
    """Send DescribeQuorum to a KRaft controller, which need not be the leader.

    Raises:
        UnreachableError: the controller does not respond.
    """
    with contextlib.closing(BrokerConnection(controller, timeout_s=timeout_s)) as connection:
        connection.ask(quorum_request(version=1))


def zookeeper_status(server: Address, *, timeout_s: float = 1.0) -> bytes:
    """Return a ZooKeeper's response to ``srvr``: its mode, or the reason why it serves no requests.

    Raises:
        UnreachableError: the ZooKeeper does not respond.
    """
    answer = b""
    try:
        with server.dial((server.host, server.port), timeout_s) as connection:
            connection.sendall(_STATUS)
            while part := connection.recv(1 << 12):
                answer += part
    except OSError as error:
        raise UnreachableError(f"ZooKeeper at {server} does not respond: {error}") from error
    if not answer:
        raise UnreachableError(f"ZooKeeper at {server} does not respond")
    return answer


def quorum_request(version: int) -> Any:  # noqa: ANN401 - kafka-python creates these classes
    """Return a DescribeQuorum request (KIP-595) for the controllers' metadata log."""
    topic = DescribeQuorumRequest.TopicData
    metadata_log = topic(
        topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)]
    )
    return DescribeQuorumRequest(version=version, topics=[metadata_log])


def session_password(session: int) -> bytes:
    """Return a ZooKeeper session's password: 16 bytes of a Java ``Random``, seeded by the id."""
    state = (session ^ _SESSION_SECRET ^ _LCG_FACTOR) & _LCG_MASK
    password = b""
    for _ in range(4):
        state = (state * _LCG_FACTOR + _LCG_STEP) & _LCG_MASK
        password += (state >> 16).to_bytes(4, "little")
    return password

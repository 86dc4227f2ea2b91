"""The Protocols through which faults, workloads and stories use a cluster of any driver.

A driver (such as ``local``) opens a cluster of real brokers and returns these Protocols. No other
package knows whether a broker is a process or a container.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from highwater.clusters.core.system_calls import CallRule
from highwater.clusters.relay.network import Network
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import Release

BrokerState = Literal["running", "paused", "down"]


class UnreachableError(HarnessError):
    """A node did not respond in time, which is normal during faults."""


class LeaderKeptError(HarnessError):
    """The controller made no election, because the partition already has a leader."""


class NotQueriedError(UnreachableError):
    """A node got no request, because it did not respond to another request shortly before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition's state: ZooKeeper's znode ``state``, or the metadata on KRaft.

    Attributes:
        leader: broker id, or -1 if the partition has no leader.
        leader_epoch: None if Metadata has no leader epochs (external clusters before 2.4).
        isr: broker ids in the controller's order.
    """

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """A replica's LEO (the offset of its next record) and HW, as its broker reports them."""

    leo: int
    hw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """A KRaft quorum as its leader reports it (DescribeQuorum, KIP-595).

    Attributes:
        leader: node id of the leader.
        hw: the high watermark of the metadata log: every record before it is committed.
        voters: node id to log end offset. Up to this offset, the voter has the leader's records.
        observers: node id to log end offset for nodes without a vote, except brokers.
    """

    leader: int
    epoch: int
    hw: int
    voters: Mapping[int, int]
    observers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CoordinatedState:
    """The state of a transactional id, as its coordinator reports it."""

    name: str
    state: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic's state in ZooKeeper.

    Attributes:
        settings: the topic's own settings.
        replicas: partition number to the partition's assignment.
        partitions: partition number to the partition's state.
    """

    settings: Mapping[str, str]
    replicas: Mapping[int, tuple[int, ...]]
    partitions: Mapping[int, PartitionState]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeOptions:
    """Properties of a cluster's nodes that need more than Kafka settings.

    Attributes:
        trace_flushes: whether strace records the system calls that flush and rename files.
        log_dirs: number of log directories of each broker.
        racks: number of racks to which brokers are assigned in turn; 0 for brokers without racks.
        controllers: number of ZooKeepers or KRaft controllers, an odd number; ids count from 100.
        dynamic_quorum: whether voters of the KRaft quorum can be added and removed (KIP-853).
        tiered: whether brokers have a remote tier (KIP-405), in a folder that all brokers share.
        clocks: whether each node has a wall clock of its own.
        names: whether brokers reach each other by name.
    """

    trace_flushes: bool = False
    log_dirs: int = 1
    racks: int = 0
    controllers: int = 1
    dynamic_quorum: bool = False
    tiered: bool = False
    clocks: bool = False
    names: bool = False


PLAIN: Final = NodeOptions()


class ClusterView(Protocol):
    """The cluster's state as ZooKeeper, KRaft or brokers report it."""

    def controller(self) -> int:
        """Return the id of the active controller. On KRaft this is the quorum's leader.

        Raises:
            UnreachableError: no node that knows the controller responded.
        """

    def quorum_leader(self) -> int:
        """Return the id of the KRaft controller or ZooKeeper that is the leader.

        Raises:
            UnreachableError: there is no leader, or no node that knows the leader responded.
        """

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Return a partition's leader, leader epoch and ISR.

        Raises:
            UnreachableError: no node that knows the state responded, or no node knows the partition
                yet.
        """

    def live_brokers(self) -> frozenset[int]:
        """Return the ids of brokers that have a session (ZooKeeper) or are unfenced (KRaft)."""

    def quorum(self) -> QuorumState | None:
        """Return the KRaft quorum's state; None for ZooKeeper and for external clusters.

        Raises:
            UnreachableError: the quorum's leader did not respond.
        """

    def topic_state(self, topic: str) -> TopicState | None:
        """Return a topic's state in ZooKeeper; None if the topic does not exist.

        Raises:
            NotImplementedError: the cluster runs KRaft or is external.
            UnreachableError: ZooKeeper did not respond.
        """

    def close(self) -> None:
        """Close every connection."""


class Probe(ClusterView, Protocol):
    """Requests to a running cluster.

    Every result is the state as one broker or quorum reports it.
    """

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        """Request the LEO and the HW of a broker's replica, leader or follower.

        Raises:
            UnreachableError: the broker is down or paused, or does not have that replica (yet).
        """

    def log_start(self, broker: int, topic: str, partition: int) -> int:
        """Request the first offset of a broker's replica, leader or follower.

        Raises:
            UnreachableError: the broker is down or paused, or does not have that replica (yet).
        """

    def offset_of(
        self, broker: int, topic: str, partition: int, timestamp_ms: int | None
    ) -> int | None:
        """Return the offset of a leader's first record with this timestamp or a later one.

        Args:
            timestamp_ms: None asks for a record with the largest timestamp (3.0 and later).

        Returns:
            None if the leader finds no such record below its HW.

        Raises:
            UnreachableError: the broker is down or paused, or does not lead the partition.
        """

    def leads(self, broker: int, topic: str, partition: int) -> bool:
        """Return whether a broker acts as the leader of the partition.

        Raises:
            UnreachableError: the broker is down or paused.
        """

    def knows_epoch(self, broker: int, topic: str, partition: int, epoch: int) -> bool:
        """Return whether a broker, leader or follower, knows a leader epoch (2.1 and later).

        Raises:
            UnreachableError: the broker is down or paused.
        """

    def producers(self, broker: int, topic: str, partition: int) -> frozenset[int]:
        """Return the producer ids for which a leader stores a state (2.8 and later).

        Raises:
            UnreachableError: the broker is down or paused, or does not lead the partition.
        """

    def transactions(self, broker: int) -> frozenset[CoordinatedState]:
        """Return the states of all transactional ids of a coordinator (3.0 and later, KIP-664).

        Raises:
            UnreachableError: the broker is down or paused, or does not coordinate transactions.
        """

    def share_starts(
        self, broker: int, group: str, topic: str, partitions: Sequence[int]
    ) -> Mapping[int, int | None]:
        """Return a share group's start offset by partition; None without an offset (KIP-932).

        Raises:
            UnreachableError: the broker is down or paused, or does not coordinate the group.
        """


class ClusterNode(Protocol):
    """A broker, a ZooKeeper or a KRaft controller. A method returns after it has taken effect."""

    @property
    def id(self) -> int:
        """Id of the broker or controller, or ``myid`` of the ZooKeeper (from 100 on)."""

    @property
    def state(self) -> BrokerState:
        """The state that the last method call has set; ``down`` if the process exited by itself."""

    def install(self, level: Level) -> None:
        """Set the software level (jars, protocol, message format) of a node that is down.

        ZooKeepers are never upgraded.

        Raises:
            HarnessError: the node is not down, or the jars do not exist.
        """

    def start(self) -> None:
        """Start the node with its old data.

        Return when a broker's old session has ended and its port responds, or when a controller or
        ZooKeeper responds. If a majority of controllers or ZooKeepers runs, also wait until the
        node has joined it.

        Raises:
            HarnessError: the node exited before. The message has the last lines of its log.
        """

    def stop(self) -> None:
        """Shut the node down cleanly (SIGTERM), as an administrator does, and wait for its exit."""

    def kill(self) -> None:
        """Send SIGKILL, whether the node is paused or not."""

    def pause(self) -> None:
        """Send SIGSTOP. The process stops, but its sockets stay open."""

    def resume(self) -> None:
        """Send SIGCONT."""

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """All log directories of a broker. For a ZooKeeper or controller, its data directory."""

    def limit_writes(self, *, limited: bool) -> None:
        """Make every write to a file fail, or let writes succeed again.

        A restart also ends the limit.

        Raises:
            HarnessError: the node is down, or is not a process of this machine.
        """

    def limit_descriptors(self, *, limited: bool) -> None:
        """Prevent the node from opening more files and connections, or end this limit.

        Raises:
            HarnessError: the node is down, or is not a process of this machine.
        """

    def limit_memory(self, spare_mb: int | None) -> None:
        """Limit the memory that the node can allocate outside of Java's heap; None ends the limit.

        A thread that gets no memory fails with OutOfMemoryError, or the process ends.

        Args:
            spare_mb: the megabytes that the node can still allocate.

        Raises:
            HarnessError: the node is down, or is not a process of this machine.
        """

    def limit_container(self, *, cpus: float | None = None, spare_mb: int | None = None) -> None:
        """Set the limits of the node's container, also for its later starts. None means no limit.

        Args:
            cpus: number of processors that the node may use, such as 0.1.
            spare_mb: the memory limit, as megabytes above the memory that the node uses now without
                cached files.

        Raises:
            HarnessError: the node is not in a container.
        """

    def lose_packets(self, share: float) -> None:
        """Drop a share (from 0 to 1) of the packets that reach the node's container.

        Raises:
            HarnessError: the node is not in a container of this machine, or this user is not root.
        """

    def hold_jvm(self) -> AbstractContextManager[None]:
        """Let no Java thread of the running node run during the ``with`` block.

        Raises:
            HarnessError: the node is down, or is not an accessible process of this machine.
        """

    def inject_calls(self, rule: CallRule) -> AbstractContextManager[Callable[[], int]]:
        """Delay system calls of the running node, or let them fail, during the ``with`` block.

        The block gets a function that returns the number of changed calls so far.

        Raises:
            HarnessError: the node is down, or cannot be traced on this machine.
        """

    def shift_clock(self, offset_s: float) -> None:
        """Set the difference, in seconds, between the node's wall clock and this machine's clock.

        The node must have its own clock (``NodeOptions.clocks``). A restart keeps the offset.

        Raises:
            HarnessError: the node has the clock of this machine.
        """


class Broker(ClusterNode, Protocol):
    """One broker. A method returns after it has taken effect on the broker's process."""

    @property
    def address(self) -> str:
        """``host:port`` for clients."""

    @property
    def level(self) -> Level:
        """The broker's software level; after ``install``, the level of the broker's next start."""

    @property
    def directory(self) -> Path:
        """The broker's log directory; the first, if the broker has several log directories.

        While the broker is down, other programs may change files in it.
        """

    def read(self, name: str) -> str:
        """Return a small text file of the log directory, even while the broker is down.

        Raises:
            FileNotFoundError: the file does not exist (yet).
        """

    def take_unflushed(self) -> Mapping[Path, float]:
        """Return path -> time of small files that the broker replaced without a flush.

        Call this while the broker is down. The next call returns only later files. Times are
        seconds since 1970.

        Raises:
            HarnessError: the broker's flushes are not traced (``NodeOptions.trace_flushes``).
        """

    def restart(self) -> None:
        """Shut the broker down cleanly and start it again, as an administrator does."""

    def move_log(self, topic: str, partition: int, target: Path, *, bytes_per_s: int) -> None:
        """Request that the broker moves a replica to another of its log directories (KIP-113).

        Args:
            target: a member of ``log_directories``.
            bytes_per_s: the limit for all moves of this broker, also for later moves.

        Raises:
            UnreachableError: the broker does not respond.
            HarnessError: the broker refuses.
        """

    def resolve(self, names: Mapping[int, int | None]) -> None:
        """Change the addresses that this broker gets when it looks up other brokers' names.

        Kafka looks up a name only when it connects. A restart keeps the change.

        Args:
            names: broker id to the id of the broker whose address its name gets; None if the lookup
                fails. Names of other brokers get their own addresses.

        Raises:
            HarnessError: the brokers have no names (``NodeOptions.names``).
        """


class Coordinator(ClusterNode, Protocol):
    """One ZooKeeper or KRaft controller."""

    def lose_disk(self, *, renewed: bool = False) -> None:
        """Empty the data directory of a node that is down, and format the directory again.

        Args:
            renewed: whether the directory gets a new id. A quorum with a dynamic set of voters then
                handles the node as another voter (KIP-853).

        Raises:
            HarnessError: the node is not down.
        """


class Cluster(Protocol):
    """A cluster of brokers with its ZooKeepers or KRaft controllers."""

    @property
    def release(self) -> Release:
        """The release of the brokers. If brokers differ, the oldest release."""

    @property
    def directory(self) -> Path:
        """Directory with ``replicas/<broker id>``, ``logs/<node>.log`` and ``coordination/``."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Broker id to broker, in order of id. ZooKeepers and controllers are not included."""

    @property
    def controllers(self) -> Mapping[int, Coordinator]:
        """Controller id to ZooKeeper or KRaft controller, in order of id."""

    @property
    def bootstrap(self) -> str:
        """``host:port,host:port`` of every broker."""

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka that clients of this cluster need."""

    @property
    def network(self) -> Network | None:
        """The connections between the cluster's nodes, for network faults. None without a relay."""

    def probe(self) -> Probe:
        """Return a new probe with its own connections. Not thread-safe. The caller closes it."""

    def finalize(self, level: Level) -> None:
        """Finalize every feature of the level's protocol. KRaft only; all brokers must run.

        Raises:
            HarnessError: the controller refuses, or a broker does not get the change in time.
        """

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic. ``assignment`` has the broker ids of each partition, the leader first.

        The method waits until every partition has that leader and a full ISR, and every replica
        responds to the probe.
        """

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until brokers no longer report it. KRaft only."""

    def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions to a topic, then wait until they are ready, as for a new topic.

        Args:
            added: partition number to the broker ids of its replicas.

        Raises:
            HarnessError: Kafka refuses.
            UnreachableError: no node that can add partitions responds.
        """

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete a partition's records before an offset on all replicas (KIP-107).

        Raises:
            HarnessError: the leader refuses.
            UnreachableError: the leader does not respond, or there is no leader.
        """

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move leadership to a member of the ISR, as an administrator does. No broker fails.

        The method puts the broker first in the assignment, and requests the election of the
        preferred leader. It returns when the controller has elected the leader. The brokers may
        learn of the new leader later.

        Raises:
            WaitTimeoutError: the controller does not elect the broker in time.
        """

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], *, awaited: bool = True
    ) -> None:
        """Reassign a partition. Return when the assignment and the ISR are exactly ``replicas``.

        Without ``awaited`` (only from 2.4) the method returns as soon as the controller accepts the
        request. The request replaces a reassignment in progress.

        Raises:
            WaitTimeoutError: the reassignment does not end in time.
            HarnessError: the controller refuses.
        """

    def cancel_reassignment(self, topic: str, partition: int) -> None:
        """Cancel a reassignment in progress (KIP-455, from 2.4). Return when this is accepted.

        Raises:
            HarnessError: the controller refuses, or no reassignment is in progress.
        """

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic that is in use. The value None restores the brokers' default.

        Raises:
            UnreachableError: no node that can change settings responds.
            HarnessError: Kafka refuses.
        """

    def finalize_features(self, levels: Mapping[str, int]) -> None:
        """Finalize features at these levels or higher (KRaft, KIP-584).

        The method waits until every running broker has the levels.

        Raises:
            HarnessError: Kafka refuses.
            WaitTimeoutError: a broker does not get the change in time.
        """

    def configure_group(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a group. The group need not exist yet (KRaft, KIP-848).

        Raises:
            UnreachableError: no node that can change settings responds.
            HarnessError: Kafka refuses.
        """

    def configure_controllers(self, changes: Mapping[str, str | None]) -> None:
        """Change settings of all KRaft controllers, but not of brokers (KIP-919, since 3.7).

        Raises:
            UnreachableError: a controller does not respond.
            HarnessError: Kafka refuses.
        """

    def elect_unclean(self, topic: str, partition: int) -> None:
        """Elect a live replica, in the ISR or not, for a partition without a leader (since 2.4).

        Raises:
            LeaderKeptError: the partition has a leader.
            UnreachableError: no node that can start the election responds.
            HarnessError: Kafka refuses.
        """

    def remove_voter(self, controller_id: int) -> None:
        """Remove a controller, running or not, from the quorum's voters (KIP-853, since 3.9).

        The method returns when the removal is committed.

        Raises:
            HarnessError: Kafka refuses, or the voters of this quorum are fixed.
            WaitTimeoutError: the removal is not committed in time.
        """

    def add_voter(self, controller_id: int) -> None:
        """Add a running controller to the voters again, after ``remove_voter``."""

    def set_next_leader(self, topic: str, partition: int, broker: int) -> None:
        """Choose the ISR member that the controller will elect when the leader fails.

        The method changes the order of the assignment if needed, but not the leader epoch.

        Raises:
            WaitTimeoutError: the controller does not change the assignment in time.
        """

    def end_session(self, broker: int) -> None:
        """End a broker's session at once, as after missing heartbeats.

        A live broker gets a new session.

        Raises:
            UnreachableError: the broker has no session, or the coordination does not respond.
        """

    def keep_session(self, broker: int) -> bool:
        """Start the session timeout of a paused or dead broker again.

        Returns:
            False with ZooKeeper, where the harness cannot do this.

        Raises:
            UnreachableError: no controller responds, or the broker is not registered.
        """

    def snapshot(self, topics: Collection[str], directory: Path) -> None:
        """Pause the brokers, copy the current replicas of topics, and resume the brokers.

        Because of the pause, every copied file is consistent. ``directory`` gets a folder for each
        broker id. The folder has the broker's ``<topic>-<partition>/*`` and checkpoint files, as
        after ``freeze``.

        Raises:
            HarnessError: a file cannot be copied.
        """

    def freeze(self) -> Path:
        """Pause every broker, then kill all brokers, so that no broker changes its log directories.

        Returns:
            The folder ``replicas`` with one folder for each broker id. That folder has
            ``<topic>-<partition>/*.log``, ``leader-epoch-checkpoint`` and the broker's
            ``*-checkpoint`` files. ``freeze`` removes preallocated index files and Kafka's internal
            topics. The cluster cannot be used after ``freeze``.
        """

    def close(self) -> None:
        """Kill every process and release all resources. Never raises an error."""

"""The Protocols by which faults, workloads and stories use a cluster, whichever driver runs it.

A driver (such as ``local``) opens a cluster of real brokers and returns these Protocols; no other
package knows whether a broker is a process or a container.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import RelayRule
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import Release

BrokerState = Literal["running", "paused", "down"]


class UnreachableError(HarnessError):
    """A broker did not answer in time. Normal while faults are active; the caller decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition's state at the controller: ZooKeeper's state node, or KRaft's metadata.

    Attributes:
        leader: broker id, -1 if the partition has no leader.
        leader_epoch: None where the version has none (never, on the catalogued ones).
        isr: in the controller's order.
    """

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """A replica's state at its broker: the next offset it will write, and its own HW."""

    leo: int
    hw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """A KRaft quorum as its leader knows it (DescribeQuorum, KIP-595).

    Attributes:
        leader: its node id.
        hw: the high watermark of the metadata log: everything below it is committed.
        voters: log end offset by node id; up to there a log is the leader's.
        observers: the same of nodes that have no vote, brokers left out.
    """

    leader: int
    epoch: int
    hw: int
    voters: Mapping[int, int]
    observers: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as ZooKeeper has it.

    Attributes:
        settings: those that were set for it.
        replicas: the assignment of each partition, by number.
        partitions: the state of each partition, by number.
    """

    settings: Mapping[str, str]
    replicas: Mapping[int, tuple[int, ...]]
    partitions: Mapping[int, PartitionState]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeOptions:
    """Properties of a cluster's nodes that are not Kafka's settings alone.

    Attributes:
        trace_flushes: whether the system calls that flush and rename files are traced.
        log_dirs: number of log directories of each broker.
        racks: number of racks that brokers are in by turns; 0: none is named.
        dynamic_quorum: whether voters of the KRaft quorum can be added and removed (KIP-853).
        tiered: whether brokers have a remote tier (KIP-405), in a folder that they share.
    """

    trace_flushes: bool = False
    log_dirs: int = 1
    racks: int = 0
    dynamic_quorum: bool = False
    tiered: bool = False


PLAIN: Final = NodeOptions()


class Probe(Protocol):
    """Queries to a running cluster; every answer is the view of one broker or one quorum."""

    def controller(self) -> int:
        """Return the id of the active controller; on KRaft that of the quorum's leader.

        Raises:
            UnreachableError: no node that knows it answered.
        """

    def quorum_leader(self) -> int:
        """Return the id of the KRaft controller or ZooKeeper that leads the others.

        Raises:
            UnreachableError: none of them leads, or none that knows it answered.
        """

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Return leader, epoch and ISR.

        Raises:
            UnreachableError: no node that knows them answered, or the partition is not known yet.
        """

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        """Ask a broker, leader or follower, for LEO and HW of its replica.

        Raises:
            UnreachableError: it is down or paused, or does not have that replica (yet).
        """

    def leads(self, broker: int, topic: str, partition: int) -> bool:
        """Return whether a broker believes that it leads, whatever the controller says.

        Raises:
            UnreachableError: it is down or paused.
        """

    def knows_epoch(self, broker: int, topic: str, partition: int, epoch: int) -> bool:
        """Return whether a broker knows of a leader epoch, whatever its leader (2.1 and later).

        Raises:
            UnreachableError: it is down or paused.
        """

    def producers(self, broker: int, topic: str, partition: int) -> frozenset[int]:
        """Return the ids of producers that a leader has a state of (2.8 and later).

        Raises:
            UnreachableError: it is down or paused, or does not lead the partition.
        """

    def live_brokers(self) -> frozenset[int]:
        """Return ids of brokers that have a session (ZooKeeper) or are unfenced (KRaft)."""

    def quorum(self) -> QuorumState | None:
        """Return the state of the metadata logs; None for ZooKeeper and for external clusters.

        Raises:
            UnreachableError: the quorum's leader did not answer.
        """

    def topic_state(self, topic: str) -> TopicState | None:
        """Return what ZooKeeper has of a topic; None if it has no such topic.

        Raises:
            NotImplementedError: it is a KRaft cluster, or an external one.
            UnreachableError: ZooKeeper did not answer.
        """

    def close(self) -> None:
        """Close every connection."""


class Broker(Protocol):
    """One broker. Every method returns once it has taken effect on the process."""

    @property
    def id(self) -> int:
        """Broker id."""

    @property
    def address(self) -> str:
        """``host:port`` for clients."""

    @property
    def state(self) -> BrokerState:
        """State after the last method called, or ``down`` if it died by itself."""

    @property
    def level(self) -> Level:
        """Its level, or that from its next start on."""

    @property
    def directory(self) -> Path:
        """Its log directory, the first of several.

        Its files may be changed from outside while it is down.
        """

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """All of its log directories."""

    def read(self, name: str) -> str:
        """Return a small text file of its log directory, running or not.

        Raises:
            FileNotFoundError: the file does not exist (yet).
        """

    def take_unflushed(self) -> Mapping[Path, float]:
        """Return small files that it replaced and did not flush, and when; then forget them.

        Only where flushes are traced, and while it is down. Times are seconds since 1970.

        Raises:
            HarnessError: its flushes are not traced.
        """

    def limit_writes(self, *, limited: bool) -> None:
        """Make every write to a file fail, or end that. A restart ends it, too.

        Raises:
            HarnessError: it is not a process of this machine, or is down.
        """

    def install(self, level: Level) -> None:
        """Give a broker that is down other jars, or another protocol and message format.

        Raises:
            HarnessError: it is not down, or those jars do not exist.
        """

    def start(self) -> None:
        """Start it on the data it left, once its old session has ended.

        Returns when the process runs and its port answers.

        Raises:
            HarnessError: the broker died first; with the last lines of its log.
        """

    def stop(self) -> None:
        """Shut it down in order (SIGTERM), as an administrator would, and wait for its end."""

    def restart(self) -> None:
        """Shut it down in order and start it again, as an administrator would."""

    def kill(self) -> None:
        """Send SIGKILL, paused or not."""

    def pause(self) -> None:
        """Send SIGSTOP: it is frozen, its sockets stay open."""

    def resume(self) -> None:
        """Send SIGCONT."""


class Network(Protocol):
    """The links between the nodes of a cluster, where a relay stands between them."""

    @property
    def brokers(self) -> frozenset[int]:
        """Ids of the brokers."""

    @property
    def nodes(self) -> frozenset[int]:
        """The brokers, and ``clusters.relay.rules.COORDINATION``, which is every controller."""

    @property
    def controllers(self) -> frozenset[int]:
        """Node numbers of the ZooKeepers or KRaft controllers between which the relay stands."""

    @property
    def topic_id(self) -> Callable[[str], str]:
        """Function from a topic to the id by which brokers fetch it; "" where they use its name."""

    def under(self, *rules: RelayRule) -> AbstractContextManager[None]:
        """Apply rules to links while the block lasts; afterwards everything goes on."""

    def hw_held(
        self, topic: str, partition: int, *followers: int, above: int
    ) -> AbstractContextManager[None]:
        """Hold every response to followers with a HW above an offset, while the block lasts."""

    def await_held(self, what: str, *targets: int, since_ns: int = 0, limit_s: float) -> None:
        """Wait until a message of one kind to each of these nodes has been held back.

        Raises:
            WaitTimeoutError: it has not happened within the limit.
        """

    def watch(self, watcher: Callable[[dict[str, Any]], None] | None) -> None:
        """Call ``watcher`` for every message about replication, on the relay's own thread."""

    def catch(self, rule: MessageRule) -> "CaughtMessages":
        """Act on single messages until ``release``."""

    def clients(self) -> list[str]:
        """Return the clients whose connections pass the relay now, such as ``producer-0``."""

    def name_client(self, name: str, pid: int) -> None:
        """Know a process, and what it starts, as a client of that name, from now on."""

    def record_requests(self, topics: Collection[str], group: str) -> None:
        """Tell the watcher of clients' requests that write to topics, or commit as a group.

        Without topics that ends, and names of processes are forgotten.
        """


class CaughtMessages(Protocol):
    """The messages that one rule acts on."""

    @property
    def caught(self) -> int:
        """The number of messages that it has acted on so far."""

    def await_event(self, event: str, *, limit_s: float, times: int = 1) -> None:
        """Wait until an event (``docs/wire.md``) has happened to messages of the rule.

        Raises:
            WaitTimeoutError: it has not happened so often within the limit.
        """

    def events(self, *names: str) -> Sequence[Mapping[str, Any]]:
        """Return the events so far, in their order; of these names, if any is given."""

    def let_pass(self, *, lose: bool = False) -> None:
        """Let the messages in hand go on, or lose them; the rule acts on those to come."""

    def release(self, cause: str = "order") -> None:
        """End the rule; messages in hand go on. May be called twice."""


class Coordinator(Protocol):
    """One ZooKeeper or KRaft controller. Every method returns once it has taken effect."""

    @property
    def id(self) -> int:
        """Node id of the controller, or ``myid`` of ZooKeeper; the first is 100."""

    @property
    def state(self) -> BrokerState:
        """State after the last method called, or ``down`` if it died by itself."""

    def install(self, level: Level) -> None:
        """Give a KRaft controller that is down other jars. ZooKeeper is never upgraded.

        Raises:
            HarnessError: it is not down, or those jars do not exist.
        """

    def lose_disk(self, *, renewed: bool = False) -> None:
        """Empty the data directory of one that is down, and format it anew.

        Args:
            renewed: whether the directory gets another id: in a quorum whose voters can be added
                and removed it is another voter then (KIP-853).

        Raises:
            HarnessError: it is not down.
        """

    def start(self) -> None:
        """Start it on the data it left; wait until it answers, and follows or leads a majority.

        While less than a majority runs, it is enough that it answers.
        """

    def stop(self) -> None:
        """Shut it down in order (SIGTERM), and wait for its end."""

    def kill(self) -> None:
        """Send SIGKILL, paused or not."""

    def pause(self) -> None:
        """Send SIGSTOP."""

    def resume(self) -> None:
        """Send SIGCONT."""


class Cluster(Protocol):
    """A cluster of brokers, its coordination included."""

    @property
    def release(self) -> Release:
        """The catalogued release that every broker runs; the oldest, while they differ."""

    @property
    def directory(self) -> Path:
        """Directory of ``replicas/<broker id>``, ``logs/<node>.log`` and ``coordination/``."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Broker id to broker, in order of id, without ZooKeeper and controllers."""

    @property
    def controllers(self) -> Mapping[int, Coordinator]:
        """Id to each ZooKeeper or KRaft controller, in order of id."""

    @property
    def bootstrap(self) -> str:
        """``host:port,host:port`` of every broker."""

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka that clients need."""

    @property
    def network(self) -> Network | None:
        """The links between its nodes, for network faults; None without a relay."""

    def probe(self) -> Probe:
        """Return a new probe with its own connections. Not thread-safe. The caller closes it."""

    def finalize(self, level: Level) -> None:
        """Finalize every feature of a level's protocol on a KRaft cluster whose brokers all run.

        Raises:
            HarnessError: the controller refuses, or a broker does not learn of it in time.
        """

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic with the given placement, the first replica as preferred leader.

        Waits until every partition has that leader and a full ISR and every replica answers, as
        the probe sees it.
        """

    def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions to a topic, by number with their replicas; wait as for a new topic.

        Raises:
            HarnessError: Kafka refuses.
            UnreachableError: no node that could do it answers.
        """

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move leadership to a member of the ISR as an administrator does; no broker fails.

        The broker becomes the first of the assignment, and the controller is asked to elect the
        preferred leader. Returns when the controller has decided; the brokers may not know yet.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], *, awaited: bool = True
    ) -> None:
        """Give a partition other replicas; return when exactly these exist and are in sync.

        Without ``awaited`` it returns as soon as the controller has been asked.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic that is in use; None restores the brokers' default.

        Raises:
            UnreachableError: no node that could do it answers.
            HarnessError: Kafka refuses.
        """

    def finalize_features(self, levels: Mapping[str, int]) -> None:
        """Finalize features at these levels or higher (KRaft, KIP-584), on every running broker.

        Raises:
            HarnessError: Kafka refuses.
            WaitTimeoutError: a broker does not learn of it.
        """

    def configure_group(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a group, which need not exist yet (KRaft, KIP-848).

        Raises:
            UnreachableError: no node that could do it answers.
            HarnessError: Kafka refuses.
        """

    def elect_unclean(self, topic: str, partition: int) -> None:
        """Elect a live replica, in the ISR or not, for a partition without a leader (2.4+).

        Raises:
            UnreachableError: no node that could do it answers.
            HarnessError: Kafka refuses.
        """

    def remove_voter(self, controller_id: int) -> None:
        """Remove a controller, running or not, from the voters of the quorum (KIP-853, 3.9 on).

        Returns when that is committed.

        Raises:
            HarnessError: Kafka refuses, or the voters of this quorum never change.
            WaitTimeoutError: it is not done in time.
        """

    def add_voter(self, controller_id: int) -> None:
        """Add a controller that runs to the voters again, as ``remove_voter`` removes it."""

    def set_next_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make a member of the ISR the one that is elected when the leader fails.

        Changes the order of the assignment if needed, but no leader epoch.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def end_session(self, broker: int) -> bool:
        """End a broker's session now, as if it had been silent for too long.

        Returns:
            False where that is impossible (KRaft): there only a silent broker's session ends.

        Raises:
            UnreachableError: it has no session, or ZooKeeper does not answer.
        """

    def snapshot(self, topics: Collection[str], directory: Path) -> None:
        """Copy topics' replicas as they are at one moment, and let the cluster go on.

        Every running broker is paused meanwhile, so that no copy is torn. ``directory`` gets what
        ``freeze`` would leave of the topics: a folder for each broker id with
        ``<topic>-<partition>/*`` and the broker-wide files.

        Raises:
            HarnessError: a file cannot be copied.
        """

    def freeze(self) -> Path:
        """Pause every broker, kill them all, and leave the log directories as they are.

        Returns:
            The folder ``replicas`` with one folder for each broker id:
            ``<topic>-<partition>/*.log`` and ``leader-epoch-checkpoint``, and the broker-wide
            ``*-checkpoint`` files. Preallocated index files and Kafka's internal topics are
            removed. The cluster cannot be used afterwards.
        """

    def close(self) -> None:
        """Kill every process and release all resources. Never raises; may be called twice."""


class Driver(Protocol):
    """Opens a cluster, as ``clusters.local.driver.open_cluster`` does."""

    def __call__(
        self,
        release: Release,
        directory: Path,
        *,
        brokers: int,
        broker_config: Mapping[str, str],
        wired: bool = False,
        clients_wired: bool = False,
        controllers: int = 1,
        options: NodeOptions = PLAIN,
    ) -> Cluster:
        """Start a cluster below ``directory`` (``replicas/``, ``logs/``, ``coordination/``).

        Args:
            release: from ``harness.releases.catalogue.release(name)``.
            directory: directory of the run; log directories are ``directory/replicas/<broker id>``
                from the start, so that even a killed harness leaves them where the judge looks.
            brokers: number of brokers; ids count from 1.
            broker_config: settings that add to and override the driver's own, in Kafka's names.
            wired: whether the relay stands between its nodes, so that it has a network.
            clients_wired: whether it also stands between clients and brokers, where ``bootstrap``
                leads to it.
            controllers: number of ZooKeepers or KRaft controllers, which is odd; ids count from
                100.
            options: properties of its nodes.

        Returns once every broker has registered.

        Raises:
            HarnessError: a node died; with the last lines of its log.
        """

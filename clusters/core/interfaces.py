"""What a fault, a workload or a story may know of a cluster, whichever driver runs it.

A driver (``local`` today) opens a cluster of real brokers and hands out these Protocols; nothing
above this room knows whether a broker is a process or a container.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from highwater.clusters.relay.rules import RelayRule
from highwater.clusters.releases.catalogue import Release
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError

BrokerState = Literal["running", "paused", "down"]


class UnreachableError(HarnessError):
    """A broker did not answer in time. Ordinary while faults happen; whoever asks decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What the controller says of a partition: ZooKeeper's state node, or KRaft's metadata.

    Attributes:
        leader: broker id, -1 when there is none.
        leader_epoch: None where the version does not tell (never, on the catalogued ones).
        isr: in the order the controller keeps it.
    """

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """What a replica says of itself: the next offset it will write, and its own high watermark."""

    leo: int
    hw: int


class Probe(Protocol):
    """Questions to a running cluster; every answer is one broker's or one quorum's view."""

    def controller(self) -> int:
        """Broker id of the active controller; on KRaft the id of the quorum's leader.

        Raises:
            UnreachableError: nobody who knows answered.
        """

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Leader, epoch and ISR.

        Raises:
            UnreachableError: nobody who knows answered, or the partition is not known yet.
        """

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        """LEO and HW of one replica, asked of that broker itself, leader or follower.

        Raises:
            UnreachableError: it is down or paused, or does not hold that replica (yet).
        """

    def leads(self, broker: int, topic: str, partition: int) -> bool:
        """Whether a broker takes itself to be the leader, whatever the controller says.

        Raises:
            UnreachableError: it is down or paused.
        """

    def live_brokers(self) -> frozenset[int]:
        """Ids of brokers that hold a session (ZooKeeper) or are unfenced (KRaft)."""

    def close(self) -> None:
        """Give back every connection."""


class Broker(Protocol):
    """One broker. Every verb returns once it has taken effect on the process."""

    @property
    def id(self) -> int:
        """Broker id."""

    @property
    def address(self) -> str:
        """``host:port`` for clients."""

    @property
    def state(self) -> BrokerState:
        """What was last done to it, or ``down`` if it died by itself."""

    @property
    def level(self) -> Level:
        """What it runs, or is to run from its next start on."""

    @property
    def directory(self) -> Path:
        """Its log directory. Its files may be changed from outside while it is down."""

    def read(self, name: str) -> str:
        """A small text file of its log directory, whether it runs or not.

        Raises:
            FileNotFoundError: there is none (yet).
        """

    def limit_writes(self, *, limited: bool) -> None:
        """Let it write no byte to any file any more, or again. A restart ends that, too.

        Raises:
            HarnessError: it is no process of this machine, or is down.
        """

    def install(self, level: Level) -> None:
        """Give a broker that is down other jars, or another protocol and message format.

        Raises:
            HarnessError: it is not down, or there are no such jars.
        """

    def start(self) -> None:
        """Start it on the data it left; a refused registration (old session) is waited out.

        Returns when the process runs and its port answers. Raises HarnessError with the broker's
        own last words when it dies first.
        """

    def stop(self) -> None:
        """Shut it down in order (SIGTERM), as an administrator would, and wait for its end."""

    def kill(self) -> None:
        """SIGKILL, paused or not."""

    def pause(self) -> None:
        """SIGSTOP: frozen, sockets open."""

    def resume(self) -> None:
        """SIGCONT."""


class Network(Protocol):
    """The links between the nodes of a cluster, where a wire is between them."""

    @property
    def brokers(self) -> frozenset[int]:
        """Ids of the brokers."""

    @property
    def nodes(self) -> frozenset[int]:
        """The brokers, and ``clusters.relay.rules.COORDINATION``."""

    @property
    def topic_id(self) -> Callable[[str], str]:
        """Gives the id by which brokers fetch a topic; empty where they use its name."""

    def under(self, *rules: RelayRule) -> AbstractContextManager[None]:
        """Do these things to links while the block lasts; afterwards everything goes on."""

    def hw_held(
        self, topic: str, partition: int, *followers: int, above: int
    ) -> AbstractContextManager[None]:
        """Keep followers from hearing of a HW above some offset, while the block lasts."""

    def await_held(self, what: str, *targets: int, since_ns: int = 0, limit_s: float) -> None:
        """Wait until a message of one kind to each of these nodes has been held back.

        Raises:
            WaitTimeoutError: that has not come within the limit.
        """

    def watch(self, watcher: Callable[[dict[str, Any]], None] | None) -> None:
        """Hear of every message that tells something of replication, on the wire's own thread."""


class Coordinator(Protocol):
    """ZooKeeper or the KRaft controller. Every verb returns once it has taken effect."""

    @property
    def state(self) -> BrokerState:
        """What was last done to it, or ``down`` if it died by itself."""

    def install(self, level: Level) -> None:
        """Give a KRaft controller that is down other jars. ZooKeeper stays what it is.

        Raises:
            HarnessError: it is not down, or there are no such jars.
        """

    def start(self) -> None:
        """Start it on the data it left, and wait until it answers."""

    def stop(self) -> None:
        """Shut it down in order (SIGTERM), and wait for its end."""

    def kill(self) -> None:
        """SIGKILL, paused or not."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class Cluster(Protocol):
    """A cluster of brokers, its coordination included."""

    @property
    def release(self) -> Release:
        """The catalogued release that every broker runs; the oldest, while they differ."""

    @property
    def directory(self) -> Path:
        """Where it keeps ``replicas/<broker id>``, ``logs/<node>.log`` and ``coordination/``."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Broker id to broker, in order of id, without ZooKeeper and controllers."""

    @property
    def coordinator(self) -> Coordinator:
        """ZooKeeper, or the KRaft controller."""

    @property
    def bootstrap(self) -> str:
        """``host:port,host:port`` of every broker."""

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka without which clients cannot talk to it."""

    @property
    def network(self) -> Network | None:
        """The links between its nodes, which can be cut and held; None without a wire."""

    def probe(self) -> Probe:
        """A new probe with connections of its own, for one thread. Whoever asks closes it."""

    def finalize(self, level: Level) -> None:
        """Have a KRaft cluster whose brokers all run use every feature of a level's protocol.

        Raises:
            HarnessError: the controller refuses, or a broker does not hear of it in time.
        """

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic with its replicas placed as told, the first as preferred leader.

        Waits until every partition has that leader and a full ISR and every replica answers, as
        the probe sees it.
        """

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move leadership to a member of the ISR as an administrator does, with nobody failing.

        The broker becomes the first of the assignment, and the controller is asked to elect the
        preferred leader. Returns when the controller has decided; the brokers may not know yet.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Give a partition other replicas; returns when these alone are there and in sync.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic that is in use; None puts one back to the brokers' own.

        Raises:
            UnreachableError: nobody who could do it answers.
            HarnessError: Kafka refuses.
        """

    def elect_unclean(self, topic: str, partition: int) -> None:
        """Have somebody who lives lead a partition that has no leader, in the ISR or not (2.4+).

        Raises:
            UnreachableError: nobody who could do it answers.
            HarnessError: Kafka refuses.
        """

    def set_next_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make a member of the ISR the one that is elected when the leader is gone.

        Changes the order of the assignment where that is needed, and no leader epoch.

        Raises:
            WaitTimeoutError: the controller does not do it.
        """

    def end_session(self, broker: int) -> bool:
        """End a broker's session now, as if it had been silent for too long.

        Returns:
            False where that cannot be done (KRaft): the session of a broker that is silent ends by
            itself.

        Raises:
            UnreachableError: it has no session, or ZooKeeper does not answer.
        """

    def snapshot(self, topic: str, directory: Path) -> None:
        """Copy one topic's replicas as they lie at one moment, and let the cluster go on.

        Every running broker is paused meanwhile, so that no copy is torn. ``directory`` gets what
        ``freeze`` would leave of the topic: a folder a broker id with ``<topic>-<partition>/*`` and
        the broker-wide files.

        Raises:
            HarnessError: a file cannot be copied.
        """

    def freeze(self) -> Path:
        """Stop time: pause every broker, kill them all, and leave the log directories as they lay.

        Returns:
            The folder ``replicas`` with one folder a broker id: ``<topic>-<partition>/*.log`` and
            ``leader-epoch-checkpoint``, and the broker-wide ``*-checkpoint`` files. Preallocated
            index files and Kafka's internal topics are removed. The cluster cannot be used
            afterwards.
        """

    def close(self) -> None:
        """Kill whatever still runs and give everything back. Never raises; may be called twice."""


class Driver(Protocol):
    """Opens a cluster; ``clusters.local.driver.open_cluster`` is one."""

    def __call__(
        self,
        release: Release,
        directory: Path,
        *,
        brokers: int,
        broker_config: Mapping[str, str],
        wired: bool = False,
    ) -> Cluster:
        """Start a cluster below ``directory`` (``replicas/``, ``logs/``, ``coordination/``).

        Args:
            release: from ``clusters.releases.catalogue.release(name)``.
            directory: of the run; log directories are ``directory/replicas/<broker id>`` from the
                start, so that even a killed harness leaves them where the judge looks.
            brokers: how many; ids count from 1.
            broker_config: settings beside and above the driver's own, as Kafka spells them.
            wired: whether the wire is to stand between its nodes, so that it has a network.

        Returns once every broker has registered. Raises HarnessError with the last words of what
        died.
        """

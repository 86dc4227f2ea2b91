"""A cluster of real brokers, in processes or containers: the methods that all drivers share."""

import contextlib
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType

from highwater.clusters.admin import sessions, topic_config, topics, voters
from highwater.clusters.admin.administered import AdministeredCluster
from highwater.clusters.admin.metadata import (
    CoordinationView,
    KraftView,
    ZooKeeperView,
    known_leader,
    require_answer,
    zookeeper_status,
)
from highwater.clusters.admin.probe import ClusterProbe
from highwater.clusters.brokers import freeze, log_moves
from highwater.clusters.brokers.coordinator import RealCoordinator, RealNode
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import (
    PLAIN,
    Broker,
    Coordinator,
    NodeOptions,
    Probe,
    QuorumState,
    UnreachableError,
)
from highwater.clusters.nodes import (
    flush_trace,
    kraft_features,
)
from highwater.clusters.nodes.layout import Layout, disk_errors
from highwater.clusters.nodes.node import START_LIMIT_S, Node
from highwater.clusters.nodes.site import Site
from highwater.clusters.nodes.wiring import Wiring
from highwater.clusters.relay.network import Network
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import Release

_EPOCH = re.compile(rb"Successfully registered broker \d+ with broker epoch (\d+)")
_GONE_S = 10.0
_TELLS_LEADER = (3, 7)
"""The first release whose controllers answer DescribeCluster (KIP-919)."""


class RealBroker(RealNode):
    """One broker; implements Broker in ``clusters.core.interfaces``."""

    def __init__(
        self,
        broker_id: int,
        node: Node,
        layout: Layout,
        level: Level,
        await_session_end: Callable[[int], None],
    ) -> None:
        super().__init__(broker_id, node)
        self._level = level
        self._layout = layout
        self._await_session_end = await_session_end

    @property
    def address(self) -> str:
        """The broker's address, as ``host:port``."""
        return str(self._node.address)

    @property
    def level(self) -> Level:
        """The broker's software level; after ``install``, the level of the broker's next start."""
        return self._level

    def install(self, level: Level) -> None:
        """Write the settings for a software level. The next start uses the level's jars."""
        self.require_down("Stop it first.")
        with disk_errors(self._layout.directory):
            plan = self._layout.broker_plan(self._id, level.release, level.settings)
        self._node.replace_plan(plan)
        self._level = level

    def finalized(self, level: Level) -> None:
        """Store the broker's level after the cluster has finalized the level's features."""
        self._level = level

    @property
    def directory(self) -> Path:
        """The broker's first log directory."""
        return self.log_directories[0]

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """All log directories of the broker."""
        return self._layout.log_directories(self._id)

    def read(self, name: str) -> str:
        """Return a small text file of the log directory, even while the broker is down."""
        return (self.directory / name).read_text(encoding="utf-8")

    def epoch(self) -> int:
        """Return the broker's epoch, which its log has since the registration (KRaft).

        Raises:
            UnreachableError: the log has no registration.
        """
        text = self._node.log.read_bytes()
        if not (epochs := _EPOCH.findall(text)):
            raise UnreachableError(f"the log of broker {self._id} has no registration")
        return int(epochs[-1])

    def take_unflushed(self) -> Mapping[Path, float]:
        """Return path -> time of files replaced without a flush. Delete the flush trace."""
        trace = flush_trace.trace_of(self._node.log)
        files = flush_trace.unflushed(trace)
        trace.unlink()
        return files

    def start(self) -> None:
        """Wait for the end of the old session, and start. Do nothing after ``close``."""
        if self._node.state == "running" or self._node.released:
            return
        if self._node.state == "paused":
            raise HarnessError(f"broker {self._id} is paused", hint="Resume it instead.")
        self._await_session_end(self._id)
        self._node.launch()
        self._node.wait_for(self._node.require_listening, "to listen")

    def resolve(self, names: Mapping[int, int | None]) -> None:
        """Write the broker's hosts file."""
        self._layout.resolve(self._id, names)

    def move_log(self, topic: str, partition: int, target: Path, *, bytes_per_s: int) -> None:
        """Send AlterReplicaLogDirs to the broker."""
        log_moves.move(
            self._id, self._node.address, topic, partition, target, bytes_per_s=bytes_per_s
        )

    def restart(self) -> None:
        """Stop the broker, and start it, even if the stop failed."""
        try:
            self.stop()
        finally:
            self.start()


class RealCluster(AdministeredCluster):
    """A cluster of real brokers (Cluster in ``clusters.core.interfaces``). A driver opens it.

    Args:
        release: release of every node, until another release is installed.
        directory: directory of the run.
        site: starts the nodes as processes or containers; ``close`` also closes the site.
        broker_config: broker settings that override the driver's own.
        wired: whether nodes connect to each other through the relay.
        clients_wired: whether clients also connect to brokers through the relay.
        options: properties of the nodes.
    """

    def __init__(
        self,
        release: Release,
        directory: Path,
        site: Site,
        *,
        broker_config: Mapping[str, str],
        wired: bool = False,
        clients_wired: bool = False,
        options: NodeOptions = PLAIN,
    ) -> None:
        self._release = release
        self._site = site
        try:
            self._wiring = Wiring(release, site, clients=clients_wired) if wired else None
        except BaseException:
            site.close()
            raise
        self._level = Level.from_settings(release, broker_config)
        self._layout = Layout(
            self._level,
            directory.absolute(),
            site,
            overrides=broker_config,
            wiring=self._wiring,
            options=options,
        )
        self._dynamic_quorum = options.dynamic_quorum
        self._nodes: list[Node] = []
        self._brokers: dict[int, RealBroker] = {}
        self._controllers: dict[int, RealCoordinator] = {}

    @property
    def release(self) -> Release:
        """Release of the brokers. If brokers differ, the oldest release."""
        releases = [broker.level.release for broker in self._brokers.values()]
        return min(releases, key=lambda release: release.number, default=self._release)

    @property
    def directory(self) -> Path:
        """Directory with the cluster's replicas, logs and coordination files."""
        return self._layout.directory

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Broker id to broker."""
        return MappingProxyType(self._brokers)

    @property
    def controllers(self) -> Mapping[int, Coordinator]:
        """Controller id to ZooKeeper or KRaft controller."""
        return MappingProxyType(self._controllers)

    def address_of(self, controller_id: int) -> Address:
        """Return the address at which the harness reaches a ZooKeeper or KRaft controller."""
        return self._site.public.coordination[controller_id]

    def add_voter(self, controller_id: int) -> None:
        """Send AddRaftVoter to the quorum's leader, to add a controller to the voters."""
        directory, endpoint = self._layout.voter(controller_id)
        voters.add_voter(self._site.public.coordination, controller_id, directory, endpoint)

    def remove_voter(self, controller_id: int) -> None:
        """Send RemoveRaftVoter to the quorum's leader, to remove a controller from the voters."""
        directory, _ = self._layout.voter(controller_id)
        voters.remove_voter(self._site.public.coordination, controller_id, directory)

    def _ask_controller(self, controller_id: int) -> None:
        """Send a request to a ZooKeeper or controller.

        Raises:
            UnreachableError: the node does not respond. Or a majority runs, but the node knows no
                leader.
        """
        address = self.address_of(controller_id)
        states = [controller.state for controller in self._controllers.values()]
        majority = 2 * states.count("running") > len(states)
        if self._release.coordination == "kraft":
            if self._release.number >= _TELLS_LEADER:
                leader = known_leader(address)
            else:
                require_answer(address)
                leader = self._quorum_leader()
            if leader < 0 and majority:
                raise UnreachableError("the KRaft quorum has no leader")
        elif len(states) > 1 and not majority:
            zookeeper_status(address)
        else:
            with contextlib.closing(ZooKeeperView({controller_id: address})) as view:
                view.live_brokers()

    def _quorum_leader(self) -> int:
        with contextlib.closing(self._view()) as view, contextlib.suppress(UnreachableError):
            return view.controller()
        return -1

    @property
    def bootstrap(self) -> str:
        """``host:port,host:port`` of the brokers, or of the relay if clients connect through it."""
        brokers = (self._wiring.clients if self._wiring else {}) or self._site.public.brokers
        return ",".join(map(str, brokers.values()))

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka that clients of this release need."""
        return self._release.client

    @property
    def pids(self) -> frozenset[int]:
        """Process ids of all nodes that run on this machine, including ZooKeepers."""
        return frozenset(pid for node in self._nodes for pid in node.pids)

    @property
    def network(self) -> Network | None:
        """The connections between the cluster's nodes. None without a relay."""
        if self._wiring is None:
            return None
        return Network(
            self._wiring.relay,
            frozenset(self._brokers),
            self._topic_id,
            controllers=self._wiring.voters,
        )

    def _topic_id(self, topic: str) -> str:
        """Return the topic's id if this release's fetch requests have ids, otherwise ""."""
        with contextlib.closing(self._view()) as view:
            return view.topic_id(topic)

    def open(self) -> None:
        """Start every node at once and wait until all brokers have registered."""
        replicas = self._layout.replicas
        with disk_errors(replicas.parent):
            if replicas.exists() and any(replicas.iterdir()):
                raise HarnessError(
                    f"{replicas} has replicas of another cluster",
                    hint="Choose another directory: every cluster needs its own.",
                )
            self._layout.prepare()
            controllers, brokers = self._prepare_controllers(), self._prepare_brokers()
            if self._dynamic_quorum:
                self._launch(*controllers)
                self._await_voters()
                controllers = []
            self._launch(*controllers, *brokers)
        self._await_registration()

    def _await_voters(self) -> None:
        """Wait until the quorum has committed its first set of voters, before any broker starts.

        Otherwise a broker may read the set from a leader, and then truncate it from its log. Such a
        broker never reads the voters again, and finds no controller
        (docs/findings/forgotten-voters.md).
        """
        with contextlib.closing(self._view()) as view:

            def look() -> QuorumState | None:
                for node in self._nodes:
                    node.require_alive()
                return view.quorum()

            await_condition(
                look,
                lambda quorum: quorum is not None and quorum.hw > 0,
                what="the quorum to commit its voters",
                limit_s=START_LIMIT_S,
                passing=(UnreachableError,),
            )

    def probe(self) -> Probe:
        """Return a new probe, which reads the state of replicas and leaders. Not thread-safe."""
        return ClusterProbe(
            lambda broker: self._brokers[broker].level.release.wire,
            self._site.public.brokers,
            self._view(),
        )

    def finalize(self, level: Level) -> None:
        """Finalize the features of the level's protocol (``kraft_features.source``)."""
        self.finalize_features(kraft_features.features(kraft_features.source(level)))
        for broker in self._brokers.values():
            broker.finalized(level)

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic, and wait until it is ready; see ``Cluster.create_topic``."""
        with contextlib.closing(self.probe()) as probe:
            topics.create_topic(
                self.release,
                self._site.public.brokers,
                probe,
                name,
                assignment,
                settings,
                coordination=self._site.public.coordination,
            )

    def finalize_features(self, levels: Mapping[str, int]) -> None:
        """Send the KRaft controller each feature level that is higher than its finalized level."""
        kraft_features.finalize_features(self._running(), levels)

    def configure_group(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Send a group's changed settings to the KRaft controller."""
        topic_config.request(self._running(), group, changes, kind=topic_config.GROUP)

    def configure_controllers(self, changes: Mapping[str, str | None]) -> None:
        """Send each KRaft controller the changes of its settings (KIP-919)."""
        addresses = self._site.public.coordination
        for controller, at in addresses.items():
            topic_config.request(
                {controller: at}, str(controller), changes, kind=topic_config.BROKER
            )

    def _running(self) -> dict[int, Address]:
        addresses = self._site.public.brokers
        return {
            broker: addresses[broker]
            for broker in addresses
            if self._brokers[broker].state == "running"
        }

    def end_session(self, broker: int) -> None:
        """Close the broker's session in ZooKeeper, or fence the broker on KRaft."""
        if self._release.coordination == "kraft":
            self._send_heartbeat(broker, fence=True)
            return
        with contextlib.closing(self._view()) as view:
            assert isinstance(view, ZooKeeperView)
            view.end_session(broker)

    def keep_session(self, broker: int) -> bool:
        """Send a heartbeat for a broker to the active KRaft controller."""
        if self._release.coordination != "kraft":
            return False
        self._send_heartbeat(broker, fence=False)
        return True

    def _send_heartbeat(self, broker: int, *, fence: bool) -> None:
        epoch = self._brokers[broker].epoch()
        sessions.send_heartbeat(self._site.public.coordination, broker, epoch, fence=fence)

    def snapshot(self, topics: Collection[str], directory: Path) -> None:
        """Pause every broker, copy the replicas of topics, and resume the brokers."""
        with self._paused():
            freeze.copy_topics(self._layout.replicas, topics, directory)

    @contextlib.contextmanager
    def _paused(self, *but: int) -> Iterator[None]:
        """Pause every running broker except ``but``, while the context is open."""
        running = [broker for broker in self._brokers.values() if broker.state == "running"]
        with contextlib.ExitStack() as resuming:
            for broker in running:
                if broker.id not in but:
                    resuming.callback(broker.resume)
                    _pause(broker)
            yield

    def freeze(self) -> Path:
        """Pause every broker, kill every node, and remove files that are not evidence."""
        for broker in self._brokers.values():
            if broker.state == "running":
                _pause(broker)
        _in_parallel(Node.kill, self._nodes)
        self.close()
        freeze.merge_log_dirs(self._layout.replicas)
        return freeze.prune(self._layout.replicas, self._layout.coordination)

    def close(self) -> None:
        """Kill every process and release all resources. Never raises an error."""
        _in_parallel(Node.release, self._nodes)
        for node in self._nodes:
            node.wait_until_down(_GONE_S)
        if self._wiring is not None:
            self._wiring.close()
        self._site.close()
        shutil.rmtree(self._layout.scratch, ignore_errors=True)

    def _await_session_end(self, broker_id: int) -> None:
        """Wait until a broker's old session has ended, because ZooKeeper refuses a second session.

        On KRaft do nothing: the broker repeats its registration until the controller accepts it.
        """
        if self._release.coordination == "kraft":
            return
        with contextlib.closing(self._view()) as view:
            await_condition(
                view.live_brokers,
                lambda live: broker_id not in live,
                what=f"the old session of broker {broker_id} to end",
                limit_s=START_LIMIT_S,
                every_s=0.02,
                passing=(UnreachableError,),
            )

    def _view(self, brokers: Mapping[int, Address] | None = None) -> CoordinationView:
        """Return a view of the cluster's state. On KRaft, it asks ``brokers`` (default: all)."""
        if self._release.coordination == "zookeeper":
            return ZooKeeperView(self._site.public.coordination)
        return KraftView(
            self._site.public.brokers if brokers is None else brokers,
            self._site.public.coordination,
            metadata=self._release.wire.metadata,
        )

    def _await_registration(self) -> None:
        expected = frozenset(self._brokers)

        def look() -> frozenset[int]:
            self._require_alive()  # a container's port listens even if its broker has exited
            return _live(view)

        with contextlib.closing(self._view()) as view:
            # Connect only to brokers' ports. If a client disconnects before ZooKeeper 3.4 has
            # loaded its data, that ZooKeeper loops for ever.
            brokers = self._site.public.brokers.values()
            self._await_ports([node for node in self._nodes if node.address in brokers])
            for node in self._nodes:
                node.wait_for(
                    look, "and every other broker to register", lambda live: live == expected
                )

    def _require_alive(self) -> None:
        """Raise an error if any node has exited: then the other brokers may wait for ever."""
        for node in self._nodes:
            node.require_alive()

    def _await_ports(self, brokers: Sequence[Node]) -> None:
        """Wait until every broker listens. Ask all in parallel, because containers respond slowly.

        Ctrl-C ends the wait.
        """
        cancelled = threading.Event()

        def look(broker: Node) -> None:
            self._require_alive()
            if not cancelled.is_set():
                broker.require_listening()

        with ThreadPoolExecutor(len(brokers)) as pool, contextlib.ExitStack() as leaving:
            leaving.callback(cancelled.set)
            waits = [
                pool.submit(node.wait_for, partial(look, node), "to listen") for node in brokers
            ]
            for wait in waits:
                wait.result()

    def _prepare_controllers(self) -> list[Node]:
        nodes = []
        for controller_id in self._site.public.coordination:
            node = self._layout.controller(controller_id)
            self._controllers[controller_id] = RealCoordinator(
                controller_id, node, self._layout, partial(self._ask_controller, controller_id)
            )
            nodes.append(node)
        return nodes

    def _prepare_brokers(self) -> list[Node]:
        nodes = []
        for broker_id in self._site.public.brokers:
            node = self._layout.broker(broker_id)
            self._brokers[broker_id] = RealBroker(
                broker_id, node, self._layout, self._level, self._await_session_end
            )
            nodes.append(node)
        return nodes

    def _launch(self, *nodes: Node) -> None:
        self._nodes += nodes
        _in_parallel(Node.launch, nodes)


def rehearse(release: Release, site: Site, directory: Path) -> None:
    """Start one broker, create a topic, and stop the broker, which archives its classes."""
    with contextlib.closing(RealCluster(release, directory, site, broker_config={})) as cluster:
        cluster.open()
        cluster.create_topic("rehearsal", [[1]], {})
        cluster.brokers[1].stop()


def _pause(broker: RealBroker) -> None:
    """Pause a broker. Do nothing if the broker has exited."""
    try:
        broker.pause()
    except HarnessError:
        if broker.state != "down":
            raise


def _in_parallel(verb: Callable[[Node], None], nodes: Sequence[Node]) -> None:
    """Call ``verb`` on all nodes in parallel. After all calls, raise the first error."""
    if nodes:
        with ThreadPoolExecutor(len(nodes), thread_name_prefix="node") as pool:
            for done in [pool.submit(verb, node) for node in nodes]:
                done.result()


def _live(view: CoordinationView) -> frozenset[int]:
    """Return the registered brokers; empty if no ZooKeeper or controller responds."""
    try:
        return view.live_brokers()
    except UnreachableError:
        return frozenset()

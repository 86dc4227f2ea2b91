"""The files of a cluster's nodes, and a plan for each node: command, settings, log."""

import contextlib
import errno
import shutil
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import PLAIN, NodeOptions
from highwater.clusters.core.java_properties import to_properties
from highwater.clusters.nodes import broker_names, config_files, jvm, kraft_features
from highwater.clusters.nodes.node import Node
from highwater.clusters.nodes.site import NodePlan, Site
from highwater.clusters.nodes.wiring import Wiring
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import Release
from highwater.harness.runs.plan import rack_of
from highwater.harness.runs.store import MORE_LOG_DIRS

_KAFKA_MAIN = "kafka.Kafka"
_ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER = "zookeeper"
_ZOOKEEPER_PROPERTIES = {
    "zookeeper.jmx.log4j.disable": "true",
    "zookeeper.preAllocSize": "1024",  # KiB; by default each cluster writes 64 MiB of zeros
}
_SMALL_HEAP_MB = 128
_CONTROLLER = "controller"
_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Layout:
    """The nodes of one cluster. This class creates their files, but does not start them.

    Args:
        level: the release of every node, with the features of a new KRaft cluster.
        directory: absolute path of the run. The class creates ``replicas/``, ``logs/`` and
            ``coordination/`` below it.
        overrides: broker settings that override the driver's own.
    """

    def __init__(
        self,
        level: Level,
        directory: Path,
        site: Site,
        *,
        overrides: Mapping[str, str],
        wiring: Wiring | None = None,
        options: NodeOptions = PLAIN,
    ) -> None:
        self.directory = directory
        self.replicas = directory / "replicas"
        self.logs = directory / "logs"
        self.coordination = directory / "coordination"
        self.scratch = self.coordination / "tmp"
        self._level = level
        self._release = level.release
        self._site = site
        self._overrides = overrides
        self._wiring = wiring
        self._options = options
        self._cluster_id = config_files.kafka_uuid()
        self._voters = wiring.controllers if wiring else site.inside.coordination
        self._directory_ids = {
            id_: config_files.kafka_uuid()
            for id_ in (self._voters if options.dynamic_quorum else ())
        }
        self._first_voters: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Create the folders that all nodes share."""
        for folder in (self.replicas, self.logs, self.coordination, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)

    def log_directories(self, broker_id: int) -> tuple[Path, ...]:
        """Return a broker's log directories. Only the first is below ``replicas``."""
        more = self.directory / MORE_LOG_DIRS / str(broker_id)
        numbers = range(2, self._options.log_dirs + 1)
        return self.replicas / str(broker_id), *(more / str(number) for number in numbers)

    def broker(self, broker_id: int) -> Node:
        """Create a broker's node. On KRaft, also format its log directories."""
        for folder in self.log_directories(broker_id):
            folder.mkdir(parents=True)
            if self._release.coordination == "kraft":
                config_files.format_node(folder, broker_id, self._cluster_id)
        return Node(self.broker_plan(broker_id, self._release), self._site)

    def broker_plan(
        self, broker_id: int, release: Release, settings: Mapping[str, str] = MappingProxyType({})
    ) -> NodePlan:
        """Write a broker's settings for a release, and return its plan."""
        public, inside = self._site.public.brokers[broker_id], self._site.inside.brokers[broker_id]
        wiring = self._wiring
        advertised = self._peer(broker_id)
        if self._options.names:
            advertised = replace(advertised, host=broker_names.name_of(broker_id))
        properties = config_files.broker(
            release,
            broker_id,
            public=public,
            inside=inside,
            advertised=advertised,
            log_directories=self.log_directories(broker_id),
            coordination=(
                wiring.coordination[broker_id] if wiring else self._site.inside.coordination
            ),
            overrides={
                **self._rack(broker_id),
                **self._remote_tier(),
                **self._overrides,
                **settings,
                **(wiring.client_listeners(broker_id, advertised) if wiring else {}),
            },
        )
        file = self._write(f"broker-{broker_id}.properties", properties)
        name, addresses = f"broker-{broker_id}", (public, inside)
        names = {}
        if self._options.names:
            names = broker_names.properties(self.coordination, broker_id, self._hosts())
        return self._plan(
            name,
            file,
            addresses,
            folder=self.replicas / str(broker_id),
            release=release,
            properties=names,
        )

    def resolve(self, broker_id: int, names: Mapping[int, int | None]) -> None:
        """Write a broker's hosts file; see ``Broker.resolve`` in ``clusters.core.interfaces``."""
        if not self._options.names:
            raise HarnessError(
                "the brokers reach each other by address",
                hint="Add a fault of names to the plan before the brokers start.",
            )
        broker_names.write(self.coordination, broker_id, self._hosts(names))

    def _hosts(self, names: Mapping[int, int | None] = MappingProxyType({})) -> dict[str, str]:
        """Return the name and address of each broker that can be looked up."""
        places = {other: names.get(other, other) for other in self._site.public.brokers}
        return {
            broker_names.name_of(other): self._peer(place).host
            for other, place in places.items()
            if place is not None
        }

    def _peer(self, broker_id: int) -> Address:
        """Return the address at which other brokers reach a broker."""
        if self._wiring:
            return self._wiring.peers[broker_id]
        return self._site.inside.brokers[broker_id]

    def _rack(self, broker_id: int) -> dict[str, str]:
        """Return settings with which consumers fetch from a follower in their rack (KIP-392)."""
        racks = self._options.racks
        if not racks:
            return {}
        return {"broker.rack": rack_of(broker_id, racks), "replica.selector.class": _SELECTOR}

    def _remote_tier(self, *, controller: bool = False) -> dict[str, str]:
        """Return settings for a remote tier in a folder of all brokers; empty without a tier.

        A KRaft controller checks topics' settings, so it must know that brokers have a remote tier.
        """
        if not self._options.tiered:
            return {}
        if controller:
            return dict(config_files.TIERED)
        public, inside = self._site.public.brokers, self._site.inside.brokers
        return config_files.remote_tier(
            self.directory, brokers=len(public), two_listeners=public != inside
        )

    def controller(self, controller_id: int) -> Node:
        """Create the node of a ZooKeeper or KRaft controller, and format its data directory."""
        self.format_controller(controller_id)
        folder = self.controller_directory(controller_id)
        for path, content in self._initial_quorum().items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(content)
        return Node(self.controller_plan(controller_id, self._release), self._site)

    def _initial_quorum(self) -> Mapping[str, bytes]:
        """Return path -> content of files with the first voters; empty if settings name them."""
        if self._directory_ids and not self._first_voters:
            voters = {
                id_: f"{self._voters[id_]}:{directory}"
                for id_, directory in self._directory_ids.items()
            }
            self._first_voters = kraft_features.initial_quorum(
                kraft_features.source(self._level), voters
            )
        return self._first_voters

    def voter(self, controller_id: int) -> tuple[UUID, Address]:
        """Return a controller's directory id, and the address at which other nodes reach it.

        Raises:
            HarnessError: the quorum's voters are fixed in its settings.
        """
        if controller_id not in self._directory_ids:
            raise HarnessError("the voters of this quorum are fixed in the settings")
        text = self._directory_ids[controller_id]
        return UUID(bytes=urlsafe_b64decode(f"{text}==")), self._voters[controller_id]

    def format_controller(self, controller_id: int, *, renewed: bool = False) -> None:
        """Replace the data directory of a ZooKeeper or KRaft controller by a new directory.

        Args:
            renewed: whether the directory gets a new id, so that the node is a new voter (KIP-853).
        """
        folder = self.controller_directory(controller_id)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        if self._release.coordination == "zookeeper":
            (folder / "myid").write_text(f"{controller_id}\n", encoding="ascii")
            return
        if renewed:
            self._directory_ids[controller_id] = config_files.kafka_uuid()
        directory_id = self._directory_ids.get(controller_id)
        config_files.format_node(folder, controller_id, self._cluster_id, directory_id=directory_id)
        features = kraft_features.checkpoint(kraft_features.source(self._level))
        (folder / kraft_features.CHECKPOINT).write_bytes(features)

    def controller_plan(self, controller_id: int, release: Release) -> NodePlan:
        """Write the settings of a ZooKeeper or controller for a release, and return its plan."""
        name, inside = self._controller_name(controller_id), self._site.inside
        address, folder = (
            inside.coordination[controller_id],
            self.controller_directory(controller_id),
        )
        if release.coordination == "zookeeper":
            servers = {id_: self._server(controller_id, id_) for id_ in inside.coordination}
            settings = config_files.zookeeper(
                address, directory=folder, servers=servers if len(servers) > 1 else {}
            )
        else:
            settings = config_files.controller(
                release,
                controller_id,
                address,
                voters=self._voters,
                log_directory=folder,
                overrides={**self._remote_tier(controller=True), **self._overrides},
            )
        file = self._write(f"{name}.properties", settings)
        addresses = self._site.public.coordination[controller_id], address
        return self._plan(name, file, addresses, release=release)

    def controller_directory(self, controller_id: int) -> Path:
        """Return the data directory of a ZooKeeper or controller."""
        return self.coordination / self._controller_name(controller_id)

    def _controller_name(self, controller_id: int) -> str:
        """Return the node's name: ``controller-101``, or ``zookeeper`` for a single ZooKeeper."""
        name = _ZOOKEEPER if self._release.coordination == "zookeeper" else _CONTROLLER
        return f"{name}-{controller_id}" if len(self._site.inside.coordination) > 1 else name

    def _server(self, controller_id: int, other: int) -> str:
        """Return ZooKeeper ``other``'s entry ``server.N`` in the settings of ``controller_id``.

        The entry has the relay's host if the relay is between the two. The two ids may be equal.
        """
        inside, ways = self._site.inside, self._wiring.ensemble if self._wiring else {}
        host = ways.get((controller_id, other), inside.coordination[other].host)
        return config_files.server_entry(host, inside.ensemble[other])

    def _plan(
        self,
        name: str,
        file: str,
        addresses: tuple[Address, Address],
        *,
        release: Release,
        folder: Path | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> NodePlan:
        kafka = not name.startswith(_ZOOKEEPER)
        command = jvm.command(
            self._site.runtime(release),
            _KAFKA_MAIN if kafka else _ZOOKEEPER_MAIN,
            [file],
            heap_mb=release.heap_mb if kafka else _SMALL_HEAP_MB,
            properties={
                "java.io.tmpdir": str(self.scratch),
                **jvm.write_logging(release, self.coordination),
                **({} if kafka else _ZOOKEEPER_PROPERTIES),
                **properties,
            },
        )
        public, inside = addresses
        return NodePlan(
            name=name,
            release=release,
            command=command,
            public=public,
            inside=inside,
            log=self.logs / f"{name}.log",
            folders=(self.logs, self.coordination, *([folder] if folder else [])),
        )

    def _write(self, name: str, settings: Mapping[str, str]) -> str:
        path = self.coordination / name
        if self._directory_ids:
            settings = config_files.dynamic_quorum(settings)
        path.write_text(to_properties(settings), encoding="ascii")
        return str(path)


@contextlib.contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Convert an OSError to a HarnessError. Its hint says whether the directory's disk is full."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise HarnessError(
            f"the cluster's directory {directory} cannot be written: {error.strerror}",
            hint="Free space on that disk, or choose another directory for runs."
            if full
            else "Choose another directory for runs.",
        ) from error

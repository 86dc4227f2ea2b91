"""Where a local cluster keeps its files, and what each of its nodes is: command, settings, log."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters import config, jvm
from clusters.addresses import Address, AddressGroup
from clusters.node import Node
from clusters.versions import Release

_KAFKA = "kafka.Kafka"
_FORMAT = "kafka.tools.StorageTool"
_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER_PROPERTIES = {
    "zookeeper.jmx.log4j.disable": "true",
    "zookeeper.preAllocSize": "1024",  # KiB; 64 MiB of zeros a cluster by default
}
_SMALL_HEAP_MB = 128


class Layout:
    """The nodes of one cluster, made but not started.

    Args:
        release: what every node runs.
        directory: of the run, absolute; gets ``replicas/``, ``logs/`` and ``coordination/``.
        group: addresses.
        overrides: broker settings above the driver's own.
        sharing: JVM flags of class data sharing.
    """

    def __init__(
        self,
        release: Release,
        directory: Path,
        group: AddressGroup,
        *,
        overrides: Mapping[str, str],
        sharing: Sequence[str],
    ) -> None:
        self.directory = directory
        self.replicas = directory / "replicas"
        self.logs = directory / "logs"
        self.coordination = directory / "coordination"
        self.scratch = self.coordination / "tmp"
        self._release = release
        self._group = group
        self._overrides = overrides
        self._sharing = sharing
        self._cluster_id = _kafka_uuid()

    def prepare(self) -> None:
        """Make the folders and what all nodes share."""
        for folder in (self.replicas, self.logs, self.coordination, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        jvm.write_logging(self._release, self.coordination)

    def broker(self, identity: int) -> Node:
        """A broker, its log directory formatted if the release wants that."""
        folder = self.replicas / str(identity)
        if self._release.coordination == "kraft":
            self._format(folder, identity)
        address = self._group.brokers[identity]
        settings = config.broker(
            self._release,
            identity,
            address,
            log_directory=folder,
            coordination=self._group.coordination,
            overrides=self._overrides,
        )
        file = self._write(f"broker-{identity}.properties", settings)
        return self._node(f"broker-{identity}", _KAFKA, [file], address)

    def zookeeper(self) -> Node:
        """The only ZooKeeper."""
        address = self._group.coordination
        settings = config.zookeeper(address, directory=self.coordination / "zookeeper")
        file = self._write("zookeeper.properties", settings)
        return self._node(
            "zookeeper", _ZOOKEEPER, [file], address, properties=_ZOOKEEPER_PROPERTIES
        )

    def controller(self) -> tuple[Node, Node]:
        """The node that formats the KRaft controller's directory, and the controller.

        Kafka's own tool does it, because it decides which features a new cluster starts with.
        """
        address = self._group.coordination
        settings = config.controller(
            address,
            log_directory=self.coordination / "controller",
            overrides=self._overrides,
        )
        file = self._write("controller.properties", settings)
        arguments = ["format", "-t", self._cluster_id, "-c", file]
        return (
            self._node("format", _FORMAT, arguments, address),
            self._node("controller", _KAFKA, [file], address),
        )

    def _format(self, folder: Path, identity: int) -> None:
        """What ``StorageTool format`` leaves for a broker, without a JVM each."""
        folder.mkdir()
        properties = {
            "version": "1",
            "cluster.id": self._cluster_id,
            "node.id": str(identity),
            "directory.id": _kafka_uuid(),
        }
        (folder / "meta.properties").write_text(config.text(properties), encoding="ascii")

    def _node(
        self,
        name: str,
        main: str,
        arguments: Sequence[str],
        address: Address,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> Node:
        command = jvm.command(
            self._release,
            main,
            arguments,
            heap_mb=self._release.heap_mb if main == _KAFKA else _SMALL_HEAP_MB,
            sharing=self._sharing,
            properties={
                "java.io.tmpdir": str(self.scratch),
                **jvm.logging_property(self._release, self.coordination),
                **(properties or {}),
            },
        )
        log = self.logs / f"{name}.log"
        return Node(name.replace("-", " "), address, command, log=log, directory=self.logs)

    def _write(self, name: str, settings: Mapping[str, str]) -> str:
        path = self.coordination / name
        path.write_text(config.text(settings), encoding="utf-8")
        return str(path)


def _kafka_uuid() -> str:
    """A random identity as Kafka writes it: url-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text

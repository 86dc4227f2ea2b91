"""The site of a cluster's nodes: processes on this machine, or containers in one network.

A driver consists of a ``Site`` and a function that makes the site. All other code for a cluster is
in ``clusters.brokers.real_cluster``, which all drivers share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from highwater.clusters.core.addresses import Address, Addresses
from highwater.clusters.core.interfaces import BrokerState
from highwater.clusters.nodes.jvm import Runtime
from highwater.harness.releases.release import Release


class NodeProcess(Protocol):
    """One start of a node's JVM. Thread-safe. Methods return after they have taken effect."""

    @property
    def state(self) -> BrokerState:
        """The state after the last method call. It is ``down`` if the process exited by itself."""

    @property
    def status(self) -> int | None:
        """Exit status when the process is down. None if the status is not known."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the node's processes on this machine while it runs. The JVM's id is the first."""

    def pause(self) -> None:
        """Stop all threads of the process until ``resume``."""

    def resume(self) -> None:
        """Resume a paused process."""

    def kill(self) -> None:
        """Send SIGKILL, even to a paused process. Do nothing if the process has exited."""

    def terminate(self, *, limit_s: float) -> bool:
        """Send SIGTERM. Return whether the process has exited within the limit."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process exits. Return whether it has exited within the timeout."""

    def limit(self, *, cpus: float | None, spare_mb: int | None) -> None:
        """Set the limits of the process's container (``ClusterNode.limit_container``).

        Raises:
            HarnessError: the process is not in a container.
        """

    def release(self) -> None:
        """Kill the process if it is running, and free its resources.

        Never raises an error.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """All data that a site needs to start a node.

    Attributes:
        name: name such as ``broker-2``.
        public: address for the harness and clients.
        inside: address for the other nodes.
        log: file to which standard output and standard error are appended, also after restarts.
        folders: directories that the node may read and write. Their paths are the same on every
            site.
    """

    name: str
    release: Release
    command: Sequence[str]
    public: Address
    inside: Address
    log: Path
    folders: Sequence[Path]

    @property
    def title(self) -> str:
        """The node's name for a sentence, such as ``broker 2``."""
        return self.name.replace("-", " ")


class Site(Protocol):
    """Runs the nodes of one cluster."""

    def runtime(self, release: Release) -> Runtime:
        """Return Java and a release's jars, with the paths that nodes use.

        Raises:
            HarnessError: Java or jars are missing and cannot be downloaded or built.
        """

    @property
    def public(self) -> Addresses:
        """Addresses of the nodes for the harness and clients."""

    @property
    def inside(self) -> Addresses:
        """Addresses at which nodes reach each other."""

    @property
    def ensemble_hosts(self) -> Mapping[tuple[int, int], str]:
        """Hosts at which the relay listens between two ZooKeepers, by pair of ZooKeepers.

        Only the first ZooKeeper of the pair uses the host. At this host, the relay listens on the
        second ZooKeeper's ports, and forwards to that ZooKeeper. The mapping is empty if the
        harness cannot choose hosts.
        """

    def wire_host(self, broker: int) -> str:
        """Return a host of this machine at which the relay can listen for nodes.

        Raises:
            HarnessError: the machine has no such host.
        """

    def begin(self, plan: NodePlan) -> NodeProcess:
        """Start a node's JVM, for the first time or again with its old data.

        Raises:
            HarnessError: another process uses the node's port, or the JVM cannot start.
        """

    def answers(self, address: Address) -> bool:
        """Return whether a node itself responds at a public address.

        A proxy's response does not count.
        """

    def close(self) -> None:
        """Release all resources. Never raises an error. A second call does nothing."""

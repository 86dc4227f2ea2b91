"""The site of a cluster's nodes: it runs them as processes, or as containers in one network.

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
    """A node's JVM from its start to its exit. Thread-safe. A method returns after its effect."""

    @property
    def state(self) -> BrokerState:
        """The state that the last method call has set; ``down`` if the process exited by itself."""

    @property
    def status(self) -> int | None:
        """The exit status of a process that is down; None if it is not known."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the node's processes on this machine, the JVM's first; empty after the exit."""

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
        """Set the limits of the process's container; see ``ClusterNode.limit_container``.

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
        """Pair of ZooKeepers (first, second) to the host at which the first reaches the second.

        At this host, the relay listens on the second ZooKeeper's ports, and forwards to that
        ZooKeeper. The mapping is empty if the harness cannot choose hosts.
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
        """Return whether the node itself responds at a public address, and not only a proxy."""

    def close(self) -> None:
        """Release all resources. Never raises an error. A second call does nothing."""

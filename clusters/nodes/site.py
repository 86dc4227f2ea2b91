"""The site of a cluster's nodes: processes of this machine, or containers of one network.

A driver is a ``Site`` and a function that opens a cluster there; everything else about a cluster is
in ``clusters.brokers.real_cluster``, shared by all drivers.
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
    """One start of a node's JVM. Methods return once they have taken effect, from any thread."""

    @property
    def state(self) -> BrokerState:
        """State after the last method called, or ``down`` if it died by itself."""

    @property
    def status(self) -> int | None:
        """Exit status once it is down; None if it is not known."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes on this machine while it runs; empty for a container."""

    def pause(self) -> None:
        """Freeze all of its threads."""

    def resume(self) -> None:
        """Unfreeze it."""

    def kill(self) -> None:
        """Send SIGKILL, paused or not. Harmless when it has ended already."""

    def terminate(self, *, limit_s: float) -> bool:
        """Send SIGTERM; return whether it has ended within the limit."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it came within the timeout."""

    def release(self) -> None:
        """Kill it if it still runs, and remove what the site keeps of it. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """All that a site needs to start a node.

    Attributes:
        name: name such as ``broker-2``.
        public: address for the harness and clients.
        inside: address for its peers.
        log: file to which both outputs are appended, across restarts.
        folders: folders that it may read and write, at the same paths on every site.
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
        """Its name in a sentence, such as ``broker 2``."""
        return self.name.replace("-", " ")


class Site(Protocol):
    """Runs the nodes of one cluster."""

    def runtime(self, release: Release) -> Runtime:
        """Return Java and a release's jars, by the paths that nodes see.

        Raises:
            HarnessError: they are missing and cannot be downloaded or built.
        """

    @property
    def public(self) -> Addresses:
        """Addresses of the nodes for the harness and clients."""

    @property
    def inside(self) -> Addresses:
        """Addresses of the nodes for each other."""

    @property
    def ensemble_hosts(self) -> Mapping[tuple[int, int], str]:
        """Pairs of ZooKeepers to a host at which the relay can listen for the first alone.

        Empty where hosts are not ours to choose. The relay stands there before the second, on the
        ports that it has itself.
        """

    def wire_host(self, broker: int) -> str:
        """Return a host of this machine where the relay can listen for nodes.

        Raises:
            HarnessError: there is no such host.
        """

    def begin(self, plan: NodePlan) -> NodeProcess:
        """Start a node's JVM, for the first time or again on the data it left.

        Raises:
            HarnessError: its port is taken, or it cannot be started at all.
        """

    def answers(self, address: Address) -> bool:
        """Return whether a node, and not only a proxy before it, listens on a public address."""

    def close(self) -> None:
        """Release all resources. Never raises; may be called twice."""

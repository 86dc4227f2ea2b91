"""Where a cluster's nodes live: processes of this machine, or containers of one network.

A driver is a ``Site`` and a function that opens a cluster there; everything else about a cluster is
in ``clusters.brokers.real_cluster``, once for all drivers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from highwater.clusters.core.addresses import Address, Addresses
from highwater.clusters.core.interfaces import BrokerState
from highwater.clusters.nodes.jvm import Runtime
from highwater.clusters.releases.release import Release


class NodeProcess(Protocol):
    """One life of a node's JVM. Each verb returns once it has taken effect, from any thread."""

    @property
    def state(self) -> BrokerState:
        """What was last done to it, or ``down`` if it died by itself."""

    @property
    def status(self) -> int | None:
        """Exit status once it is down; None if nobody could tell."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of this machine that it consists of while it runs; none for a container."""

    def pause(self) -> None:
        """Freeze every thread of it."""

    def resume(self) -> None:
        """Let a paused one go on."""

    def kill(self) -> None:
        """SIGKILL, paused or not. Harmless when it is gone already."""

    def terminate(self, *, limit_s: float) -> bool:
        """SIGTERM; false if it has not ended within the limit."""

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended by then."""

    def release(self) -> None:
        """Give it up: it is killed if it still runs, and nothing of it stays. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What a node is, whoever runs it.

    Attributes:
        name: such as ``broker-2``.
        release: whose jars it runs.
        command: its JVM's command line.
        public: where the harness and clients find it.
        inside: where its peers find it.
        log: file to which both outputs are appended, across restarts.
        folders: what it may read and write, by the same paths everywhere.
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
    """A place for the nodes of one cluster."""

    def runtime(self, release: Release) -> Runtime:
        """Java and a release's jars, by the paths that nodes see.

        Raises:
            HarnessError: they cannot be had.
        """

    @property
    def public(self) -> Addresses:
        """Where the harness and clients find the nodes."""

    @property
    def inside(self) -> Addresses:
        """Where the nodes find each other."""

    def wire_host(self, broker: int) -> str:
        """Where a process of this machine can listen so that nodes find it.

        Raises:
            HarnessError: there is no such place.
        """

    def begin(self, plan: NodePlan) -> NodeProcess:
        """Start a node's JVM, for the first time or again on what it left behind.

        Raises:
            HarnessError: its port is taken, or it cannot be started at all.
        """

    def answers(self, address: Address) -> bool:
        """Whether a node, and not only what stands in front of it, listens on a public address."""

    def close(self) -> None:
        """Give back whatever is left. Never raises; may be called twice."""

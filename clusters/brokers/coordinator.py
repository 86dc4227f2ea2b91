"""The nodes of a cluster that faults kill, pause and restart: brokers, ZooKeepers, controllers."""

import itertools
import resource
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from highwater.clusters.core.interfaces import BrokerState, UnreachableError
from highwater.clusters.core.system_calls import CallRule
from highwater.clusters.nodes import broker_clock, packet_loss, safepoint, syscall_injection
from highwater.clusters.nodes.layout import Layout, disk_errors
from highwater.clusters.nodes.node import START_LIMIT_S, Node
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition


class RealNode:
    """A broker, ZooKeeper or controller. Implements ClusterNode of ``clusters.core.interfaces``."""

    def __init__(self, node_id: int, node: Node) -> None:
        self._id = node_id
        self._node = node

    @property
    def id(self) -> int:
        """Id of the broker, ZooKeeper or controller."""
        return self._id

    @property
    def state(self) -> BrokerState:
        """State of the JVM."""
        return self._node.state

    def stop(self) -> None:
        """Send SIGTERM, and wait for the process to end."""
        self._node.stop()

    def kill(self) -> None:
        """Send SIGKILL, whether the node is paused or not."""
        self._node.kill()

    def pause(self) -> None:
        """Send SIGSTOP."""
        self._node.pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self._node.resume()

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the node's processes on this machine; empty while the node is down."""
        return self._node.pids

    def limit_writes(self, *, limited: bool) -> None:
        """Set the JVM's soft limit for the size of a file to 0, or back to the hard limit."""
        self._limit(resource.RLIMIT_FSIZE, (lambda _: 0) if limited else None)

    def limit_descriptors(self, *, limited: bool) -> None:
        """Let the JVM open no new file, or as many files as its hard limit allows."""

        def first_free(process: Path) -> int:
            used = {path.name for path in (process / "fd").iterdir()}
            return next(number for number in itertools.count() if str(number) not in used)

        self._limit(resource.RLIMIT_NOFILE, first_free if limited else None)

    def limit_memory(self, spare_mb: int | None) -> None:
        """Set the JVM's soft limit for private writable memory, which includes Java's heap."""

        def most(process: Path) -> int:
            status = (process / "status").read_text("ascii").splitlines()
            [used_kb] = [int(line.split()[1]) for line in status if line.startswith("VmData:")]
            return (used_kb + (spare_mb or 0) * 1024) * 1024

        self._limit(resource.RLIMIT_DATA, None if spare_mb is None else most)

    def limit_container(self, *, cpus: float | None = None, spare_mb: int | None = None) -> None:
        """Set the limits of the node's container; see ``ClusterNode.limit_container``."""
        self._node.limit_container(cpus=cpus, spare_mb=spare_mb)

    def lose_packets(self, share: float) -> None:
        """Drop a share of the packets that reach the node's container."""
        packet_loss.lose(self._pid(), share)

    def hold_jvm(self) -> AbstractContextManager[None]:
        """Hold the node's JVM at a safepoint; see ``ClusterNode.hold_jvm``."""
        return safepoint.long_safepoint(self._pid())

    def inject_calls(self, rule: CallRule) -> AbstractContextManager[Callable[[], int]]:
        """Attach strace to the node's JVM; see ``ClusterNode.inject_calls``."""
        return syscall_injection.injected(self._pid(), rule, self._node.log)

    def shift_clock(self, offset_s: float) -> None:
        """Write the offset to the file from which libfaketime in the node's JVM reads it."""
        broker_clock.shift(self._node.log, offset_s)

    def _pid(self) -> int:
        """Return the id of the node's JVM on this machine.

        Raises:
            HarnessError: the node is down, or its process is not on this Linux machine.
        """
        if sys.platform != "linux" or not self.pids:
            raise self._unreached()
        return self.pids[0]

    def _unreached(self) -> HarnessError:
        return HarnessError(
            f"{self._node.name} is down, or is not a process of this machine",
            hint="Run Highwater on the node's own machine, under Linux.",
        )

    def _limit(self, limit: int, most: Callable[[Path], int] | None) -> None:
        """Set a soft limit of the JVM, or the hard limit again, unless the JVM has ended by then.

        Args:
            most: gets the process's folder in ``/proc`` and returns the limit; None for the hard
                limit.
        """
        try:
            pid = self._pid()
            hard = resource.prlimit(pid, limit)[1]
            soft = hard if most is None else most(Path("/proc") / str(pid))
            resource.prlimit(pid, limit, (soft, hard))
        except (HarnessError, FileNotFoundError, ProcessLookupError) as error:
            if most is not None:
                raise self._unreached() from error

    def require_down(self, hint: str) -> None:
        """Raise a HarnessError unless the node is down."""
        if self.state != "down":
            raise HarnessError(f"{self._node.name} is running", hint=hint)


class RealCoordinator(RealNode):
    """One ZooKeeper or KRaft controller. It implements Coordinator in ``clusters.core.interfaces``.

    Args:
        controller_id: id of the ZooKeeper or controller.
        node: JVM of the ZooKeeper or controller.
        layout: writes the node's settings and its data directory.
        ask: sends a request to this node; raises UnreachableError if the node is not ready.
    """

    def __init__(
        self, controller_id: int, node: Node, layout: Layout, ask: Callable[[], object]
    ) -> None:
        super().__init__(controller_id, node)
        self._layout = layout
        self._ask = ask

    def install(self, level: Level) -> None:
        """Install other jars for a KRaft controller that is down. ZooKeepers are never upgraded."""
        if level.release.coordination == "kraft":
            self.require_down("Stop it first.")
            with disk_errors(self._layout.directory):
                plan = self._layout.controller_plan(self._id, level.release)
            self._node.replace_plan(plan)

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """The node's data directory."""
        return (self._layout.controller_directory(self._id),)

    def lose_disk(self, *, renewed: bool = False) -> None:
        """Replace the data directory of a node that is down by a new, formatted directory."""
        self.require_down("Kill it first.")
        with disk_errors(self._layout.directory):
            self._layout.format_controller(self._id, renewed=renewed)

    def start(self) -> None:
        """Start the node with its old data, and wait until it responds.

        Do nothing after ``close``.
        """
        if self._node.state != "down" or self._node.released:
            return
        self._node.launch()

        def ask() -> None:
            self._node.require_alive()
            self._ask()

        await_condition(
            ask,
            what=f"{self._node.name} to respond",
            limit_s=START_LIMIT_S,
            passing=(UnreachableError,),
        )

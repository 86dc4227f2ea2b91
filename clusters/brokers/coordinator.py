"""ZooKeepers and KRaft controllers: killed, paused, started again, emptied."""

from collections.abc import Callable
from typing import Protocol

from highwater.clusters.core.interfaces import BrokerState, UnreachableError
from highwater.clusters.nodes.node import START_LIMIT_S, Node
from highwater.clusters.nodes.site import NodePlan
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition


class ControllerFiles(Protocol):
    """The files of a cluster's controllers."""

    def controller_plan(self, controller_id: int, level: Level) -> NodePlan:
        """Write a controller's settings for a level, and return its plan."""

    def format_controller(self, controller_id: int, *, renewed: bool) -> None:
        """Give a controller a new data directory, or one that is another voter, too."""


class RealCoordinator:
    """The Coordinator of ``clusters.core.interfaces``.

    Args:
        controller_id: its id.
        node: its JVM.
        files: its settings and its data directory.
        ask: sends it a request that no other node can answer; raises UnreachableError until then.
    """

    def __init__(
        self, controller_id: int, node: Node, files: ControllerFiles, ask: Callable[[], object]
    ) -> None:
        self._id = controller_id
        self._node = node
        self._files = files
        self._ask = ask

    @property
    def id(self) -> int:
        """Its id."""
        return self._id

    @property
    def state(self) -> BrokerState:
        """State of its JVM."""
        return self._node.state

    def install(self, level: Level) -> None:
        """Give a KRaft controller that is down other jars; ZooKeeper is never upgraded."""
        if level.release.coordination == "kraft":
            if self._node.state != "down":
                raise HarnessError("the controller runs", hint="Stop it first.")
            self._node.replace_plan(self._files.controller_plan(self._id, level))

    def lose_disk(self, *, renewed: bool = False) -> None:
        """Give one that is down a new data directory."""
        if self._node.state != "down":
            raise HarnessError(f"{self._node.name} runs", hint="Kill it first.")
        self._files.format_controller(self._id, renewed=renewed)

    def start(self) -> None:
        """Start it on the data it left, and wait until it answers; never after ``close``."""
        if self._node.state != "down" or self._node.released:
            return
        self._node.launch()

        def ask() -> None:
            self._node.require_alive()
            self._ask()

        await_condition(
            ask,
            what=f"{self._node.name} to answer",
            limit_s=START_LIMIT_S,
            passing=(UnreachableError,),
        )

    def stop(self) -> None:
        """Send SIGTERM, and wait for the process to end."""
        self._node.stop()

    def kill(self) -> None:
        """Send SIGKILL, paused or not."""
        self._node.kill()

    def pause(self) -> None:
        """Send SIGSTOP."""
        self._node.pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self._node.resume()

"""ZooKeeper or the KRaft controller: killed, paused, started again."""

from collections.abc import Callable

from highwater.clusters.core.interfaces import BrokerState, UnreachableError
from highwater.clusters.nodes.node import START_LIMIT_S, Node
from highwater.clusters.nodes.site import NodePlan
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition


class RealCoordinator:
    """The Coordinator of ``clusters.core.interfaces``.

    Args:
        node: its JVM.
        ask: sends it a request that no other node can answer; raises UnreachableError until then.
        plan: writes the KRaft controller's settings for a level, and returns its plan.
    """

    def __init__(
        self, node: Node, ask: Callable[[], object], plan: Callable[[Level], NodePlan]
    ) -> None:
        self._node = node
        self._ask = ask
        self._plan = plan

    @property
    def state(self) -> BrokerState:
        """State of its JVM."""
        return self._node.state

    def install(self, level: Level) -> None:
        """Give a KRaft controller that is down other jars; ZooKeeper is never upgraded."""
        if level.release.coordination == "kraft":
            if self._node.state != "down":
                raise HarnessError("the controller runs", hint="Stop it first.")
            self._node.replace_plan(self._plan(level))

    def start(self) -> None:
        """Start it on the data it left, and wait until it answers; never after ``close``."""
        if self._node.state != "down" or self._node.released:
            return
        self._node.launch()

        def is_answering() -> bool:
            self._node.require_alive()
            self._ask()
            return True

        await_condition(
            is_answering,
            bool,
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

"""ZooKeeper or the KRaft controller, as something that can be killed, paused and started again."""

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
        ask: asks it for something that it alone knows; raises UnreachableError until it answers.
        plan: what the KRaft controller is at some level, its settings written.
    """

    def __init__(
        self, node: Node, ask: Callable[[], object], plan: Callable[[Level], NodePlan]
    ) -> None:
        self._node = node
        self._ask = ask
        self._plan = plan

    @property
    def state(self) -> BrokerState:
        """Of its JVM."""
        return self._node.state

    def install(self, level: Level) -> None:
        """Give a KRaft controller that is down other jars; ZooKeeper stays what it is."""
        if level.release.coordination == "kraft":
            if self._node.state != "down":
                raise HarnessError("the controller runs", hint="Stop it first.")
            self._node.replace_plan(self._plan(level))

    def start(self) -> None:
        """Start it on the data it left, and wait until it answers; never after ``close``."""
        if self._node.state != "down" or self._node.released:
            return
        self._node.launch()

        def answers() -> bool:
            self._node.require_alive()
            self._ask()
            return True

        await_condition(
            answers,
            bool,
            what=f"{self._node.name} to answer",
            limit_s=START_LIMIT_S,
            passing=(UnreachableError,),
        )

    def stop(self) -> None:
        """SIGTERM, and wait for the process to end."""
        self._node.stop()

    def kill(self) -> None:
        """SIGKILL, paused or not."""
        self._node.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._node.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self._node.resume()

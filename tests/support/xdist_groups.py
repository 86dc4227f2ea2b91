"""Which tests stay in one process when three share them, and in which order they are taken."""

from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).parents[2]
DOCKER: Final = tuple(
    f"tests/kafka/test_{name}.py"
    for name in (
        "cluster",
        "containers",
        "controllers",
        "machine_faults",
        "plugin",
        "wire",
        "wire_clients",
    )
)
"""Files with tests that start containers, some of which count what there is before and after."""

CLUSTERS_MAX: Final = 2
"""So many processes may have brokers, for which they mostly wait; more make all of them late."""


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out whole groups, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process the next group; beyond the first two, the next that has no brokers."""
        if self.nodes.index(node) >= CLUSTERS_MAX:
            calm = next((scope for scope in self.workqueue if not _has_brokers(scope)), None)
            if calm is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(calm, last=False)
        super()._assign_work_unit(node)


@cache
def group(path: str) -> str:
    """The group of a file: its tests share a cluster, so it is a group of its own.

    What has Docker is one group, and so is what needs Spark and no broker: a session's start costs
    more than most of its tests. What has a browser shares its pages. (pytest-xdist's own groups,
    ``--dist loadgroup``, are lost on pytest 9.2, which took away the attribute by which a test's
    process tells its group.)
    """
    if path in DOCKER:
        return "docker"
    if path.startswith("tests/browser/"):
        return "browser"
    return "spark" if not _has_brokers(path) and _needs_spark(path) else path


def rank(path: str) -> int:
    """The longest come first, so that nothing long is left when all else is done.

    While one process has Docker's, the other takes the brokers' tests that judge one after another:
    then one process with brokers starts Spark, and not both.
    """
    named = group(path)
    if named == "docker":
        return 0
    if _has_brokers(path):
        return 1 if _needs_spark(path) else 2
    return 3 if named == "spark" else 4


@cache
def _needs_spark(path: str) -> bool:
    return "spark" in (ROOT / path).read_text("utf-8")


def _has_brokers(scope: str) -> bool:
    return scope == "docker" or scope.startswith("tests/kafka/")

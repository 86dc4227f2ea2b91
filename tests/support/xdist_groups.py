"""Which tests stay in one process when two share them, and in which order they are taken."""

from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[2]
DOCKER: Final = tuple(
    f"tests/kafka/test_{name}.py"
    for name in (
        "cluster",
        "containers",
        "controllers",
        "nemesis",
        "plugin",
        "wire",
        "wire_clients",
    )
)
"""Files with tests that start containers, some of which count what there is before and after."""


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out whole groups, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.partition("::")[0])


@cache
def group(path: str) -> str:
    """The group of a file: its tests share a cluster, so it is a group of its own.

    What has Docker is one group, and so is what needs Spark and no broker: a session's start costs
    more than most of its tests. (pytest-xdist's own groups, ``--dist loadgroup``, are lost on
    pytest 9.2, which took away the attribute by which a test's process tells its group.)
    """
    if path in DOCKER:
        return "docker"
    needs_spark = not _has_brokers(path) and "spark" in (ROOT / path).read_text("utf-8")
    return "spark" if needs_spark else path


def rank(path: str) -> int:
    """The longest come first, so that nothing long is left when all else is done."""
    if group(path) in ("spark", "docker"):
        return 0
    return 1 if _has_brokers(path) else 2


def _has_brokers(path: str) -> bool:
    return path.startswith("tests/kafka/")

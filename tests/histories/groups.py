"""Golden runs of groups: a partition that a group found late, and all that comes near to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.harness.runs.plan import Topic, Workload
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

GROUP: Final = "events-group"
NEW: Final = 1


def found_late(
    path: Path,
    *,
    joins: bool = True,
    begins: int | None = None,
    given: tuple[tuple[str, int, str], ...] = (("m3", 2, "member-0"),),
    group: str = GROUP,
) -> Run:
    """A member reads partition 0; m1, m2 and m3 are written to partition 1, and it is given some.

    Args:
        joins: whether it had read a record before they were written.
        begins: the offset that it sought in partition 1.
        given: value, offset and reader of each record of partition 1 that was given to somebody.
    """
    run = RunBuilder(path, kafka="4.4.0", topic=Topic(partitions=2), workload=Workload(producers=0))
    for member in ("member-0", "member-1"):
        run.join(group, member)
    run.leader(1, 0, [1, 2, 3])
    run.send("w0", 0)
    run.disk([1, 2, 3], [(0, 0, "w0")])
    if joins:
        run.read("w0", 0, process="member-0", phase="run")
    run.leader(2, 0, [1, 2, 3], partition=NEW)
    for offset, value in enumerate(("m1", "m2", "m3")):
        run.send(value, offset, partition=NEW)
        run.disk([1, 2, 3], [(offset, 0, value)], partition=NEW)
    run.seek(NEW, begins)
    for value, offset, process in given:
        run.read(value, offset, partition=NEW, process=process, phase="run")
    run.read("w0", 0)
    for offset, value in enumerate(("m1", "m2", "m3")):
        run.read(value, offset, partition=NEW)
    run.fence(1)
    run.fence(3, partition=NEW)
    run.disk([1, 2, 3], [(1, 0, "fence-0")])
    run.disk([1, 2, 3], [(3, 0, "fence-1")], partition=NEW)
    return run.write()


NEARLY: Final[dict[str, Callable[[Path], Run]]] = {
    # It joined when they were there already.
    "group-joined-late": lambda path: found_late(path, joins=False),
    # It was told where to begin: an offset of its group's.
    "group-began-where-told": lambda path: found_late(path, begins=2),
    # It has read nothing behind them yet.
    "group-not-past": lambda path: found_late(path, given=()),
    # Others of the group were given them.
    "group-given-to-others": lambda path: found_late(
        path,
        given=(("m1", 0, "member-1"), ("m2", 1, "member-1"), ("m3", 2, "member-0")),
    ),
    # Nobody said of which group it is, as in older runs.
    "group-without-a-name": lambda path: found_late(path, group=""),
}
"""No anomaly, by name."""

"""A coordinator forgets a group when a fault took its topic from every disk, and only then."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from highwater.checkers.explain.evidence.forgotten_groups import forgotten
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.groups.commits import wrong_offsets
from highwater.checkers.groups.events import GroupFinding
from highwater.checkers.groups.ownership import doubly_owned
from highwater.harness.runs.plan import Workload
from tests.support.run_builder import RunBuilder


def wiped(run: RunBuilder, *brokers: int, healed: bool = False) -> None:
    for broker in brokers:
        run.tick(100)
        run.fault("wipe", broker, f"the disk of broker {broker} is empty")
        if healed:
            run.fault("wipe", broker, f"broker {broker} is healed", phase="heal")
    run.tick(1_000)
    for broker in brokers if not healed else ():
        run.fault("wipe", broker, f"broker {broker} is healed", phase="heal")


def history(path: Path, between: Callable[[RunBuilder], None], when: str = "between") -> RunBuilder:
    """Member 1 is told nothing of what member 0 has committed, and begins in an older epoch."""
    run = RunBuilder(path, kafka="4.4.0", workload=Workload(subscribe=2))
    run.leader(1, 0, [1, 2, 3])
    if when == "before":
        between(run)
    run.journal("assigned", "member-0", 0, epoch=2)
    run.journal("commit", "member-0", 2)
    if when == "between":
        between(run)
    run.journal("committed", "member-1", None)
    run.journal("assigned", "member-1", 0, epoch=1)
    run.journal("commit", "member-1", 1)
    if when == "after":
        between(run)
    return run


def all_at_once(run: RunBuilder) -> None:
    wiped(run, 1, 2, 3)


def one_by_one(run: RunBuilder) -> None:
    wiped(run, 1, 2, 3, healed=True)


def two(run: RunBuilder) -> None:
    wiped(run, 1, 3)


FINDERS: dict[str, Callable[[list[dict[str, Any]]], Iterable[GroupFinding]]] = {
    "stale-commit": lambda rows: wrong_offsets(rows, None),
    "two-owners": doubly_owned,
}


@pytest.mark.parametrize("kind", FINDERS)
@pytest.mark.parametrize(
    ("between", "when", "explained"),
    [
        (all_at_once, "between", True),
        (all_at_once, "before", False),
        (all_at_once, "after", False),
        (one_by_one, "between", False),
        (two, "between", False),
    ],
)
def test_a_group_is_forgotten_when_every_disk_is_empty_at_once(
    tmp_path: Path, kind: str, between: Callable[[RunBuilder], None], when: str, *, explained: bool
) -> None:
    observed = observe(history(tmp_path / "run", between, when).write())
    [finding] = FINDERS[kind](observed.journal)
    assert finding.kind == kind
    row = {
        "kind": kind,
        "partition": finding.partition,
        "offset": finding.offset,
        "copies": [{"note": finding.says}],
    }
    chain = forgotten(observed, row)
    assert bool(chain.why_not) is not explained
    if explained:
        assert [link.broker for link in chain.links] == [1, 2, 3, None]


def test_what_the_disks_lack_in_the_end_is_explained_likewise(tmp_path: Path) -> None:
    observed = observe(history(tmp_path / "run", all_at_once).write())
    row = {"kind": "lost-commit", "partition": 0, "offset": 2, "copies": [{"note": "none is left"}]}
    assert not forgotten(observed, row).why_not
    other = observe(history(tmp_path / "other", two).write())
    assert forgotten(other, row).why_not

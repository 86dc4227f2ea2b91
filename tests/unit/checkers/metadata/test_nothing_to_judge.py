"""A checker of controllers that has nothing to judge in a run says so, and why."""

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checkers.metadata.lost_decisions import lost_decision
from highwater.checkers.metadata.metadata_divergence import metadata_divergence
from highwater.checkers.run_files import RunFiles, stage
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.store import Run
from tests.histories.controllers import (
    DECIDED,
    END,
    agreeing,
    alone,
    calm,
    flipped,
    quorum,
    zookeeper,
)
from tests.support.metadata_logs import log
from tests.support.run_builder import RunBuilder

NO_LOG = "no metadata log of a KRaft controller was copied"
ONE_LOG = "there is only one metadata log"
NO_OVERLAP = "no two metadata logs have an offset in common"
NO_END = "the controllers' state at the end was not recorded"
UNSOUND = "no metadata log of a controller could be read to its end"
NOTHING_SAID = "no controller acknowledged a request"


def logless(path: Path) -> Run:
    """Three controllers of another's cluster, who answered; their disks are not here."""
    run = calm(path)
    run.decided("topic")
    run.quorum(dict.fromkeys((100, 101, 102), END), END)
    return run.write()


def silent(path: Path) -> Run:
    """Nobody answered a request, and no leader epoch was observed."""
    run = RunBuilder(path, kafka="2.8.2")
    run.everywhere([(0, 0, "m0")])
    run.decided("topic", evidence="unanswered")
    run.decided("topic", evidence="end")
    return run.write()


def empty(path: Path) -> Run:
    """Two controllers that wrote nothing yet, and one with everything."""
    return quorum(path, {100: log(DECIDED), 101: [], 102: []}, ends={100: END, 101: 0, 102: 0})


def spoiled(path: Path) -> Run:
    """The only controller's log is bytes without a sound batch."""
    whole = [bytearray(batch) for batch in log(DECIDED)]
    whole[2][-1] ^= 1
    return alone(path, [bytes(batch) for batch in whole])


@pytest.mark.parametrize(
    ("build", "divergence", "lost"),
    [
        (agreeing, "", ""),
        (flipped, "", ""),
        (lambda path: alone(path, log(DECIDED)), ONE_LOG, ""),
        (spoiled, ONE_LOG, UNSOUND),
        (empty, NO_OVERLAP, ""),
        (zookeeper, NO_LOG, ""),
        (lambda path: calm(path, kafka="2.8.2").write(), NO_LOG, NO_END),
        (silent, NO_LOG, NOTHING_SAID),
        (logless, NO_LOG, NO_END),
    ],
    ids=["three", "flipped", "one", "spoiled", "empty", "zk", "zk-unread", "silent", "no-disks"],
)
def test_only_what_is_there_is_judged(
    build: Callable[[Path], Run], divergence: str, lost: str, tmp_path: Path
) -> None:
    case = RunFiles.of(build(tmp_path / "run"), "r0")
    stage(case, tmp_path)
    tables = Tables.__new__(Tables)
    tables.cases, tables.derived = (case,), {}
    assert metadata_divergence.idle(tables, case) == divergence
    assert lost_decision.idle(tables, case) == lost

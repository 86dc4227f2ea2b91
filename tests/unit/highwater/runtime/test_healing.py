"""What cannot be healed at the end of a schedule is a problem of the run, which goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError, HighwaterError, WaitTimeoutError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.runtime import runner
from highwater.runtime.run_status import StatusKeeper


def heal(path: Path, error: HighwaterError, done: list[str]) -> Run:
    """Heal a run's cluster whose nemesis fails so; ``done`` gets what comes after."""

    def heal_all() -> None:
        raise error

    nemesis = SimpleNamespace(heal_all=heal_all, missed=["kill did nothing"])
    context: Any = SimpleNamespace(nemesis=nemesis, check=lambda: done.append("checked"))
    workload: Any = SimpleNamespace(stop=lambda: done.append("stopped"), unfed=lambda: "")
    run = Run(path)
    keeper = StatusKeeper(run, lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_quiesce", lambda *_: done.append("quiesced"))
        runner._heal(Plan(kafka="4.4.0"), context, workload, keeper)
    return run


@pytest.mark.parametrize(
    "error", [WaitTimeoutError("broker 2 is not back"), UnreachableError("broker 2 is silent")]
)
def test_a_broker_that_does_not_come_back_is_a_problem_of_the_run(
    tmp_path: Path, error: HighwaterError
) -> None:
    done: list[str] = []
    status = heal(tmp_path, error, done).status()
    assert status.problems == (error.message, "kill did nothing")
    assert (status.phase, status.quiesced) == ("healing", True)
    assert done == ["stopped", "quiesced", "checked"]


def test_whatever_else_keeps_it_from_healing_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no wire"):
        heal(tmp_path, HarnessError("no wire"), [])

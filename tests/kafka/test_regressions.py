"""Schedules that lost records at random, made small by ``highwater shrink``: once more, explained.

Each file of ``regressions`` is a plan for ``highwater replay``; where it is from, and how often it
loses, is in docs/results.md. Chance decides whether most of them do: they may lose nothing, and
nothing else than what they lost.
"""

import threading
from pathlib import Path
from typing import Final

import pytest

from highwater.api import JudgedRun, judge_all
from highwater.checkers.spark.session import spark
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.executed_steps import ExecutedSteps
from highwater.shrinking.replay import read_plan

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]
PLANS: Final = {path.stem: path for path in Path(__file__).parent.glob("regressions/*.json")}
ALWAYS: Final = {"power-of-all", "unclean-election"}
"""Those that lose something each time."""


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> dict[str, JudgedRun]:
    """Every plan's run, all judged in one pass."""
    folder = tmp_path_factory.mktemp("regressions")
    with ClusterPool(folder / "fleet") as fleet:
        runs = [
            fleet.execute(read_plan(PLANS[name]), Store(folder), stop=threading.Event())
            for name in sorted(PLANS)
        ]
    return dict(zip(sorted(PLANS), judge_all(runs, spark()), strict=True))


@pytest.mark.parametrize("name", sorted(PLANS))
def test_what_was_lost_once_is_lost_or_kept_by_the_rules(
    again: dict[str, JudgedRun], name: str
) -> None:
    one = again[name]
    assert one.run.status().problems == ()
    steps = ExecutedSteps.from_json((one.run.path / "steps.json").read_bytes())
    assert (len(steps.taken), steps.left_out) == (len(one.run.plan().steps), ())
    assert one.model is not None
    others = [each for each in one.model.findings if each.verdict != "explained"]
    assert one.model.status == "explained", "\n".join(map(str, others))
    assert one.verdict.ledger.acknowledged > 20
    found = {kind for kind, count in one.verdict.counts.items() if count}
    assert found <= {"lost-write", "duplicate", "nonmonotonic-send"}, found
    if name in ALWAYS:
        assert one.verdict.ledger.lost > 0

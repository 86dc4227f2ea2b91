"""Schedules on real brokers, judged: exactly what the rules give up is lost."""

from pathlib import Path

import pytest

from highwater.api import JudgedRun, judge_all
from highwater.campaigns.model_schedules import Source, planned_replay
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.faults.missed_step import StateDifference
from highwater.harness.runs.store import Store
from highwater.nemesis.model_replay import step_player
from highwater.runtime.campaign import Campaign
from tests.support.schedules import LOSS, ZOMBIE, two_moves

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

ROLLED = Path(__file__).parents[2] / "docs/counterexamples/elected-again-stop-4.4.0.json"


def judged(kafka: str, tmp_path: Path, *schedules: Schedule) -> list[JudgedRun]:
    """Replay them on one release, and judge them in one pass."""
    with Campaign(store=Store(tmp_path), clusters=tmp_path / "fleet") as campaign:
        runs = campaign.perform_all([[planned_replay(one, kafka) for one in schedules]])
    return judge_all(runs, spark())


def lost(one: JudgedRun) -> set[str | None]:
    return {anomaly.value for anomaly in one.verdict.anomalies if anomaly.kind == "lost-write"}


def test_two_planned_moves_lose_a_record_where_followers_cut_to_their_hw(tmp_path: Path) -> None:
    for one in judged("0.10.2.2", tmp_path, two_moves(), LOSS):
        assert one.run.status().problems == ()
        assert (lost(one), one.verdict.verdict) == ({"m2"}, "invalid")
        assert one.verdict.ledger.acknowledged == one.verdict.ledger.sent


def test_two_planned_moves_lose_nothing_since_then(tmp_path: Path) -> None:
    [one] = judged("0.11.0.3", tmp_path, two_moves(cuts=False))
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == (set(), "valid")


@pytest.mark.parametrize("kafka", ["0.10.2.2", MODERN])
def test_a_deposed_leader_acknowledges_what_is_lost(kafka: str, tmp_path: Path) -> None:
    """With acks=1 nothing is promised against that."""
    [one] = judged(kafka, tmp_path, ZOMBIE)
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == ({"m2"}, "valid")


def test_a_leader_that_is_shut_down_last_loses_what_all_replicas_seemed_to_hold(
    tmp_path: Path,
) -> None:
    """The leader missed that it was deposed for a moment; min.insync.replicas=3 does not help."""
    schedule = Source.load(ROLLED, min_isr=3).schedule(MODERN)
    assert [step.action for step in schedule.steps][-1] == "stop"
    [one] = judged(MODERN, tmp_path, schedule)
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == ({"m1"}, "invalid")
    assert one.verdict.ledger.acknowledged == one.verdict.ledger.sent


def test_what_does_not_come_true_is_named_and_never_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_player, "STEP_LIMIT_S", 3.0)
    [one] = judged("0.11.0.3", tmp_path, two_moves())
    [problem] = one.run.status().problems
    assert problem.startswith("step 4 of 8: C hears of B, and cannot fetch: waited 3 s")
    assert "LEO of 2 2 instead of 1" in problem
    missed = one.run.status().missed
    assert missed is not None
    assert StateDifference("LEO", 2, 2, 1) in missed.differences
    assert one.verdict.verdict == "unknown"
    assert Schedule.load(one.run.path / "schedule.json") == two_moves()

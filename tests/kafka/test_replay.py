"""Schedules on real brokers, judged: exactly what the rules give up is lost."""

from pathlib import Path
from typing import Final

import pytest

from highwater.api import JudgedRun, judge_all
from highwater.campaigns.model_schedules import Source, is_reproduced, planned_replay
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.missed_step import StateDifference
from highwater.harness.runs.store import Store
from highwater.nemesis.model_replay import step_player
from highwater.runtime.campaign import Campaign
from tests.support.model_dsl import CANCELLED, found
from tests.support.schedules import LOSS, ZOMBIE, two_moves

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

FILES = Path(__file__).parents[2] / "docs/counterexamples"
BY_MESSAGE: Final[tuple[tuple[str, str, set[str], tuple[int, ...]], ...]] = (
    ("kafka-13141-2.8.0", "2.8.0", {"m2"}, ()),
    ("kafka-13141-2.8.0", "2.8.2", set(), ()),
    ("kafka-9338-2.4.1", "2.4.1", {"m1"}, ()),
    ("kafka-9338-2.4.1", "2.8.2", set(), ()),
    ("kafka-7415-2.0.0", "2.0.0", {"m1"}, ()),
    ("kafka-7415-2.0.0", "2.0.1", set(), ()),
    ("kafka-7128-2.0.0", "2.0.0", {"m1"}, ()),
    ("kafka-7128-2.0.0", "2.0.1", set(), ()),
    ("kafka-7164-2.0.0", "2.0.0", set(), (0,)),
    ("kafka-7164-2.0.0", "2.0.1", set(), ()),
    ("kafka-14704-2.8.2", "2.8.2", set(), ()),
    ("kafka-14704-2.8.2", "3.9.2-zk", set(), ()),
)
"""Counterexamples by messages: the release, the lost records and the forked offsets."""

ROLLED = Path(__file__).parents[2] / "docs/counterexamples/elected-again-stop-4.4.0.json"


def judged(kafka: str, tmp_path: Path, *schedules: Schedule) -> list[JudgedRun]:
    """Replay them on one release, and judge them in one pass."""
    with Campaign(store=Store(tmp_path), clusters=tmp_path / "fleet") as campaign:
        runs = campaign.perform_all([[planned_replay(one, kafka) for one in schedules]])
    return judge_all(runs, spark())


def lost(one: JudgedRun) -> set[str | None]:
    return {anomaly.value for anomaly in one.verdict.anomalies if anomaly.kind == "lost-write"}


@pytest.mark.nightly
def test_what_0_10_2_loses(tmp_path: Path) -> None:
    """Followers cut to their HW; a deposed leader acknowledges, which acks=1 does not promise."""
    *cut, deposed = judged("0.10.2.2", tmp_path, two_moves(), LOSS, ZOMBIE)
    for one in cut:
        assert (lost(one), one.verdict.verdict) == ({"m2"}, "invalid")
        assert one.verdict.ledger.acknowledged == one.verdict.ledger.sent
    assert (lost(deposed), deposed.verdict.verdict) == ({"m2"}, "valid")
    assert {one.run.status().problems for one in (*cut, deposed)} == {()}


@pytest.mark.nightly
def test_two_planned_moves_lose_nothing_since_then(tmp_path: Path) -> None:
    [one] = judged("0.11.0.3", tmp_path, two_moves(cuts=False))
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == (set(), "valid")


@pytest.mark.nightly
def test_a_deposed_leader_acknowledges_what_is_lost_today_too(tmp_path: Path) -> None:
    [one] = judged(MODERN, tmp_path, ZOMBIE)
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == ({"m2"}, "valid")


@pytest.mark.nightly  # by day test_levers.py pulls the same levers on the same release
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


@pytest.mark.nightly
@pytest.mark.parametrize("kafka", ["2.8.2", "3.9.2-zk"])
def test_a_cancelled_reassignment_deletes_the_only_log_in_sync(kafka: str, tmp_path: Path) -> None:
    bounds = {"failures": 1, "moves": 2, "reassignments": 3, "records": 1, "interrupts": True}
    schedule = compile_for(found(CANCELLED, "acked-kept", kafka, **bounds), kafka)
    [one] = judged(kafka, tmp_path, schedule)
    assert one.run.status().problems == ()
    assert (lost(one), one.verdict.verdict) == ({"m1"}, "invalid")
    assert one.model is not None
    assert one.model.status == "as-predicted"


@pytest.mark.parametrize(
    ("name", "kafka", "gone", "forked"),
    [
        pytest.param(*case, id=f"{case[0]} on {case[1]}", marks=[pytest.mark.nightly][: number > 0])
        for number, case in enumerate(BY_MESSAGE)
    ],
)
def test_one_message_a_step_loses_exactly_what_the_rules_give_up(
    name: str, kafka: str, gone: set[str], forked: tuple[int, ...], tmp_path: Path
) -> None:
    [one] = judged(kafka, tmp_path, Source.load(FILES / f"{name}.json").schedule(kafka))
    assert one.run.status().problems == ()
    assert lost(one) == gone
    assert one.verdict.verdict == ("invalid" if gone or forked else "valid")
    assert one.model is not None
    assert (one.model.status, one.model.observed.forked) == ("as-predicted", forked)


@pytest.mark.nightly  # by day without brokers: test_schedule_replay.py
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


OF_TRANSACTIONS: Final[tuple[tuple[str, str, str | None, bool], ...]] = (
    ("kafka-17754-3.9.2", "4.4.0", None, True),
    ("kafka-17754-3.9.2", "4.4.0", "java", False),
    ("kafka-14402-3.3.2", "3.3.2", None, True),
    ("kafka-14402-3.3.2", "3.7.2", None, False),
    ("late-produce-4.4.0", "4.4.0", None, True),
    ("reused-sequence-4.4.0", "4.4.0", None, True),
    ("late-copy-4.4.0", "4.4.0", None, True),
    ("late-copy-4.4.0", "4.4.0", "java", False),
    ("early-copy-4.4.0", "3.9.2", None, True),
    ("late-marker-4.4.0", "4.4.0", None, True),
    ("late-marker-4.4.0", "4.1.2", "java", True),
    ("late-marker-4.4.0", "4.4.0", "java", False),
    ("forgotten-4.4.0", "4.4.0", None, True),
    ("forgotten-4.4.0", "4.4.0", "java", False),
    ("zombie-4.0.1", "4.0.1", None, True),
    ("zombie-4.0.1", "4.4.0", None, False),
)
"""Counterexamples of transactions: release, client, and whether it breaks what the model says."""


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "kafka", "client", "breaks"), OF_TRANSACTIONS)
def test_transactions_go_as_the_model_says(
    name: str, kafka: str, client: str | None, tmp_path: Path, *, breaks: bool
) -> None:
    source = Source.load(FILES / f"transactions-{name}.json", client=client)
    planned = source.planned(kafka, label=name, seed=0, driver="local")
    with Campaign(store=Store(tmp_path), clusters=tmp_path / "fleet") as campaign:
        runs = campaign.perform_all([[planned]])
    [one] = judge_all(runs, spark())
    assert one.run.status().problems == ()
    assert is_reproduced(one) is breaks

"""Both stories on real brokers of every generation, judged and reported."""

from pathlib import Path

import pytest

from checkers.session import spark
from clusters.versions import SAMPLE, release
from harness.api import Judged, load, perform
from harness.expected import as_predicted
from harness.store import Store
from nemesis.stories import STORIES

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kafka", SAMPLE)
def test_both_stories_go_as_the_release_predicts(kafka: str, tmp_path: Path) -> None:
    plans = [story.plan(kafka) for story in STORIES.values()]
    for judged in perform(plans, Store(tmp_path)):
        _assert_as_predicted(judged)


def _assert_as_predicted(judged: Judged) -> None:
    verdict = judged.verdict
    plan = judged.run.plan()
    assert judged.run.status().problems == ()
    assert as_predicted(judged.run, verdict), verdict.headline
    assert verdict.verdict == ("invalid" if release(plan.kafka).cuts_to_hw else "valid")
    assert verdict.ledger.errors() == []
    assert all("crashed" not in state for state in verdict.checkers.values()), verdict.checkers
    for anomaly in verdict.anomalies:
        assert anomaly.witnesses, anomaly
    assert judged.report.stat().st_size > 10_000
    if plan.story == "loss" and release(plan.kafka).cuts_to_hw:
        _assert_the_loss_is_told(judged)


def _assert_the_loss_is_told(judged: Judged) -> None:
    """Who acknowledged it, who held it above its HW, what cut it: all with evidence."""
    loaded = load(judged.run.path)
    (anomaly,) = loaded.verdict.anomalies
    assert (anomaly.kind, anomaly.offset, anomaly.value) == ("lost-write", 3, "m3")
    assert {"acknowledged", "held", "truncated"} <= {one.what for one in anomaly.witnesses}
    ops = loaded.table("ops")
    assert ops[(ops.value == "m3") & (ops.kind == "send")].outcome.tolist() == ["ok"]
    assert "m3" not in set(ops[ops.phase == "final"].value)
    log = loaded.table("log")
    assert "m3" not in set(log.record_id)
    assert set(log.broker) == {1, 2, 3}
    assert len(loaded.frame("operations", spark()).collect()) == len(ops)

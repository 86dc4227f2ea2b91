"""Stories and canaries on real brokers, judged: exactly what the rules give up is lost."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from highwater.api import JudgedRun, judge_all, load
from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN, SAMPLE, release
from highwater.harness.runs.plan import Acks, Plan
from highwater.harness.runs.store import Store
from highwater.nemesis.stories.registry import STORIES, find_story
from highwater.reports.model_text import sentence
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.final_requests import looks_up_times
from highwater.runtime.prediction_check import as_predicted

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]


class Cell(NamedTuple):
    story: str
    acks: Acks = "all"
    unclean: bool = False
    min_isr: int = 1
    client: str = ""

    def plan(self, kafka: str) -> Plan:
        plan = find_story(self.story).plan(kafka, acks=self.acks, unclean=self.unclean)
        topic = msgspec.structs.replace(plan.topic, min_insync_replicas=self.min_isr)
        return msgspec.structs.replace(plan, topic=topic, client=self.client or plan.client)

    def name(self, kafka: str) -> str:
        return "-".join(filter(None, (kafka, self.story, self.client)))


TELLING = (Cell("loss"), Cell("divergence"))
"""What tells releases apart."""

BY_DAY = {
    "0.10.2.2": (*TELLING,),
    MODERN: (
        Cell("loss"),
        Cell("power-failure"),
    ),
}
AT_NIGHT = {
    "0.9.0.1": TELLING,
    "0.11.0.3": TELLING,
    "0.10.2.2": (
        Cell("unclean", unclean=True),
        Cell("cut-off"),
        Cell("leader-kill", "1"),
        Cell("added-partition"),
        Cell("earliest-partition"),
    ),
    "2.8.2": (
        *TELLING,
        Cell("replaced-disk"),
        Cell("late-answer"),
        Cell("missed-decisions"),
        Cell("unloaded-groups"),
        Cell("hanging-transaction"),
        Cell("fenced-produce"),
    ),
    MODERN: (
        Cell("divergence"),
        Cell("held-fetch"),
        Cell("rolling-restart"),
        Cell("reused-sequence"),
        Cell("hanging-transaction"),
        Cell("power-failure", min_isr=2),
        Cell("honest-disk"),
        Cell("lying-disk"),
        Cell("fenced-transaction"),
        Cell("flushed-abort"),
        Cell("late-answer", min_isr=3),
        Cell("lost-metadata"),
        Cell("tiered-new-leader"),
        Cell("failed-copies"),
        Cell("late-segment"),
        Cell("prompt-segment"),
        Cell("torn-transaction"),
        Cell("late-produce"),
        Cell("torn-transaction", client="java"),
        Cell("torn-transaction", client="java:3.9.2"),
        Cell("late-produce", client="java"),
        Cell("reused-sequence", client="java"),
        Cell("wrong-topic"),
        Cell("wrong-topic", client="java:4.0.1"),
        Cell("early-commit"),
        Cell("early-commit", client="java:3.9.0"),
        Cell("early-flush"),
        Cell("early-flush", client="java:3.9.0"),
        Cell("expired-record"),
        Cell("added-partition"),
        Cell("earliest-partition"),
        Cell("added-partition-share"),
        Cell("earliest-share"),
        Cell("share-step-back"),
        Cell("unsaved-start"),
        Cell("unseen-record"),
        Cell("late-initialize"),
        Cell("downgraded-group"),
        Cell("old-timestamp"),
        Cell("append-time"),
        Cell("bounded-timestamp"),
        Cell("clock-ahead"),
        Cell("inherited-settings"),
        Cell("stated-settings"),
        Cell("largest-timestamp"),
        Cell("expired-positions"),
        Cell("earliest-positions"),
        Cell("removed-group"),
        Cell("busy-coordinator"),
        Cell("unloaded-groups"),
        Cell("long-absence"),
        Cell("retained-markers"),
        Cell("two-disks", min_isr=2),
        Cell("disk-by-disk", min_isr=2),
        Cell("interrupted-move", min_isr=2),
        Cell("answered-move", min_isr=2),
        Cell("recreated-topic"),
        Cell("recreated-consumer"),
        Cell("recreated-calmly"),
        Cell("controller-unclean"),
        Cell("topic-clean"),
        Cell("static-quorum", min_isr=2),
        Cell("dynamic-quorum", min_isr=2),
        Cell("expired-unread"),
        Cell("local-retention"),
        Cell("too-large", client="java:2.8.2"),
        Cell("too-large"),
    ),
}
"""The nightly plays all on all, too (``highwater.campaigns.nightly_plan``)."""


def test_every_story_is_played() -> None:
    played = {
        cell.story for when in (BY_DAY, AT_NIGHT) for cells in when.values() for cell in cells
    }
    assert played == set(STORIES)
    assert {*BY_DAY, *AT_NIGHT} == {*SAMPLE} - {"2.1.1"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("kafka", "cells"),
    [
        *(pytest.param(kafka, cells, id=kafka) for kafka, cells in BY_DAY.items()),
        *(
            pytest.param(kafka, (cell,), id=cell.name(kafka), marks=pytest.mark.nightly)
            for kafka, cells in AT_NIGHT.items()
            for cell in cells
        ),
    ],
)
def test_stories_go_as_the_release_predicts(
    kafka: str, cells: tuple[Cell, ...], fleet: ClusterPool, tmp_path: Path
) -> None:
    runs = [
        fleet.execute(cell.plan(kafka), Store(tmp_path), stop=threading.Event()) for cell in cells
    ]
    for judged in judge_all(runs, spark()):
        _assert_as_predicted(judged)


def _assert_as_predicted(judged: JudgedRun) -> None:
    verdict = judged.verdict
    plan = judged.run.plan()
    assert judged.run.status().problems == ()
    assert as_predicted(judged.run, verdict), verdict.reasons
    assert judged.model is not None
    scripted = bool(find_story(plan.story or "").script)
    assert judged.model.status == ("as-predicted" if scripted else "explained"), (
        f"{plan}: {sentence(judged.model)} {judged.model.findings}"
    )
    assert verdict.verdict == _expected_word(plan), verdict.reasons
    assert verdict.ledger.errors() == []
    assert verdict.ledger.acknowledged == verdict.ledger.sent - _unacknowledged(plan)
    if looks_up_times(plan):
        assert not verdict.checkers["wrong-lookup"].startswith("not judged")
    assert all("crashed" not in state for state in verdict.checkers.values()), verdict.checkers
    for anomaly in verdict.anomalies:
        assert anomaly.witnesses, anomaly
    assert judged.report.stat().st_size > 10_000
    if plan.story == "power-failure":
        assert verdict.ledger.lost == (plan.topic.min_insync_replicas == 1)
    if plan.story == "loss" and plan.workload.acks == "all" and verdict.ledger.lost:
        _assert_the_loss_is_told(judged)
    if plan.story == "divergence" and verdict.verdict == "invalid":
        _assert_the_fork_is_inspected(judged)


def _assert_the_fork_is_inspected(judged: JudgedRun) -> None:
    (partition,) = inspect([judged.run.path], spark()).partitions
    assert (partition.verdict, partition.divergent) == ("fork", 1)
    (shown,) = partition.shown
    assert len({each.value for each in shown.copies}) > 1


def _unacknowledged(plan: Plan) -> int:
    """The records that are aborted (two with keys), that no follower has, or that expire."""
    told = find_story(plan.story or "")
    if told.needs.java:
        commits = bool(told.predict(release(plan.played_on), plan).lost)
        return 2 * {"wrong-topic": True, "too-large": not commits}.get(told.name, False)
    alone = told.harm.uncommitted if told.harm and plan.workload.acks == "all" else ()
    aborted = (told.needs.transactions and not told.needs.group) + bool(told.needs.keys)
    return aborted + told.needs.idempotent + len(alone)


def _expected_word(plan: Plan) -> str:
    """Only acks=all with clean elections keeps a record; no setting lets replicas differ."""
    predicted = find_story(plan.story or "").predict(release(plan.played_on), plan)
    kept = plan.workload.acks == "all" and not plan.topic.unclean_leader_election
    broken = predicted.forked or predicted.others or (predicted.lost and kept)
    return "invalid" if broken else "valid"


def _assert_the_loss_is_told(judged: JudgedRun) -> None:
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

"""An honest run is explained; one that was lied about never is, whatever the lie and the dice."""

import random

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.explain.reconcile import as_random
from highwater.checkers.judge import judge
from highwater.checkers.model.report_types import Reconciliation
from tests.histories.failover import NEW, OLD, failover
from tests.support.seeds import FIRST, histories
from tests.support.tampering import LIES, hide_election

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow]

SEEDS = range(FIRST, FIRST + histories(2, 6))
KAFKAS = (OLD, NEW)
HONEST = "honest"
HIDDEN = "hidden"
TOLD = {**LIES, HIDDEN: hide_election}
CASES = [(kafka, lie, seed) for kafka in KAFKAS for lie in (HONEST, *TOLD) for seed in SEEDS]


@pytest.fixture(scope="module")
def answers(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str, int], tuple[str, Reconciliation]]:
    """What each lie was, and what the model says of the run: all judged in one pass."""
    folder = tmp_path_factory.mktemp("lies")
    told, runs = [], []
    for kafka, lie, seed in CASES:
        dice = random.Random(f"{kafka} {lie} {seed}")  # noqa: S311 - to be repeatable
        run = failover(folder / f"{kafka}-{lie}-{seed}", dice, kafka=kafka)
        told.append(TOLD[lie](run, dice) if lie in TOLD else "nothing was changed")
        runs.append(run)
    verdicts = judge(runs, spark)
    found = [as_random(run, verdict) for run, verdict in zip(runs, verdicts, strict=True)]
    return dict(zip(CASES, zip(told, found, strict=True), strict=True))


@pytest.mark.parametrize("kafka", KAFKAS)
def test_an_honest_run_is_explained(
    kafka: str, answers: dict[tuple[str, str, int], tuple[str, Reconciliation]]
) -> None:
    for seed in SEEDS:
        _, answer = answers[kafka, HONEST, seed]
        assert answer.status == "explained", answer.findings
        assert {one.kind for one in answer.findings} == {"lost-write"}, seed
        for finding in answer.findings:
            rules = [link.rule for link in finding.because]
            assert rules[0] == "acks=1", seed
            assert "elections" in rules, seed
            assert all(link.event for link in finding.because), seed


@pytest.mark.parametrize("kafka", KAFKAS)
@pytest.mark.parametrize("lie", TOLD)
def test_a_lie_is_never_explained(
    kafka: str, lie: str, answers: dict[tuple[str, str, int], tuple[str, Reconciliation]]
) -> None:
    for seed in SEEDS:
        told, answer = answers[kafka, lie, seed]
        assert answer.status == "unexplained", told
        assert answer.number_of("unexplained") > 0, seed

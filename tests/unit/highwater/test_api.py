"""Runs are judged as they end where one that is invalid is to be the last; golden runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater import api
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime.campaign import Campaign, PlannedRun
from tests.histories.golden import GOLDEN

pytestmark = pytest.mark.spark
NAMES = ("calm", "story-of-loss", "calm")
"""The third must not be performed."""


def test_after_an_invalid_run_there_is_none(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, str]] = []
    built = {golden.name: golden.build for golden in GOLDEN}

    def perform(_: Campaign, planned: PlannedRun, __: object) -> Run:
        seed = planned.plan.seed
        return built[NAMES[seed]](tmp_path / f"run-{seed}")

    monkeypatch.setattr(Campaign, "_run", perform)
    monkeypatch.setattr(SparkStarter, "session", lambda _: spark)
    plans = [Plan(kafka="4.4.0", seed=seed, duration_s=5, nemesis=("kill",)) for seed in range(3)]
    judged = api.perform(
        plans,
        Store(tmp_path),
        until_failure=True,
        progress=lambda *line: said.append(line),
    )
    assert [one.verdict.verdict for one in judged] == ["valid", "invalid"]
    assert [one.run.path.name for one in judged] == ["run-0", "run-1"]
    assert [who for who, _ in said] == [api.VERDICTS] * 2
    assert said[1][1].startswith("seed 1: INVALID ")
    assert all(one.report.is_file() for one in judged)

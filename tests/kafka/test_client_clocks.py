"""The clock of the producers' process: records have its time, and the run is judged as usual."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.api import judge_all, load
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.client_choice import KAFKA_PYTHON
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(300),
]

BEHIND, AHEAD = 0.0, 0.5
"""Choices of the fault: a day back, and a day ahead."""


@pytest.mark.parametrize(
    ("kafka", "client", "choice", "days"),
    [
        ("2.8.2", "java", BEHIND, {-1, 0}),
        ("3.9.2", "java", BEHIND, {-1, 0}),
        ("3.9.2", "java", AHEAD, {0, 1}),
        (MODERN, "java", BEHIND, {-1, 0}),
        (MODERN, KAFKA_PYTHON, BEHIND, {-1, 0}),
        (MODERN, KAFKA_PYTHON, AHEAD, {0}),  # 4.x refuses records of more than an hour ahead
    ],
)
def test_records_have_the_time_of_their_producer(
    kafka: str,
    client: str,
    choice: float,
    days: set[int],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    plan = Plan(
        kafka=kafka,
        client=client,
        topic=Topic(min_insync_replicas=2),
        workload=Workload(delivery_timeout_s=8),
        steps=(FaultStep(fault="client-clock-bump", at_s=2, lasts_s=5, choice=choice),),
        duration_s=12,
    )
    with ClusterPool(tmp_path / "fleet") as fleet:
        run = fleet.execute(plan, Store(tmp_path), stop=threading.Event())
    [judged] = judge_all([run], spark())
    assert run.status().problems == ()
    assert judged.verdict.verdict == "valid", judged.verdict.reasons
    assert judged.verdict.ledger.acknowledged > 100
    records = load(judged.run.path).table("log").sort_values("offset")
    ages = [round((time_ms / 1000 - time.time()) / 86_400) for time_ms in records.timestamp_ms]
    assert set(ages) == days
    assert ages[-1] == 0
    record_property("fault", f"client-clock-bump {kafka} local")

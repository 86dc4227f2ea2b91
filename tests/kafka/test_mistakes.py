"""Programs of docs/examples/apps, each with a mistake: real brokers show it, and it is named."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from highwater.api import JudgedRun, judge_all
from highwater.checkers.programs.mistakes import MISTAKES, TAKEN_FOR_ANOTHER
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
from highwater.harness.runs.steps import FaultStep, Steps
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

APPS: Final = Path(__file__).parents[2] / "docs/examples/apps"
FOR_S: Final = 24.0
KILLED_FOR_S: Final = 40.0


def faults(name: str, *times_s: float, lasts_s: float) -> Steps:
    return tuple(FaultStep(fault=name, at_s=at_s, lasts_s=lasts_s) for at_s in times_s)


KILLS: Final = ("app-kill",)
"""Not by the clock: on a busy machine a program may not have worked since its last kill."""

AWAY: Final = faults("app-stop", 8.0, 18.0, lasts_s=5.0)
STOPS: Final = faults("app-stop", 8.0, 16.0, lasts_s=1.0)
REFUSALS: Final = faults("app-refuse-outputs", 6.0, 14.0, lasts_s=3.0)
SLOW: Final = faults("app-slow", 6.0, 14.0, lasts_s=3.0)
NO_ANSWERS: Final = faults("app-lose-answers", 6.0, 14.0, lasts_s=3.0)
CUTS: Final = faults("app-cut", 6.0, 16.0, lasts_s=7.0)
CUT: Final = faults("app-cut", 8.0, lasts_s=12.0)
PAUSE: Final = faults("app-pause", 8.0, lasts_s=12.0)
ALONE: Final = tuple(
    FaultStep(fault="isolate", target=str(broker), at_s=12.0 * broker - 8.0, lasts_s=8.0)
    for broker in (1, 2, 3)
)
ON_THE_WIRE: Final = (REFUSALS, SLOW, NO_ANSWERS, CUT, CUTS, ALONE)
WIRED: Final = frozenset(("works_on", "retries_later", "commits_too_far"))
"""Programs with a mistake that is named only if the wire is recorded."""
ONCE: Final = ProgramPlan(command=(), out="payments", guarantee="exactly-once")
LEAST: Final = replace(ONCE, guarantee="at-least-once")
ORDERED: Final = replace(LEAST, ordered=True)
TWO: Final = {"instances": 2}

PROGRAMS: Final = {
    "commits_first": (LEAST, KILLS, "position committed before the output was acknowledged"),
    "auto_commit": (LEAST, KILLS, "automatic commit while records were being processed"),
    "commits_newest": (LEAST, KILLS, "position of the newest finished input committed"),
    "commits_last": (LEAST, KILLS, "positions of some partitions not committed"),
    "ignores_errors": (LEAST, REFUSALS, "delivery error ignored"),
    "skips_failed": (LEAST, (), "input passed without an output"),
    "no_way_back": (ONCE, (), "no seek back after an aborted transaction"),
    "polls_late": (replace(LEAST, **TWO), (), "poll or heartbeat later than the group's timeout"),
    "output_outside": (ONCE, KILLS, "output outside of the transaction"),
    "position_outside": (ONCE, KILLS, "position outside of the transaction"),
    "shared_id": (replace(ONCE, **TWO), (), "transactional id shared by instances"),
    "new_id": (ONCE, KILLS, "transactional id new at each start"),
    "reads_uncommitted": (ONCE, (), "read_uncommitted behind transactions"),
    "starts_at_latest": (LEAST, (), "auto.offset.reset=latest without a position"),
    "starts_at_latest consumer": (
        LEAST,
        (),
        "auto.offset.reset=latest without a position, or input skipped",
    ),
    "hands_over": (replace(LEAST, **TWO), STOPS, "rebalance that was not waited for"),
    "works_on": (replace(LEAST, **TWO), STOPS, "rebalance that was not waited for"),
    "remembers_positions": (
        replace(LEAST, **TWO),
        AWAY,
        "older position committed over a newer one",
    ),
    "commits_twice": (LEAST, KILLS, "automatic commit beside the program's own"),
    "never_commits": (LEAST, KILLS, "no position committed by the group"),
    "expects_every_offset": (LEAST, KILLS, "position stopped before an offset without a record"),
    "ends_at_once": (LEAST, STOPS, "position not committed when an instance ended"),
    "commits_rarely": (
        replace(LEAST, **TWO),
        CUT,
        "position not committed when the group revoked the partition",
    ),
    "sends_again": (LEAST, SLOW, "output sent again by the program, or input read again"),
    "retries": (
        LEAST,
        NO_ANSWERS,
        "retry without idempotence, or output sent again by the program",
    ),
    "retries_later": (ORDERED, (), "outputs sent in another order than their inputs"),
    "repeats_failed": (ORDERED, REFUSALS, "failed send repeated behind later outputs"),
    "goes_on": (
        replace(ONCE, **TWO),
        PAUSE,
        "paused instance continued with inputs of a lost partition",
    ),
    "steps_back": (ONCE, KILLS, "no transactions, and exactly-once is declared"),
    "commits_too_far": (LEAST, STOPS, "position past the end of the log"),
    "acks_of_leader": (LEAST, ALONE, "output that its leader alone had"),
    "aborts_first": (ONCE, (), "no seek back after an aborted transaction, or input skipped"),
    "logs_errors": (LEAST, CUTS, "delivery error ignored, or input skipped"),
    "right": (LEAST, KILLS, None),
    "right_once": (ONCE, KILLS, None),
}
"""Guarantee and instances, faults, and the mistake to be named, by a program and its argument."""

INPUTS: Final[dict[str, dict[str, Any]]] = {
    "reads_uncommitted": {"transactions": True},
    "expects_every_offset": {"transactions": True},
    "commits_too_far": {"rate": 4.0},  # so that it is at the end of its input
}
"""What is special about the inputs of some programs."""


def _duration_s(name: str) -> float:
    """Return how long faults go on; a mistake that needs none is made at once."""
    faults = PROGRAMS[name][1]
    if faults is KILLS:
        return KILLED_FOR_S
    return FOR_S if faults or name.startswith("starts_at_latest") else 6.0


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[Callable[[str], JudgedRun]]:
    path = tmp_path_factory.mktemp("mistakes")
    with ClusterPool(path / "clusters") as pool:

        def run(name: str) -> JudgedRun:
            program, faults, _ = PROGRAMS[name]
            file, *arguments = name.split()
            command = (sys.executable, str(APPS / f"{file}.py"), *arguments)
            plan = Plan(
                kafka=MODERN,
                topic=Topic(name="orders", partitions=2),
                workload=replace(PROGRAM_WORKLOAD, **INPUTS.get(name, {})),
                nemesis=tuple(word for word in faults if isinstance(word, str)),
                steps=tuple(step for step in faults if isinstance(step, FaultStep)),
                duration_s=_duration_s(name),
                program=replace(program, command=command),
                wire_clients=name in WIRED or faults in ON_THE_WIRE,
            )
            executed = pool.execute(plan, Store(path), stop=threading.Event())
            return judge_all([executed], spark)[0]

        yield run


@pytest.mark.nightly  # by day tests/kafka/test_programs.py has one
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mistake_is_found_and_named(judged: Callable[[str], JudgedRun], name: str) -> None:
    verdict = judged(name).verdict
    says = [anomaly.sentence for anomaly in verdict.anomalies]
    mistake = PROGRAMS[name][2]
    if mistake is None:
        assert verdict.verdict == "valid", verdict.reasons
        assert not any("lost" in sentence for sentence in says)
    else:
        assert any(f": {mistake}." in sentence for sentence in says), (verdict.reasons, says[:3])


def test_every_mistake_of_a_program_has_a_program() -> None:
    """A client library's is none: it takes a sequence number for another record."""
    of_programs = {mistake.name for mistake in MISTAKES if mistake.by == "The program"}
    played = {mistake for _, _, mistake in PROGRAMS.values() if mistake}
    assert of_programs - {TAKEN_FOR_ANOTHER.name} == played


def test_the_fault_that_shows_a_mistake_is_the_one_that_is_played() -> None:
    shown_by = {mistake.name: mistake.fault for mistake in MISTAKES}
    for _, faults, mistake in PROGRAMS.values():
        words = {word.fault if isinstance(word, FaultStep) else word for word in faults}
        assert mistake is None or words == {shown_by[mistake]} - {""}


WINDOW: Final = (
    FaultStep(fault="hold-hw", target="3", at_s=4.0, lasts_s=16.0),
    FaultStep(fault="kill", target="1", at_s=4.5, lasts_s=16.0),
    FaultStep(fault="kill", target="2", at_s=12.0, lasts_s=12.0),
)
"""Broker 3 has outputs that are committed and above its HW; it cuts them off to follow broker 2,
and leads when that dies."""


@pytest.mark.nightly
@pytest.mark.parametrize("kafka", ["0.10.2.2", MODERN])
def test_what_kafka_loses_beneath_a_right_program_is_kafkas(
    kafka: str, tmp_path: Path, spark: SparkSession
) -> None:
    text = (APPS / "right.py").read_text().replace('"enable.idempotence": True', '"acks": "all"')
    program = ProgramPlan(command=(sys.executable, "-c", text), out="payments")
    plan = Plan(
        kafka=kafka,
        topic=Topic(name="orders", partitions=1),
        workload=replace(PROGRAM_WORKLOAD, idempotence=False),
        steps=WINDOW,
        duration_s=24.0,
        program=program,
        wire=True,
        wire_clients=True,
    )
    with ClusterPool(tmp_path / "clusters") as pool:
        executed = pool.execute(plan, Store(tmp_path), stop=threading.Event())
    [judged] = judge_all([executed], spark)
    assert judged.model is not None
    assert judged.model.status == "explained"
    lost = [a.sentence for a in judged.verdict.anomalies if a.kind == "lost-input"]
    assert bool(lost) == (kafka != MODERN), judged.verdict.headline
    assert all(" Kafka: " in sentence for sentence in lost), lost
    assert "program" not in judged.verdict.headline

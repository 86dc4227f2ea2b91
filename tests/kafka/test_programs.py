"""Programs of docs/examples/apps on real brokers: what they lose is found, and why."""

import json
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from highwater.api import JudgedRun, judge_all
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.history import (
    INSTANCES_TABLE,
    MESSAGES_TABLE,
    OUTPUTS_TABLE,
    REQUESTS_TABLE,
)
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.programs.instances import LOG_BYTES_MOST
from highwater.runtime.requested_plan import requested_app
from tests.support.processes import GONE, status_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

APPS = Path(__file__).parents[2] / "docs/examples/apps"
KILLS = tuple(
    FaultStep(fault="app-kill", at_s=at_s, lasts_s=0.5) for at_s in (3.0, 6.25, 9.5, 12.75, 16.0)
)
"""The wrong program is behind its input, so that nearly every moment is one between its commit and
the outputs: of five kills one at least loses something."""


CONNECTIONS = tuple(
    FaultStep(fault=f"app-{name}", at_s=2.0 + 2.25 * number, lasts_s=1.5)
    for number, name in enumerate(("hold-commit", "cut", "slow", "lose-answers", "repeat-requests"))
)


def plan(*command: str) -> Plan:
    return Plan(
        kafka=MODERN,
        topic=Topic(name="orders", partitions=2),
        workload=PROGRAM_WORKLOAD,
        steps=KILLS,
        duration_s=17.0,
        wire_clients=True,
        program=ProgramPlan(command=command, out="payments"),
    )


RIGHT = msgspec.structs.replace(
    plan(sys.executable, str(APPS / "right.py")), steps=KILLS[:3], duration_s=10.5
)
DISCONNECTED = msgspec.structs.replace(RIGHT, steps=CONNECTIONS, duration_s=13.0)
WRONG = plan(sys.executable, str(APPS / "commits_first.py"))
ASTRAY = msgspec.structs.replace(
    plan(sys.executable, "-c", """
import os, signal, subprocess, time
from confluent_kafka import Consumer, Producer
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
servers = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
consumer = Consumer({**servers, "group.id": "mine", "auto.offset.reset": "earliest"})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
producer = Producer(servers)
producer.produce(os.environ["HIGHWATER_OUT"], "good morning")
producer.flush()
while True:
    consumer.poll(0.1)
    print("x" * 100_000)
"""),
    steps=(),
    duration_s=8.0,
)  # fmt: skip
"""It reads as another group, names no input, ignores SIGTERM, forks, and prints megabytes."""
SILENT = msgspec.structs.replace(plan("sleep", "600"), steps=(), duration_s=2.0)
ORDERS = [{"order": f"A-{n}", "note": "a|b"} | ({"sum": n} if n % 3 else {}) for n in range(400)]


def fed(feed: Path) -> Plan:
    """The right program, with orders of which every third needs no output."""
    feed.write_text("\n".join(map(json.dumps, ORDERS)), "utf-8")
    assert RIGHT.program is not None
    program = msgspec.structs.replace(
        RIGHT.program, feed=str(feed), match="$.order", when="$.sum", ordered=True
    )
    return msgspec.structs.replace(RIGHT, steps=KILLS[:2], duration_s=7.0, program=program)


def printing() -> Plan:
    """Two instances that write to databases of their own, and print what they have done."""
    command = (sys.executable, str(APPS / "to_database.py"))
    program = ProgramPlan(command=command, out="", instances=2)
    return msgspec.structs.replace(RIGHT, steps=KILLS[:2], duration_s=7.0, program=program)


def writing() -> Plan:
    """A program without input, while brokers are killed."""
    program = ProgramPlan(command=(sys.executable, str(APPS / "writes_orders.py")), match="key")
    program = msgspec.structs.replace(program, out="payments", guarantee="exactly-once")
    workload = msgspec.structs.replace(RIGHT.workload, producers=0)
    steps = (FaultStep(fault="kill", at_s=2.0, lasts_s=2.0), *KILLS[1:2])
    return msgspec.structs.replace(
        RIGHT, steps=steps, duration_s=8.0, program=program, workload=workload
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> list[JudgedRun]:
    path = tmp_path_factory.mktemp("programs")
    with (
        ClusterPool(path / "clusters") as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        plans = (RIGHT, WRONG)
        runs = [pool.execute(plan, Store(path), stop=threading.Event()) for plan in plans]
        patch.setattr("highwater.runtime.programs.ending.END_LIMIT_S", 5.0)
        runs.append(pool.execute(SILENT, Store(path), stop=threading.Event()))
    return judge_all(runs, spark)


@pytest.fixture(scope="module")
def at_night(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> list[JudgedRun]:
    path = tmp_path_factory.mktemp("programs-at-night")
    with (
        ClusterPool(path / "clusters") as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        plans = (printing(), writing(), DISCONNECTED, fed(path / "orders.jsonl"))
        runs = [pool.execute(plan, Store(path), stop=threading.Event()) for plan in plans]
        patch.setattr("highwater.runtime.programs.ending.END_LIMIT_S", 5.0)
        patch.setattr("highwater.runtime.programs.instances._TERM_S", 1.0)
        runs.append(pool.execute(ASTRAY, Store(path), stop=threading.Event()))
    return judge_all(runs, spark)


def test_the_right_program_loses_nothing(judged: list[JudgedRun]) -> None:
    verdict = judged[0].verdict
    assert verdict.verdict == "valid", verdict.reasons
    assert verdict.ledger.acknowledged > 300
    assert {verdict.counts[name] for name in ("lost-input", "unreached-input")} == {0}
    assert verdict.counts["strange-output"] == 0
    lives = [row["event"] for row in judged[0].run.table(INSTANCES_TABLE).to_pylist()]
    assert lives.count("killed") >= 2
    assert lives[-1] == "closed"


def test_the_wire_knows_who_wrote_and_committed_and_what_was_answered(
    judged: list[JudgedRun],
) -> None:
    rows = judged[0].run.table(REQUESTS_TABLE).to_pylist()
    assert {row["instance"] for row in rows} == {0}
    done = [row for row in rows if row["error"] == 0]
    assert all(row["time_ns"] <= row["answered_ns"] for row in done)
    written = [row for row in done if row["api"] == "Produce"]
    outputs = judged[0].run.table(OUTPUTS_TABLE)
    places = {
        (row["partition"], offset)
        for row in written
        for offset in range(row["offset"], row["offset"] + row["records"])
    }
    told = {(o["partition"], o["offset"]) for o in outputs.to_pylist() if o["kind"] == "output"}
    assert places <= told
    assert len(places) > 0.9 * len(told)
    commits = [row for row in done if row["api"] == "OffsetCommit"]
    assert {row["partition"] for row in commits} == {0, 1}
    lost = next(a for a in judged[1].verdict.anomalies if a.kind == "lost-input")
    assert {way.who for way in lost.witnesses if way.what == "committed"} == {"instance 0"}


def test_a_program_that_commits_first_loses_inputs_and_is_told_why(
    judged: list[JudgedRun],
) -> None:
    verdict = judged[1].verdict
    assert verdict.verdict == "invalid", verdict.reasons
    assert verdict.counts["lost-input"] > 0
    assert verdict.ledger.lost == 0
    lost = [anomaly for anomaly in verdict.anomalies if anomaly.kind == "lost-input"]
    assert all(anomaly.breaks for anomaly in lost)
    mistake = "position committed before the output was acknowledged"
    assert all(mistake in anomaly.sentence for anomaly in lost)
    assert {"acknowledged", "committed", "killed"} <= {way.what for way in lost[0].witnesses}
    page = judged[1].report.read_text("utf-8")
    assert "The program" in page
    assert mistake in page


@pytest.mark.nightly  # by day without brokers: test_feed.py
def test_the_users_own_records_are_inputs_under_their_names(at_night: list[JudgedRun]) -> None:
    verdict = at_night[3].verdict
    assert verdict.verdict == "valid", verdict.reasons
    assert verdict.ledger.acknowledged == verdict.ledger.read == len(ORDERS)
    assert verdict.checkers["overtaken-input"] == "held"
    assert at_night[3].model is not None
    assert at_night[3].model.status == "explained"
    names = at_night[3].run.table("history/ops")["value"].unique().to_pylist()
    assert {order["order"] for order in ORDERS} <= {*names}
    exempt = [
        row["input"]
        for row in at_night[3].run.table(OUTPUTS_TABLE).to_pylist()
        if row["kind"] == "exempt"
    ]
    assert exempt == [order["order"] for order in ORDERS if "sum" not in order]
    again = requested_app(("cat",), {"feed": str(at_night[3].run.path)})
    assert again.program is not None
    lines = Path(again.program.feed).read_text("utf-8").splitlines()
    by_name = {order["order"]: order for order in ORDERS}
    assert {order["order"]: order for order in map(json.loads, lines)} == by_name
    with pytest.raises(UsageError, match="has no records from --feed"):
        requested_app(("cat",), {"feed": str(at_night[2].run.path)})


@pytest.mark.nightly
def test_a_program_whose_output_is_elsewhere_prints_what_it_has_done(
    at_night: list[JudgedRun],
) -> None:
    verdict = at_night[0].verdict
    assert verdict.verdict == "valid", verdict.reasons
    assert {verdict.counts[name] for name in ("lost-input", "unreached-input")} == {0}
    assert verdict.ledger.read > 300
    printed = at_night[0].run.table(OUTPUTS_TABLE).to_pylist()
    ends = {row["partition"]: row["offset"] for row in printed if row["kind"] == "end"}
    assert {*ends} == {0, 1, 2}  # one more may be started by a fault
    assert sum(ends.values()) == len(printed) - len(ends) >= verdict.ledger.read


@pytest.mark.nightly
def test_a_program_without_input_prints_what_was_acknowledged(at_night: list[JudgedRun]) -> None:
    verdict = at_night[1].verdict
    assert verdict.verdict == "valid", verdict.reasons
    assert "none is lost or doubled" in verdict.headline
    assert verdict.checkers["lost-output"] == "held"
    rows = at_night[1].run.table(OUTPUTS_TABLE).to_pylist()
    acknowledged = {row["input"] for row in rows if row["kind"] == "acknowledged"}
    assert len(acknowledged) > 100
    assert acknowledged <= {row["input"] for row in rows if row["kind"] == "output"}


@pytest.mark.nightly
def test_faults_of_its_connections_hit_an_instance(at_night: list[JudgedRun]) -> None:
    run, verdict = at_night[2].run, at_night[2].verdict
    assert verdict.verdict == "valid", verdict.reasons
    faults = run.table("events/faults").to_pylist()
    injected = [row["fault"] for row in faults if row["phase"] == "inject"]
    assert injected == [step.fault for step in CONNECTIONS]
    events = run.table(MESSAGES_TABLE).to_pylist()
    held = [row["event"] for row in events if row["action"] == "hold"]
    assert held[:3] == ["caught", "released", "sent"]
    acted = [row for row in events if row["action"] in {"hold", "repeat"}]
    assert all("client:app-0" in {row["source"], row["target"]} for row in acted)
    assert run.table(REQUESTS_TABLE).to_pylist()


def test_of_a_program_that_reads_nothing_nothing_is_known(judged: list[JudgedRun]) -> None:
    verdict = judged[2].verdict
    assert verdict.verdict == "unknown"
    assert any("has committed no offset" in reason for reason in verdict.reasons)
    assert any("has written nothing" in reason for reason in verdict.reasons)
    assert "are not known" in verdict.headline
    assert {verdict.counts[name] for name in ("lost-input", "unreached-input")} == {0}


@pytest.mark.nightly
def test_of_a_program_that_goes_astray_it_is_said_how(at_night: list[JudgedRun]) -> None:
    run, verdict = at_night[4].run, at_night[4].verdict
    assert verdict.verdict == "unknown"
    said = " ".join(verdict.reasons)
    assert "the program uses the group mine instead of HIGHWATER_GROUP" in said
    assert "has the name of an input" in said
    assert "The first outputs: 'good morning'." in said
    notes = [row["says"] for row in run.table("events/faults").to_pylist()]
    assert any("ignored SIGTERM for 1 s, and was killed" in note for note in notes)
    log = run.logs / "app-0.log"
    assert log.stat().st_size < 3 * LOG_BYTES_MOST
    assert status_of(int(log.read_text().split()[0])) in GONE

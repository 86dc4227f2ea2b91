"""What each broker ran when: rules follow from the notes of an upgrade, broker by broker."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.checkers.explain.elections import wrong_elections
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.explain.reconcile import as_random
from highwater.checkers.explain.software import SoftwareHistory
from highwater.checkers.explain.truncations import wrong_cuts
from highwater.harness.runs.history import STEPS, STEPS_TABLE
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import Run
from highwater.nemesis.schedules.upgrade_path import levels
from tests.support.judged import anomalies, verdict
from tests.support.run_builder import MS, RunBuilder

KRAFT = Plan(kafka="3.9.2", to=("4.4.0",), nemesis=("upgrade",))
OLD = Plan(kafka="0.10.2.2", to=("0.11.0.3",), nemesis=("upgrade",))


def builder(path: Path, plan: Plan) -> RunBuilder:
    run = RunBuilder(path, kafka=plan.kafka, topic=Topic(min_insync_replicas=2))
    run.plan = msgspec.structs.replace(run.plan, to=plan.to, nemesis=plan.nemesis)
    run.leader(1, 0, [1, 2, 3])
    return run


def rolled(run: RunBuilder, level: str, *brokers: int) -> None:
    """The brokers are stopped one by one, and start again at a level."""
    for broker in brokers:
        run.log_line(broker, "stop", "BrokerServer shutting down")
        run.tick(1_000)
        run.log_line(broker, "loaded", "Log loaded for partition events-0", offset=0)
        run.tick(1_000)
        run.log_line(broker, "start", "Kafka Server started")
        run.fault("upgrade", broker, f"broker {broker} runs {level}", phase="note")
        run.tick(1_000)


def struck(built: Run, at_ms: int) -> Run:
    """The schedule's step began at a time."""
    row = {"time_ns": at_ms * MS, "event": "strike", "fault": "upgrade", "broker": None}
    pq.write_table(pa.Table.from_pylist([row], STEPS), built.parquet(STEPS_TABLE))
    return built


def ran(software: SoftwareHistory, broker: int, at_ms: int) -> list[str]:
    return [each.kafka for each in software.at(at_ms * MS, broker)]


def test_a_broker_runs_the_new_jars_from_its_start_on(tmp_path: Path) -> None:
    run = builder(tmp_path / "run", KRAFT)
    begun_ms = run.now_ns // MS
    run.fault("upgrade", None, "the controller runs Kafka 4.4.0, metadata.version 3.9",
              phase="note")  # fmt: skip
    rolled(run, str(levels(KRAFT)[1]), 1, 2, 3)
    software = observe(struck(run.write(), begun_ms)).software
    assert ran(software, 1, begun_ms + 999) == ["3.9.2"]
    assert ran(software, 1, begun_ms + 1_000) == ["4.4.0"]  # it loads its logs; the note is later
    assert ran(software, 2, begun_ms + 1_000) == ["3.9.2"]
    assert {each.kafka for each in software.at((begun_ms + 1_000) * MS)} == {"3.9.2", "4.4.0"}
    assert (software.first.kafka, software.newest) == ("3.9.2", "4.4.0")
    assert not software.may_have("elr", (begun_ms + 9_000) * MS)  # metadata.version is of 3.9


def test_features_change_for_all_at_some_time_of_the_step(tmp_path: Path) -> None:
    run = builder(tmp_path / "run", KRAFT)
    rolled(run, str(levels(KRAFT)[1]), 1, 2, 3)
    begun_ms = run.now_ns // MS
    run.tick(1_000)
    run.fault("upgrade", None, f"the cluster has {levels(KRAFT)[-1]}", phase="note")
    run.tick(1_000)
    software = observe(struck(run.write(), begun_ms)).software
    for broker in (1, 2, 3):
        whole = [
            (software.may_lack("elr", at * MS, broker), software.may_have("elr", at * MS, broker))
            for at in (begun_ms - 1, begun_ms + 500, begun_ms + 1_000)
        ]
        assert whole == [(True, False), (True, True), (False, True)]


@pytest.mark.parametrize(
    ("kafka", "to"),
    [("0.10.2.2", ("0.11.0.3", "2.8.2", "3.9.2-zk")), ("3.9.2", ("4.2.1", "4.4.0"))],
)
def test_every_level_is_understood_as_it_is_written(
    tmp_path: Path, kafka: str, to: tuple[str, ...]
) -> None:
    plan = Plan(kafka=kafka, to=to, nemesis=("upgrade",))
    run = builder(tmp_path / "run", plan)
    for level in levels(plan)[1:]:
        rolled(run, str(level), 1)
    changes = observe(run.write()).software.changes
    assert [change.software.kafka for change in changes] == [
        level.release.name for level in levels(plan)[1:]
    ]
    epochs = [change.software.rules.epochs for change in changes]
    assert epochs == [level.truncation.value != "high-watermark" for level in levels(plan)[1:]]


def test_a_story_begins_when_everything_is_changed(tmp_path: Path) -> None:
    run = builder(tmp_path / "run", OLD)
    run.plan = msgspec.structs.replace(run.plan, story="loss", nemesis=(), protocol="0.10.2")
    software = observe(run.write()).software
    assert (software.first.kafka, software.changes) == ("0.11.0.3", ())
    assert not software.first.rules.epochs


LEVELS = {"jars": str(levels(OLD)[1]), "protocol": str(levels(OLD)[2])}


@pytest.mark.parametrize(
    ("level", "broker", "word"),
    [
        ("jars", 2, "explained"),  # with the old protocol it truncates to its HW
        ("protocol", 3, "explained"),  # another broker has the new one
        ("protocol", 2, "unexplained"),
    ],
)
def test_a_loss_is_explained_by_the_software_of_the_broker_that_truncated(
    tmp_path: Path, level: str, broker: int, word: str
) -> None:
    run = builder(tmp_path / "run", OLD)
    run.observe(2, 4, 3)
    rolled(run, LEVELS[level], broker)
    run.send("m3", 3)
    run.tick(5_000)
    run.log_line(2, "truncation", "Truncating log events-0 to offset 3", offset=3)
    run.log_line(2, "fetcher", "Added fetcher for partitions List([events-0, initOffset 3 to"
                 " broker BrokerEndPoint(1,127.0.0.1,9092)])", offset=3)  # fmt: skip
    run.observe(2, 3, 3)
    run.tick(1_000)
    run.leader(2, 1, [2, 3])
    run.everywhere([(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"), (3, 1, "m4")])
    built = run.write()
    lost = {"kind": "lost-write", "topic": "events", "acks": "all", "partition": 0}
    anomalies(built, lost | {"offset": 3, "value": "m3"})
    answer = as_random(built, verdict(kafka=OLD.kafka))
    [finding] = [each for each in answer.findings if each.kind == "lost-write"]
    assert finding.verdict == word, finding
    assert (finding.because[-2].rule == "epochs") is (word == "explained")
    assert answer.software == "Kafka 0.10.2.2 to 0.11.0.3"


@pytest.mark.parametrize(("level", "wrong"), [("jars", 0), ("protocol", 1)])
def test_a_truncation_is_held_against_what_the_broker_ran(
    tmp_path: Path, level: str, wrong: int
) -> None:
    """A new follower that asks no leader truncates to its HW; one that asks, to an epoch's end."""
    run = builder(tmp_path / "run", OLD)
    rolled(run, LEVELS[level], 2)
    run.observe(1, 5, 5)
    run.observe(2, 4, 3)
    run.tick(1_000)
    run.log_line(2, "truncation", "Truncating log events-0 to offset 3", offset=3)
    run.log_line(2, "fetcher", "Added fetcher for partitions List([events-0, initOffset 3 to"
                 " broker BrokerEndPoint(1,127.0.0.1,9092)])", offset=3)  # fmt: skip
    run.observe(2, 3, 3)
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(5)])
    observed = observe(run.write())
    [trace] = observed.traces.values()
    assert len([*wrong_cuts(trace, observed.software)]) == wrong


@pytest.mark.parametrize(("finalized", "wrong"), [(True, 0), (False, 1)])
def test_somebody_eligible_may_lead_once_the_features_are_raised(
    tmp_path: Path, finalized: bool, wrong: int
) -> None:
    run = builder(tmp_path / "run", KRAFT)
    rolled(run, str(levels(KRAFT)[1]), 1, 2, 3)
    if finalized:
        run.fault("upgrade", None, f"the cluster has {levels(KRAFT)[-1]}", phase="note")
    for leader, epoch, isr in ((1, 0, [1]), (3, 1, [3])):
        run.tick(5_000)
        run.leader(leader, epoch, isr)
    run.everywhere([(0, 0, "m0")])
    observed = observe(run.write())
    [trace] = observed.traces.values()
    rules = [link.rule for link in wrong_elections(observed, trace)]
    assert rules.count("elections") == wrong

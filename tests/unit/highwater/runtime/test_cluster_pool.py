"""Warm clusters without Kafka: which are kept, which are closed, and what a run is left with."""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Run, Store
from highwater.nemesis.stories.registry import find_story
from highwater.runtime import cluster_pool as module
from highwater.runtime.cluster_pool import WARM_CONFIG, ClusterPool
from highwater.runtime.run_status import StatusKeeper

PLAN = Plan(kafka="4.3.1", nemesis=("kill",), duration_s=30, broker_config={"a": "1"})


@dataclass
class FakeBroker:
    state: str = "running"


@dataclass
class FakeCluster:
    """Says what a fleet asks of a cluster."""

    directory: Path
    config: dict[str, str]
    brokers: dict[int, FakeBroker] = field(
        default_factory=lambda: {1: FakeBroker(), 2: FakeBroker()}
    )
    controllers: dict[int, FakeBroker] = field(default_factory=lambda: {100: FakeBroker()})
    live: frozenset[int] = frozenset({1, 2})
    answers: bool = True
    closed: bool = False

    def probe(self) -> "FakeCluster":
        return self

    def live_brokers(self) -> frozenset[int]:
        if not self.answers:
            raise UnreachableError("nobody answers")
        return self.live

    def snapshot(self, topics: Collection[str], directory: Path) -> None:
        for topic in topics:
            (directory / "1" / f"{topic}-0").mkdir(parents=True)

    def say(self, words: str) -> None:
        with (self.directory / "logs" / "broker-1.log").open("a") as log:
            log.write(words)

    def close(self) -> None:
        self.closed = True  # or only its probe, which it is itself


Conduct = Callable[[Plan, Run, FakeCluster], None]


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch) -> list[FakeCluster]:
    """Every cluster that was booted, in order; runs do nothing but say so in a broker's log."""
    found: list[FakeCluster] = []

    def boot(plan: Plan, directory: Path) -> FakeCluster:
        (directory / "logs").mkdir()
        found.append(FakeCluster(directory, dict(plan.broker_config)))
        found[-1].say("boot\n")
        return found[-1]

    monkeypatch.setattr(module, "boot", boot)
    conducts(monkeypatch, lambda *_: None)
    return found


def conducts(monkeypatch: pytest.MonkeyPatch, does: Conduct) -> None:
    def conduct(
        plan: Plan,
        run: Run,
        cluster: FakeCluster,
        keeper: StatusKeeper,
        *,
        keep: Callable[[], None],
        **_: object,
    ) -> None:
        cluster.say(f"run {plan.topic.name}\n")
        does(plan, run, cluster)
        keep()
        keeper.phase("frozen")

    monkeypatch.setattr(module, "conduct", conduct)


def changed(**fields: object) -> Plan:
    return msgspec.structs.replace(PLAN, **fields)


class Runs:
    """Executes plans in a fleet below ``tmp_path``."""

    def __init__(self, fleet: ClusterPool, folder: Path) -> None:
        self.fleet = fleet
        self.store = Store(folder / "runs")

    def __call__(self, plan: Plan = PLAN, name: str | None = None) -> Run:
        return self.fleet.execute(plan, self.store, stop=threading.Event(), name=name)


def test_runs_share_a_cluster_and_have_topics_of_their_own(
    booted: list[FakeCluster], tmp_path: Path
) -> None:
    with ClusterPool(tmp_path / "clusters") as fleet:
        execute = Runs(fleet, tmp_path)
        first = execute(name="one")
        topic = Topic(min_insync_replicas=2, unclean_leader_election=True)
        second = execute(changed(topic=topic, workload=Workload(acks="1"), seed=3))
        assert len(booted) == 1
    assert (first.name, first.plan().topic.name) == ("one", "events-1")
    assert second.plan().topic == msgspec.structs.replace(topic, name="events-2")
    assert second.plan().broker_config == PLAN.broker_config
    assert booted[0].config == {**WARM_CONFIG, "a": "1"}
    assert [path.name for path in second.replicas.glob("*/*")] == ["events-2-0"]
    assert (first.logs / "broker-1.log").read_text() == "run events-1\n"
    assert (second.logs / "broker-1.log").read_text() == "run events-2\n"
    assert not (tmp_path / "clusters").exists()


def test_a_cluster_that_a_story_spoils_is_used_once(
    booted: list[FakeCluster], tmp_path: Path
) -> None:
    plan = find_story("downgraded-group").plan("4.4.0")
    with ClusterPool(tmp_path / "clusters") as fleet:
        execute = Runs(fleet, tmp_path)
        execute(plan)
        execute(plan)
    assert len(booted) == 2


@pytest.mark.parametrize(
    "other", [changed(kafka="0.10.2.2"), changed(brokers=4), changed(broker_config={"a": "2"})]
)
def test_another_kind_of_cluster_takes_the_place_of_the_oldest(
    other: Plan, booted: list[FakeCluster], tmp_path: Path
) -> None:
    with ClusterPool(tmp_path / "clusters") as fleet:
        for plan in (PLAN, other, PLAN):
            Runs(fleet, tmp_path)(plan)
        assert [one.directory.exists() for one in booted] == [False, False, True]
    booted.clear()
    with ClusterPool(tmp_path / "clusters", warm=2) as fleet:
        for plan in (PLAN, other, PLAN):
            Runs(fleet, tmp_path)(plan)
        assert [one.directory.exists() for one in booted] == [True, True]


@pytest.mark.parametrize("what", ["a broker is down", "a session is missing", "nobody answers"])
def test_a_cluster_that_a_run_left_unhealthy_is_replaced(
    what: str, booted: list[FakeCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def harm(_: Plan, __: Run, cluster: FakeCluster) -> None:
        match what:
            case "a broker is down":
                cluster.brokers[2].state = "down"
            case "a session is missing":
                cluster.live = frozenset({1})
            case _:
                cluster.answers = False

    conducts(monkeypatch, harm)
    monkeypatch.setattr("highwater.runtime.cluster_pool._WHOLE_S", 0.1)
    with ClusterPool(tmp_path / "clusters") as fleet:
        Runs(fleet, tmp_path)()
        assert not booted[0].directory.exists()
        Runs(fleet, tmp_path)()
        assert len(booted) == 2


def test_a_run_that_fails_keeps_what_there_is_and_names_it(
    booted: list[FakeCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_: Plan, __: Run, cluster: FakeCluster) -> None:
        log = cluster.directory / "logs" / "broker-1.log"
        raise HarnessError("broker 1 died", hint=f"Its whole log is {log}.")

    conducts(monkeypatch, die)
    with ClusterPool(tmp_path / "clusters") as fleet, pytest.raises(HarnessError) as failed:
        Runs(fleet, tmp_path)(name="sad")
    run = Store(tmp_path / "runs").open("sad")
    assert booted[0].closed
    assert (run.logs / "broker-1.log").read_text() == "run events-1\n"
    assert [path.name for path in run.replicas.glob("*/*")] == ["events-1-0"]
    assert f"Its whole log is {tmp_path / 'runs' / 'sad' / 'logs' / 'broker-1.log'}." in (
        failed.value.hint
    )
    assert run.status().phase == "booting"
    assert "broker 1 died" in run.status().problems[0]


def test_a_cluster_that_does_not_start_leaves_its_logs_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot(_: Plan, directory: Path) -> FakeCluster:
        (directory / "logs").mkdir()
        (directory / "logs" / "broker-1.log").write_text("no memory")
        raise HarnessError(f"see {directory / 'logs' / 'broker-1.log'}")

    monkeypatch.setattr(module, "boot", boot)
    with ClusterPool(tmp_path / "clusters") as fleet, pytest.raises(HarnessError) as failed:
        Runs(fleet, tmp_path)(name="sad")
    log = tmp_path / "runs" / "sad" / "logs" / "broker-1.log"
    assert str(log) in failed.value.message
    assert log.read_text() == "no memory"
    assert not (tmp_path / "clusters").exists()


def test_a_run_gets_the_metadata_logs_of_its_cluster(
    tmp_path: Path, booted: list[FakeCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"{0:020d}.log": b"records", f"{7:020d}-{1:010d}.checkpoint": b"snapshot"}

    def does(_plan: Plan, _run: Run, cluster: FakeCluster) -> None:
        for controller in ("controller-100", "controller-101"):
            folder = cluster.directory / "coordination" / controller / "__cluster_metadata-0"
            folder.mkdir(parents=True)
            for name, data in {**files, "quorum-state": b"", f"{0:020d}.index": b""}.items():
                (folder / name).write_bytes(data)

    conducts(monkeypatch, does)
    with ClusterPool(tmp_path / "clusters") as fleet:
        run = Runs(fleet, tmp_path)()
    assert len(booted) == 1
    assert [*run.metadata_logs] == [100, 101]
    for folder in run.metadata_logs.values():
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files

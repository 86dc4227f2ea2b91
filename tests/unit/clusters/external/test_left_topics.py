"""A topic that a run has made is deleted for good, and one that it left is found."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.cli import external
from highwater.clusters.admin import topic_config
from highwater.clusters.core.addresses import Address
from highwater.clusters.external import cluster, healing, identity
from highwater.clusters.external.cluster import delete_left_topics
from highwater.clusters.external.healing import ClusterHealer, recover
from highwater.clusters.external.inventory import Command
from highwater.clusters.external.journal import (
    ClusterDamage,
    Journal,
    journal_folder,
    topics_made,
)
from highwater.clusters.external.metadata import ClusterIdentity
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.runs.plan import Plan, Workload
from highwater.runtime.preflight import check_plan

HOMES = {1: Address(host="b1", port=9092)}
INVENTORY = """
bootstrap = "127.0.0.1:1"
kafka = "4.4.0"
[commands]
kill = "true"
start = "true"
[brokers.1]
"""


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "staging.toml"
    path.write_text(INVENTORY)
    return path


class Cluster:
    """One whose clients ask for a deleted topic so many times more."""

    def __init__(self, returns: int) -> None:
        self.returns = returns
        self.deleted = 0
        self.listed = {"orders", "highwater-1"}
        self.groups = {"billing", "highwater-1-group", "highwater-1-share", "highwater-2-group"}

    def topics(self) -> frozenset[str]:
        before = frozenset(self.listed)
        if "highwater-1" not in before and self.returns:
            self.returns -= 1
            self.listed.add("highwater-1")
        return before

    def delete_topics(self, names: list[str], **_: float) -> dict[str, SimpleNamespace]:
        self.deleted += 1
        self.listed -= set(names)
        return {name: SimpleNamespace(result=lambda: None) for name in names}

    def delete_consumer_groups(self, names: list[str], **_: float) -> dict[str, SimpleNamespace]:
        self.groups.difference_update(names)
        return {name: SimpleNamespace(result=lambda: None) for name in names}

    def close(self) -> None:
        pass


def healer(theirs: Cluster, monkeypatch: pytest.MonkeyPatch) -> ClusterHealer:
    monkeypatch.setattr(healing, "AdminClient", lambda _: theirs)
    monkeypatch.setattr(ClusterHealer, "_view", lambda _: theirs)
    monkeypatch.setattr(healing, "request", lambda *_, **__: None)
    return ClusterHealer(CATALOGUE["4.4.0"], HOMES, {})


def test_a_topic_that_comes_back_is_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "_AWAY_S", 0.6)
    theirs = Cluster(returns=2)
    healer(theirs, monkeypatch).delete("highwater-1")
    assert (theirs.deleted, theirs.returns, theirs.listed) == (3, 0, {"orders"})


def test_the_groups_of_a_topic_are_deleted_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "_AWAY_S", 0.0)
    theirs = Cluster(returns=0)
    healer(theirs, monkeypatch).delete("highwater-1")
    assert len(theirs.groups) == 4, "without its topic, a request would create it"
    theirs.listed |= {"highwater-1", "__consumer_offsets"}
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(healing, "request", lambda _, *of, **__: asked.append(of))
    healer_again = ClusterHealer(CATALOGUE["4.4.0"], HOMES, {})
    healer_again.delete("highwater-1")
    assert theirs.groups == {"billing", "highwater-2-group"}
    nothing = dict.fromkeys(("share.auto.offset.reset", "share.record.lock.duration.ms"))
    assert asked == [("highwater-1-share", nothing)]


def test_only_groups_of_the_run_get_settings_and_no_feature_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = object.__new__(cluster.ExternalCluster)
    entry = ClusterDamage(cluster_id="abc", inventory="", addresses={}, topics=("highwater-1",))
    vars(theirs)["_journal"] = SimpleNamespace(entry=entry)
    monkeypatch.setattr(cluster.ExternalCluster, "_running", lambda _: HOMES)
    asked: list[object] = []
    monkeypatch.setattr(topic_config, "request", lambda _, name, *__, **___: asked.append(name))
    theirs.configure_group("highwater-1-share", {"a": "b"})
    for group in ("billing", "highwater-10-share"):
        with pytest.raises(HarnessError, match=f"of group {group} cannot be changed"):
            theirs.configure_group(group, {"a": "b"})
    assert asked == ["highwater-1-share"]
    monkeypatch.setattr(cluster, "finalized_features", lambda _: {"share.version": 1})
    theirs.finalize_features({"share.version": 1})
    with pytest.raises(HarnessError, match=r"feature share.version is off"):
        theirs.finalize_features({"share.version": 2})


def test_a_topic_that_always_comes_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "_AWAY_S", 0.6)
    monkeypatch.setattr(healing, "_DELETE_LIMIT_S", 1.5)
    with pytest.raises(WaitTimeoutError, match="does a client still use it"):
        healer(Cluster(returns=1000), monkeypatch).delete("highwater-1")


def found(*topics: str) -> ClusterIdentity:
    return ClusterIdentity(
        cluster_id="abc",
        addresses=HOMES,
        topics=frozenset(topics),
        fetch_version=18,
        kraft=True,
    )


def test_heal_deletes_a_topic_that_was_left_and_says_whose(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = ClusterDamage(cluster_id="abc", inventory=str(inventory), addresses={})
    journal = Journal.locked(journal_folder("abc"), nothing)
    journal.record_topic("highwater-1", tmp_path / "runs" / "r1")
    journal.record_deleted("highwater-1")
    journal.release()
    with (journal.folder / "topics.jsonl").open("a") as file:
        file.write('{"topic": "highw')  # as a loss of power leaves it
    deleted: list[str] = []
    monkeypatch.setattr(ClusterHealer, "delete", lambda _, topic: deleted.append(topic))
    there = found("orders", "highwater-1", "highwater-2")
    monkeypatch.setattr(cluster, "recognise", lambda _: there)
    said: list[str] = []
    delete_left_topics(inventory, said.append)
    at = topics_made(journal.folder)["highwater-1"].at
    assert deleted == ["highwater-1"]
    assert said == [
        f"the topic highwater-1 is deleted; the run {tmp_path}/runs/r1 created it at {at}",
        "the topic highwater-2 is not deleted, because no run of this machine created it",
    ]


@pytest.mark.parametrize(
    ("topics", "workload", "reader"),
    [
        ((), Workload(consumers=0), "kafka-python"),
        (("__consumer_offsets",), Workload(consumers=0), "librdkafka"),
        ((), Workload(compression="lz4"), "librdkafka"),
        ((), Workload(subscribe=2), "librdkafka"),
    ],
)
def test_readers_ask_for_no_coordinator_where_that_would_make_a_topic(
    inventory: Path,
    monkeypatch: pytest.MonkeyPatch,
    topics: tuple[str, ...],
    workload: Workload,
    reader: str,
) -> None:
    monkeypatch.setattr(identity, "recognise", lambda _: found(*topics))
    plan = Plan(kafka="4.4.0", nemesis=("kill",), duration_s=9, workload=workload)
    plan = external.onto(plan, inventory, found().code)
    assert plan.reader_client == reader
    check_plan(plan)


def test_two_threads_that_heal_a_broker_run_its_command_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    line = f"echo x >>{starts}; sleep 0.3"
    cure = Command(what="start broker 1", verb="start", line=line, limit_s=30)
    monkeypatch.setattr(healing, "answers", lambda _: starts.exists())
    monkeypatch.setattr(ClusterHealer, "_live_brokers", lambda _: frozenset({1}))
    theirs = ClusterHealer(CATALOGUE["4.4.0"], HOMES, {})
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda _: theirs.heal(1, (cure,)), range(3)))
    assert starts.read_text() == "x\n"


def test_brokers_are_healed_side_by_side_as_none_may_come_up_alone(
    inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three combined nodes of KRaft were killed: the first waited for a quorum, and ended."""
    nothing = ClusterDamage(cluster_id="abc", inventory=str(inventory), addresses={})
    journal = Journal.locked(journal_folder("abc"), nothing)
    for broker in (1, 2, 3):
        journal.record_damage(broker, ())
    quorum = threading.Barrier(2, timeout=30)
    monkeypatch.setattr(healing, "answers", lambda _: False)
    monkeypatch.setattr(
        ClusterHealer, "_await_up", lambda _, broker: quorum.wait() if broker != 2 else None
    )
    homes, said = dict.fromkeys((1, 2, 3), HOMES[1]), list[str]()
    recover(journal, said.append, ClusterHealer(CATALOGUE["4.4.0"], homes, {}))
    assert journal.entry.wounds == {}
    journal.release()
    assert sorted(said) == [f"broker {broker} is healed" for broker in (1, 2, 3)]


@pytest.fixture
def counted() -> Iterator[list[int]]:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    yield came
    signal.signal(signal.SIGINT, before)


def test_signals_interrupt_no_healing_so_that_no_command_runs_twice(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[int]
) -> None:
    starts = tmp_path / "starts"
    line = f"echo begun >>{starts}; sleep 0.5; echo ended >>{starts}"
    cure = Command(what="start broker 1", verb="start", line=line, limit_s=30)
    nothing = ClusterDamage(cluster_id="abc", inventory=str(inventory), addresses={})
    journal = Journal.locked(journal_folder("abc"), nothing)
    journal.record_damage(1, (cure,))
    monkeypatch.setattr(healing, "answers", lambda _: False)
    monkeypatch.setattr(ClusterHealer, "_await_up", lambda *_: None)
    timers = [
        threading.Timer(after_s, signal.raise_signal, (signal.SIGINT,)) for after_s in (0.2, 0.3)
    ]
    for timer in timers:
        timer.start()
    recover(journal, lambda _: counted.append(-1), ClusterHealer(CATALOGUE["4.4.0"], HOMES, {}))
    journal.release()
    assert starts.read_text().split() == ["begun", "ended"]
    assert counted == [-1, signal.SIGINT]

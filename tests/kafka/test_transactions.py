"""Transactions, groups and crashed clients against real brokers, as the history tells of them."""

import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.api import judge_all
from highwater.checkers.spark.session import spark
from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.operation_buffers import Places
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.plan import Workload as Settings
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.steps import FaultStep
from highwater.harness.runs.store import Run, Store
from highwater.runtime.runner import execute
from highwater.runtime.workload import RunningWorkload

pytestmark = pytest.mark.kafka
PARTITIONS = 3
PLACED = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
TRANSACTIONS = Settings(idempotence=True, transactions=True, rate=400.0, consumers=0)
Row = dict[str, object]
Done = Callable[[RunningWorkload], bool]


def replace(**changes: object) -> Settings:
    """Transactions with other settings."""
    return msgspec.structs.replace(TRANSACTIONS, **changes)


FIRST = pytest.param("0.11.0.3", marks=pytest.mark.nightly)


@pytest.fixture(scope="module", params=[FIRST, MODERN])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """The first release that has transactions, and the newest."""
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    wanted = Plan(kafka=request.param, workload=TRANSACTIONS).broker_settings()
    opened = open_cluster(release(request.param), directory, brokers=3, broker_config=wanted)
    with contextlib.closing(opened):
        yield opened


def plan(cluster: RealCluster, topic: str, settings: Settings) -> Plan:
    made = Topic(name=topic, partitions=PARTITIONS)
    cluster.create_topic(topic, PLACED, made.settings())
    return Plan(kafka=cluster.release.name, topic=made, workload=settings, seed=1)


def recorded(run: Run) -> list[Row]:
    return [row for batch in read_stream(run.stream("history/ops")) for row in batch.to_pylist()]


def history(
    cluster: RealCluster, directory: Path, made: Plan, done: Done, *, every_s: float = 0.05
) -> list[Row]:
    """Run the workload until it is done, read everything at the end, and give what was recorded."""
    run = Run(directory)
    with (
        Recorder(run, Clock(), grouped=made.workload.members > 0) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        deadline = time.monotonic() + 90
        while not done(w):
            assert time.monotonic() < deadline, f"not done within 90 s: {w.counts()}"
            w.check()
            recorder.failed.wait(every_s)
        w.stop()
        sent = w.counts().sent
        reads = w.final_read(limit_s=60)
    assert [(read.complete, read.problem) for read in reads] == [(True, None)] * PARTITIONS
    rows = recorded(run)
    assert len([r for r in rows if r["kind"] == "send" and r["process"] != "fence"]) == sent
    return rows


def values(rows: list[Row], **wanted: object) -> set[object]:
    """Of the rows that are so; those of the fences left out."""
    found = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return {row["value"] for row in found} - fences(rows)


def fences(rows: list[Row]) -> set[object]:
    return {row["value"] for row in rows if row["process"] == "fence"}


def operations(rows: list[Row], kind: str) -> dict[tuple[object, object], list[Row]]:
    found = defaultdict(list)
    for row in rows:
        if row["kind"] == kind:
            found[row["process"], row["op"]].append(row)
    return found


def is_sound(rows: list[Row]) -> None:
    """All or nothing: what was committed is read, what was not is never read committed."""
    ok, failed = (values(rows, kind="send", outcome=outcome) for outcome in ("ok", "fail"))
    unknown = values(rows, kind="send", outcome="info")
    final = values(rows, process="reader", kind="read")
    assert ok <= final <= ok | unknown
    assert not failed & values(rows, kind="read", isolation="read_committed")
    for sends in operations(rows, "send").values():
        assert len({row["outcome"] for row in sends}) == 1
        assert len({row["value"] in final for row in sends}) == 1, "half a transaction was read"
    told = {
        row["value"]: (row["partition"], row["offset"]) for row in rows if row["kind"] == "read"
    }
    for row in rows:
        if row["kind"] == "send" and row["offset"] is not None and row["value"] in told:
            assert told[row["value"]] == (row["partition"], row["offset"])


def test_readers_see_what_their_isolation_promises(cluster: RealCluster, tmp_path: Path) -> None:
    settings = replace(aborts=0.5, consumers=2, isolation=("read_committed", "read_uncommitted"))
    made = plan(cluster, "isolation", settings)
    rows = history(cluster, tmp_path, made, lambda w: w.counts().ok >= 600)
    is_sound(rows)
    ends = Counter(sends[0]["outcome"] for sends in operations(rows, "send").values())
    assert ends["ok"] > 30
    assert ends["fail"] > 30
    assert not ends["info"]
    aborted = values(rows, kind="send", outcome="fail")
    assert len(aborted & values(rows, process="consumer-1", isolation="read_uncommitted")) > 30
    several = [sends for sends in operations(rows, "send").values() if len(sends) > 1]
    assert any(len({row["partition"] for row in sends}) == PARTITIONS for sends in several)


def test_a_group_that_transforms_takes_each_record_once(
    cluster: RealCluster, tmp_path: Path
) -> None:
    made = plan(cluster, "transform", replace(transform=True))
    rows = history(cluster, tmp_path, made, lambda w: w.counts().ok >= 900)
    is_sound(rows)
    polled = [row for polled in operations(rows, "read").values() for row in polled]
    taken = defaultdict(list)
    for row in polled:
        if row["outcome"] == "ok" and str(row["process"]).startswith("producer-"):
            taken[row["partition"], row["offset"]].append(row["process"])
    assert len(taken) > 300
    for place, takers in taken.items():
        if cluster.release.number >= (2, 5):
            assert len(takers) == 1, f"{place} is taken twice"
        # Before, a member goes on before what an open transaction of another has read (KIP-447).
        assert len({*takers}) == len(takers), f"{place} is taken twice by one client"
    sends = operations(rows, "send")
    both = [op for op in operations(rows, "read") if op in sends]
    assert len(both) > 30, "no transaction both read and sent"
    assert any(row["kind"] == "seek" and row["offset"] for row in rows), "no abort went back"


def test_members_come_and_go_and_read_everything(cluster: RealCluster, tmp_path: Path) -> None:
    made = plan(cluster, "group", Settings(rate=300.0, consumers=0, subscribe=3, churn_s=4.0))

    def enough(_: RunningWorkload) -> bool:
        rows = recorded(Run(tmp_path))
        names = processes(rows)
        return (
            len([name for name in names if name.startswith("member-")]) > 6
            and any(name.startswith("producer-0.") for name in names)
            and len([row for row in rows if row["kind"] == "rebalance"]) > 10
            and len(read_by_members(rows)) > 600  # half of it acknowledged, at least
        )

    rows = history(cluster, tmp_path, made, enough, every_s=1.0)
    members = {name for name in processes(rows) if name.startswith("member-")}
    assert len(members) > 6
    assert any(name.startswith("producer-0.") for name in processes(rows))
    first = {row["process"]: row["kind"] for row in reversed(rows)}
    assert {first[name] for name in members} == {"subscribe"}
    assert len([row for row in rows if row["kind"] == "rebalance"]) > 10
    goes_on_where_it_was_sent(rows, members)
    ok = values(rows, kind="send", outcome="ok")
    assert ok <= values(rows, process="reader")
    assert len(ok & read_by_members(rows)) > 300, "the group hardly read"


def processes(rows: list[Row]) -> set[str]:
    return {str(row["process"]) for row in rows}


def read_by_members(rows: list[Row]) -> set[object]:
    return {
        row["value"]
        for row in rows
        if row["kind"] == "read" and str(row["process"]).startswith("member-")
    }


def goes_on_where_it_was_sent(rows: list[Row], members: set[str]) -> None:
    """Where every offset is a record, each read follows the one before, or a seek."""
    position: dict[tuple[object, object], object] = {}
    for row in rows:
        place = row["process"], row["partition"]
        if row["process"] not in members:
            continue
        if row["kind"] == "rebalance":
            position.pop(place, None)
        if row["kind"] == "seek":
            position[place] = row["offset"]
        if row["kind"] == "read":
            assert place in position, "a record of a partition that it was not given"
            assert position[place] in {None, row["offset"]}
            position[place] = int(str(row["offset"])) + 1


@pytest.mark.parametrize("cluster", [MODERN], indirect=True)
def test_who_takes_the_place_of_a_crashed_producer_ends_its_transaction(
    cluster: RealCluster, tmp_path: Path
) -> None:
    made = plan(cluster, "crashes", replace(churn_s=2.0, consumers=1))

    def enough(_: RunningWorkload) -> bool:
        rows = recorded(Run(tmp_path))
        errors = errors_of(rows)
        senders = {row["process"] for row in rows if row["kind"] == "send"}
        return bool(errors["_DESTROY"] and errors["_FENCED"] and len(senders) > 10)

    rows = history(cluster, tmp_path, made, enough, every_s=1.0)
    is_sound(rows)
    assert errors_of(rows)["_DESTROY"], "no producer crashed before its commit"
    assert errors_of(rows)["_FENCED"], "no zombie was fenced"
    assert len({row["process"] for row in rows if row["kind"] == "send"}) > 10


def errors_of(rows: list[Row]) -> Counter[object]:
    """Of transactions that failed."""
    firsts = (sends[0] for sends in operations(rows, "send").values())
    return Counter(row["error"] for row in firsts if row["outcome"] == "fail")


@pytest.mark.parametrize("cluster", [MODERN], indirect=True)
def test_the_final_read_ends_where_a_transaction_stays_open(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """All clients of the run have ended; this producer is none of them."""
    made = plan(cluster, "stands", replace(producers=0))
    run = Run(tmp_path)
    log = clients.open_log(tmp_path / "open.log")
    common = clients.common(cluster.bootstrap, "open", log, quirks=cluster.release.client)
    producer = Producer(clients.transactional(made, common, "open"))
    producer.init_transactions(30)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        producer.begin_transaction()
        producer.produce("stands", b"m0", partition=0)
        assert producer.flush(30) == 0
        w.stop()
        stood, *others = w.final_read(limit_s=60)
        producer.commit_transaction(30)
        read = w.final_read(limit_s=60)
    assert (stood.complete, stood.problem) == (False, None)
    assert stood.standing is not None
    assert (stood.standing.partition, stood.standing.lso, stood.standing.fence) == (0, 0, 1)
    assert 5 <= stood.standing.seconds < 30
    assert all(each.complete and each.standing is None for each in (*others, *read))


def test_a_position_beyond_the_end_of_the_log_is_moved_to_it(
    cluster: RealCluster, tmp_path: Path
) -> None:
    made = plan(cluster, "jump", Settings(producers=0, consumers=0))
    run = Run(tmp_path)
    moves: list[tuple[str, Places, bool]] = []
    log = clients.open_log(tmp_path / "reader.log")
    common = clients.common(cluster.bootstrap, "reader", log, quirks=cluster.release.client)

    def moved(kind: str, places: Places, *, within: bool) -> None:
        moves.append((kind, places, within))

    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        for number in range(3):
            assert w.send(f"m{number}", 0).outcome == "ok"
        reader = TrackedConsumer(clients.consumer(common), "jump", PARTITIONS, moved)
        reader.assign({0: 1_000, 1: 0})
        deadline = time.monotonic() + 30
        while len(moves) < 3:
            assert time.monotonic() < deadline, f"it was not moved within 30 s: {moves}"
            assert reader.poll(10, 0.1) == []
        assert w.send("m3", 0).outcome == "ok"
        read: list[tuple[int | None, int | None]] = []
        while not read:
            assert time.monotonic() < deadline, "nothing was read within 30 s"
            read = [(m.partition(), m.offset()) for m in reader.poll(10, 0.1)]
        reader.close()
    assert moves == [
        ("assign", {0: None, 1: None}, False),
        ("seek", {0: 1_000, 1: 0}, False),
        ("seek", {0: 3}, False),
    ]
    assert read == [(0, 3)]


def test_a_member_of_a_group_beyond_the_end_of_the_log_is_moved_to_it(
    cluster: RealCluster, tmp_path: Path
) -> None:
    made = plan(cluster, "jump-group", Settings(producers=0, consumers=0))
    run = Run(tmp_path)
    moves: list[tuple[str, Places, bool]] = []
    log = clients.open_log(tmp_path / "reader.log")
    common = clients.common(cluster.bootstrap, "reader", log, quirks=cluster.release.client)
    settings = clients.consumer(common, group="jumpers")

    def moved(kind: str, places: Places, *, within: bool) -> None:
        moves.append((kind, places, within))

    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        for number in range(3):
            assert w.send(f"m{number}", 0).outcome == "ok"
        assert w.send("n0", 1).outcome == "ok"
        other = Consumer(settings)
        other.commit(offsets=[TopicPartition("jump-group", 0, 1_000)], asynchronous=False)
        other.close()
        reader = TrackedConsumer(settings, "jump-group", PARTITIONS, moved)
        reader.subscribe()
        deadline = time.monotonic() + 60
        read: set[tuple[int | None, int | None]] = set()
        while ("seek", {0: 3}, False) not in moves or not read:
            assert time.monotonic() < deadline, f"it was not moved within 60 s: {moves}, {read}"
            read |= {(m.partition(), m.offset()) for m in reader.poll(10, 0.1)}
        assert read == {(1, 0)}
        assert w.send("m3", 0).outcome == "ok"
        while len(read) < 2:
            assert time.monotonic() < deadline, f"not read within 60 s: {read}"
            read |= {(m.partition(), m.offset()) for m in reader.poll(10, 0.1)}
        assert reader.positions() == {0: 4, 1: 1, 2: 0}
        reader.close()
    assert read == {(1, 0), (0, 3)}  # nothing of the other partition a second time
    assert [kind for kind, *_ in moves] == ["subscribe", "rebalance", "seek", "seek", "rebalance"]


COORDINATORS_HIT = (
    FaultStep(fault="move-txn-coordinator", at_s=1.0),
    FaultStep(fault="move-group-coordinator", at_s=2.0, choice=0.9),
    FaultStep(fault="pause", at_s=3.0, lasts_s=1.0, target="group-coordinator"),
    FaultStep(fault="kill", at_s=6.0, lasts_s=1.5, target="txn-coordinator"),
    FaultStep(fault="kill", at_s=9.0, lasts_s=1.5, target="leader"),
)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_a_leader_or_coordinator_that_is_killed_takes_no_transaction_with_it(
    tmp_path: Path,
) -> None:
    settings = replace(
        transform=True,
        consumers=2,
        subscribe=2,
        churn_s=6.0,
        isolation=("read_committed", "read_uncommitted"),
        rate=Settings().rate,
    )
    runs = [
        execute(
            Plan(kafka=kafka, workload=settings, steps=COORDINATORS_HIT, duration_s=12.0, seed=3),
            Store(tmp_path),
            stop=threading.Event(),
        )
        for kafka in ("0.11.0.3", MODERN)
    ]
    for run in runs:
        events = run.table("events/steps").to_pylist()
        assert not [row["says"] for row in events if row["event"] == "left-out"]
        struck = {row["step"] for row in events if row["event"] == "struck"}
        assert struck == {*range(1, len(COORDINATORS_HIT) + 1)}
        replicas = {path.parent.name for path in run.coordinators.glob("*/__transaction_state-0")}
        assert replicas == {"1", "2", "3"}
    for found in judge_all(runs, spark()):
        verdict = found.verdict
        assert (verdict.verdict, verdict.anomalies) == ("valid", ()), verdict.reasons
        assert found.model is not None
        assert found.model.status == "explained", found.model
        assert verdict.ledger.acknowledged > 20  # it went on, however slow the machine
        assert verdict.ledger.failed > 10

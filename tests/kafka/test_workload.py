"""The clients against real brokers: every acks, a frozen and a killed leader, the final read."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Acks, Plan, Topic
from highwater.harness.runs.plan import Workload as Settings
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.workload import RunningWorkload

pytestmark = pytest.mark.kafka
PARTITIONS = 3
OLD = pytest.param("0.10.2.2", marks=pytest.mark.nightly)  # by day it plays stories
PLACED = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
Row = dict[str, object]


@pytest.fixture(scope="module", params=[OLD, MODERN])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """The oldest and the newest protocol that the clients speak.

    Its brokers would compact topics, which then take no record without a key, and let records
    expire at once: a topic of a plan must not depend on what its brokers' owner has set.
    """
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    hostile = {"log.cleanup.policy": "compact", "log.retention.ms": "1"}
    opened = open_cluster(release(request.param), directory, brokers=3, broker_config=hostile)
    with contextlib.closing(opened):
        yield opened


def plan(cluster: RealCluster, topic: str, settings: Settings) -> Plan:
    made = Topic(name=topic, partitions=PARTITIONS)
    cluster.create_topic(topic, PLACED, made.settings())
    return Plan(kafka=cluster.release.name, topic=made, workload=settings)


def operations(run: Run) -> list[Row]:
    return [row for batch in read_stream(run.stream("history/ops")) for row in batch.to_pylist()]


def await_acknowledged(workload: RunningWorkload, count: int) -> None:
    """Wait until so many records are acknowledged."""
    await_condition(
        workload.counts,
        lambda counts: counts.ok >= count,
        what=f"{count} acknowledged records",
        limit_s=60,
    )


def await_whole(cluster: RealCluster) -> None:
    """Wait until every broker has a session again, for the sake of the next test."""
    everyone = frozenset(cluster.brokers)
    with contextlib.closing(cluster.probe()) as probe:
        await_condition(
            probe.live_brokers,
            lambda live: live == everyone,
            what="all brokers to be live",
            limit_s=60,
        )


def is_fully_read(sent: list[Row], read: list[Row]) -> None:
    """Every acknowledged record was read once, where its producer was told that it stands."""
    places = {row["value"]: (row["partition"], row["offset"]) for row in read}
    assert len(places) == len(read)
    assert places.keys() == {row["value"] for row in sent}
    for row in sent:
        if row["offset"] is not None:
            assert places[row["value"]] == (row["partition"], row["offset"])


@pytest.mark.parametrize(
    ("acks", "rate"),
    [
        ("0", 500.0),
        ("1", 500.0),
        ("all", 0.0),
        pytest.param("1", 0.0, marks=pytest.mark.nightly),
        pytest.param("all", 500.0, marks=pytest.mark.nightly),
    ],
)
def test_the_books_balance_when_nothing_breaks(
    cluster: RealCluster, tmp_path: Path, acks: Acks, rate: float
) -> None:
    made = plan(cluster, f"calm-{acks}-{rate:g}", Settings(acks=acks, rate=rate, consumers=2))
    run = Run(tmp_path)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        await_acknowledged(w, 600)
        w.check()
        w.stop()
        sent = w.counts().sent
        reads = w.final_read(limit_s=60)
    assert [(read.complete, read.problem) for read in reads] == [(True, None)] * PARTITIONS

    rows = operations(run)
    sends = [row for row in rows if row["kind"] == "send"]
    assert {row["outcome"] for row in sends} == {"ok"}
    assert len(sends) == sent + PARTITIONS
    assert len({row["value"] for row in sends}) == len(sends)
    told = {row["offset"] is not None for row in sends if row["process"] != "fence"}
    assert told == {acks != "0"}
    used = Counter(row["partition"] for row in sends if row["process"] == "producer-0")
    assert max(used.values()) - min(used.values()) <= 1
    assert all(row["complete_ns"] >= row["invoke_ns"] for row in rows)  # type: ignore[operator]
    is_fully_read(
        sends, [row for row in rows if (row["process"], row["kind"]) == ("reader", "read")]
    )


def test_every_consumer_reads_every_partition(cluster: RealCluster, tmp_path: Path) -> None:
    made = plan(cluster, "read", Settings(acks="1", rate=200.0, consumers=2))
    run = Run(tmp_path)

    def seen() -> set[tuple[object, object]]:
        reads = (row for row in operations(run) if row["kind"] == "read")
        return {(row["process"], row["partition"]) for row in reads}

    wanted = {(f"consumer-{n}", partition) for n in range(2) for partition in range(PARTITIONS)}
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run),
    ):
        await_condition(seen, wanted.__eq__, what="every consumer to read", limit_s=60)
    first = {
        (row["process"], row["partition"]): row["offset"]
        for row in reversed(operations(run)) if row["kind"] == "read"
    }  # fmt: skip
    assert first == dict.fromkeys(wanted, 0)


def test_idempotent_producers_are_recorded_alike(cluster: RealCluster, tmp_path: Path) -> None:
    if not cluster.release.idempotence:
        pytest.skip("the idempotent producer came with 0.11")
    made = plan(cluster, "idempotent", Settings(idempotence=True, rate=0.0, consumers=0))
    run = Run(tmp_path)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        await_acknowledged(w, 600)
        w.stop()
        reads = w.final_read(limit_s=60)
    assert all(read.complete for read in reads)
    rows = operations(run)
    sends = [row for row in rows if row["kind"] == "send"]
    is_fully_read(
        sends, [row for row in rows if (row["process"], row["kind"]) == ("reader", "read")]
    )


def test_a_story_hears_of_an_ack_at_once(cluster: RealCluster, tmp_path: Path) -> None:
    made = plan(cluster, "story", Settings(producers=0, consumers=0, acks="1"))
    run, clock = Run(tmp_path), Clock()
    with (
        Recorder(run, clock) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        w.warm_up()
        returned = {}
        for number in range(20):
            answer = w.send(f"m{number}", 0)
            returned[f"m{number}"] = clock()
            assert (answer.outcome, answer.offset, answer.error) == ("ok", number, None)
    rows = operations(run)
    assert [row["value"] for row in rows] == list(returned)
    late = sorted(returned[str(row["value"])] - int(str(row["complete_ns"])) for row in rows)
    assert late[5] < 5e6  # a busy machine delays some of them; a look at intervals nearly all


def test_a_frozen_leader_leaves_the_client_without_an_answer(
    cluster: RealCluster, tmp_path: Path
) -> None:
    lonely = Topic(name="frozen", replication_factor=1)
    cluster.create_topic("frozen", [[1]], lonely.settings())
    settings = Settings(producers=0, consumers=0, acks="1", delivery_timeout_s=3.0)
    made = Plan(kafka=cluster.release.name, topic=lonely, workload=settings)
    run = Run(tmp_path)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        w.warm_up()
        assert w.send("before", 0).outcome == "ok"
        cluster.brokers[1].pause()
        try:
            answer = w.send("during", 0, limit_s=0.5)  # not 3 s, after which there is an error
            assert (answer.outcome, answer.offset, answer.error) == ("info", None, None)
            patient = w.send("patient", 0)
            assert (patient.outcome, patient.error) == ("info", "_MSG_TIMED_OUT")
        finally:
            cluster.brokers[1].resume()
            await_whole(cluster)
    found = {row["value"]: (row["outcome"], row["error"]) for row in operations(run)}
    assert found == {
        "before": ("ok", None),
        "during": ("info", "_MSG_TIMED_OUT"),
        "patient": ("info", "_MSG_TIMED_OUT"),
    }


def test_the_clients_outlive_the_death_of_a_leader(cluster: RealCluster, tmp_path: Path) -> None:
    made = plan(cluster, "killed", Settings(acks="all", rate=300.0, delivery_timeout_s=20.0))
    run = Run(tmp_path)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        await_acknowledged(w, 100)
        cluster.brokers[2].kill()
        before = w.counts().ok
        with contextlib.closing(cluster.probe()) as probe:
            await_condition(
                lambda: probe.partition("killed", 1).leader,
                lambda leader: leader not in {2, -1},
                what="another broker to lead",
                limit_s=60,
            )
        led = recorder.clock()
        await_acknowledged(w, before + 300)
        cluster.brokers[2].start()
        await_whole(cluster)
        w.check()
        w.stop()
        sent = w.counts().sent
        reads = w.final_read(limit_s=60)
    assert all(read.complete for read in reads), reads
    rows = operations(run)
    sends = [row for row in rows if row["kind"] == "send"]
    assert len([row for row in sends if row["phase"] == "run"]) == sent
    after = [
        row for row in sends
        if row["partition"] == 1 and row["outcome"] == "ok" and int(str(row["invoke_ns"])) > led
    ]  # fmt: skip
    assert after, "nothing was acknowledged by the new leader"
    names = {row["value"] for row in rows if row["process"] == "reader"}
    assert {row["value"] for row in sends if row["outcome"] == "ok"} <= names


def test_the_final_read_says_what_it_could_not_do(cluster: RealCluster, tmp_path: Path) -> None:
    made = plan(cluster, "gone", Settings(producers=0, consumers=0))
    ghost = Plan(kafka=made.kafka, topic=Topic(name="gone", partitions=PARTITIONS + 1))
    run = Run(tmp_path)
    with (
        Recorder(run, Clock()) as recorder,
        RunningWorkload(made, cluster.bootstrap, recorder, run) as w,
    ):
        w.send("m0", 0)
        missing = RunningWorkload(ghost, cluster.bootstrap, recorder, run)
        *known, unknown = missing.final_read(limit_s=8)
        missing.close()
    assert [read.complete for read in known] == [True] * PARTITIONS
    assert not unknown.complete
    assert unknown.problem == "no broker acknowledged a fence record on gone-3 within 4 s"


def test_nothing_reaches_the_terminal(
    cluster: RealCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = plan(cluster, "quiet", Settings(acks="1", rate=100.0))
    run = Run(tmp_path)
    nowhere = f"127.0.0.1:9,{cluster.bootstrap}"
    with Recorder(run, Clock()) as recorder, RunningWorkload(made, nowhere, recorder, run) as w:
        await_acknowledged(w, 50)
    assert capfd.readouterr() == ("", "")
    assert "127.0.0.1:9" in (run.logs / "clients.log").read_text()

"""Groups on real brokers: members' journals are whole; what is done to a group is found."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.checkers.groups.commits import repeated, wrong_offsets
from highwater.checkers.groups.disturbances import Disturbances
from highwater.checkers.groups.ownership import doubly_owned, ownerships
from highwater.checkers.groups.share_groups import ShareLog, wrongly_shared
from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import JAVA, LIBRDKAFKA
from highwater.harness.releases.group_protocols import SHARE_FEATURES, SHARE_GROUP, GroupProtocol
from highwater.harness.runs.history import GROUPS_TABLE, read_stream
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.workload import RunningWorkload

pytestmark = pytest.mark.kafka
PARTITIONS: Final = 3
PLACED: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
EVERYTHING: Final = Workload(subscribe=2, group_protocol="consumer", share=2)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    settings = Plan(kafka=MODERN, workload=EVERYTHING).broker_settings()
    directory = tmp_path_factory.mktemp("groups")
    opened = open_cluster(release(MODERN), directory, brokers=3, broker_config=settings)
    with contextlib.closing(opened):
        yield opened


def table(run: Run, name: str) -> list[Row]:
    return [row for batch in read_stream(run.stream(name)) for row in batch.to_pylist()]


def readers(rows: list[Row]) -> list[str]:
    """Which member was given each record of which a row is written."""
    return [row["process"] for row in rows if row["event"] in {"given", "acquired"}]


def commits(rows: list[Row], partition: int) -> list[int]:
    """The offsets of a partition whose commit was acknowledged."""
    of_partition = (row for row in rows if row["partition"] == partition)
    return [
        row["offset"] for row in of_partition if (row["event"], row["outcome"]) == ("commit", "ok")
    ]


def played(
    cluster: RealCluster,
    plan: Plan,
    path: Path,
    *,
    rows: int,
    members: int = 1,
    ready: Callable[[list[Row]], bool] = lambda _: True,
    at_end: Callable[[], None] = lambda: None,
) -> Run:
    """So many members are given so many records at least, and it is ready; then all is read."""
    run = Run(path)
    with Recorder(run, Clock(), grouped=True) as recorder:
        workload = RunningWorkload(plan, cluster.bootstrap, recorder, run)
        with workload:
            await_condition(
                lambda: table(run, GROUPS_TABLE),
                lambda seen: (
                    len(given := readers(seen)) >= rows and len({*given}) >= members and ready(seen)
                ),
                what=f"{rows} records for {members} members",
                limit_s=90,
            )
            workload.stop()
            at_end()
            reads = workload.final_read(limit_s=60)
    assert all(read.complete for read in reads)
    return run


def made(cluster: RealCluster, topic: str, workload: Workload, readers: str = LIBRDKAFKA) -> Plan:
    settings = Topic(name=topic, partitions=PARTITIONS)
    cluster.create_topic(topic, PLACED, settings.settings())
    return Plan(
        kafka=cluster.release.name, topic=settings, workload=workload, reader_client=readers
    )


def log_of(run: Run) -> ShareLog:
    """What the history knows of the records; no fault was injected."""
    sent = {
        (row["partition"], row["offset"]): row["invoke_ns"]
        for row in table(run, "history/ops")
        if row["kind"] == "send" and row["outcome"] == "ok" and row["process"] != "fence"
    }
    return ShareLog(sent=sent, there={*sent}, disturbances=Disturbances([]))


@pytest.mark.parametrize(
    ("library", "protocol"),
    [
        # A dropped member may spin in rd_kafka_destroy until its process ends (issue 4674 there).
        pytest.param("librdkafka", "consumer", marks=pytest.mark.nightly),
        pytest.param("librdkafka", "classic", marks=pytest.mark.nightly),
        ("java", "consumer"),
        pytest.param("java", "classic", marks=pytest.mark.nightly),
        pytest.param("kafka-python", "classic", marks=pytest.mark.nightly),
        pytest.param("aiokafka", "classic", marks=pytest.mark.nightly),
    ],
)
def test_an_offset_that_is_set_back_is_a_lost_commit(
    cluster: RealCluster, tmp_path: Path, library: str, protocol: GroupProtocol
) -> None:
    workload = Workload(consumers=0, subscribe=3, group_protocol=protocol, churn_s=2.0)
    plan = made(cluster, f"set-back-{library}-{protocol}", workload)
    plan = msgspec.structs.replace(plan, reader_client=library)
    group = f"{plan.topic.name}-group"

    def set_back() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        places = [TopicPartition(plan.topic.name, 1, 1)]
        request = [ConsumerGroupTopicPartitions(group, places)]
        # The group is empty when those that crashed are put out.
        await_condition(
            lambda: admin.alter_consumer_group_offsets(request)[group].result(10),
            lambda answer: all(place.error is None for place in answer.topic_partitions),
            what="the group to be empty",
            limit_s=30,
            passing=(Exception,),
        )

    def proven(rows: list[Row]) -> int:
        owners = [owner for place in ownerships(rows).values() for owner in place]
        return sum(owner.proven_ns >= 0 for owner in owners)

    def committed(rows: list[Row]) -> bool:
        return max(commits(rows, 1), default=0) > 1 and proven(rows) > 1

    run = played(cluster, plan, tmp_path, rows=150, members=2, ready=committed, at_end=set_back)
    rows = table(run, GROUPS_TABLE)
    owners = [owner for place in ownerships(rows).values() for owner in place]
    assert len({owner.process for owner in owners}) > 1
    assert all(owner.epoch is not None for owner in owners)
    assert proven(rows) > 1
    assert [*doubly_owned(rows), *repeated(rows)] == []
    findings = [(found.kind, found.partition) for found in wrong_offsets(rows, None)]
    assert findings == [("lost-commit", 1)]


def shared(
    cluster: RealCluster, path: Path, readers: str, *, rows: int, reset: str = "earliest"
) -> Run:
    """Members of a share group are slow, leave and crash, until they were given so many records."""
    workload = Workload(consumers=0, share=3, churn_s=3.0)
    plan = made(cluster, f"shared-{readers}-{reset}-{rows}", workload, readers)
    begins = dict.fromkeys(SHARE_GROUP, reset)
    cluster.finalize_features(SHARE_FEATURES)
    cluster.configure_group(plan.share_group, begins)
    return played(cluster, plan, path, rows=rows, ready=answered)


def answered(rows: list[Row]) -> bool:
    """Whether a record was accepted, and one rejected: three of a hundred are."""
    return {"accept", "reject"} <= {row["event"] for row in rows if row["outcome"] == "ok"}


@pytest.mark.nightly  # by day with journals that are drawn: test_share_journals.py
def test_what_is_acknowledged_in_java_and_given_again_is_found(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """The journals of a run have nothing; one row more, and that alone is found."""
    run = shared(cluster, tmp_path, JAVA, rows=300)
    rows, log = table(run, GROUPS_TABLE), log_of(run)
    assert list(wrongly_shared(rows, log)) == []
    for event in ("accept", "reject"):
        done = next(row for row in rows if row["event"] == event and row["outcome"] == "ok")
        later = max(row["complete_ns"] or 0 for row in rows)
        again = {
            **done,
            "event": "acquired",
            "process": "share-99",
            "deliveries": done["deliveries"] + 1,
            "invoke_ns": later + 1,
            "complete_ns": later + 2,
        }
        [found] = wrongly_shared([*rows, again], log)
        place = done["partition"], done["offset"]
        assert (found.kind, found.partition, found.offset) == ("acknowledged-again", *place)


@pytest.mark.nightly
@pytest.mark.parametrize("readers", [LIBRDKAFKA, JAVA])
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_what_a_share_group_did_not_begin_with_is_never_given(
    cluster: RealCluster, tmp_path: Path, reset: str, readers: str
) -> None:
    run = shared(cluster, tmp_path, readers, rows=1500, reset=reset)
    rows = table(run, GROUPS_TABLE)
    assert {"accept", "release", "reject", "drained"} <= {row["event"] for row in rows}
    assert all(row["deliveries"] for row in rows if row["event"] == "acquired")
    log = log_of(run)
    findings = list(wrongly_shared(rows, log))
    acquired = {(row["partition"], row["offset"]) for row in rows if row["event"] == "acquired"}
    skipped = {("never-given", *place) for place in {*log.sent} - acquired}
    assert {(found.kind, found.partition, found.offset) for found in findings} == skipped
    assert bool(skipped) == (reset == "latest")


@pytest.mark.nightly
@pytest.mark.parametrize("readers", [LIBRDKAFKA, JAVA])
@pytest.mark.parametrize("lock_ms", ["5000", "1000"])
def test_a_lock_that_is_shorter_than_promised_makes_two_holders(
    cluster: RealCluster, tmp_path: Path, lock_ms: str, readers: str
) -> None:
    """Two members a partition; few records, so that each is given as soon as it is sent."""
    workload = Workload(consumers=0, share=2 * PARTITIONS, rate=15.0)
    plan = made(cluster, f"locked-{readers}-{lock_ms}", workload, readers)
    settings = {**SHARE_GROUP, "share.record.lock.duration.ms": lock_ms}
    cluster.configure_group(plan.share_group, settings)
    run = played(cluster, plan, tmp_path, rows=900)
    findings = list(wrongly_shared(table(run, GROUPS_TABLE), log_of(run)))
    assert {found.kind for found in findings} == ({"two-holders"} if lock_ms == "1000" else set())

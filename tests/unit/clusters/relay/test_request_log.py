"""The wire reports a program's requests and their answers, with sockets of our own at both ends."""

import base64
import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, ProduceRequest, ProduceResponse

from highwater.harness.base.waiting import await_condition
from tests.unit.clusters.relay.test_kafka_frames import TOPIC
from tests.unit.clusters.relay.test_properties import BATCH, EPOCH, NAME, PRODUCER, answer_to
from tests.unit.clusters.relay.wire import SOON_S, Wire, read_frame

GROUP = "g"
PRODUCE_VERSION, COMMIT_VERSION, END_VERSION = 9, 8, 3


class Recorded(Wire):
    """A wire that records the requests of a program."""

    def __init__(self) -> None:
        super().__init__(users="clients")
        self.rows: list[dict[str, Any]] = []
        self.relay.watch(self.rows.append)
        self.relay.record([TOPIC], GROUP)

    def requests(self, count: int) -> list[dict[str, Any]]:
        def look() -> list[dict[str, Any]]:
            return [row for row in self.rows if row["kind"] == "request"]

        return await_condition(
            look, lambda rows: len(rows) >= count, what="the wire's rows", limit_s=SOON_S
        )


@pytest.fixture
def wire() -> Iterator[Recorded]:
    with contextlib.closing(Recorded()) as made:
        yield made


def encoded(kind: Any, version: int, **fields: object) -> bytes:  # noqa: ANN401 - no types
    made = kind(version=version, **fields)
    made.with_header(correlation_id=5, client_id="rdkafka")
    return bytes(made.encode(header=True, framed=True))


def produce(topic: str = TOPIC, acks: int = -1) -> bytes:
    data = ProduceRequest.TopicProduceData
    partitions = [data.PartitionProduceData(index=index, records=BATCH) for index in (0, 3)]
    topics = [data(name=topic, partition_data=partitions)]
    fields = {"transactional_id": NAME, "acks": acks, "timeout_ms": 1, "topic_data": topics}
    return encoded(ProduceRequest, PRODUCE_VERSION, **fields)


def produced(errors: dict[int, int]) -> bytearray:
    topic = ProduceResponse.TopicProduceResponse
    partitions = [
        topic.PartitionProduceResponse(index=index, error_code=error, base_offset=90 + index)
        for index, error in errors.items()
    ]
    fields = {"responses": [topic(name=TOPIC, partition_responses=partitions)]}
    return answer_to(ProduceResponse, {**fields, "throttle_time_ms": 0}, PRODUCE_VERSION)


def test_a_produce_is_reported_with_its_answer(wire: Recorded) -> None:
    began = time.monotonic_ns()
    wire.relay.name_client("app-0", os.getpid())
    client = wire.connect()
    client.sendall(produce())
    broker = wire.accept()
    read_frame(broker)
    broker.sendall(produced({0: 0, 3: 10}))
    read_frame(client)
    ok, refused = wire.requests(2)
    assert began < ok["time_ns"] <= ok["answered_ns"] < time.monotonic_ns()
    assert (ok["source"], ok["target"], ok["acks"], ok["records"]) == ("client:app-0", 1, -1, 11)
    assert (ok["partition"], ok["offset"], ok["error"], "batch" in ok) == (0, 90, 0, False)
    assert (ok["producer_id"], ok["epoch"], ok["transactional_id"]) == (PRODUCER, EPOCH, NAME)
    assert (refused["partition"], refused["error"]) == (3, 10)
    assert base64.b64decode(refused["batch"]) == BATCH


def test_what_is_answered_with_an_earlier_offset_is_reported_with_its_records(
    wire: Recorded,
) -> None:
    client, broker = wire.connect(), None
    for errors in ({0: 7}, {0: 0}):
        client.sendall(produce())
        broker = broker or wire.accept()
        read_frame(broker)
        broker.sendall(produced(errors))
        read_frame(client)
    answered = [row for row in wire.requests(4) if row["partition"] == 0]
    assert [(row["error"], row["offset"]) for row in answered] == [(7, 90), (0, 90)]
    assert {base64.b64decode(row["batch"]) for row in answered} == {BATCH}


def test_what_was_not_answered_is_reported_when_its_connection_ends(wire: Recorded) -> None:
    client = wire.connect()
    client.sendall(produce() + produce(topic="other"))
    broker = wire.accept()
    read_frame(broker)
    client.close()
    rows = wire.requests(2)
    assert [row["partition"] for row in rows] == [0, 3]
    assert {row["answered_ns"] for row in rows} == {None}
    assert {row["source"] for row in rows} == {"client:rdkafka"}
    assert base64.b64decode(rows[0]["batch"]) == BATCH


def test_a_produce_that_wants_no_answer_is_reported_at_once(wire: Recorded) -> None:
    client = wire.connect()
    client.sendall(produce(acks=0))
    rows = wire.requests(2)
    assert [(row["acks"], row["answered_ns"], "batch" in row) for row in rows] == [
        (0, None, False)
    ] * 2


def test_commits_of_the_group_and_ends_of_transactions_are_reported(wire: Recorded) -> None:
    kind, told = OffsetCommitRequest, OffsetCommitResponse
    topic = kind.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=2, committed_offset=18, committed_leader_epoch=-1, committed_metadata=None
    )
    fields = {
        "generation_id_or_member_epoch": 1,
        "member_id": "m",
        "group_instance_id": None,
        "topics": [topic(name="in", partitions=[partition])],
    }
    answered = told.OffsetCommitResponseTopic
    topics = [answered(name="in", partitions=[answered.OffsetCommitResponsePartition(2, 22)])]
    refused = answer_to(told, {"topics": topics, "throttle_time_ms": 0}, COMMIT_VERSION)
    owner = {"transactional_id": NAME, "producer_id": PRODUCER, "producer_epoch": EPOCH}
    fenced = answer_to(EndTxnResponse, {"throttle_time_ms": 0, "error_code": 47}, END_VERSION)
    exchanges = [
        (encoded(kind, COMMIT_VERSION, group_id="another", **fields), refused),
        (encoded(kind, COMMIT_VERSION, group_id=GROUP, **fields), refused),
        (encoded(EndTxnRequest, END_VERSION, **owner, committed=False), fenced),
    ]
    client, broker = wire.connect(), None
    for request, answer in exchanges:
        client.sendall(request)
        broker = broker or wire.accept()
        read_frame(broker)
        broker.sendall(answer)
        read_frame(client)
    commit, ended = wire.requests(2)
    assert (commit["topic"], commit["partition"], commit["offset"]) == ("in", 2, 18)
    assert commit["error"] == 22
    assert (ended["commits"], ended["error"], ended["transactional_id"]) == (False, 47, NAME)


def test_nothing_is_reported_that_nobody_asked_for(wire: Recorded) -> None:
    wire.relay.record([], "")
    client = wire.connect()
    client.sendall(produce())
    broker = wire.accept()
    read_frame(broker)
    broker.sendall(produced({0: 0, 3: 0}))
    read_frame(client)
    wire.relay.record([TOPIC], GROUP)
    assert not [row for row in wire.rows if row["kind"] == "request"]

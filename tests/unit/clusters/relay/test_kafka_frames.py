"""The wire's reading of Kafka's messages, against kafka-python's writing of them."""

import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

from highwater.clusters.relay import kafka_frames

TOPIC = "events"
ID = uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
REQUESTS = range(18)
LONG = st.integers(0, 2**62)
PARTITIONS = st.lists(st.tuples(st.integers(0, 999), LONG, st.binary(max_size=99)), max_size=4)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(version: int, client: str, replica: int, asked: list[tuple[int, int, bytes]]) -> bytes:
    topic = FetchRequest.FetchTopic
    partitions = [
        topic.FetchPartition(
            partition=partition,
            current_leader_epoch=7,
            fetch_offset=offset,
            last_fetched_epoch=6,
            log_start_offset=0,
            partition_max_bytes=1,
        )
        for partition, offset, _ in asked
    ]
    made = FetchRequest(
        version=version,
        replica_id=replica,
        replica_state=FetchRequest.ReplicaState(replica_id=replica, replica_epoch=3),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=9,
        session_epoch=1,
        topics=[topic(topic=TOPIC, topic_id=ID, partitions=partitions)],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic="gone", topic_id=ID, partitions=[1, 2])
        ],
        rack_id="rack",
    )
    made.with_header(correlation_id=5, client_id=client)
    encoded: bytes = made.encode(header=True, framed=True)
    return encoded


def answer(version: int, told: list[tuple[int, int, bytes]]) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    partitions = [
        topic.PartitionData(
            partition_index=partition,
            error_code=0,
            high_watermark=hw,
            last_stable_offset=hw,
            log_start_offset=0,
            aborted_transactions=[
                topic.PartitionData.AbortedTransaction(producer_id=1, first_offset=2)
            ],
            preferred_read_replica=-1,
            records=records,
        )
        for partition, hw, records in told
    ]
    made = FetchResponse(
        version=version,
        throttle_time_ms=0,
        error_code=0,
        session_id=9,
        responses=[topic(topic=TOPIC, topic_id=ID, partitions=partitions)],
    )
    made.with_header(correlation_id=5)
    encoded: bytes = made.encode(header=True, framed=True)
    return encoded


def named(version: int) -> str:
    return TOPIC if version < 13 else kafka_frames.topic_id(ID.bytes)


@settings(max_examples=90, deadline=None)
@given(version=st.sampled_from(REQUESTS), asked=PARTITIONS)
def test_a_fetch_of_any_version_tells_who_asks_for_what(
    version: int, asked: list[tuple[int, int, bytes]]
) -> None:
    frame = request(version, "broker-2-fetcher-0", 2, asked)
    head = kafka_frames.header(frame)
    assert (head.api, head.version, head.correlation) == (kafka_frames.FETCH, version, 5)
    found = kafka_frames.fetch(frame, head)
    epoch = 7 if version >= 9 else -1
    assert found.replica == 2
    assert found.partitions == [(named(version), each, offset, epoch) for each, offset, _ in asked]


@settings(max_examples=90, deadline=None)
@given(version=st.sampled_from(REQUESTS), told=PARTITIONS)
def test_an_answer_of_any_version_tells_each_hw_whatever_its_records(
    version: int, told: list[tuple[int, int, bytes]]
) -> None:
    frame = answer(version, told)
    assert kafka_frames.correlation(frame) == 5
    assert kafka_frames.fetch_response(frame, version) == [
        (named(version), partition, 0, hw, len(records)) for partition, hw, records in told
    ]


@pytest.mark.parametrize(
    ("client", "replica", "api", "who"),
    [
        ("broker-3-fetcher-0", 3, kafka_frames.FETCH, 3),
        ("ReplicaFetcherThread-0-1", 3, kafka_frames.FETCH, 3),  # up to 0.10.2: 1 is the leader
        ("rdkafka", -1, kafka_frames.FETCH, None),
        ("2", -1, kafka_frames.LEADER_AND_ISR, 2),
        ("raft-client-2", -1, 52, 2),
        ("AddPartitionsManager-client-2", -1, 24, 2),
        ("Persister-client-2", -1, 83, 2),
        ("broker-2-txn-marker-sender", -1, 27, 2),
        ("__remote_log_metadata_client_2_producer", -1, 18, 2),
        ("__remote_log_metadata_client_2_consumer", -1, 18, 2),
        ("rdkafka", -1, 3, None),
        ("highwater-probe", -1, 3, None),
    ],
)
def test_brokers_are_known_by_what_they_say_first(
    client: str, replica: int, api: int, who: int | None
) -> None:
    if api == kafka_frames.FETCH:
        frame = request(2, client, replica, [])
    else:
        name = client.encode()
        frame = framed(struct.pack(">hhih", api, 0, 1, len(name)) + name)
    assert kafka_frames.sender(kafka_frames.header(frame), frame) == who


def test_a_request_without_a_client_id_is_known_for_that() -> None:
    frame = framed(struct.pack(">hhii", kafka_frames.CONTROLLED_SHUTDOWN, 0, 1, 77))
    assert kafka_frames.header(frame).client == ""


def test_a_write_of_an_isr_is_known_among_the_writes_in_zookeeper() -> None:
    path = b"/brokers/topics/a.b-c/partitions/12/state"
    data = b'{"isr":[1]}'
    body = struct.pack(">iii", 4, kafka_frames.ZK_SET_DATA, len(path)) + path
    frame = framed(body + struct.pack(">i", len(data)) + data + struct.pack(">i", 3))
    assert kafka_frames.zookeeper_kind(frame) == kafka_frames.ZK_SET_DATA
    assert kafka_frames.isr_node(frame) == ("a.b-c", 12)
    assert kafka_frames.isr_written(frame) == data
    other = framed(struct.pack(">iii", 4, kafka_frames.ZK_SET_DATA, 11) + b"/controller")
    assert kafka_frames.isr_node(other) is None


def ints(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def told(api: int, version: int, body: bytes) -> tuple[bytes, kafka_frames.Header]:
    frame = framed(struct.pack(">hhi", api, version, 1) + text("3") + body)
    return frame, kafka_frames.header(frame)


def test_what_a_controller_tells_is_read_in_its_oldest_form() -> None:
    state = text("events") + ints(0, 5, 2, 7) + ints(2, 2, 3) + ints(9) + ints(3, 1, 2, 3)
    body = ints(3, 5) + ints(2) + 2 * state + ints(0)
    frame, head = told(kafka_frames.LEADER_AND_ISR, 0, body)
    assert kafka_frames.leader_and_isr(frame, head) == 2 * [("events", 0, 2, 7, [2, 3])]


def test_what_a_controller_tells_is_read_in_its_newest_form() -> None:
    state = ints(1, 5, 2, 7) + b"\x03" + ints(2, 3) + ints(9) + b"\x02" + ints(1) + b"\x01\x01"
    state += b"\x00\x00" + b"\x00"  # is new; is recovering; tags
    topic = b"\x07events" + ID.bytes + b"\x03" + 2 * state + b"\x00"
    body = b"\x00" + ints(3) + b"\x00" + ints(5) + bytes(8) + b"\x01" + b"\x02" + topic
    frame, head = told(kafka_frames.LEADER_AND_ISR, 7, body)
    assert kafka_frames.leader_and_isr(frame, head) == 2 * [("events", 1, 2, 7, [2, 3])]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_what_a_leader_asks_for_is_read_in_every_form(version: int) -> None:
    members = b"".join(ints(one) + (bytes(8) + b"\x00") * (version == 3) for one in (1, 2))
    state = ints(4, 7) + b"\x03" + members + b"\x00" * (version >= 1) + ints(9) + b"\x00"
    topic = (ID.bytes if version >= 2 else b"\x07events") + b"\x02" + state + b"\x00"
    frame, head = told(
        kafka_frames.ALTER_PARTITION,
        version,
        b"\x00" + ints(1) + bytes(8) + b"\x02" + topic + b"\x00",
    )
    name = kafka_frames.topic_id(ID.bytes) if version >= 2 else "events"
    assert kafka_frames.alter_partition(frame, head) == [(name, 4, -1, 7, [1, 2])]

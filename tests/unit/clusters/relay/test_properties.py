"""The properties of requests, against kafka-python's writing of every version that it knows."""

import struct
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
)

from highwater.clusters.relay import kafka_frames
from highwater.clusters.relay.request_properties import (
    END_TXN,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    AnsweredPartition,
    Properties,
    answered,
    properties,
)
from tests.unit.clusters.relay.test_kafka_frames import ID, TOPIC, request

NAME, PRODUCER, EPOCH = "events-tx", 4_000_000_001, 7
OWNER = {"transactional_id": NAME, "producer_id": PRODUCER, "producer_epoch": EPOCH}
BATCH = struct.pack(">qiibiHiqqqhii", 0, 49, -1, 2, 0, 0, 0, 0, 0, PRODUCER, EPOCH, 0, 11)


def versions(kind: Any) -> list[Any]:  # noqa: ANN401 - kafka-python has no types
    name = kind.__name__.removesuffix("Request")
    known = range(kind.min_version, kind.max_version + 1)
    return [pytest.param(kind, version, id=f"{name}-{version}") for version in known]


def topic_of(version: int, *, ids_since: int = 99) -> str:
    return TOPIC if version < ids_since else kafka_frames.topic_id(ID.bytes)


def produce(version: int) -> tuple[dict[str, Any], Properties]:
    topic = ProduceRequest.TopicProduceData
    partitions = [
        topic.PartitionProduceData(index=index, records=BATCH if index else b"old")
        for index in (0, 3)
    ]
    fields = {
        "transactional_id": NAME,
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [topic(name=TOPIC, topic_id=ID, partition_data=partitions)],
    }
    name = topic_of(version, ids_since=13)
    wanted = Properties(
        NAME if version >= 3 else None, PRODUCER, EPOCH, ((name, 0), (name, 3)), acks=-1
    )
    return fields, wanted


def offset_commit(version: int) -> tuple[dict[str, Any], Properties]:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partitions = [
        topic.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=9,
            committed_leader_epoch=1,
            committed_metadata=None if index else "x",
        )
        for index in (1, 2)
    ]
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": 1,
        "member_id": "m",
        "group_instance_id": "i",
        "retention_time_ms": 1,
        "topics": [topic(name=TOPIC, topic_id=ID, partitions=partitions)],
    }
    name = topic_of(version, ids_since=10)
    wanted = Properties(partitions=((name, 1), (name, 2)), group="g", offsets=(9, 9))
    return fields, wanted._replace(instance="i" if version >= 7 else None)


def init_producer_id(version: int) -> tuple[dict[str, Any], Properties]:
    fields = {**OWNER, "transaction_timeout_ms": 1}
    after = (PRODUCER, EPOCH) if version >= 3 else (None, None)
    return fields, Properties(NAME, *after)


def of_transaction(version: int) -> tuple[dict[str, Any], Properties]:
    del version
    fields = {**OWNER, "committed": True, "group_id": "g"}
    return fields, Properties(NAME, PRODUCER, EPOCH)


def end(version: int) -> tuple[dict[str, Any], Properties]:
    fields, wanted = of_transaction(version)
    return fields, wanted._replace(commits=True)


def add_partitions(version: int) -> tuple[dict[str, Any], Properties]:
    kind = AddPartitionsToTxnRequest
    wanted = Properties(NAME, PRODUCER, EPOCH, ((TOPIC, 0), (TOPIC, 5)))
    topic = kind.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 5])
    if version < 4:
        old = {f"v3_and_below_{name}": value for name, value in OWNER.items()}
        return {**old, "v3_and_below_topics": [topic]}, wanted
    one = kind.AddPartitionsToTxnTransaction(**OWNER, verify_only=True, topics=[topic])
    return {"transactions": [one]}, wanted


def txn_offset_commit(version: int) -> tuple[dict[str, Any], Properties]:
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    partition = topic.TxnOffsetCommitRequestPartition(
        partition_index=4, committed_offset=1, committed_leader_epoch=2, committed_metadata=None
    )
    fields = {
        **OWNER,
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m",
        "group_instance_id": "i",
        "topics": [topic(name=TOPIC, partitions=[partition] * 2)],
    }
    wanted = Properties(NAME, PRODUCER, EPOCH, ((TOPIC, 4),) * 2, group="g", offsets=(1, 1))
    return fields, wanted._replace(instance="i" if version >= 3 else None)


def markers(version: int) -> tuple[dict[str, Any], Properties]:
    del version
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    topic = kind.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[6])
    one = kind(
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=1,
        transaction_version=2,
    )
    return {"markers": [one] * 2}, Properties(None, PRODUCER, EPOCH, ((TOPIC, 6),) * 2)


MADE = {
    ProduceRequest: produce,
    OffsetCommitRequest: offset_commit,
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions,
    AddOffsetsToTxnRequest: of_transaction,
    EndTxnRequest: end,
    TxnOffsetCommitRequest: txn_offset_commit,
    WriteTxnMarkersRequest: markers,
}


@pytest.mark.parametrize(("kind", "version"), [case for kind in MADE for case in versions(kind)])
def test_properties_of_every_version(kind: Any, version: int) -> None:  # noqa: ANN401 - no types
    fields, wanted = MADE[kind](version)
    names = set(kind.fields)
    made = kind(version=version, **{name: fields[name] for name in fields if name in names})
    made.with_header(correlation_id=5, client_id="c")
    frame: bytes = made.encode(header=True, framed=True)
    head = kafka_frames.header(frame)
    assert (head.version, head.client) == (version, "c")
    seen = properties(frame, head)
    assert seen._replace(batches=()) == wanted
    assert [(batch.records, frame[batch.begin : batch.end]) for batch in seen.batches] == (
        [(None, b"old"), (11, BATCH)] if kind is ProduceRequest else []
    )
    assert kafka_frames.has_answer(frame, head)


@pytest.mark.parametrize("version", [2, 9, 12, 17])
def test_properties_of_a_fetch(version: int) -> None:
    frame = request(version, "broker-2-fetcher-0", 2, [(0, 3, b"")])
    head = kafka_frames.header(frame)
    name = topic_of(version, ids_since=13)
    epoch = 7 if version >= 9 else None
    assert properties(frame, head) == Properties(epoch=epoch, partitions=((name, 0),))


def answer_to(kind: Any, fields: dict[str, Any], version: int) -> bytearray:  # noqa: ANN401 - no types
    names = set(kind.fields)
    made = kind(version=version, **{name: fields[name] for name in fields if name in names})
    made.with_header(correlation_id=5)
    return bytearray(made.encode(header=True, framed=True))


@pytest.mark.parametrize(("kind", "version"), versions(ProduceResponse))
def test_the_answer_to_a_produce(kind: Any, version: int) -> None:  # noqa: ANN401 - no types
    topic = kind.TopicProduceResponse
    part = topic.PartitionProduceResponse
    errors = [part.BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no")]
    partitions = [
        part(
            index=index,
            error_code=index,
            base_offset=90 + index,
            log_append_time_ms=1,
            log_start_offset=2,
            record_errors=errors * index,
            error_message="why" if index else None,
        )
        for index in (0, 3)
    ]
    responses = [topic(name=TOPIC, topic_id=ID, partition_responses=partitions)]
    frame = answer_to(kind, {"responses": responses, "throttle_time_ms": 1}, version)
    name = topic_of(version, ids_since=13)
    head = kafka_frames.Header(kafka_frames.PRODUCE, version, 5, "c", 0)
    assert answered(frame, head) == [
        AnsweredPartition(name, 0, 0, 90),
        AnsweredPartition(name, 3, 3, 93),
    ]


@pytest.mark.parametrize(
    ("kind", "version"),
    [case for kind in (OffsetCommitResponse, TxnOffsetCommitResponse) for case in versions(kind)],
)
def test_the_answer_to_a_commit(kind: Any, version: int) -> None:  # noqa: ANN401 - no types
    of_group = kind is OffsetCommitResponse
    topic = kind.OffsetCommitResponseTopic if of_group else kind.TxnOffsetCommitResponseTopic
    part = getattr(topic, topic.__name__.replace("Topic", "Partition"))
    partitions = [part(partition_index=index, error_code=index) for index in (1, 2)]
    fields = {
        "topics": [topic(name=TOPIC, topic_id=ID, partitions=partitions)]
        if of_group
        else [topic(name=TOPIC, partitions=partitions)],
        "throttle_time_ms": 1,
    }
    name = topic_of(version, ids_since=10) if of_group else TOPIC
    api = OFFSET_COMMIT if of_group else TXN_OFFSET_COMMIT
    frame = answer_to(kind, fields, version)
    assert answered(frame, kafka_frames.Header(api, version, 5, "c", 0)) == [
        AnsweredPartition(name, 1, 1),
        AnsweredPartition(name, 2, 2),
    ]


@pytest.mark.parametrize(("kind", "version"), versions(EndTxnResponse))
def test_the_answer_to_the_end_of_a_transaction(kind: Any, version: int) -> None:  # noqa: ANN401 - no types
    fields = {"throttle_time_ms": 1, "error_code": 47, "producer_id": 1, "producer_epoch": 2}
    frame = answer_to(kind, fields, version)
    head = kafka_frames.Header(END_TXN, version, 5, "c", 0)
    assert answered(frame, head) == [AnsweredPartition("", 0, 47)]

"""Refusals, against kafka-python's reading of every version; and their order on a connection."""

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse, OffsetCommitResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
)

from highwater.clusters.relay import kafka_frames, refusals
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.kafka_frames import Header, topic_id
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.request_properties import TOPIC_IDS_SINCE, Properties
from tests.unit.clusters.relay.test_kafka_frames import ID, TOPIC
from tests.unit.clusters.relay.test_messages import (
    CLIENT,
    END_TXN,
    METADATA,
    Broker,
    answer,
    end_txn,
    request,
)
from tests.unit.clusters.relay.wire import is_silent, read_frame

RESPONSES: dict[str, Any] = {
    "Produce": ProduceResponse,
    "Fetch": FetchResponse,
    "OffsetCommit": OffsetCommitResponse,
    "InitProducerId": InitProducerIdResponse,
    "AddPartitionsToTxn": AddPartitionsToTxnResponse,
    "AddOffsetsToTxn": AddOffsetsToTxnResponse,
    "EndTxn": EndTxnResponse,
    "TxnOffsetCommit": TxnOffsetCommitResponse,
}
FIRST, LAST = {"Fetch": 7}, {"AddPartitionsToTxn": 3, "InitProducerId": 5}
ERROR = 16


def cases() -> list[Any]:
    return [
        pytest.param(name, version, id=f"{name}-{version}")
        for name, kind in RESPONSES.items()
        for version in range(
            max(FIRST.get(name, 0), kind.min_version),
            min(LAST.get(name, 99), kind.max_version) + 1,
        )
    ]


def errors_in(value: Any) -> list[int]:  # noqa: ANN401 - kafka-python has no types
    """Return the error codes anywhere in a decoded answer."""
    if isinstance(value, dict):
        own = [code for name, code in value.items() if name.endswith("error_code")]
        return own + [code for inner in value.values() for code in errors_in(inner)]
    if isinstance(value, list):
        return [code for inner in value for code in errors_in(inner)]
    return []


@pytest.mark.parametrize(("name", "version"), cases())
def test_a_refusal_is_an_answer_of_the_version(name: str, version: int) -> None:
    api, kind = APIS[name].key, RESPONSES[name]
    has_id = version >= TOPIC_IDS_SINCE.get(api, 99)
    topic = topic_id(ID.bytes) if has_id else TOPIC
    seen = Properties("tx", partitions=((topic, 0), (topic, 3), ("b", 1))[: 2 if has_id else 3])
    frame = refusals.refusal(Header(api, version, 5, "c", 0), seen, ERROR)
    assert kafka_frames.correlation(frame) == 5
    decoded = kind.decode(bytes(frame), version=version, header=True, framed=True)
    assert decoded.encode(header=True, framed=True) == bytes(frame)
    single = name in {"Fetch", "InitProducerId", "AddOffsetsToTxn", "EndTxn"}
    wanted = 1 if single else len(seen.partitions)
    assert errors_in(decoded.to_dict()) == [ERROR] * wanted


def test_an_error_is_legal_by_version_kind_of_producer_and_time() -> None:
    def legal(api: str, error: str, version: int, *, acted: bool = False, **seen: Any) -> bool:  # noqa: ANN401
        head = Header(APIS[api].key, version, 1, "c", 0)
        code = refusals.ERRORS[error]
        return refusals.is_legal(head, Properties(**seen), code, acted=acted)

    assert legal("Produce", "NOT_LEADER_OR_FOLLOWER", 9, acks=1)
    assert not legal("Produce", "NOT_LEADER_OR_FOLLOWER", 9, acks=0)
    assert not legal("Produce", "REQUEST_TIMED_OUT", 9, acks=-1)
    assert legal("Produce", "REQUEST_TIMED_OUT", 9, acted=True, acks=-1)
    assert not legal("Produce", "REQUEST_TIMED_OUT", 9, acted=True, acks=1)
    assert not legal("Produce", "INVALID_PRODUCER_EPOCH", 9, acks=-1)
    assert legal("Produce", "INVALID_PRODUCER_EPOCH", 9, acks=-1, producer_id=1)
    assert legal("EndTxn", "INVALID_PRODUCER_EPOCH", 1)
    assert legal("EndTxn", "PRODUCER_FENCED", 2)
    assert not legal("EndTxn", "INVALID_PRODUCER_EPOCH", 2)
    assert not legal("AddPartitionsToTxn", "NOT_COORDINATOR", 4)
    assert not legal("OffsetCommit", "FENCED_INSTANCE_ID", 9)
    assert legal("OffsetCommit", "FENCED_INSTANCE_ID", 9, instance="i")
    assert not legal("Metadata", "NOT_COORDINATOR", 4)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with contextlib.closing(Broker(users="clients")) as made:
        yield made


def end_txn_answer(correlation: int, error: int) -> bytes:
    return struct.pack(">iiih", 10, correlation, 0, error)


def test_a_refused_request_is_answered_in_its_turn_and_does_not_arrive(broker: Broker) -> None:
    rule = MessageRule(action="refuse", api=END_TXN, source=CLIENT, times=2, error=ERROR)
    refused = broker.relay.catch(rule)
    with broker.connect() as client:
        client.sendall(request(METADATA, 1) + end_txn(2) + end_txn(3) + end_txn(4))
        server = broker.accept()
        assert [read_frame(server) for _ in range(2)] == [request(METADATA, 1), end_txn(4)]
        assert is_silent(client)
        server.sendall(answer(1) + end_txn_answer(4, 0))
        answers = [read_frame(client) for _ in range(4)]
        client.sendall(request(METADATA, 5))
        assert read_frame(server) == request(METADATA, 5)
        server.close()
    assert answers == [
        answer(1),
        end_txn_answer(2, ERROR),
        end_txn_answer(3, ERROR),
        end_txn_answer(4, 0),
    ]
    assert broker.await_events(refused, 6) == ["caught", "refused"] * 2 + ["answered"] * 2
    row = broker.await_event(refused, "refused")
    assert (row["side"], row["cause"]) == ("request", "NOT_COORDINATOR")


def test_an_answer_is_replaced_after_the_broker_has_acted(broker: Broker) -> None:
    rule = MessageRule(action="refuse", api=END_TXN, side="answer", times=0, error=ERROR)
    refused = broker.relay.catch(rule)
    with broker.connect() as client:
        client.sendall(end_txn(1) + end_txn(2))
        server = broker.accept()
        assert [read_frame(server) for _ in range(2)] == [end_txn(1), end_txn(2)]
        server.sendall(end_txn_answer(1, 0) + end_txn_answer(2, 51))
        # the broker's own error stays: it has not acted
        answers = [read_frame(client) for _ in range(2)]
        server.close()
    assert answers == [end_txn_answer(1, ERROR), end_txn_answer(2, 51)]
    seen = broker.await_events(refused, 5)
    assert seen == ["caught", "refused", "sent", "caught", "sent"]

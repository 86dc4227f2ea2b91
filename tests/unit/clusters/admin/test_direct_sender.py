"""A record goes to the broker that is named, once, and the history has its fate."""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.memory_records import MemoryRecords

from highwater.clusters.admin.direct_sender import DirectSender
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.plan import Acks, Plan, Workload
from tests.support.fake_broker import framed_server
from tests.support.free_ports import free_ports

if TYPE_CHECKING:
    from highwater.harness.runs.recorder import Recorder

NOT_LEADER, TOO_FEW = 6, 19


class Ledger:
    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def clock(self) -> int:
        return len(self.rows)

    def operation(self, **row: object) -> None:
        self.rows.append(row)


class Appender:
    """A broker that notes what it is sent and answers as it is told, or not at all."""

    def __init__(self) -> None:
        self.error: int | None = 0
        self.received: list[tuple[int, bytes]] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def respond(self, _: int, version: int, correlation: int, frame: bytes) -> bytes | None:
        request = ProduceRequest.decode(frame, version=version, header=True)
        batch = request.topic_data[0].partition_data[0].records
        records = MemoryRecords(bytes(batch)).next_batch()
        self.received += [(version, record.value) for record in records]
        if self.error is None or request.acks == 0:
            return None
        topic = ProduceResponse.TopicProduceResponse
        told = topic.PartitionProduceResponse(
            index=0, error_code=self.error, base_offset=-1 if self.error else 7
        )
        answer = ProduceResponse(responses=[topic(name="events", partition_responses=[told])])
        return struct.pack(">i", correlation) + bytes(answer.encode(version=version))


@pytest.fixture
def broker() -> Iterator[Appender]:
    played = Appender()
    with framed_server(played.respond) as played.port:
        yield played


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def sender(ledger: Ledger, kafka: str = "4.3.1", acks: Acks = "all") -> DirectSender:
    plan = Plan(kafka=kafka, workload=Workload(acks=acks, record_bytes=16))
    return DirectSender(plan, cast("Recorder", ledger))


@pytest.mark.parametrize(("kafka", "version"), [("0.9.0.1", 1), ("0.10.2.2", 2), ("4.3.1", 3)])
def test_a_record_arrives_in_the_format_of_the_release(
    broker: Appender, ledger: Ledger, kafka: str, version: int
) -> None:
    direct = sender(ledger, kafka)
    direct.send("m1", 0, address=broker.address)
    direct.close(limit_s=60.0)
    assert broker.received == [(version, b"m1|.............")]
    [row] = ledger.rows
    assert (row["outcome"], row["offset"], row["value"], row["acks"]) == ("ok", 7, "m1", "all")
    assert row["complete_ns"] is not None
    assert direct.sent == 1


@pytest.mark.parametrize(
    ("error", "outcome", "name"),
    [(NOT_LEADER, "info", "NOT_LEADER_FOR_PARTITION"), (TOO_FEW, "fail", "NOT_ENOUGH_REPLICAS")],
)
def test_a_refusal_is_written_down(
    broker: Appender, ledger: Ledger, error: int, outcome: str, name: str
) -> None:
    broker.error = error
    direct = sender(ledger)
    direct.send("m1", 0, address=broker.address)
    direct.close(limit_s=60.0)
    assert [(row["outcome"], row["error"]) for row in ledger.rows] == [(outcome, name)]
    told = direct.answers["m1"]
    assert told is not None
    assert told.outcome == outcome


def test_nobody_answers_acks_0(broker: Appender, ledger: Ledger) -> None:
    direct = sender(ledger, acks="0")
    direct.send("m1", 0, address=broker.address)
    direct.close(limit_s=60.0)
    assert [(row["outcome"], row["offset"]) for row in ledger.rows] == [("ok", None)]
    await_condition(lambda: broker.received, bool, what="the record to arrive", limit_s=60)


def test_a_broker_that_is_not_there_was_never_sent_anything(ledger: Ledger) -> None:
    [port] = free_ports(1)
    direct = sender(ledger)
    direct.send("m1", 0, address=f"127.0.0.1:{port}")
    assert [(row["outcome"], row["error"]) for row in ledger.rows] == [("fail", "_TRANSPORT")]
    direct.close(limit_s=0.0)


def test_what_is_never_answered_may_have_happened(broker: Appender, ledger: Ledger) -> None:
    broker.error = None
    direct = sender(ledger)
    direct.send("m1", 0, address=broker.address)
    assert direct.answers == {"m1": None}
    direct.close(limit_s=0.0)
    [row] = ledger.rows
    assert (row["outcome"], row["complete_ns"]) == ("info", None)


def test_a_batch_has_one_answer_and_an_operation_for_each_record(
    broker: Appender, ledger: Ledger
) -> None:
    direct = sender(ledger)
    direct.send_batch(["m1", "m2"], 0, address=broker.address)
    direct.close(limit_s=60.0)
    assert len(broker.received) == 2
    rows = [(row["value"], row["offset"], row["outcome"]) for row in ledger.rows]
    assert rows == [("m1", 7, "ok"), ("m2", 8, "ok")]
    assert direct.sent == 2

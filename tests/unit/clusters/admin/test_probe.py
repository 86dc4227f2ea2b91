"""The wire client and the probe against a broker that this test plays."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.probe import ClusterProbe
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import PartitionState, ReplicaState, UnreachableError
from highwater.harness.releases.catalogue import release
from tests.support.fake_broker import framed_server

OUT_OF_RANGE = 1
NOT_LEADER = 6


class Replica:
    """A broker with one replica of ``events-0``, on a socket of its own.

    It answers Fetch and ListOffsets in the versions up to 0.11, and refuses offsets above its end.
    """

    def __init__(self) -> None:
        self.leo = 5
        self.hw = 4
        self.error = 0
        self.silent = False
        self.fetched_at: list[int] = []
        self.producers: list[int] = []
        self.port = 0

    @property
    def address(self) -> Address:
        return Address(host="127.0.0.1", port=self.port)

    def respond(self, key: int, version: int, correlation: int, frame: bytes) -> bytes | None:
        if self.silent:
            return None
        kind = {1: FetchRequest, 2: ListOffsetsRequest, 61: DescribeProducersRequest}[key]
        answer = self._answer(kind.decode(frame, version=version, header=True), version)
        return struct.pack(">i", correlation) + answer

    def _answer(self, request: Any, version: int) -> bytes:  # noqa: ANN401 - made at run time
        if isinstance(request, ListOffsetsRequest):
            topic = ListOffsetsResponse.ListOffsetsTopicResponse
            found = topic.ListOffsetsPartitionResponse(
                partition_index=0,
                error_code=self.error,
                timestamp=-1,
                offset=self.leo if version else -1,
                old_style_offsets=[] if version or self.error else [self.leo],
            )
            listed = ListOffsetsResponse(topics=[topic(name="events", partitions=[found])])
            return bytes(listed.encode(version=version))
        if isinstance(request, DescribeProducersRequest):
            return b"\0" + bytes(self._described().encode(version=version))  # its header has tags
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetched_at.append(offset)
        error = self.error or (OUT_OF_RANGE if offset > self.leo else 0)
        topic = FetchResponse.FetchableTopicResponse
        data = topic.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=-1 if error else self.hw,
            records=b"",
        )
        fetched = FetchResponse(
            throttle_time_ms=0, responses=[topic(topic="events", partitions=[data])]
        )
        return bytes(fetched.encode(version=version))

    def _described(self) -> Any:  # noqa: ANN401 - made at run time
        topic = DescribeProducersResponse.TopicResponse
        partition = topic.PartitionResponse
        states = [
            partition.ProducerState(
                producer_id=id_,
                producer_epoch=0,
                last_sequence=0,
                last_timestamp=0,
                coordinator_epoch=0,
                current_txn_start_offset=-1,
            )
            for id_ in self.producers
        ]
        seen = partition(partition_index=0, error_code=self.error, active_producers=states)
        return DescribeProducersResponse(
            throttle_time_ms=0, topics=[topic(name="events", partitions=[seen])]
        )


class NoView:
    """The coordination, of which these tests ask nothing but to be closed."""

    closed = False

    def controller(self) -> int:
        return 1

    def quorum_leader(self) -> int:
        return 1

    def partition(self, topic: str, partition: int) -> PartitionState:
        raise UnreachableError(f"{topic}-{partition} is not known")

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        raise UnreachableError(f"{topic}-{partition} is not known")

    def topic_id(self, topic: str) -> str:
        raise UnreachableError(f"{topic} is not known")

    def live_brokers(self) -> frozenset[int]:
        return frozenset()

    def quorum(self) -> None:
        return None

    def topic_state(self, topic: str) -> None:
        raise UnreachableError(f"{topic} is not known")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def replica() -> Iterator[Replica]:
    played = Replica()
    with framed_server(played.respond) as played.port:
        yield played


@pytest.fixture
def view() -> NoView:
    return NoView()


@pytest.fixture
def probe(replica: Replica, view: NoView) -> Iterator[ClusterProbe]:
    made = ClusterProbe(lambda _: release("0.10.2.2").wire, {1: replica.address}, view)
    yield made
    made.close()
    assert view.closed


def list_offsets() -> Any:  # noqa: ANN401 - made at run time
    return ListOffsetsRequest(version=1, replica_id=-2, topics=[])


def takes(action: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        action()
    return time.monotonic() - began


def test_the_probe_reads_of_which_producers_a_leader_knows(
    probe: ClusterProbe, replica: Replica
) -> None:
    assert probe.producers(1, "events", 0) == frozenset()
    replica.producers = [1000, 1001]
    assert probe.producers(1, "events", 0) == {1000, 1001}
    replica.error = NOT_LEADER
    with pytest.raises(UnreachableError, match="does not report producers of events-0: error 6"):
        probe.producers(1, "events", 0)


def test_the_probe_reads_both_offsets(probe: ClusterProbe) -> None:
    assert probe.replica(1, "events", 0) == ReplicaState(leo=5, hw=4)


@pytest.mark.parametrize("name", ["0.9.0.1", "0.10.0.1"])
def test_a_list_of_offsets_will_do_where_there_is_no_other_answer(
    replica: Replica, view: NoView, name: str
) -> None:
    with contextlib.closing(
        ClusterProbe(lambda _: release(name).wire, {1: replica.address}, view)
    ) as old:
        assert old.replica(1, "events", 0) == ReplicaState(leo=5, hw=4)
        replica.error = NOT_LEADER
        with pytest.raises(UnreachableError, match="error 6"):
            old.replica(1, "events", 0)


def test_it_fetches_at_the_end_so_that_no_record_travels(
    probe: ClusterProbe, replica: Replica
) -> None:
    probe.replica(1, "events", 0)
    replica.leo = 8
    probe.replica(1, "events", 0)
    probe.replica(1, "events", 0)
    assert replica.fetched_at == [5, 5, 8]


def test_a_replica_that_was_cut_is_asked_again_at_its_new_end(
    probe: ClusterProbe, replica: Replica
) -> None:
    probe.replica(1, "events", 0)
    replica.leo, replica.hw = 3, 3
    assert probe.replica(1, "events", 0) == ReplicaState(leo=3, hw=3)
    assert replica.fetched_at == [5, 5, 3]


def test_a_replica_that_is_not_served_is_unreachable(probe: ClusterProbe, replica: Replica) -> None:
    replica.error = NOT_LEADER
    with pytest.raises(UnreachableError, match="error 6"):
        probe.replica(1, "events", 0)
    replica.error = 0
    assert probe.replica(1, "events", 0).leo == 5


def test_a_silent_broker_costs_one_timeout_and_then_nothing(replica: Replica) -> None:
    now = [0.0]
    wire = ProtocolClient(
        {1: replica.address}, timeout_s=0.2, clock=lambda: now[0] + time.monotonic()
    )
    replica.silent = True
    assert 0.2 <= takes(lambda: wire.ask(1, list_offsets())) < 1.0
    assert takes(lambda: wire.ask(1, list_offsets())) < 0.1
    replica.silent = False
    assert takes(lambda: wire.ask(1, list_offsets())) < 0.1
    now[0] = ProtocolClient.AFTER_SILENCE_S + 0.1
    [answer] = wire.ask(1, list_offsets())
    assert answer.topics[0].partitions[0].offset == 5
    wire.close()


def test_a_refusal_is_soon_forgotten() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    now = [0.0]
    dead = Address(host="127.0.0.1", port=port)
    wire = ProtocolClient({1: dead}, clock=lambda: now[0] + time.monotonic())
    assert takes(lambda: wire.ask(1, list_offsets())) < 0.3
    with socket.create_server(("127.0.0.1", port)):
        now[0] = ProtocolClient.AFTER_REFUSAL_S + 0.1
        with pytest.raises(UnreachableError, match="timed out"):
            wire.ask(1, list_offsets())
    wire.close()


def test_any_node_that_answers_will_do(replica: Replica) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        dead = Address(host="127.0.0.1", port=gone.getsockname()[1])
    wire = ProtocolClient({1: dead, 2: replica.address})
    assert wire.ask_any((1, 2), list_offsets())
    with pytest.raises(UnreachableError, match="none of the nodes 1 responds"):
        wire.ask_any((1,), list_offsets())
    wire.close()

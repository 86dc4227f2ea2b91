"""A port that is no broker's is unreachable, and a request is repeated knowingly."""

import contextlib
import errno
import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    ElectLeadersResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest

from highwater.clusters.admin import elections, topics
from highwater.clusters.admin.kafka_protocol import BrokerConnection, ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import LeaderKeptError, PartitionState, UnreachableError
from highwater.harness.base.errors import HarnessError

NOWHERE = Address(host="127.0.0.1", port=1)
BROKERS = {1: NOWHERE, 2: NOWHERE}


@contextlib.contextmanager
def port(answer: bytes) -> Iterator[Address]:
    """A port that answers its first connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            end, _ = server.accept()
            with end:
                end.sendall(answer)
                end.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        host, number = server.getsockname()
        yield Address(host=host, port=number)
        thread.join()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"\xff\xff\xff\xff", "impossible size of -1 bytes"),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "impossible size of 1397966893 bytes",
        ),  # for which there is no memory
        (b"\x7f\xff\xff\xff", "impossible size of 2147483647 bytes"),
        (struct.pack(">i", 0), "not respond like a Kafka broker"),
        (struct.pack(">i", 3) + b"abc", "not respond like a Kafka broker"),
        (struct.pack(">i", 9) + b"\x00\x00\x00\x01\x00\x00\x7f\xff\xff", "not respond"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "impossible size"),
    ],
    ids=["negative", "SSH", "2 GB", "empty", "short", "cut short", "HTTP"],
)
def test_a_port_that_is_no_brokers_is_unreachable(answer: bytes, says: str) -> None:
    request: Any = ApiVersionsRequest(
        version=3, client_software_name="highwater", client_software_version="1"
    )
    with port(answer) as address:
        connection = BrokerConnection(address, timeout_s=5.0)
        try:
            with pytest.raises(UnreachableError, match=f"{address.port}.*{says}"):
                connection.ask(request)
        finally:
            connection.close()


def test_a_connection_that_was_reset_at_once_is_unreachable() -> None:
    """On macOS its options cannot be set any more (EINVAL)."""

    class Reset:
        def setsockopt(self, *_: object) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

        def sendall(self, _: bytes) -> None:
            raise ConnectionResetError

    reset: Any = Reset()
    address = Address(host="127.0.0.1", port=1, dial=lambda *_: reset)
    request: Any = ApiVersionsRequest(
        version=3, client_software_name="highwater", client_software_version="1"
    )
    with pytest.raises(UnreachableError):
        BrokerConnection(address, timeout_s=5.0).ask(request)


class Once:
    """The first broker does what it is asked for, and does not say so."""

    def __init__(self, response: object, monkeypatch: pytest.MonkeyPatch, silent: int = 1) -> None:
        self.asked: list[int] = []

        def ask(_: ProtocolClient, node: int, *__: object) -> list[object]:
            self.asked.append(node)
            if len(self.asked) <= silent:
                raise UnreachableError("it does not answer")
            return [response]

        monkeypatch.setattr(ProtocolClient, "ask", ask)


class Ready:
    """A topic whose partitions have their leaders and replicas."""

    def partition(self, *_: object) -> PartitionState:
        return PartitionState(leader=1, leader_epoch=0, isr=(1, 2))

    def replica(self, *_: object) -> None: ...


REFUSED: Any = CreatePartitionsResponse(
    version=0,
    throttle_time_ms=0,
    results=[
        CreatePartitionsResponse.CreatePartitionsTopicResult(
            name="events", error_code=37, error_message="there are as many already"
        )
    ],
)


@pytest.mark.parametrize("silent", [0, 1])
def test_partitions_that_a_silent_broker_has_added_are_there(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Once(REFUSED, monkeypatch, silent)
    given = (object(), BROKERS, Ready(), "events", {1: (1, 2)})
    if silent:
        topics.add_partitions(*given)  # type: ignore[arg-type]
    else:
        with pytest.raises(HarnessError, match="as many already"):
            topics.add_partitions(*given)  # type: ignore[arg-type]


def test_a_topic_is_deleted_when_no_broker_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(
        [[0], [0, 3], [3, 0], [3, 3]]
    )  # of the deletion, and of each look at the brokers

    def ask(_: object, node: int, request: Any) -> list[Any]:  # noqa: ANN401 - kafka-python's
        if isinstance(request, DeleteTopicsRequest):
            return [SimpleNamespace(responses=[SimpleNamespace(error_code=next(answers)[0])])]
        codes[:] = next(answers) if node == 1 else codes
        return [SimpleNamespace(topics=[SimpleNamespace(error_code=codes[node - 1])])]

    codes: list[int] = []
    monkeypatch.setattr(ProtocolClient, "ask", ask)
    topics.delete_topic(BROKERS, "events")
    assert codes == [3, 3]
    answers = iter([[29]])
    with pytest.raises(HarnessError, match=r"refuses to delete topic 'events': error 29"):
        topics.delete_topic(BROKERS, "events")


@pytest.mark.parametrize("silent", [0, 1])
def test_an_election_that_a_silent_broker_has_made_is_one(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ElectLeadersResponse.ReplicaElectionResult
    partition = result.PartitionResult(partition_id=0, error_code=84, error_message=None)
    response: Any = ElectLeadersResponse(
        version=1,
        throttle_time_ms=0,
        error_code=0,
        replica_election_results=[result(topic="events", partition_result=[partition])],
    )
    Once(response, monkeypatch, silent)
    if silent:
        elections.elect_unclean(BROKERS, "events", 0)
    else:
        with pytest.raises(LeaderKeptError, match="error 84"):
            elections.elect_unclean(BROKERS, "events", 0)

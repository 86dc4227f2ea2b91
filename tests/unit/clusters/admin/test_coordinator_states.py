"""Coordinators' answers about transactional ids and share groups are read as Kafka writes them."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.clusters.admin.coordinator_states import (
    ShareOffsetsRequest,
    share_starts,
    transactions,
)
from highwater.clusters.admin.kafka_protocol import ProtocolClient, Request
from highwater.clusters.core.interfaces import CoordinatedState, UnreachableError

NONE = b"\0"


def share_answer(*partitions: tuple[int, int, int], error: int = 0) -> bytes:
    """An answer about one group: partition, start offset and error of each partition."""
    rows = b"".join(
        struct.pack(">iqih", number, start, 3, code) + NONE + NONE
        for number, start, code in partitions
    )
    topic = b"\2" + b"\7events" + bytes(16) + bytes([len(partitions) + 1]) + rows + NONE
    group = b"\2" + b"\2g" + topic + struct.pack(">h", error) + NONE + NONE
    return struct.pack(">i", 1) + NONE + struct.pack(">i", 0) + group + NONE


class Broker:
    """A client of a broker that answers with these values, one after the other."""

    def __init__(self, *answers: Any) -> None:  # noqa: ANN401
        self.answers = [*answers]
        self.requests: list[Request] = []

    def ask(self, node: int, request: Request) -> list[object]:
        assert node == 2
        self.requests.append(request)
        answer = self.answers.pop(0)
        return [request.answer(answer) if isinstance(answer, bytes) else answer]


def starts(*partitions: tuple[int, int, int], error: int = 0) -> object:
    client = cast("ProtocolClient", Broker(share_answer(*partitions, error=error)))
    return share_starts(client, 2, "g", "events", (0, 1))


def test_start_offsets_are_read_and_a_negative_offset_is_none() -> None:
    assert starts((0, 5, 0), (1, -1, 0)) == {0: 5, 1: None}


@pytest.mark.parametrize(("of_partition", "of_group"), [(15, 0), (0, 16)])
def test_an_error_is_no_answer(of_partition: int, of_group: int) -> None:
    with pytest.raises(UnreachableError, match=f"error {of_partition or of_group}"):
        starts((0, 5, of_partition), error=of_group)


def test_a_request_names_the_group_the_topic_and_the_partitions() -> None:
    request = ShareOffsetsRequest.of("g", "events", (0, 1))
    assert request.body == b"\2\2g\2\7events\3" + struct.pack(">ii", 0, 1) + bytes(3)


def test_transactional_ids_are_listed_and_described() -> None:
    state = SimpleNamespace(
        error_code=0,
        transactional_id="t",
        transaction_state="Ongoing",
        producer_id=7,
        producer_epoch=3,
    )
    client = Broker(
        SimpleNamespace(error_code=0, transaction_states=[state]),
        SimpleNamespace(transaction_states=[state]),
    )
    expected = frozenset({CoordinatedState("t", "Ongoing", 7, 3)})
    assert transactions(cast("ProtocolClient", client), 2) == expected
    assert client.requests[1].transactional_ids == ["t"]
    loading = cast("ProtocolClient", Broker(SimpleNamespace(error_code=14)))
    with pytest.raises(UnreachableError, match="error 14"):
        transactions(loading, 2)

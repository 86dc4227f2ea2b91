"""Request the states of transactional ids (KIP-664) and share groups (KIP-932)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Self

from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from highwater.clusters.admin.flexible_request import NOTHING, FlexibleRequest
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.interfaces import CoordinatedState, UnreachableError

_TEXT: Final = CompactString("utf-8")
_FAILED: Final = (("error_code", Int16), ("error", CompactString("utf-8")), ("tags", TaggedFields))
_UUID: Final = (("topic_id_most", Int64), ("topic_id_least", Int64))
_ANSWER: Final = Schema(
    *(("correlation", Int32), ("header_tags", TaggedFields), ("throttle_ms", Int32)),
    (
        "groups",
        CompactArray(
            ("group", _TEXT),
            (
                "topics",
                CompactArray(
                    *(("topic", _TEXT), *_UUID),
                    (
                        "partitions",
                        CompactArray(
                            *(("partition", Int32), ("start", Int64), ("leader_epoch", Int32)),
                            *_FAILED,
                        ),
                    ),
                    ("tags", TaggedFields),
                ),
            ),
            *_FAILED,
        ),
    ),
    ("tags", TaggedFields),
)


@dataclass(slots=True, kw_only=True)
class ShareOffsetsRequest(FlexibleRequest):
    """A DescribeShareGroupOffsets request about partitions of a topic."""

    @classmethod
    def of(cls, group: str, topic: str, partitions: Sequence[int]) -> Self:
        """Return a DescribeShareGroupOffsets request about one group."""
        numbers = CompactArray(Int32).encode(partitions)
        topics = b"\2" + _TEXT.encode(topic) + numbers + NOTHING
        body = b"\2" + _TEXT.encode(group) + topics + NOTHING + NOTHING
        return cls(name="DescribeShareGroupOffsetsRequest", key=90, body=body)

    def answer(self, frame: bytes) -> list[Any]:
        """Return a tuple for each group, with the fields of ``groups`` in ``_ANSWER``."""
        *_, groups, _ = _ANSWER.decode(BytesIO(frame))
        return list(groups or ())


def transactions(client: ProtocolClient, broker: int) -> frozenset[CoordinatedState]:
    """Return the states of all transactional ids that a broker coordinates.

    The function sends two requests. It ignores an id that the coordinator removes between the two
    requests.

    Raises:
        UnreachableError: the broker does not respond, or refuses the request.
    """
    request = ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=[])
    [listed] = client.ask(broker, request)
    _refuse_errors(broker, listed.error_code)
    names = [state.transactional_id for state in listed.transaction_states]
    [described] = client.ask(
        broker, DescribeTransactionsRequest(version=0, transactional_ids=names)
    )
    for state in described.transaction_states:
        _refuse_errors(broker, state.error_code)
    return frozenset(
        CoordinatedState(
            state.transactional_id, state.transaction_state, state.producer_id, state.producer_epoch
        )
        for state in described.transaction_states
    )


def share_starts(
    client: ProtocolClient, broker: int, group: str, topic: str, partitions: Sequence[int]
) -> Mapping[int, int | None]:
    """Return partition -> start offset of a share group; None for a partition without an offset.

    Raises:
        UnreachableError: the broker does not respond, or refuses the request.
    """
    [groups] = client.ask(broker, ShareOffsetsRequest.of(group, topic, partitions))
    starts: dict[int, int | None] = {}
    for _, topics, error_code, *_ in groups:
        _refuse_errors(broker, error_code)
        for _, _, _, of_topic, _ in topics or ():
            for partition, start, *answer in of_topic or ():
                _refuse_errors(broker, answer[1])
                starts[partition] = None if start < 0 else start
    return starts


def _refuse_errors(broker: int, code: int) -> None:
    if code:
        raise UnreachableError(
            f"broker {broker} does not report its coordinator's state: error {code}"
        )

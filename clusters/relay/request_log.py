"""The relay's reports of a program's requests. A request is reported when its outcome is known.

The outcome is a response, or the end of the connection without a response. Each row describes a
request and one of its partitions. An EndTxn, which has no partition, has one row. A Produce's row
contains the records in three cases: the write failed, it got no response, or the broker dropped the
records as duplicates. So the judge can identify the program's outputs among these records.
"""

import base64
import struct
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol

from highwater.clusters.relay.kafka_frames import PRODUCE, Header
from highwater.clusters.relay.request_properties import (
    END_TXN,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    AnsweredPartition,
    Properties,
    answered,
)

RECORDED: Final = frozenset((PRODUCE, OFFSET_COMMIT, TXN_OFFSET_COMMIT, END_TXN))
_BATCH_BYTES_MOST: Final = 1 << 18
_NOWHERE: Final = ("", 0)
"""The topic and partition of a response that has no partitions."""

Row = dict[str, Any]


class ClientRequest(Protocol):
    """The part of a request that this module uses."""

    head: Header
    frame: bytearray

    def properties(self) -> Properties:
        """Decode the request's properties. Return no properties if the frame is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """A request that was forwarded, and has no response yet."""

    time_ns: int
    properties: Properties


class RequestLog:
    """The log of requests on one connection.

    Args:
        topics: names and ids of topics. Every Produce to these topics is reported.
        group: the consumer group whose offset commits are reported.
        report: called with every row.
    """

    def __init__(self, topics: Collection[str], group: str, report: Callable[[Row], None]) -> None:
        self._topics = topics
        self._group = group
        self._report = report
        self._open: dict[ClientRequest, _Passed] = {}
        self._last_offsets: dict[tuple[str, int], int] = {}

    def passed(self, request: ClientRequest, *, ends: Row, has_answer: bool) -> None:
        """Record a request that is forwarded.

        Args:
            ends: columns with the source, the target and the connection.
        """
        properties = request.properties()
        concerned = (
            request.head.api == END_TXN
            or properties.group == self._group
            or any(topic in self._topics for topic, _ in properties.partitions)
        )
        if not concerned:
            return
        passed = _Passed(time_ns=time.monotonic_ns(), properties=properties)
        if has_answer:
            self._open[request] = passed
        else:
            self._write(request, passed, ends, [], None)

    def answered(self, request: ClientRequest, frame: bytearray, *, ends: Row) -> None:
        """Report a request whose response is forwarded."""
        passed = self._open.pop(request, None)
        if passed is None:
            return
        try:
            partitions = answered(frame, request.head)
        except (struct.error, IndexError):
            partitions = []
        self._write(request, passed, ends, partitions, time.monotonic_ns())

    def close(self, *, ends: Row) -> None:
        """Report the requests without a response, because their connection is closed."""
        while self._open:
            request, passed = self._open.popitem()
            self._write(request, passed, ends, [], None)

    def _write(
        self,
        request: ClientRequest,
        passed: _Passed,
        ends: Row,
        answers: list[AnsweredPartition],
        answered_ns: int | None,
    ) -> None:
        seen = passed.properties
        common = {
            "kind": "request",
            **ends,
            "api": request.head.api,
            "time_ns": passed.time_ns,
            "answered_ns": answered_ns,
            "acks": seen.acks,
            "commits": seen.commits,
            "transactional_id": seen.transactional_id,
            "producer_id": seen.producer_id,
            "epoch": seen.epoch,
        }
        by_place = {(answer.topic, answer.partition): answer for answer in answers}
        for number, place in enumerate(seen.partitions or [_NOWHERE]):
            answer = by_place.get(place)
            row = {"topic": place[0], "partition": place[1]} if seen.partitions else {}
            if answer is not None:
                row |= {"error": answer.error, "offset": answer.offset}
            if seen.offsets:
                row |= {"offset": seen.offsets[number]}
            if seen.batches and place[0] in self._topics:
                row |= self._records(request, seen, number, answer)
            if seen.offsets or not seen.batches or place[0] in self._topics:
                self._report({**common, **row})

    def _records(
        self,
        request: ClientRequest,
        seen: Properties,
        number: int,
        answer: AnsweredPartition | None,
    ) -> Row:
        """Return the columns about a partition's records.

        They include the records if the write failed, or if the broker dropped them as duplicates.
        The response about duplicates has the offset of an earlier response.
        """
        batch = seen.batches[number]
        row: Row = {"records": batch.records}
        repeated = answer is not None and self._repeated(answer)
        if seen.acks and (answer is None or answer.error or repeated):
            end = min(batch.end, batch.begin + _BATCH_BYTES_MOST)
            row["batch"] = base64.b64encode(request.frame[batch.begin : end]).decode()
        return row

    def _repeated(self, answer: AnsweredPartition) -> bool:
        """Return whether an earlier response had this or a greater offset. Store the offset."""
        place = (answer.topic, answer.partition)
        offset = -1 if answer.offset is None else answer.offset
        last = self._last_offsets.get(place, -1)
        self._last_offsets[place] = max(last, offset)
        return 0 <= offset <= last

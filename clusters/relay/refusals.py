"""Refusals: errors with which a broker may respond to a client's request.

An error is legal only for some request versions and some kinds of producers. A broker returns some
errors only before it executes the request, and others only after the append. The rules come from
the ``*Response.json`` of Kafka's messages, ``UnifiedLog`` and ``Partition`` (errors before an
append), ``DelayedProduce`` (errors after it), ``TransactionCoordinator`` and
``TransactionStateManager``, ``GroupCoordinatorService``, ``FetchManager``.
THROTTLING_QUOTA_EXCEEDED is not in the list, because only the controller returns it
(``ControllerMutationQuotaManager``).
"""

import base64
import struct
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from highwater.clusters.relay.kafka_frames import FETCH, PRODUCE, Buffer, Header
from highwater.clusters.relay.request_properties import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    SINGLE_ERROR,
    TOPIC_IDS_SINCE,
    TXN_OFFSET_COMMIT,
    Properties,
    answered,
    flexible_since,
)

ERRORS: Final[Mapping[str, int]] = {
    "UNKNOWN_SERVER_ERROR": -1,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "FETCH_SESSION_ID_NOT_FOUND": 70,
    "INVALID_FETCH_SESSION_EPOCH": 71,
    "FENCED_INSTANCE_ID": 82,
    "PRODUCER_FENCED": 90,
    "TRANSACTION_ABORTABLE": 120,
}
NAMES: Final[Mapping[int, str]] = {number: name for name, number in ERRORS.items()}

_READABLE: Final = SINGLE_ERROR | {PRODUCE, OFFSET_COMMIT, TXN_OFFSET_COMMIT}
"""The requests whose responses ``errors_of`` decodes."""

_ALWAYS: Final = 1 << 15
_I16, _I32, _I64 = (struct.Struct(form) for form in (">h", ">i", ">q"))

Acted = Literal["before", "after", "either"]


class _Legal(NamedTuple):
    """The conditions under which an error is legal.

    Attributes:
        acted: whether the broker returns the error ``before`` or ``after`` it executes the request,
            or ``either``.
        since: first version of the request that may get the error.
        until: first later version that may not get the error.
        only: ``all`` for writes with acks=all, ``producer`` for records with a producer id,
            ``transaction`` for requests with a transactional id, ``static`` for requests with a
            ``group.instance.id``; empty for any.
    """

    acted: Acted = "either"
    since: int = 0
    until: int = _ALWAYS
    only: Literal["", "all", "producer", "transaction", "static"] = ""


_COORDINATOR: Final = {
    "UNKNOWN_SERVER_ERROR": _Legal(),
    "COORDINATOR_LOAD_IN_PROGRESS": _Legal("before"),
    "COORDINATOR_NOT_AVAILABLE": _Legal(),
    "NOT_COORDINATOR": _Legal(),
}
_TRANSACTION: Final = {
    **_COORDINATOR,
    "CONCURRENT_TRANSACTIONS": _Legal("before"),
    "INVALID_PRODUCER_ID_MAPPING": _Legal("before"),
    "INVALID_TXN_STATE": _Legal("before"),
    "INVALID_PRODUCER_EPOCH": _Legal("before", until=2),
    "PRODUCER_FENCED": _Legal("before", since=2),
}
_GROUP: Final = {
    **_COORDINATOR,
    "ILLEGAL_GENERATION": _Legal("before", since=3),
    "UNKNOWN_MEMBER_ID": _Legal("before", since=3),
}

LEGAL: Final[Mapping[int, Mapping[str, _Legal]]] = {
    PRODUCE: {
        "UNKNOWN_SERVER_ERROR": _Legal(),
        "NOT_LEADER_OR_FOLLOWER": _Legal(),
        "UNKNOWN_TOPIC_OR_PARTITION": _Legal(until=13),
        "KAFKA_STORAGE_ERROR": _Legal(since=4),
        "CORRUPT_MESSAGE": _Legal("before"),
        "NOT_ENOUGH_REPLICAS": _Legal("before", only="all"),
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _Legal("after", only="all"),
        "REQUEST_TIMED_OUT": _Legal("after", only="all"),
        "OUT_OF_ORDER_SEQUENCE_NUMBER": _Legal("before", only="producer"),
        "INVALID_PRODUCER_EPOCH": _Legal("before", only="producer"),
        "INVALID_TXN_STATE": _Legal("before", only="transaction"),
        "TRANSACTION_ABORTABLE": _Legal("before", since=11, only="transaction"),
    },
    FETCH: {
        "UNKNOWN_SERVER_ERROR": _Legal(since=7),
        "FETCH_SESSION_ID_NOT_FOUND": _Legal(since=7),
        "INVALID_FETCH_SESSION_EPOCH": _Legal(since=7),
    },
    OFFSET_COMMIT: {**_GROUP, "FENCED_INSTANCE_ID": _Legal("before", since=7, only="static")},
    INIT_PRODUCER_ID: {
        "UNKNOWN_SERVER_ERROR": _Legal(),
        "COORDINATOR_LOAD_IN_PROGRESS": _Legal("before"),
        "COORDINATOR_NOT_AVAILABLE": _Legal(only="transaction"),
        "NOT_COORDINATOR": _Legal(only="transaction"),
        "CONCURRENT_TRANSACTIONS": _Legal("before", only="transaction"),
        "PRODUCER_FENCED": _Legal("before", since=4, only="transaction"),
    },
    ADD_PARTITIONS_TO_TXN: {
        name: legal._replace(until=min(legal.until, 4)) for name, legal in _TRANSACTION.items()
    },
    ADD_OFFSETS_TO_TXN: _TRANSACTION,
    END_TXN: _TRANSACTION,
    TXN_OFFSET_COMMIT: {
        **_GROUP,
        "FENCED_INSTANCE_ID": _Legal("before", since=3, only="static"),
        "INVALID_PRODUCER_EPOCH": _Legal("before"),
        "TRANSACTION_ABORTABLE": _Legal("before", since=4),
    },
}
"""The errors with which the relay can respond, by API key. Clients send AddPartitionsToTxn up to
version 3. Brokers send the later versions."""


def errors_of(frame: Buffer, head: Header) -> str:
    """Return the names of the errors in a response, or their codes; empty if it has or shows none.

    Args:
        head: the header of the request.
    """
    if head.api not in _READABLE:
        return ""
    try:
        codes = {partition.error for partition in answered(frame, head)} - {0}
    except (struct.error, IndexError):
        return ""
    return ", ".join(NAMES.get(code, str(code)) for code in sorted(codes))


def refusable(api: int, error: str, *, acted: bool) -> bool:
    """Return whether any version of a request may get a response with this error.

    Args:
        acted: whether the broker has executed the request.
    """
    legal = LEGAL.get(api, {}).get(error)
    return legal is not None and legal.acted in {"either", "after" if acted else "before"}


def is_legal(head: Header, seen: Properties, error: int, *, acted: bool) -> bool:
    """Return whether a broker may respond to this request with this error; see ``refusable``."""
    name = NAMES[error]
    if not refusable(head.api, name, acted=acted) or seen.acks == 0:
        return False
    legal = LEGAL[head.api][name]
    has = {
        "": True,
        "all": seen.acks == -1,
        "producer": seen.producer_id is not None,
        "transaction": bool(seen.transactional_id),
        "static": seen.instance is not None,
    }
    return legal.since <= head.version < legal.until and has[legal.only]


def refusal(head: Header, seen: Properties, error: int) -> bytearray:
    """Return the bytes of a broker's error response, with every partition of the request."""
    answer = _Writer(flexible=head.version >= flexible_since(head.api))
    answer.add(_I32, head.correlation)
    answer.tags()
    if head.api != PRODUCE and (head.api != OFFSET_COMMIT or head.version >= 3):  # noqa: PLR2004
        answer.add(_I32, 0)  # throttle time
    if head.api in {INIT_PRODUCER_ID, END_TXN, ADD_OFFSETS_TO_TXN, FETCH}:
        answer.add(_I16, error)
        _add_rest(answer, head)
    else:
        _add_partitions(answer, head, seen, error)
    if head.api == PRODUCE and head.version >= 1:
        answer.add(_I32, 0)  # throttle time
    answer.tags()
    return bytearray(_I32.pack(len(answer.data))) + answer.data


def _add_rest(answer: "_Writer", head: Header) -> None:
    """Add the fields after the error. They say that there is no producer id, or no session."""
    producers = 0
    if head.api == INIT_PRODUCER_ID:
        producers = 1 + (head.version >= 6)  # noqa: PLR2004 - KIP-939
    if head.api == END_TXN:
        producers = int(head.version >= 5)  # noqa: PLR2004 - KIP-890
    for _ in range(producers):
        answer.add(_I64, -1)
        answer.add(_I16, -1)
    if head.api == FETCH:
        answer.add(_I32, 0)
        answer.length(0)


def _add_partitions(answer: "_Writer", head: Header, seen: Properties, error: int) -> None:
    topics: dict[str, list[int]] = {}
    for topic, partition in seen.partitions:
        topics.setdefault(topic, []).append(partition)
    answer.length(len(topics))
    for topic, partitions in topics.items():
        answer.topic(topic, has_id=head.version >= TOPIC_IDS_SINCE.get(head.api, _ALWAYS))
        answer.length(len(partitions))
        for partition in partitions:
            answer.add(_I32, partition)
            answer.add(_I16, error)
            if head.api == PRODUCE:
                # the offset; the time of the append; the log's first offset
                for _ in range(1 + (head.version >= 2) + (head.version >= 5)):  # noqa: PLR2004
                    answer.add(_I64, -1)
                if head.version >= 8:  # noqa: PLR2004 - KIP-467
                    answer.length(0)
                    answer.null()
            answer.tags()
        answer.tags()


class _Writer:
    """Writes a message from its beginning to its end, in the format that ``Cursor`` reads."""

    def __init__(self, *, flexible: bool) -> None:
        self.data = bytearray()
        self._flexible = flexible

    def add(self, form: struct.Struct, value: int) -> None:
        """Add a number with a fixed size."""
        self.data += form.pack(value)

    def length(self, count: int, form: struct.Struct = _I32) -> None:
        """Add the length of the array or string that follows."""
        if not self._flexible:
            self.add(form, count)
            return
        count += 1
        while count >= 0x80:  # noqa: PLR2004 - seven bits a byte
            self.data.append(count & 0x7F | 0x80)
            count >>= 7
        self.data.append(count)

    def null(self) -> None:
        """Add a string that is null."""
        self.length(-1, _I16)

    def topic(self, topic: str, *, has_id: bool) -> None:
        """Add a topic's name, or the bytes of its id."""
        if has_id:
            self.data += base64.urlsafe_b64decode(f"{topic}==")
            return
        name = topic.encode()
        self.length(len(name), _I16)
        self.data += name

    def tags(self) -> None:
        """Add an empty list of tagged fields."""
        if self._flexible:
            self.data.append(0)

"""The layout of a state of transactions: coordinator, applications, producers, leaders, messages.

A state is ``WIDTH`` signed bytes. An entry of a log is one byte: a record's number from 1 on, or a
marker. Sets of partitions are bit masks. The state stores the partition, epoch and sequence number
of each record, so a Produce names only its record.
"""

from enum import IntEnum
from typing import Final

from highwater.checkers.model.protocol.compiled import State, rule

MAX_PARTITIONS: Final = 2
MAX_RECORDS: Final = 6
MAX_TRANSACTIONS: Final = 4
MAX_PRODUCERS: Final = 2
MAX_LOG: Final = 12
MAX_MESSAGES: Final = 12
CACHED_MOST: Final = 5

COMMIT: Final = 7
ABORT: Final = 8
"""The numbers that stand for markers in a log. Lower numbers stand for records."""

# The coordinator: the state of the transactional id, its epoch, its partitions, markers to write.
STATE: Final = 0
EPOCH: Final = 1
PARTS: Final = 2
PENDING: Final = 3

# Counters of events so far, against the bounds of the search.
BEGUN: Final = 4
SENT: Final = 5
LATES: Final = 6
LATE_CONTROLS: Final = 7
LATE_MARKERS: Final = 8
EXPIRIES: Final = 9
FORGETS: Final = 10
FLAGS: Final = 11

# The applications: the outcome of each transaction, by number from 1 on.
STATUS: Final = 12

# Producers, relative to their block.
PRODUCERS: Final = STATUS + MAX_TRANSACTIONS
PHASE: Final = 0
OWN_EPOCH: Final = 1
TRANSACTION: Final = 2
ADDED: Final = 3  # partitions that the coordinator has confirmed
ADDING: Final = 4  # partitions in an AddPartitionsToTxn without a response
FENCED: Final = 5  # another producer took its place, or the coordinator has ended its transaction
NEXT: Final = 6  # for each partition the sequence number of the next record
PRODUCER: Final = NEXT + MAX_PARTITIONS

# Leaders, relative to their block.
LEADERS: Final = PRODUCERS + MAX_PRODUCERS * PRODUCER
LOG: Final = 0
LENGTH: Final = MAX_LOG
LEADER_EPOCH: Final = LENGTH + 1  # producer epoch + 1, 0 if the leader has no state of the producer
LAST: Final = LEADER_EPOCH + 1  # last sequence number + 1, or 0 for none in this epoch
CACHED: Final = LAST + 1  # sequence numbers of the last batches, a mask
OPEN: Final = CACHED + 1  # first offset + 1 of the open transaction, or 0
LOWEST: Final = OPEN + 1  # lowest sequence number + 1 that waits to be confirmed, or 0
LOWEST_EPOCH: Final = LOWEST + 1
LEADER: Final = LOWEST_EPOCH + 1

# Records, one array for each property.
RECORDS: Final = LEADERS + MAX_PARTITIONS * LEADER
R_TRANSACTION: Final = RECORDS
R_PARTITION: Final = R_TRANSACTION + MAX_RECORDS
R_EPOCH: Final = R_PARTITION + MAX_RECORDS
R_SEQUENCE: Final = R_EPOCH + MAX_RECORDS
R_STATE: Final = R_SEQUENCE + MAX_RECORDS

# Requests in flight: kind, way (producer and receiver), connection, and two arguments.
MESSAGES: Final = R_STATE + MAX_RECORDS
M_KIND: Final = 0
M_WAY: Final = 1
# 0 is the producer's present connection; the producer has closed all others
M_CONNECTION: Final = 2
M_ARGUMENT: Final = 3
M_EPOCH: Final = 4
MESSAGE: Final = 5

WIDTH: Final = -(-(MESSAGES + MAX_MESSAGES * MESSAGE) // 8) * 8
"""The size of a state in bytes, a multiple of eight."""


class CoordinatorState(IntEnum):
    """The state of the transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class Phase(IntEnum):
    """The activity of a producer."""

    OFF = 0
    OPENING = 1
    READY = 2
    OPEN = 3
    DRAINING = 4
    COMMITTING = 5
    ABORTING = 6
    FAILED = 7


class Status(IntEnum):
    """The outcome of a transaction for its application."""

    NONE = 0
    OPEN = 1
    COMMIT_ASKED = 2
    COMMITTED = 3
    ABORTED = 4


class RecordState(IntEnum):
    """The state of a record for its producer."""

    NONE = 0
    QUEUED = 1
    IN_FLIGHT = 2
    UNANSWERED = 3
    ACKNOWLEDGED = 4
    DROPPED = 5


class Request(IntEnum):
    """The kind of a message."""

    NONE = 0
    ADD_PARTITION = 1
    PRODUCE = 2
    END_TXN = 3
    MARKER = 4


COORDINATOR: Final = MAX_PARTITIONS
"""The number that stands for the coordinator as the receiver of a request. All other receivers are
leaders."""

BROKERS_WAY: Final = 9
"""The number of the connection for markers, from the coordinator to a leader."""

CLOSED: Final = 9
"""The number of the connection for requests of a producer that has failed."""

FLAG_OVERFLOW: Final = 1
"""A flag of a state without space for another log entry or message: the search bounds are too
large."""

FLAG_REFUSED: Final = 2
"""A flag of a state: a producer got a permanent error, although it was not fenced."""

FLAG_SUCCESSOR_REFUSED: Final = 4
"""A flag of a state: the second producer, which had replaced the first producer, got a permanent
error."""


@rule
def producer(s: State, c: int, field: int) -> int:
    """Return a field of producer ``c``."""
    return int(s[PRODUCERS + c * PRODUCER + field])


@rule
def set_producer(s: State, c: int, field: int, value: int) -> None:
    """Set a field of producer ``c``."""
    s[PRODUCERS + c * PRODUCER + field] = value


@rule
def leader(s: State, p: int, field: int) -> int:
    """Return a field of the leader of partition ``p``."""
    return int(s[LEADERS + p * LEADER + field])


@rule
def set_leader(s: State, p: int, field: int, value: int) -> None:
    """Set a field of the leader of partition ``p``."""
    s[LEADERS + p * LEADER + field] = value


@rule
def message(s: State, slot: int, field: int) -> int:
    """Return a field of a message."""
    return int(s[MESSAGES + slot * MESSAGE + field])


@rule
def set_message(s: State, slot: int, field: int, value: int) -> None:
    """Set a field of a message."""
    s[MESSAGES + slot * MESSAGE + field] = value

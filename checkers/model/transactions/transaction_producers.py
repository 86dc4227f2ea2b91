"""The producers' moves: calls of the application, requests, and the effects of responses."""

from highwater.checkers.model.protocol.compiled import Constants, State, rule, spend_one
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_brokers import fence, is_preparing
from highwater.checkers.model.transactions.transaction_layout import (
    COORDINATOR,
    CoordinatorState,
    Phase,
    RecordState,
    Request,
    Status,
    message,
    producer,
    set_message,
    set_producer,
)
from highwater.checkers.model.transactions.transaction_messages import (
    message_count,
    put_message,
    way_of,
)
from highwater.checkers.model.transactions.transaction_scope import (
    K_ADDS_BY_PRODUCE,
    K_BUMPS_EPOCH,
    K_LATE,
    K_LATE_CONTROLS,
    K_PARTITIONS,
    K_PRODUCERS,
    K_PURGES_UNANSWERED,
    K_RECORDS,
    K_TRANSACTIONS,
)


@rule
def open_producer(s: State, k: Constants, c: int) -> bool:
    """Replace the first producer by the second, and fence it (InitProducerId)."""
    if (
        c == 0
        or c >= k[K_PRODUCERS]
        or producer(s, c, layout.PHASE) not in (Phase.OFF, Phase.OPENING)
    ):
        return False
    if is_preparing(s):
        return False
    set_producer(s, 0, layout.FENCED, 1)
    if int(s[layout.STATE]) == CoordinatorState.ONGOING:
        fence(s, k)
        set_producer(s, c, layout.PHASE, Phase.OPENING)
        return True
    s[layout.EPOCH] = int(s[layout.EPOCH]) + 1
    s[layout.STATE] = CoordinatorState.EMPTY
    set_producer(s, c, layout.OWN_EPOCH, int(s[layout.EPOCH]))
    set_producer(s, c, layout.PHASE, Phase.READY)
    return True


@rule
def begin(s: State, k: Constants, c: int) -> bool:
    """Begin a transaction."""
    if producer(s, c, layout.PHASE) != Phase.READY:
        return False
    if not spend_one(s, layout.BEGUN, k[K_TRANSACTIONS]):
        return False
    s[layout.STATUS + int(s[layout.BEGUN]) - 1] = Status.OPEN
    set_producer(s, c, layout.PHASE, Phase.OPEN)
    set_producer(s, c, layout.TRANSACTION, int(s[layout.BEGUN]))
    return True


@rule
def send(s: State, k: Constants, c: int, p: int) -> bool:
    """Call ``send``: the record is sent as soon as its partition is in the transaction.

    Partitions are interchangeable, so the first record always goes to the first partition.
    """
    r = int(s[layout.SENT])
    if producer(s, c, layout.PHASE) != Phase.OPEN or r >= k[K_RECORDS] or p >= k[K_PARTITIONS]:
        return False
    if r == 0 and p > 0:
        return False
    s[layout.SENT] = r + 1
    s[layout.R_TRANSACTION + r] = producer(s, c, layout.TRANSACTION)
    s[layout.R_PARTITION + r] = p
    s[layout.R_EPOCH + r] = producer(s, c, layout.OWN_EPOCH)
    s[layout.R_STATE + r] = RecordState.QUEUED
    if k[K_ADDS_BY_PRODUCE] or producer(s, c, layout.ADDED) >> p & 1:
        if not _has(s, c, p, RecordState.UNANSWERED):
            _produce(s, c, p)
    elif not producer(s, c, layout.ADDING) >> p & 1:
        set_producer(s, c, layout.ADDING, producer(s, c, layout.ADDING) | 1 << p)
        _request(s, c, COORDINATOR, Request.ADD_PARTITION, p)
    return True


@rule
def retry(s: State, c: int, p: int) -> bool:
    """Send a partition's unanswered records again, and then the records that wait behind them."""
    if producer(s, c, layout.PHASE) not in (Phase.OPEN, Phase.DRAINING) or not _has(
        s, c, p, RecordState.UNANSWERED
    ):
        return False
    _produce(s, c, p)
    return True


@rule
def commit(s: State, c: int) -> bool:
    """Request a commit, if every record of the transaction has a response."""
    number = producer(s, c, layout.TRANSACTION)
    if producer(s, c, layout.PHASE) != Phase.OPEN or not _count(
        s, number, RecordState.ACKNOWLEDGED
    ):
        return False
    if _count(s, number, RecordState.QUEUED) + _outstanding(s, number):
        return False
    s[layout.STATUS + number - 1] = Status.COMMIT_ASKED
    set_producer(s, c, layout.PHASE, Phase.COMMITTING)
    _request(s, c, COORDINATOR, Request.END_TXN, 1)
    return True


@rule
def abort(s: State, k: Constants, c: int) -> bool:
    """Abort: drop unsent records, and with ``purges_unanswered`` also those that await a retry."""
    number = producer(s, c, layout.TRANSACTION)
    if producer(s, c, layout.PHASE) != Phase.OPEN:
        return False
    sent = False
    for r in range(int(s[layout.SENT])):
        if int(s[layout.R_TRANSACTION + r]) != number:
            continue
        sent = True
        state, p = int(s[layout.R_STATE + r]), int(s[layout.R_PARTITION + r])
        if state == RecordState.QUEUED:
            s[layout.R_STATE + r] = RecordState.DROPPED
        elif state == RecordState.UNANSWERED and k[K_PURGES_UNANSWERED]:
            s[layout.R_STATE + r] = RecordState.DROPPED
            set_producer(s, c, layout.NEXT + p, producer(s, c, layout.NEXT + p) - 1)
    if not sent:
        return False
    s[layout.STATUS + number - 1] = Status.ABORTED
    set_producer(s, c, layout.PHASE, Phase.DRAINING)
    _end_drained(s, c)
    return True


@rule
def give_up(s: State, k: Constants, c: int, receiver: int) -> bool:
    """Close a connection with requests in flight, and repeat only requests to the coordinator."""
    spent, limit = layout.LATES, int(k[K_LATE])
    if receiver == COORDINATOR:
        spent, limit = layout.LATE_CONTROLS, int(k[K_LATE_CONTROLS])
    if int(s[spent]) >= limit:
        return False
    way, given = way_of(c, receiver), 0
    connection = int(s[layout.LATES]) + int(s[layout.LATE_CONTROLS]) + 1
    for slot in range(message_count(s)):
        kind = message(s, slot, layout.M_KIND)
        if message(s, slot, layout.M_WAY) != way or message(s, slot, layout.M_CONNECTION) != 0:
            continue
        given += 1
        set_message(s, slot, layout.M_CONNECTION, connection)
        argument, epoch = message(s, slot, layout.M_ARGUMENT), message(s, slot, layout.M_EPOCH)
        if kind == Request.PRODUCE:
            s[layout.R_STATE + argument] = RecordState.UNANSWERED
        else:
            put_message(s, kind, way, 0, argument, epoch)
    s[spent] = int(s[spent]) + 1
    return given > 0


@rule
def on_added(s: State, c: int, p: int) -> None:
    """Handle the response of AddPartitionsToTxn, and send the records that waited for it."""
    set_producer(s, c, layout.ADDED, producer(s, c, layout.ADDED) | 1 << p)
    set_producer(s, c, layout.ADDING, producer(s, c, layout.ADDING) & ~(1 << p))
    if producer(s, c, layout.PHASE) == Phase.OPEN:
        _produce(s, c, p)


@rule
def on_acknowledged(s: State, c: int, r: int) -> None:
    """Record that the leader has acknowledged a record."""
    s[layout.R_STATE + r] = RecordState.ACKNOWLEDGED
    if producer(s, c, layout.PHASE) == Phase.DRAINING:
        _end_drained(s, c)


@rule
def on_ended(s: State, k: Constants, c: int) -> None:
    """Handle the response of EndTxn: the transaction has ended as requested."""
    if producer(s, c, layout.PHASE) == Phase.COMMITTING:
        s[layout.STATUS + producer(s, c, layout.TRANSACTION) - 1] = Status.COMMITTED
    set_producer(s, c, layout.PHASE, Phase.READY)
    set_producer(s, c, layout.TRANSACTION, 0)
    set_producer(s, c, layout.ADDED, 0)
    set_producer(s, c, layout.ADDING, 0)
    if k[K_BUMPS_EPOCH]:
        set_producer(s, c, layout.OWN_EPOCH, int(s[layout.EPOCH]))
        for p in range(layout.MAX_PARTITIONS):
            set_producer(s, c, layout.NEXT + p, 0)


@rule
def fail(s: State, c: int) -> None:
    """End a producer permanently after an error. Its requests in flight may still arrive.

    If the application has not requested a commit, its transaction counts as aborted.
    """
    if not producer(s, c, layout.FENCED):
        s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_REFUSED
        if c > 0:
            s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_SUCCESSOR_REFUSED
    number = producer(s, c, layout.TRANSACTION)
    if int(s[layout.STATUS + number - 1]) == Status.OPEN:
        s[layout.STATUS + number - 1] = Status.ABORTED
    for r in range(int(s[layout.SENT])):
        if int(s[layout.R_TRANSACTION + r]) == number and int(s[layout.R_STATE + r]) in (
            RecordState.QUEUED,
            RecordState.IN_FLIGHT,
            RecordState.UNANSWERED,
        ):
            s[layout.R_STATE + r] = RecordState.DROPPED
    for field in range(layout.PRODUCER):
        set_producer(s, c, field, 0)
    set_producer(s, c, layout.PHASE, Phase.FAILED)
    for slot in range(layout.MAX_MESSAGES):
        if (
            message(s, slot, layout.M_KIND)
            and message(s, slot, layout.M_CONNECTION) == 0
            and message(s, slot, layout.M_WAY) // (layout.MAX_PARTITIONS + 1) == c
        ):
            set_message(s, slot, layout.M_CONNECTION, layout.CLOSED)


@rule
def _request(s: State, c: int, receiver: int, kind: int, argument: int) -> None:
    epoch = producer(s, c, layout.OWN_EPOCH)
    put_message(s, kind, way_of(c, receiver), 0, argument, epoch)


@rule
def _produce(s: State, c: int, p: int) -> None:
    """Send every waiting record of a partition, in order."""
    number = producer(s, c, layout.TRANSACTION)
    for r in range(int(s[layout.SENT])):
        state = int(s[layout.R_STATE + r])
        if (
            int(s[layout.R_TRANSACTION + r]) != number
            or int(s[layout.R_PARTITION + r]) != p
            or state not in (RecordState.QUEUED, RecordState.UNANSWERED)
        ):
            continue
        if state == RecordState.QUEUED:
            s[layout.R_SEQUENCE + r] = producer(s, c, layout.NEXT + p)
            set_producer(s, c, layout.NEXT + p, producer(s, c, layout.NEXT + p) + 1)
        s[layout.R_STATE + r] = RecordState.IN_FLIGHT
        _request(s, c, p, Request.PRODUCE, r)


@rule
def _end_drained(s: State, c: int) -> None:
    """Request the abort of the transaction, if no record waits for a response."""
    if _outstanding(s, producer(s, c, layout.TRANSACTION)) == 0:
        set_producer(s, c, layout.PHASE, Phase.ABORTING)
        _request(s, c, COORDINATOR, Request.END_TXN, 0)


@rule
def _count(s: State, number: int, state: int) -> int:
    """Return the number of a transaction's records in this state."""
    count = 0
    for r in range(int(s[layout.SENT])):
        if int(s[layout.R_TRANSACTION + r]) == number and int(s[layout.R_STATE + r]) == state:
            count += 1
    return count


@rule
def _outstanding(s: State, number: int) -> int:
    return _count(s, number, RecordState.IN_FLIGHT) + _count(s, number, RecordState.UNANSWERED)


@rule
def _has(s: State, c: int, p: int, state: int) -> bool:
    """Return whether the open transaction has a record of this partition in this state."""
    number = producer(s, c, layout.TRANSACTION)
    for r in range(int(s[layout.SENT])):
        if (
            int(s[layout.R_TRANSACTION + r]) == number
            and int(s[layout.R_PARTITION + r]) == p
            and int(s[layout.R_STATE + r]) == state
        ):
            return True
    return False

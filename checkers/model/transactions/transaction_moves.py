"""Every move of the model of transactions, by number."""

from enum import IntEnum

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State, rule, spend_one
from highwater.checkers.model.search.machine import Moves
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_brokers import (
    LATER,
    OK,
    WAIT,
    add_partition,
    append_record,
    complete,
    end_transaction,
    fence,
    forget_producer,
    is_preparing,
    write_marker,
)
from highwater.checkers.model.transactions.transaction_layout import (
    BROKERS_WAY,
    CoordinatorState,
    Phase,
    RecordState,
    Request,
    message,
    producer,
    set_producer,
)
from highwater.checkers.model.transactions.transaction_messages import (
    is_first,
    put_message,
    take_out,
)
from highwater.checkers.model.transactions.transaction_producers import (
    abort,
    begin,
    commit,
    fail,
    give_up,
    on_acknowledged,
    on_added,
    on_ended,
    open_producer,
    retry,
    send,
)
from highwater.checkers.model.transactions.transaction_scope import (
    K_EXPIRIES,
    K_FORGETS,
    K_IN_TURN,
    K_LATE_MARKERS,
    K_OVERDUE,
    TransactionScope,
)


class TransactionMove(IntEnum):
    """The kind of a move; its arguments are a producer, a partition or a message."""

    BEGIN = 0
    SEND = 1
    COMMIT = 2
    ABORT = 3
    RETRY = 4
    GIVE_UP = 5
    ARRIVE = 6
    MARKER = 7
    REPEAT_MARKER = 8
    OPEN_PRODUCER = 9
    EXPIRE = 10
    FORGET = 11


def transaction_moves(scope: TransactionScope) -> Moves:
    """Return every move that a scope allows."""
    rows = []
    for c in range(scope.producers):
        kinds = (TransactionMove.BEGIN, TransactionMove.COMMIT, TransactionMove.ABORT)
        rows += [(kind, c, 0) for kind in kinds]
        for p in range(scope.partitions):
            rows += [
                (TransactionMove.SEND, c, p),
                (TransactionMove.RETRY, c, p),
                (TransactionMove.GIVE_UP, c, p),
            ]
        rows.append((TransactionMove.GIVE_UP, c, layout.COORDINATOR))
        if c:
            rows.append((TransactionMove.OPEN_PRODUCER, c, 0))
    rows += [(TransactionMove.ARRIVE, slot, 0) for slot in range(layout.MAX_MESSAGES)]
    for p in range(scope.partitions):
        rows.append((TransactionMove.MARKER, p, 0))
        rows += [(TransactionMove.REPEAT_MARKER, p, 0)] if scope.late_markers else []
        rows += [(TransactionMove.FORGET, p, 0)] if scope.forgets else []
    rows += [(TransactionMove.EXPIRE, 0, 0)] if scope.expiries else []
    return np.array(rows, dtype=np.int64)


@rule
def is_possible(s: State, k: Constants, kind: int, a: int) -> bool:  # noqa: ARG001 - of all machines
    """Return False if the move delivers a message that does not exist."""
    return kind != TransactionMove.ARRIVE or message(s, a, layout.M_KIND) != 0


@rule
def take(s: State, k: Constants, kind: int, a: int, b: int) -> bool:  # noqa: C901, PLR0911 - one case a move
    """Take a move in place; return False if the move is not possible."""
    if k[K_IN_TURN] and not _is_its_turn(s, kind, a):
        return False
    if kind == TransactionMove.BEGIN:
        return begin(s, k, a)
    if kind == TransactionMove.SEND:
        return send(s, k, a, b)
    if kind == TransactionMove.COMMIT:
        return commit(s, a)
    if kind == TransactionMove.ABORT:
        return abort(s, k, a)
    if kind == TransactionMove.RETRY:
        return retry(s, a, b)
    if kind == TransactionMove.GIVE_UP:
        return give_up(s, k, a, b)
    if kind == TransactionMove.ARRIVE:
        return _arrive(s, k, a)
    if kind == TransactionMove.MARKER:
        return _write(s, k, a)
    if kind == TransactionMove.REPEAT_MARKER:
        return _repeat(s, k, a)
    if kind == TransactionMove.OPEN_PRODUCER:
        return open_producer(s, k, a)
    if kind == TransactionMove.EXPIRE:
        return _expire(s, k)
    return _forget(s, k, a)


@rule
def _is_its_turn(s: State, kind: int, a: int) -> bool:  # noqa: PLR0911 - one for each case
    """Return whether a move is allowed in this state, if the scope has ``in_turn``."""
    controls = _is_awaited(s, Request.ADD_PARTITION, Request.END_TXN)
    if kind == TransactionMove.ARRIVE:
        late = message(s, a, layout.M_CONNECTION) != 0
        return not late or not (is_preparing(s) or controls)
    if kind not in (
        TransactionMove.BEGIN,
        TransactionMove.SEND,
        TransactionMove.COMMIT,
        TransactionMove.ABORT,
        TransactionMove.OPEN_PRODUCER,
        TransactionMove.FORGET,
    ):
        return True
    if controls or _is_awaited(s, Request.PRODUCE, Request.PRODUCE):
        return False
    if kind == TransactionMove.SEND:
        for r in range(int(s[layout.SENT])):
            if int(s[layout.R_STATE + r]) == RecordState.UNANSWERED:
                return False
    if kind == TransactionMove.OPEN_PRODUCER and producer(s, 0, layout.PHASE) != Phase.READY:
        return False
    if kind == TransactionMove.BEGIN and a == 0 and producer(s, 1, layout.PHASE) != Phase.OFF:
        return False
    return kind not in (
        TransactionMove.BEGIN,
        TransactionMove.OPEN_PRODUCER,
        TransactionMove.FORGET,
    ) or not is_preparing(s)


@rule
def _is_awaited(s: State, kind: int, other: int) -> bool:
    """Return whether a producer waits for the response to a request of one of these two kinds."""
    for slot in range(layout.MAX_MESSAGES):
        if message(s, slot, layout.M_KIND) in (kind, other) and not message(
            s, slot, layout.M_CONNECTION
        ):
            return True
    return False


@rule
def _arrive(s: State, k: Constants, slot: int) -> bool:
    """Deliver a request to its broker. If its connection was closed, the response is lost."""
    kind = message(s, slot, layout.M_KIND)
    if kind == 0 or not is_first(s, slot):
        return False
    way, argument = message(s, slot, layout.M_WAY), message(s, slot, layout.M_ARGUMENT)
    epoch, awaited = message(s, slot, layout.M_EPOCH), message(s, slot, layout.M_CONNECTION) == 0
    if kind == Request.PRODUCE:
        if not awaited and not k[K_OVERDUE] and _is_overdue(s, way, argument):
            return False
        answer = append_record(s, k, argument)
    elif kind == Request.ADD_PARTITION:
        answer = add_partition(s, argument, epoch)
    elif kind == Request.MARKER:
        write_marker(s, k, argument >> 1, argument & 1, epoch)
        answer = OK
    else:
        answer = end_transaction(s, k, argument, epoch)
    if answer == LATER:
        if not awaited:
            take_out(s, slot)
        return True
    if answer == WAIT and awaited:
        return False
    take_out(s, slot)
    if awaited:
        _answer(s, k, kind, way // (layout.MAX_PARTITIONS + 1), argument, answer)
    return True


@rule
def _is_overdue(s: State, way: int, r: int) -> bool:
    c = way // (layout.MAX_PARTITIONS + 1)
    return producer(s, c, layout.TRANSACTION) != int(s[layout.R_TRANSACTION + r])


@rule
def _answer(s: State, k: Constants, kind: int, c: int, argument: int, answer: int) -> None:
    if answer != OK:
        fail(s, c)
    elif kind == Request.PRODUCE:
        on_acknowledged(s, c, argument)
    elif kind == Request.ADD_PARTITION:
        on_added(s, c, argument)
    else:
        on_ended(s, k, c)


@rule
def _write(s: State, k: Constants, p: int) -> bool:
    """Append the transaction's marker to a partition."""
    if not is_preparing(s) or not int(s[layout.PENDING]) >> p & 1:
        return False
    commits = int(int(s[layout.STATE]) == CoordinatorState.PREPARE_COMMIT)
    if not write_marker(s, k, p, commits, int(s[layout.EPOCH])):
        return False
    complete(s, p)
    return True


@rule
def _repeat(s: State, k: Constants, p: int) -> bool:
    """Send a marker that will arrive late. The coordinator then sends the marker a second time."""
    number = int(s[layout.LATE_MARKERS]) + 1
    if number > k[K_LATE_MARKERS] or not is_preparing(s):
        return False
    if not int(s[layout.PENDING]) >> p & 1:
        return False
    s[layout.LATE_MARKERS] = number
    commits = int(int(s[layout.STATE]) == CoordinatorState.PREPARE_COMMIT)
    put_message(s, Request.MARKER, BROKERS_WAY, number, p << 1 | commits, int(s[layout.EPOCH]))
    return True


@rule
def _expire(s: State, k: Constants) -> bool:
    """Abort a transaction that has been open for too long (``abortTimedOutTransactions``)."""
    if int(s[layout.STATE]) != CoordinatorState.ONGOING:
        return False
    if not spend_one(s, layout.EXPIRIES, k[K_EXPIRIES]):
        return False
    fence(s, k)
    for c in range(layout.MAX_PRODUCERS):
        if producer(s, c, layout.PHASE) not in (Phase.FAILED, Phase.OFF, Phase.OPENING):
            set_producer(s, c, layout.FENCED, 1)
    return True


@rule
def _forget(s: State, k: Constants, p: int) -> bool:
    return spend_one(s, layout.FORGETS, k[K_FORGETS]) and forget_producer(s, p)

"""The steps of the cluster, of its operator and of its clients, as functions of a state."""

from enum import IntEnum
from itertools import product
from typing import Any, Final

import numpy as np

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.broker_process import (
    checkpoint,
    expire,
    fail_over,
    kill,
    move,
    pause,
    register,
    resume,
    start,
    stop,
    wipe,
)
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.controller import cancel, elect_by_hand, reassign
from highwater.checkers.model.protocol.isr import admit, confirm, lag, shrink
from highwater.checkers.model.protocol.leadership import learn, skip
from highwater.checkers.model.protocol.replica_log import append, least_isr, raise_hw
from highwater.checkers.model.protocol.replication import ask, fetch, propose, receive, truncate
from highwater.checkers.model.protocol.rounds import run, save, shut_down, tell
from highwater.checkers.model.protocol.scope import (
    K_ACKS,
    K_BY_ROUND,
    K_EPOCHS,
    K_RECORDS,
    Scope,
)
from highwater.checkers.model.protocol.state_layout import (
    ProcessState,
    ProducerStatus,
    epoch_of,
    get,
    newest,
    presumes,
    put,
    size,
)


class Move(IntEnum):
    """The kind of a step.

    Kinds up to LAG are commands from outside the cluster. The cluster takes the other steps by
    itself. RUN, TELL and SAVE occur only in a search by rounds (``rounds``); each combines many
    other steps. Kinds after SAVE occur only if the bounds allow batches, failovers, replaced disks,
    delayed ISR requests, reassignments, elections by an operator or interruptions.
    """

    SEND = 0
    KILL = 1
    PAUSE = 2
    RESUME = 3
    START = 4
    STOP = 5
    MOVE = 6
    LAG = 7
    EXPIRE = 8
    REGISTER = 9
    LEARN = 10
    SKIP = 11
    TRUNCATE = 12
    FETCH = 13
    ASK = 14
    RECEIVE = 15
    SHRINK = 16
    CONFIRM = 17
    CHECKPOINT = 18
    RUN = 19
    TELL = 20
    SAVE = 21
    BATCH = 22
    FAILOVER = 23
    WIPE = 24
    PROPOSE = 25
    ADMIT = 26
    REASSIGN = 27
    ELECT = 28
    CANCEL = 29


OF_TWO: Final = frozenset({Move.STOP, Move.EXPIRE, Move.LAG, Move.SHRINK})
ROUNDS: Final = frozenset({Move.RUN, Move.TELL, Move.SAVE})
_MESSAGES: Final = frozenset(range(Move.LEARN, Move.RUN)) | {
    Move.REGISTER,
    Move.LAG,
    Move.PROPOSE,
    Move.ADMIT,
}
_ACKS_ALL = 2


def moves(scope: Scope) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Return every step that the bounds allow, as rows ``(kind, broker, other)``.

    In a round, ``broker`` is a mask of the brokers that run. ``other`` is the successor for STOP
    and EXPIRE (the same broker means no successor), the follower for LAG and SHRINK, and the number
    of records for BATCH. For REASSIGN, ``broker`` is a mask of the new replicas, and ``other`` is
    the preferred replica. For CANCEL, ``broker`` is the leader afterwards, or 0 for no leader.
    """
    kinds = [kind for kind in Move if kind not in (ROUNDS if scope.by == "message" else _MESSAGES)]
    rows = [
        (kind, b, other)
        for kind in kinds
        for b, other in product(_firsts(kind, scope), _seconds(kind, scope))
        if kind not in (Move.LAG, Move.SHRINK) or b != other
        if kind != Move.REASSIGN or (b >> other) & 1
    ]
    spent = dict.fromkeys((Move.LAG, Move.KILL, Move.PAUSE, Move.RESUME), scope.failures)
    spent |= {Move.MOVE: scope.moves, Move.STOP: scope.moves if scope.stops else 0}
    spent |= dict.fromkeys((Move.ASK, Move.RECEIVE), scope.late)
    spent |= {Move.FAILOVER: scope.failovers, Move.WIPE: scope.wipes}
    spent |= dict.fromkeys((Move.PROPOSE, Move.ADMIT), scope.joins)
    spent |= {Move.REASSIGN: scope.reassignments, Move.ELECT: scope.by_hand}
    spent |= {Move.CANCEL: scope.interrupts and scope.reassignments}
    return np.array([row for row in rows if spent.get(row[0], 1)], dtype=np.int8)


def _firsts(kind: Move, scope: Scope) -> range:
    """Return the possible values of ``broker`` in rows of ``moves`` with this kind."""
    if kind in ROUNDS or kind == Move.REASSIGN:
        return range(1, 1 << scope.brokers)
    return range(1 if kind == Move.FAILOVER else scope.brokers)


def _seconds(kind: Move, scope: Scope) -> range:
    if kind == Move.BATCH:
        return range(2, scope.batch + 1)
    return range(scope.brokers if kind in OF_TWO or kind == Move.REASSIGN else 1)


@rule
def send_batch(s: State, k: Constants, b: int, count: int) -> bool:
    """Append records as one batch of a producer (KIP-98). Older releases allow no such batch."""
    first = int(s[layout.SENT])
    if not k[K_EPOCHS] or first + count > k[K_RECORDS]:
        return False
    if get(s, b, layout.LEO) + count > layout.MAX_RECORDS:
        return False
    for record in range(first + 1, first + count):
        s[layout.BATCHED] = int(s[layout.BATCHED]) | 1 << record
    for _ in range(count):
        if not send(s, k, b):
            return False
    return True


@rule
def send(s: State, k: Constants, b: int) -> bool:
    """Append a producer's record at a broker that believes it leads."""
    record = int(s[layout.SENT])
    if record >= k[K_RECORDS] or not presumes(s, b) or get(s, b, layout.LEO) >= layout.MAX_RECORDS:
        return False
    if k[K_ACKS] == _ACKS_ALL and size(get(s, b, layout.VIEW)) < least_isr(s, k, b):
        return False
    if k[K_BY_ROUND] and get(s, b, layout.APPLIED_DECISION) != newest(s):
        return False  # in a search by rounds, a running broker always knows the newest decision
    s[layout.SENT] = record + 1
    if k[K_ACKS] == _ACKS_ALL:
        s[layout.STATUS + record] = ProducerStatus.UNKNOWN
        put(s, b, layout.AWAITED, get(s, b, layout.AWAITED) | 1 << record)
    else:
        s[layout.STATUS + record] = ProducerStatus.ACKNOWLEDGED
    append(s, b, epoch_of(s, b) * 8 + record + 1)
    raise_hw(s, k, b)
    return True


@rule
def possible(s: State, k: Constants, kind: int, b: int) -> bool:  # noqa: ARG001 - as apply
    """Return False if a cheap test shows that ``apply`` would return False.

    The search calls this function before it copies a state.
    """
    if kind >= Move.RUN:
        return True
    process = get(s, b, layout.PROCESS)
    if process >= ProcessState.DEAD:
        return kind in (Move.START, Move.EXPIRE)
    if process == ProcessState.PAUSED:
        return kind in (Move.KILL, Move.RESUME, Move.EXPIRE)
    if kind in (Move.START, Move.RESUME, Move.EXPIRE):
        return False
    applied = get(s, b, layout.APPLIED_DECISION)
    if kind in (Move.LEARN, Move.SKIP):
        return applied != newest(s)
    if kind == Move.CHECKPOINT:
        return get(s, b, layout.DISK) != get(s, b, layout.HW)
    if kind in (Move.TRUNCATE, Move.FETCH, Move.ASK):
        return get(s, b, layout.FETCHER) != 0
    if kind in (Move.SEND, Move.SHRINK, Move.CONFIRM, Move.LAG):
        return get(s, b, layout.VIEW) != 0
    if kind == Move.RECEIVE:
        return get(s, b, layout.ANSWER) != 0
    if kind == Move.REGISTER:
        return (int(s[layout.LIVE]) >> b) & 1 == 0
    return True


@rule
def apply(s: State, k: Constants, kind: int, b: int, other: int) -> bool:
    """Take one step in place. If the step is impossible, return False; ``s`` is then undefined."""
    if Move.RUN <= kind <= Move.SAVE:
        return _round(s, k, kind, b)
    if kind == Move.STOP:
        return shut_down(s, k, b, other)
    return apply_alone(s, k, kind, b, other)


@rule
def apply_alone(s: State, k: Constants, kind: int, b: int, other: int) -> bool:
    """Take one step in place, as ``apply`` does, but no round of several steps.

    A search by messages compiles this function instead of ``apply``.
    """
    if kind > Move.SAVE:
        return _rare(s, k, kind, b, other)
    if kind >= Move.LEARN:
        return _by_itself(s, k, kind, b, other)
    if kind == Move.SEND:
        return send(s, k, b)
    if kind == Move.KILL:
        return kill(s, k, b)
    if kind == Move.PAUSE:
        return pause(s, k, b)
    if kind == Move.RESUME:
        return resume(s, b)
    if kind == Move.START:
        return start(s, k, b)
    if kind == Move.STOP:
        return stop(s, k, b, other)
    if kind == Move.MOVE:
        return move(s, k, b)
    if kind == Move.LAG:
        return lag(s, k, b, other)
    if kind == Move.EXPIRE:
        return expire(s, k, b, other)
    return register(s, k, b)


@rule
def _rare(s: State, k: Constants, kind: int, b: int, other: int) -> bool:
    if kind == Move.BATCH:
        return send_batch(s, k, b, other)
    if kind == Move.FAILOVER:
        return fail_over(s, k)
    if kind == Move.WIPE:
        return wipe(s, k, b)
    if kind == Move.PROPOSE:
        return propose(s, k, b)
    if kind == Move.REASSIGN:
        return reassign(s, k, b, other)
    if kind == Move.ELECT:
        return elect_by_hand(s, k, b)
    if kind == Move.CANCEL:
        return cancel(s, k, b)
    return admit(s, k, b)


@rule
def _round(s: State, k: Constants, kind: int, running: int) -> bool:
    if kind == Move.RUN:
        return run(s, k, running)
    if kind == Move.TELL:
        return tell(s, k, running)
    return save(s, k, running)


@rule
def _by_itself(s: State, k: Constants, kind: int, b: int, other: int) -> bool:
    if kind == Move.LEARN:
        return learn(s, k, b)
    if kind == Move.SKIP:
        return skip(s, k, b)
    if kind == Move.TRUNCATE:
        return truncate(s, k, b)
    if kind == Move.FETCH:
        return fetch(s, k, b)
    if kind == Move.ASK:
        return ask(s, k, b)
    if kind == Move.RECEIVE:
        return receive(s, k, b)
    if kind == Move.SHRINK:
        return shrink(s, k, b, other)
    if kind == Move.CONFIRM:
        return confirm(s, k, b)
    return checkpoint(s, b)


def attempt(s: State, k: Constants, row: tuple[int, int, int]) -> State | None:
    """Return the state after a step from a search under other rules; None if ``k`` forbids it.

    If ``k`` forbids the successor of a STOP or EXPIRE, another broker is elected.
    """
    kind, b, other = row
    for successor in (other, *range(3)) if kind in (Move.STOP, Move.EXPIRE) else (other,):
        after = s.copy()
        if apply(after, k, kind, b, successor):
            return after
    return None

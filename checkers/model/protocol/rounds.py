"""Rounds: some brokers are frozen, and the others run until they are idle.

SIGSTOP can freeze a broker while the others continue. So real brokers can replay a schedule of
commands and rounds, without a proxy that delays messages. But a search by rounds reaches fewer
interleavings than a search by messages.
"""

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.broker_process import register, stop
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.isr import confirm
from highwater.checkers.model.protocol.leadership import learn, skip
from highwater.checkers.model.protocol.replica_log import last_epoch, start_after, told_epoch
from highwater.checkers.model.protocol.replication import (
    clear_answer,
    fetch,
    request,
    take,
    truncate,
)
from highwater.checkers.model.protocol.scope import (
    K_BROKERS,
    K_BY_ROUND,
    K_CUT_ON_FETCH,
    K_KRAFT,
)
from highwater.checkers.model.protocol.state_layout import (
    AnswerKind,
    follows,
    get,
    has_replica,
    is_live,
    is_up,
    leader_of,
    newest,
    put,
)

_LONGEST = 40


@rule
def run(s: State, k: Constants, running: int) -> bool:
    """Let some brokers run until all of them are idle; the other brokers are frozen.

    An idle follower's fetch waits at its leader, so the follower does not know the newest HW yet.
    """
    changed = False
    for _ in range(_LONGEST):
        again = False
        for b in range(k[K_BROKERS]):
            if (running >> b) & 1 and is_up(s, b) and _step(s, k, b, running):
                again = True
        if not again:
            return changed
        changed = True
    return changed


@rule
def shut_down(s: State, k: Constants, b: int, successor: int) -> bool:
    """Shut a broker down cleanly. On KRaft all other brokers then run for a round.

    A KRaft controller lets a leader shut down only when every broker with a session has applied the
    decision (``BrokerHeartbeatManager.calculateNextBrokerState``, ``lowestActiveOffset``). So no
    broker can stay frozen, and a broker that does not run must have lost its session before. Kafka
    lets a broker without leadership shut down at once; the model runs the frozen brokers then, too.
    """
    waits = k[K_BY_ROUND] and k[K_KRAFT]
    if waits and leader_of(s, newest(s)) == b:
        for other in range(k[K_BROKERS]):
            if is_live(s, other) and not is_up(s, other):
                return False
    if not stop(s, k, b, successor):
        return False
    if waits:
        run(s, k, (1 << k[K_BROKERS]) - 1)
    return True


@rule
def tell(s: State, k: Constants, running: int) -> bool:
    """Let leaders respond to the waiting fetches of running brokers, with the leader's HW.

    A decision of the controller reaches a running broker at once, and ends its waiting fetch.
    """
    changed = False
    for b in range(k[K_BROKERS]):
        if (running >> b) & 1 and is_up(s, b) and get(s, b, layout.APPLIED_DECISION) != newest(s):
            return False
        leader = follows(s, b)
        if leader < 0 or leader == b or not (running >> b) & (running >> leader) & 1:
            continue
        if not has_replica(s, b):
            continue
        if is_up(s, b) and not _idle(s, k, b, leader):
            return False
        before = get(s, b, layout.HW)
        if is_up(s, b) and fetch(s, k, b) and get(s, b, layout.HW) != before:
            changed = True
    return changed


@rule
def _idle(s: State, k: Constants, b: int, leader: int) -> bool:
    """Return whether a follower has nothing to fetch or to truncate."""
    leo, last = get(s, b, layout.LEO), last_epoch(s, b)
    if leo != get(s, leader, layout.LEO):
        return False
    if not k[K_CUT_ON_FETCH] or last < 0:
        return True
    return told_epoch(s, k, leader, last) == last and start_after(s, leader, last) >= leo


@rule
def save(s: State, k: Constants, running: int) -> bool:
    """Write the HW of running brokers to disk, as every broker does every few seconds."""
    changed = False
    for b in range(k[K_BROKERS]):
        if (running >> b) & 1 and is_up(s, b) and get(s, b, layout.DISK) != get(s, b, layout.HW):
            put(s, b, layout.DISK, get(s, b, layout.HW))
            changed = True
    return changed


@rule
def _step(s: State, k: Constants, b: int, running: int) -> bool:
    """Take one broker's next step. A resumed broker gets all missed decisions at once."""
    if register(s, k, b) or skip(s, k, b) or learn(s, k, b) or confirm(s, k, b):
        return True
    leader = follows(s, b)
    if leader < 0 or leader == b or not (running >> leader) & 1:
        return False
    return truncate(s, k, b) or _fetch(s, k, b, leader)


@rule
def _fetch(s: State, k: Constants, b: int, leader: int) -> bool:
    """Fetch from the leader. Without new records the fetch waits, but the leader stores the LEO."""
    leo, last = get(s, b, layout.LEO), last_epoch(s, b)
    remote_leo = get(s, leader, layout.REMOTE + b)
    view, hw = get(s, leader, layout.VIEW), get(s, leader, layout.HW)
    if not request(s, k, b):
        return False
    kind = get(s, b, layout.ANSWER)
    if kind == 0 or (kind == AnswerKind.RECORDS and get(s, b, layout.ANSWER_COUNT) == 0):
        clear_answer(s, b)
        return (
            get(s, b, layout.LEO) != leo
            or not is_up(s, b)
            or get(s, leader, layout.REMOTE + b) != remote_leo
            or get(s, leader, layout.VIEW) != view
            or get(s, leader, layout.HW) != hw
        )
    take(s, k, b)
    return kind == AnswerKind.RECORDS or get(s, b, layout.LEO) != leo or last_epoch(s, b) != last

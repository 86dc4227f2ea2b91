"""A broker's process and session: kill, pause, stop, start, and their effects."""

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.controller import elect, lose, welcome
from highwater.checkers.model.protocol.scope import K_FAILURES, K_MOVES
from highwater.checkers.model.protocol.state_layout import (
    ANSWER,
    APPLIED_DECISION,
    AWAITED,
    BLOCK,
    DISK,
    ELECTED,
    FAILURES,
    FETCHER,
    HW,
    LATE_JOINERS,
    LEO,
    LIVE,
    MOVES,
    PENDING,
    PROCESS,
    REMOTE,
    VIEW,
    ProcessState,
    get,
    is_live,
    is_up,
    isr_of,
    leader_of,
    newest,
    put,
)

_UP = int(ProcessState.UP)
_PAUSED = int(ProcessState.PAUSED)
_DEAD = int(ProcessState.DEAD)
_STOPPED = int(ProcessState.STOPPED)


@rule
def crash(s: State, b: int, end: int) -> None:
    """Kill a process. Its log stays whole (the page cache outlives it), its HW as on disk."""
    put(s, b, PROCESS, end)
    put(s, b, HW, min(get(s, b, DISK), get(s, b, LEO)))
    put(s, b, APPLIED_DECISION, -1)
    put(s, b, ELECTED, 0)  # Log drops the epochs that begin at its end when it is opened
    for field in (FETCHER, VIEW, PENDING, AWAITED, REMOTE, REMOTE + 1, REMOTE + 2):
        put(s, b, field, 0)
    for field in range(ANSWER, BLOCK):
        put(s, b, field, 0)


@rule
def _spend_failure(s: State, k: Constants) -> bool:
    if s[FAILURES] >= k[K_FAILURES]:
        return False
    s[FAILURES] = int(s[FAILURES]) + 1
    return True


@rule
def _spend_move(s: State, k: Constants) -> bool:
    if s[MOVES] >= k[K_MOVES]:
        return False
    s[MOVES] = int(s[MOVES]) + 1
    return True


@rule
def kill(s: State, k: Constants, b: int) -> bool:
    """SIGKILL."""
    if get(s, b, PROCESS) not in (_UP, _PAUSED) or not _spend_failure(s, k):
        return False
    crash(s, b, _DEAD)
    return True


@rule
def pause(s: State, k: Constants, b: int) -> bool:
    """SIGSTOP: it does nothing, and messages to it wait."""
    if not is_up(s, b) or not _spend_failure(s, k):
        return False
    put(s, b, PROCESS, _PAUSED)
    return True


@rule
def resume(s: State, b: int) -> bool:
    """SIGCONT: it continues where it was, without knowing what it has missed."""
    if get(s, b, PROCESS) != _PAUSED:
        return False
    put(s, b, PROCESS, _UP)
    return True


@rule
def expire(s: State, k: Constants, b: int, successor: int) -> bool:
    """End the session of a broker that is dead or paused: the controller gives it up."""
    if not is_live(s, b) or is_up(s, b):
        return False
    s[LATE_JOINERS] = int(s[LATE_JOINERS]) | (1 << b)
    return lose(s, k, b, successor)


@rule
def start(s: State, k: Constants, b: int) -> bool:
    """Start a broker on its data; its old session must be over. It registers."""
    process = get(s, b, PROCESS)
    if process not in (_DEAD, _STOPPED) or is_live(s, b):
        return False
    put(s, b, PROCESS, _UP)
    welcome(s, k, b, process == _DEAD)
    return True


@rule
def register(s: State, k: Constants, b: int) -> bool:
    """Give a new session to a broker that was paused for longer than its session."""
    if not is_up(s, b) or is_live(s, b):
        return False
    welcome(s, k, b, False)
    return True


@rule
def stop(s: State, k: Constants, b: int, successor: int) -> bool:
    """Stop a broker in order: leadership moves first, the HW is written to disk last."""
    if not is_up(s, b) or not is_live(s, b) or not _spend_move(s, k):
        return False
    s[LATE_JOINERS] = int(s[LATE_JOINERS]) | (1 << b)
    if not lose(s, k, b, successor):
        return False
    put(s, b, DISK, get(s, b, HW))
    crash(s, b, _STOPPED)
    return True


@rule
def move(s: State, k: Constants, b: int) -> bool:
    """Elect a live member of the ISR by plan, though the old leader is well."""
    last = newest(s)
    leader = leader_of(s, last)
    if leader < 0 or leader == b or not is_live(s, leader) or not is_up(s, b):
        return False
    if not ((isr_of(s, last) & int(s[LIVE])) >> b) & 1 or not _spend_move(s, k):
        return False
    elect(s, k, b)
    return True


@rule
def checkpoint(s: State, b: int) -> bool:
    """Write a broker's HW to disk, as it does every few seconds."""
    if not is_up(s, b) or get(s, b, DISK) == get(s, b, HW):
        return False
    put(s, b, DISK, get(s, b, HW))
    return True

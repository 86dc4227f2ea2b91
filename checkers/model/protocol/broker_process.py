"""Kill, pause, stop and start a broker's process, with the effects on its session and replica."""

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule, spend_one
from highwater.checkers.model.protocol.controller import elect, lose, welcome
from highwater.checkers.model.protocol.scope import (
    K_DECISIONS_LOGGED,
    K_FAILOVERS,
    K_FAILURES,
    K_MOVES,
    K_WIPES,
)
from highwater.checkers.model.protocol.state_layout import (
    ProcessState,
    get,
    is_live,
    is_up,
    isr_of,
    joiner,
    leader_of,
    newest,
    put,
    spend,
)


@rule
def crash(s: State, b: int, end: int) -> None:
    """Kill a broker's process; ``end`` is the state of the process afterwards.

    The page cache keeps the complete log. The HW falls back to the HW on the broker's disk.
    """
    put(s, b, layout.PROCESS, end)
    if joiner(s, b):
        s[layout.JOIN] = 0
    put(s, b, layout.HW, min(get(s, b, layout.DISK), get(s, b, layout.LEO)))
    put(s, b, layout.APPLIED_DECISION, -1)
    for field in range(layout.FETCHER, layout.BLOCK):
        # also ELECTED: at its start, Log drops an epoch that begins at the log's end
        put(s, b, field, 0)


@rule
def fail_over(s: State, k: Constants) -> bool:
    """Replace the controller; return False if this changes nothing.

    With ZooKeeper, the decisions that the dead controller had not sent are lost: its queue for each
    broker is in memory (``ControllerChannelManager``), and the next controller sends only the
    newest state. This matters only if a broker lacks two or more decisions. With KRaft no decision
    is lost.
    """
    if k[K_DECISIONS_LOGGED] or not spend(s, 0, k[K_FAILOVERS]):
        return False
    for b in range(layout.MAX_BROKERS):
        applied = get(s, b, layout.APPLIED_DECISION)
        if applied >= 0 and max(applied + 1, int(s[layout.DELIVERS])) < newest(s):
            s[layout.DELIVERS] = newest(s)
            return True
    return False


@rule
def wipe(s: State, k: Constants, b: int) -> bool:
    """Replace a broker's disk by an empty disk. The broker must be down and not in the ISR."""
    keeps = isr_of(s, newest(s)) | int(s[layout.ELR])
    if get(s, b, layout.PROCESS) not in (ProcessState.DEAD, ProcessState.STOPPED):
        return False
    if is_live(s, b) or (keeps >> b) & 1 or not get(s, b, layout.LEO):
        return False
    if not spend(s, 2, k[K_WIPES]):
        return False
    for field in range(layout.PROCESS):
        put(s, b, field, 0)
    # an empty disk has no file that marks a clean shutdown
    put(s, b, layout.PROCESS, ProcessState.DEAD)
    return True


@rule
def kill(s: State, k: Constants, b: int) -> bool:
    """Kill a broker (SIGKILL)."""
    if get(s, b, layout.PROCESS) not in (
        ProcessState.UP,
        ProcessState.PAUSED,
    ) or not spend_one(s, layout.FAILURES, k[K_FAILURES]):
        return False
    crash(s, b, ProcessState.DEAD)
    return True


@rule
def pause(s: State, k: Constants, b: int) -> bool:
    """Pause a broker (SIGSTOP): the broker does nothing, and messages to it wait."""
    if not is_up(s, b) or not spend_one(s, layout.FAILURES, k[K_FAILURES]):
        return False
    put(s, b, layout.PROCESS, ProcessState.PAUSED)
    return True


@rule
def resume(s: State, b: int) -> bool:
    """Resume a broker (SIGCONT). It does not yet know the decisions that were made meanwhile."""
    if get(s, b, layout.PROCESS) != ProcessState.PAUSED:
        return False
    put(s, b, layout.PROCESS, ProcessState.UP)
    return True


@rule
def expire(s: State, k: Constants, b: int, successor: int) -> bool:
    """End the session of a broker that is dead or paused; ``successor`` takes its leadership."""
    if not is_live(s, b) or is_up(s, b):
        return False
    s[layout.LATE_JOINERS] = int(s[layout.LATE_JOINERS]) | (1 << b)
    return lose(s, k, b, successor)


@rule
def start(s: State, k: Constants, b: int) -> bool:
    """Start a broker with its data, and register it. Its previous session must have ended."""
    process = get(s, b, layout.PROCESS)
    if process not in (ProcessState.DEAD, ProcessState.STOPPED) or is_live(s, b):
        return False
    put(s, b, layout.PROCESS, ProcessState.UP)
    welcome(s, k, b, process == ProcessState.DEAD)
    return True


@rule
def register(s: State, k: Constants, b: int) -> bool:
    """Give a new session to a broker whose pause was longer than its session timeout."""
    if not is_up(s, b) or is_live(s, b):
        return False
    welcome(s, k, b, False)
    return True


@rule
def stop(s: State, k: Constants, b: int, successor: int) -> bool:
    """Shut a broker down cleanly: move its leadership, then write its HW to disk."""
    if not is_up(s, b) or not is_live(s, b) or not spend_one(s, layout.MOVES, k[K_MOVES]):
        return False
    s[layout.LATE_JOINERS] = int(s[layout.LATE_JOINERS]) | (1 << b)
    if not lose(s, k, b, successor):
        return False
    put(s, b, layout.DISK, get(s, b, layout.HW))
    crash(s, b, ProcessState.STOPPED)
    return True


@rule
def move(s: State, k: Constants, b: int) -> bool:
    """Elect a live member of the ISR on request, although the old leader is alive."""
    last = newest(s)
    leader = leader_of(s, last)
    if leader < 0 or leader == b or not is_live(s, leader) or not is_up(s, b):
        return False
    if not ((isr_of(s, last) & int(s[layout.LIVE])) >> b) & 1 or not spend_one(
        s, layout.MOVES, k[K_MOVES]
    ):
        return False
    elect(s, k, b)
    return True


@rule
def checkpoint(s: State, b: int) -> bool:
    """Write a broker's HW to disk, as every broker does every few seconds."""
    if not is_up(s, b) or get(s, b, layout.DISK) == get(s, b, layout.HW):
        return False
    put(s, b, layout.DISK, get(s, b, layout.HW))
    return True

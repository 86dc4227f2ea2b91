"""Invariants of every state: guarantees to clients, and conditions of the protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.scope import K_BATCH, K_BROKERS
from highwater.checkers.model.protocol.state_layout import (
    Fetcher,
    ProducerStatus,
    get,
    is_live,
    is_up,
    isr_of,
    leader_of,
    newest,
    presumes,
    replicas_of,
)


@rule
def established(s: State) -> int:
    """Return the last elected leader; -1 if it does not run, or does not know its election."""
    leader = leader_of(s, newest(s))
    if leader < 0 or not is_up(s, leader) or get(s, leader, layout.APPLIED_DECISION) != newest(s):
        return -1
    return leader


@rule
def _holds(s: State, b: int, record: int) -> bool:
    for position in range(get(s, b, layout.LEO)):
        if (get(s, b, layout.LOG + position) & 7) - 1 == record:
            return True
    return False


@rule
def acked_kept(s: State, k: Constants) -> bool:
    """The leader holds every acknowledged record."""
    leader = established(s)
    if leader >= 0:
        for record in range(int(s[layout.SENT])):
            if s[layout.STATUS + record] == ProducerStatus.ACKNOWLEDGED and not _holds(
                s, leader, record
            ):
                return False
    return True


@rule
def read_kept(s: State, k: Constants) -> bool:
    """The leader holds every record that a consumer has read."""
    leader = established(s)
    if leader >= 0:
        for offset in range(layout.MAX_RECORDS):
            if s[layout.READ + offset] and not _holds(s, leader, int(s[layout.READ + offset]) - 1):
                return False
    return True


@rule
def read_once(s: State, k: Constants) -> bool:
    """No consumer reads two records at one offset."""
    return int(s[layout.FLAGS]) & layout.FLAG_REREAD == 0


@rule
def _same_to(s: State, a: int, b: int, end: int) -> bool:
    for position in range(end):
        if get(s, a, layout.LOG + position) != get(s, b, layout.LOG + position):
            return False
    return True


@rule
def agree_below_hw(s: State, k: Constants) -> bool:
    """Two replicas hold the same records below the high watermarks of both."""
    for a in range(k[K_BROKERS]):
        for b in range(a):
            if not _same_to(s, a, b, min(get(s, a, layout.HW), get(s, b, layout.HW))):
                return False
    return True


@rule
def at_rest(s: State, k: Constants) -> bool:
    """Return whether every replica runs, is in the ISR, and has fetched and committed all."""
    leader = established(s)
    everybody = replicas_of(s, newest(s))
    if leader < 0 or get(s, leader, layout.VIEW) != everybody or isr_of(s, newest(s)) != everybody:
        return False
    end = get(s, leader, layout.LEO)
    for b in range(k[K_BROKERS]):
        if not is_up(s, b) or get(s, b, layout.APPLIED_DECISION) != newest(s):
            return False
        if not (everybody >> b) & 1:
            continue
        if get(s, b, layout.ANSWER):
            return False
        if get(s, b, layout.LEO) != end or get(s, b, layout.HW) != end:
            return False
        if b != leader and get(s, leader, layout.REMOTE + b) != end:
            return False
    return True


@rule
def agree_at_rest(s: State, k: Constants) -> bool:
    """When all replicas are in sync, their logs are equal."""
    if at_rest(s, k):
        leader = established(s)
        for b in range(k[K_BROKERS]):
            if (replicas_of(s, newest(s)) >> b) & 1 and not _same_to(
                s, leader, b, get(s, leader, layout.LEO)
            ):
                return False
    return True


@rule
def leader_in_isr(s: State, k: Constants) -> bool:
    """The leader that the controller names is in the controller's ISR."""
    leader = leader_of(s, newest(s))
    return leader < 0 or (isr_of(s, newest(s)) >> leader) & 1 == 1


@rule
def leader_live(s: State, k: Constants) -> bool:
    """The leader that the controller names has a session."""
    leader = leader_of(s, newest(s))
    return leader < 0 or is_live(s, leader)


@rule
def _isr_holds(s: State, k: Constants, leader: int, isr: int) -> bool:
    isr &= replicas_of(s, newest(s))  # a broker without a replica may have deleted the log
    for b in range(k[K_BROKERS]):
        if (isr >> b) & 1 and not _same_to(s, leader, b, get(s, leader, layout.HW)):
            return False
    return True


@rule
def weak_isr(s: State, k: Constants) -> bool:
    """If a broker believes that it leads, its own ISR has all records below its HW."""
    for b in range(k[K_BROKERS]):
        if presumes(s, b) and not _isr_holds(s, k, b, get(s, b, layout.VIEW)):
            return False
    return True


@rule
def strong_isr(s: State, k: Constants) -> bool:
    """If a broker believes that it leads, the controller's ISR has all records below its HW."""
    for b in range(k[K_BROKERS]):
        if presumes(s, b) and not _isr_holds(s, k, b, isr_of(s, newest(s))):
            return False
    return True


@rule
def log_matching(s: State, k: Constants) -> bool:
    """Two logs with the same epoch at an offset are equal up to that offset."""
    for a in range(k[K_BROKERS]):
        for b in range(a):
            for position in range(min(get(s, a, layout.LEO), get(s, b, layout.LEO)) - 1, -1, -1):
                if get(s, a, layout.LOG + position) >> 3 == get(s, b, layout.LOG + position) >> 3:
                    if not _same_to(s, a, b, position + 1):
                        return False
                    break
    return True


@rule
def gapless(s: State, k: Constants) -> bool:
    """Every replica holds a record at each offset below its LEO."""
    for b in range(k[K_BROKERS]):
        for position in range(get(s, b, layout.LEO)):
            if get(s, b, layout.LOG + position) & 7 == 0:
                return False
    return True


@rule
def fetches_on(s: State, k: Constants) -> bool:
    """No follower's fetcher has ended for good."""
    for b in range(k[K_BROKERS]):
        if get(s, b, layout.FETCHER) == Fetcher.ENDED:
            return False
    return True


@rule
def type_ok(s: State, k: Constants) -> bool:
    """Every value of a state is in its range."""
    for b in range(k[K_BROKERS]):
        hw, leo = get(s, b, layout.HW), get(s, b, layout.LEO)
        decided = -1 <= get(s, b, layout.APPLIED_DECISION) <= newest(s)
        if not 0 <= hw <= leo <= layout.MAX_RECORDS or not decided:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition that must hold in every state.

    Attributes:
        bit: the invariant's bit in the mask that ``broken`` returns.
        says: the invariant as a sentence.
        promise: True if clients rely on the invariant; False if only the protocol relies on it.
    """

    bit: int
    says: str
    promise: bool


def invariants_of(
    promises: Sequence[Callable[..., bool]], needs: Sequence[Callable[..., bool]] = ()
) -> Mapping[str, Invariant]:
    """Return invariants by name; the docstring of each rule is the invariant as a sentence.

    Args:
        promises: the invariants on which clients rely.
        needs: the invariants on which only the protocol relies.
    """
    return MappingProxyType(
        {
            function.__name__.replace("_", "-"): Invariant(
                bit=bit, says=function.__doc__ or "", promise=function in promises
            )
            for bit, function in enumerate((*promises, *needs))
        }
    )


INVARIANTS: Final = invariants_of(
    promises=(acked_kept, agree_below_hw, agree_at_rest, read_once, read_kept),
    needs=(
        leader_in_isr,
        weak_isr,
        strong_isr,
        log_matching,
        type_ok,
        leader_live,
        gapless,
        fetches_on,
    ),
)

_ALL: Final = (1 << len(INVARIANTS)) - 1


@rule
def overflowed(s: State) -> bool:
    """Return whether the controller made more decisions than the state can store."""
    return int(s[layout.FLAGS]) & layout.FLAG_OVERFLOW != 0


@rule
def broken(s: State, k: Constants) -> int:
    """Return the invariants that a state breaks, as a mask of their bits.

    A state without space for its decisions breaks all invariants.
    """
    if overflowed(s):
        return _ALL
    return (
        (0 if acked_kept(s, k) else 1)
        | (0 if agree_below_hw(s, k) else 2)
        | (0 if agree_at_rest(s, k) else 4)
        | (0 if read_once(s, k) else 8)
        | (0 if read_kept(s, k) else 16)
        | (0 if leader_in_isr(s, k) else 32)
        | (0 if weak_isr(s, k) else 64)
        | (0 if strong_isr(s, k) else 128)
        | (0 if log_matching(s, k) else 256)
        | (0 if type_ok(s, k) else 512)
        | (0 if leader_live(s, k) else 1024)
        | (0 if k[K_BATCH] == 1 or gapless(s, k) else 2048)
        | (0 if k[K_BATCH] == 1 or fetches_on(s, k) else 4096)
    )

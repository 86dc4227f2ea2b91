"""The controller's decisions: leader and ISR, as brokers leave and come back."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.state_layout import isr_of, leader_of, newest, size


@rule
def decide(s: State, leader: int, isr: int, bump: int) -> None:
    """Write a decision: leader (-1 for none), ISR, and whether the leader epoch rises."""
    last = newest(s)
    if last + 1 >= layout.MAX_DECISIONS:
        s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_OVERFLOW
        return
    s[layout.DECISION + last + 1] = (layout.NOBODY if leader < 0 else leader) | (isr << 2)
    s[layout.EPOCH + last + 1] = int(s[layout.EPOCH + last]) + bump
    s[layout.DECISIONS] = last + 2


@rule
def eligible(s: State, k: Constants) -> int:
    """Return who may be elected: the live ISR, else the live ELR, else the last leader, else any.

    The ELR and the last known leader count from KIP-966 on; any broker only in unclean elections.
    """
    live = int(s[layout.LIVE])
    clean = isr_of(s, newest(s)) & live
    if not clean and k[scope.K_ELR]:
        elr = int(s[layout.ELR])
        clean = elr & live
        if not clean and isr_of(s, newest(s)) == 0 and elr == 0 and s[layout.LAST_LEADER]:
            clean = 1 << (int(s[layout.LAST_LEADER]) - 1)
            if k[scope.K_LAST_LEADER_ALIVE]:
                clean &= live
    if not clean and k[scope.K_UNCLEAN]:
        return live
    return clean


@rule
def keep_eligible(s: State, k: Constants, before: int, after: int) -> None:
    """Keep the brokers that left an ISR smaller than min.insync.replicas eligible (KIP-966)."""
    if not k[scope.K_ELR]:
        return
    if size(after) >= min(k[scope.K_MIN_ISR], k[scope.K_BROKERS]):
        s[layout.ELR] = 0
    else:
        s[layout.ELR] = (int(s[layout.ELR]) | before) & ~after & 7


@rule
def elect(s: State, k: Constants, chosen: int) -> None:
    """Make an eligible broker the leader; those of the ISR that are not alive leave it."""
    before = isr_of(s, newest(s))
    in_sync = (before >> chosen) & 1
    isr = (before & int(s[layout.LIVE])) | (1 << chosen) if in_sync else 1 << chosen
    if in_sync or (int(s[layout.ELR]) >> chosen) & 1:
        keep_eligible(s, k, before, isr)
    else:
        s[layout.ELR] = 0  # the election is unclean: nobody is known to have everything
    s[layout.LAST_LEADER] = 0
    decide(s, chosen, isr, 1)


@rule
def lose(s: State, k: Constants, b: int, successor: int) -> bool:
    """End a broker's session: it leaves the ISR, and ``successor`` gets its leadership.

    Args:
        successor: ``b`` for no choice. False when the choice is not possible.
    """
    s[layout.LIVE] = int(s[layout.LIVE]) & ~(1 << b) & 7
    last = newest(s)
    leader, before = leader_of(s, last), isr_of(s, last)
    if leader != b:
        if successor != b:
            return False
        after = before & ~(1 << b) & 7
        if after and after != before:
            keep_eligible(s, k, before, after)
            decide(s, leader, after, int(k[scope.K_REMOVAL_BUMPS_EPOCH]))
        elif after != before and k[scope.K_ELR]:
            keep_eligible(s, k, before, 0)
            decide(s, leader, 0, 0)
        return True
    if successor != b:
        if not (eligible(s, k) >> successor) & 1:
            return False
        elect(s, k, successor)
        return True
    if eligible(s, k):
        return False
    _orphan(s, k, b, before)
    return True


@rule
def _orphan(s: State, k: Constants, b: int, before: int) -> None:
    """Take the last broker from the ISR: no leader. It stays ISR or becomes ELR (KIP-966)."""
    if k[scope.K_ELR]:
        keep_eligible(s, k, before, 0)
        s[layout.LAST_LEADER] = b + 1
        decide(s, -1, 0, 1)
    else:
        decide(s, -1, 1 << b, 1)


@rule
def welcome(s: State, k: Constants, b: int, killed: bool) -> None:
    """Begin a broker's session: it is elected if it may be and there is no leader."""
    s[layout.LIVE] = int(s[layout.LIVE]) | (1 << b)
    if s[layout.JOIN] and (int(s[layout.JOIN]) >> 3) & 3 == b:
        s[layout.JOIN] = int(s[layout.JOIN]) | layout.STALE
    if k[scope.K_ELR] and killed and k[scope.K_UNCLEAN_START_LEAVES]:
        s[layout.ELR] = int(s[layout.ELR]) & ~(1 << b) & 7  # it may lack what it had not flushed
    if leader_of(s, newest(s)) < 0:
        candidates = eligible(s, k)
        if (candidates >> b) & 1:
            elect(s, k, b)
        elif candidates and not candidates & int(s[layout.LIVE]):
            elect(s, k, int(s[layout.LAST_LEADER]) - 1)  # though it is dead: KAFKA-19522

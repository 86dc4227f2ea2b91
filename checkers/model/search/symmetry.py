"""Canonical states: states that differ only in broker numbers or in known decisions are equal."""

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, copy_state, rule
from highwater.checkers.model.protocol.scope import K_BROKERS
from highwater.checkers.model.protocol.state_layout import (
    adding,
    block,
    get,
    isr_of,
    leader_of,
    newest,
    put,
    removing,
    replicas_of,
    set_replicas,
    signed,
)

_MASK = 0x3FFFFFFFFFFFFFFF
_REASSIGNMENTS = 192
"""The bits of the state's field SPENT that count reassignments."""
_REMOTE = layout.REMOTE
_NAMING = (layout.VIEW, layout.PENDING, _REMOTE, _REMOTE + 1, _REMOTE + 2, layout.ANSWER_FROM)
"""Fields of a broker's block whose values are broker numbers or masks of brokers."""


@rule
def canonical(s: State, out: State, k: Constants) -> None:
    """Write ``s`` to ``out`` without old decisions, and with its brokers in a canonical order.

    Brokers are ordered by their ``signature``. The order of two brokers with equal signatures is
    arbitrary. So the search may visit a state twice, but never misses a state.
    """
    n = int(k[K_BROKERS])
    copy_state(s, out)
    _forget(out, n)
    a, b, c = signature(out, 0), signature(out, 1), signature(out, 2)
    first, second, third = 0, 1, 2
    if b < a:
        first, second, a, b = second, first, b, a
    if n > 2:  # noqa: PLR2004 - the third of three
        if c < b:
            second, third, b, c = third, second, c, b
        if b < a:
            first, second = second, first
    if first == 0 and second == 1:
        return
    rename(out, n, first, second, third)


@rule
def signature(s: State, b: int) -> int:
    """Return a number for a broker's state that does not depend on broker numbers."""
    mixed = 0
    for field in range(layout.BLOCK):
        if field not in _NAMING:
            mixed = (mixed * 31 + get(s, b, field) + 2) & _MASK
    last = newest(s)
    facts = (int(s[layout.LIVE]) >> b) & 1 | ((int(s[layout.ELR]) >> b) & 1) << 1
    facts |= ((int(s[layout.LATE_JOINERS]) >> b) & 1) << 2 | ((isr_of(s, last) >> b) & 1) << 3
    facts |= int(int(s[layout.LAST_LEADER]) == b + 1) << 4
    for decision in range(last + 1):
        facts = facts * 2 + int(leader_of(s, decision) == b)
    if int(s[layout.SPENT]) & _REASSIGNMENTS:
        for decision in range(last + 1):
            facts = (facts * 2 + ((replicas_of(s, decision) >> b) & 1)) & _MASK
        first = (int(s[layout.REASSIGNED]) >> 6) & 3
        facts = facts * 2 + int(first == b + 1)
        facts = facts * 4 + ((removing(s) >> b) & 1) * 2 + ((adding(s) >> b) & 1)
    if s[layout.JOIN]:
        join = int(s[layout.JOIN])
        mixed = mixed * 4 + int((join >> 1) & 3 == b) * 2 + int((join >> 3) & 3 == b)
    return (mixed * 31 + facts) & _MASK


@rule
def _forget(s: State, n: int) -> None:
    """Drop the controller's decisions that every broker has applied or will never get."""
    oldest = newest(s)
    for b in range(n):
        applied = get(s, b, layout.APPLIED_DECISION)
        if 0 <= applied < oldest:
            oldest = applied
    if s[layout.DELIVERS]:
        _forget_failover(s, n)
    if oldest == 0:
        return
    s[layout.DELIVERS] = max(0, int(s[layout.DELIVERS]) - oldest)
    for decision in range(layout.MAX_DECISIONS):
        later = decision + oldest
        here = later < int(s[layout.DECISIONS])
        s[layout.DECISION + decision] = s[layout.DECISION + later] if here else 0
        s[layout.EPOCH + decision] = s[layout.EPOCH + later] if here else 0
    s[layout.DECISIONS] = int(s[layout.DECISIONS]) - oldest
    for b in range(n):
        if get(s, b, layout.APPLIED_DECISION) >= 0:
            put(s, b, layout.APPLIED_DECISION, get(s, b, layout.APPLIED_DECISION) - oldest)


@rule
def _forget_failover(s: State, n: int) -> None:
    """Clear ``DELIVERS`` if no broker can still miss a decision because of the failover."""
    for b in range(n):
        applied = get(s, b, layout.APPLIED_DECISION)
        if 0 <= applied < int(s[layout.DELIVERS]) - 1:
            return
    s[layout.DELIVERS] = 0


@rule
def _renamed(mask: int, first: int, second: int, third: int) -> int:
    return (mask >> first) & 1 | ((mask >> second) & 1) << 1 | ((mask >> third) & 1) << 2


@rule
def _place(b: int, first: int, second: int) -> int:
    """Return the new number of broker ``b`` after brokers are renamed."""
    if b == first:
        return 0
    return 1 if b == second else 2


@rule
def rename(s: State, n: int, first: int, second: int, third: int) -> None:
    """Rename broker ``first`` to 0, ``second`` to 1 and ``third`` to 2, in place."""
    for decision in range(int(s[layout.DECISIONS])):
        leader = leader_of(s, decision)
        isr = _renamed(isr_of(s, decision), first, second, third)
        replicas = _renamed(replicas_of(s, decision), first, second, third)
        s[layout.DECISION + decision] = (
            layout.NO_LEADER if leader < 0 else _place(leader, first, second)
        ) | isr << 2
        set_replicas(s, decision, replicas)
    for field in (layout.LIVE, layout.ELR, layout.LATE_JOINERS):
        s[field] = _renamed(int(s[field]), first, second, third)
    if s[layout.LAST_LEADER]:
        s[layout.LAST_LEADER] = _place(int(s[layout.LAST_LEADER]) - 1, first, second) + 1
    if s[layout.JOIN]:
        join = int(s[layout.JOIN])
        leader = _place((join >> 1) & 3, first, second)
        follower = _place((join >> 3) & 3, first, second)
        s[layout.JOIN] = (join & ~30) | leader << 1 | follower << 3
    if s[layout.REASSIGNED]:
        preferred = (int(s[layout.REASSIGNED]) >> 6) & 3
        goes = _renamed(removing(s), first, second, third)
        comes = _renamed(adding(s), first, second, third)
        place = _place(preferred - 1, first, second) + 1 if preferred else 0
        s[layout.REASSIGNED] = signed(goes | comes << 3 | place << 6)
    old = s[layout.BLOCKS : layout.BLOCKS + 3 * layout.BLOCK].copy()
    for b in range(n):
        source = first if b == 0 else (second if b == 1 else third)
        first_field = source * layout.BLOCK
        for field in range(layout.BLOCK):
            s[block(b) + field] = old[first_field + field]
        put(s, b, layout.VIEW, _renamed(get(s, b, layout.VIEW), first, second, third))
        put(s, b, layout.PENDING, _renamed(get(s, b, layout.PENDING), first, second, third))
        for other in range(n):
            named = first if other == 0 else (second if other == 1 else third)
            put(s, b, layout.REMOTE + other, int(old[first_field + layout.REMOTE + named]))
        if get(s, b, layout.ANSWER):
            put(s, b, layout.ANSWER_FROM, _place(get(s, b, layout.ANSWER_FROM), first, second))

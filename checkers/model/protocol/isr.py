"""Changes of the ISR: a leader asks the controller to add or to remove a follower."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule, spend_one
from highwater.checkers.model.protocol.controller import complete, keep_eligible
from highwater.checkers.model.protocol.replica_log import raise_hw, start_after
from highwater.checkers.model.protocol.state_layout import (
    epoch_of,
    get,
    is_live,
    is_up,
    isr_of,
    joiner,
    leader_of,
    newest,
    presumes,
    put,
    replicas_of,
    set_isr,
)


@rule
def progress(s: State, k: Constants, leader: int, b: int) -> None:
    """Store a follower's LEO at its leader. The leader may then extend the ISR and raise its HW."""
    leo = get(s, b, layout.LEO)
    put(s, leader, layout.REMOTE + b, leo)
    if not (get(s, leader, layout.VIEW) >> b) & 1 and _may_join(s, k, leader, b, leo):
        _grow(s, k, leader, b)
    raise_hw(s, k, leader)


@rule
def _may_join(s: State, k: Constants, leader: int, b: int, leo: int) -> bool:
    """Return whether a follower has caught up enough to join the ISR."""
    if get(s, leader, layout.PENDING) or joiner(s, leader) or leo < get(s, leader, layout.HW):
        return False
    if k[scope.K_LIVE_JOINS_ONLY] and not is_live(s, b):
        return False
    if not k[scope.K_JOIN_FROM_EPOCH_START]:
        return True
    return leo >= start_after(s, leader, epoch_of(s, leader) - 1)


@rule
def _may_write(s: State, leader: int) -> bool:
    """Return whether a leader knows the newest decision, which it needs to change the ISR.

    Kafka checks this by the zkVersion or the partition epoch.
    """
    decision = get(s, leader, layout.APPLIED_DECISION)
    return (
        decision == newest(s)
        and leader_of(s, decision) == leader
        and isr_of(s, decision) == get(s, leader, layout.VIEW)
    )


@rule
def _grow(s: State, k: Constants, leader: int, b: int) -> None:
    """Add ``b`` to the ISR. If the request for this is delayed, the HW already waits for ``b``."""
    if s[layout.JOIN] == layout.ARMED:
        s[layout.JOIN] = layout.IN_FLIGHT | leader << 1 | b << 3
        return
    isr = get(s, leader, layout.VIEW) | (1 << b)
    if _may_write(s, leader):
        keep_eligible(s, k, isr_of(s, newest(s)), isr)
        set_isr(s, newest(s), isr)
        put(s, leader, layout.VIEW, isr)
        complete(s, k, replicas_of(s, newest(s)))


@rule
def _shrink(s: State, k: Constants, leader: int, b: int) -> bool:
    """Remove ``b`` from the ISR; return False if the leader cannot change the ISR now."""
    view, pending = get(s, leader, layout.VIEW), get(s, leader, layout.PENDING)
    if not presumes(s, leader) or leader == b or not (view >> b) & 1 or pending:
        return False
    if joiner(s, leader):
        return False  # a leader has only one request to change the ISR in flight
    caught_up = get(s, leader, layout.REMOTE + b) == get(s, leader, layout.LEO)
    if (k[scope.K_CAUGHT_UP_STAYS] and caught_up) or not _may_write(s, leader):
        return False
    isr = view & ~(1 << b) & 7
    keep_eligible(s, k, view, isr)
    set_isr(s, newest(s), isr)
    if k[scope.K_ASYNC_ISR]:
        # until the response, the leader's HW still waits for ``b``
        put(s, leader, layout.PENDING, isr)
    else:
        put(s, leader, layout.VIEW, isr)
        raise_hw(s, k, leader)
    return True


@rule
def shrink(s: State, k: Constants, leader: int, b: int) -> bool:
    """Remove a dead follower, which has not fetched for replica.lag.time.max.ms, from the ISR."""
    return not is_up(s, b) and _shrink(s, k, leader, b)


@rule
def lag(s: State, k: Constants, leader: int, b: int) -> bool:
    """Remove a running follower from the ISR, because the follower cannot reach the leader."""
    if not is_up(s, b) or not spend_one(s, layout.FAILURES, k[scope.K_FAILURES]):
        return False
    return _shrink(s, k, leader, b)


@rule
def confirm(s: State, k: Constants, leader: int) -> bool:
    """Deliver the controller's response to the leader, which then uses the smaller ISR."""
    pending = get(s, leader, layout.PENDING)
    if not presumes(s, leader) or not pending:
        return False
    put(s, leader, layout.VIEW, pending)
    put(s, leader, layout.PENDING, 0)
    raise_hw(s, k, leader)
    return True


@rule
def admit(s: State, k: Constants, leader: int) -> bool:
    """Deliver a leader's delayed request for a larger ISR, and the controller's response.

    The controller refuses the request if it has made a decision after the request was sent, or if
    the follower has no session (KIP-841). Since KIP-903 it also refuses a follower that restarted
    after its last fetch from the leader.
    """
    mask = joiner(s, leader)
    if not mask or not is_up(s, leader):
        return False
    stale = int(s[layout.JOIN]) & layout.STALE
    s[layout.JOIN] = 0
    if not _may_write(s, leader) or (stale and k[scope.K_JOINS_BY_BROKER_EPOCH]):
        return True
    if k[scope.K_LIVE_JOINS_ONLY] and not int(s[layout.LIVE]) & mask:
        return True
    isr = get(s, leader, layout.VIEW) | mask
    keep_eligible(s, k, isr_of(s, newest(s)), isr)
    set_isr(s, newest(s), isr)
    put(s, leader, layout.VIEW, isr)
    complete(s, k, replicas_of(s, newest(s)))
    raise_hw(s, k, leader)
    return True

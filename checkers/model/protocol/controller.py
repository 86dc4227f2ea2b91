"""The controller's decisions about leader, ISR and replicas when brokers leave and return."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.state_layout import (
    adding,
    isr_of,
    leader_of,
    newest,
    removing,
    replicas_of,
    set_replicas,
    signed,
    size,
    spend,
)

_FIRST_SHIFT = 6


@rule
def decide(s: State, leader: int, isr: int, bump: int) -> None:
    """Append a decision with a leader (-1 for none) and an ISR; increase the epoch by ``bump``.

    The replicas of the partition do not change.
    """
    last = newest(s)
    if last + 1 >= layout.MAX_DECISIONS:
        s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_OVERFLOW
        return
    unassigned = int(s[layout.DECISION + last]) & ~31
    who = layout.NO_LEADER if leader < 0 else leader
    s[layout.DECISION + last + 1] = unassigned | isr << 2 | who
    s[layout.EPOCH + last + 1] = int(s[layout.EPOCH + last]) + bump
    s[layout.DECISIONS] = last + 2


@rule
def eligible(s: State, k: Constants) -> int:
    """Return the brokers that may be elected, as a mask.

    The live members of the ISR may be elected. If there are none, the live members of the ELR
    (eligible leader replicas) may be elected, and after them the last known leader (KIP-966). If
    there is no such broker either, an unclean election may elect every live replica.
    """
    live = int(s[layout.LIVE]) & replicas_of(s, newest(s))
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
    """Update the ELR (KIP-966) after a change of the ISR.

    While the ISR is smaller than min.insync.replicas, brokers that leave the ISR enter the ELR.
    When the ISR is large enough, the ELR becomes empty.
    """
    if not k[scope.K_ELR]:
        return
    if size(after) >= min(k[scope.K_MIN_ISR], k[scope.K_BROKERS]):
        s[layout.ELR] = 0
    else:
        s[layout.ELR] = (int(s[layout.ELR]) | before) & ~after & 7


@rule
def elect(s: State, k: Constants, chosen: int) -> None:
    """Make an eligible broker the leader. Brokers that are not alive leave the ISR."""
    before = isr_of(s, newest(s))
    in_sync = (before >> chosen) & 1
    isr = (before & int(s[layout.LIVE])) | (1 << chosen) if in_sync else 1 << chosen
    if in_sync or (int(s[layout.ELR]) >> chosen) & 1:
        keep_eligible(s, k, before, isr)
    else:
        s[layout.ELR] = 0  # the election is unclean: no broker is known to have every record
    s[layout.LAST_LEADER] = 0
    decide(s, chosen, isr, 1)


@rule
def elect_by_hand(s: State, k: Constants, chosen: int) -> bool:
    """Elect ``chosen`` at an operator's request, if no broker leads (KIP-460, since 2.4).

    ``chosen`` must be eligible or, if no broker is eligible, alive. Kafka elects the first such
    broker (``PartitionChangeBuilder.electAnyLeader``; with ZooKeeper
    ``PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection``).
    """
    last = newest(s)
    live = int(s[layout.LIVE]) & replicas_of(s, last)
    if leader_of(s, last) >= 0 or not ((eligible(s, k) or live) >> chosen) & 1:
        return False
    elect(s, k, chosen)
    return True


@rule
def lose(s: State, k: Constants, b: int, successor: int) -> bool:
    """End a broker's session: the broker leaves the ISR, and ``successor`` takes its leadership.

    After a cancelled reassignment no broker may lead, although one is eligible. A controller with
    ZooKeeper elects it when any session ends (``KafkaController.onReplicasBecomeOffline``).

    Args:
        successor: the new leader; ``b`` if no broker becomes leader in its place.

    Returns:
        False if the controller cannot choose this successor.
    """
    s[layout.LIVE] = int(s[layout.LIVE]) & ~(1 << b) & 7
    last = newest(s)
    leader, before = leader_of(s, last), isr_of(s, last)
    if leader != b and (leader >= 0 or not eligible(s, k)):
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
    """Leave the partition without a leader, because the session of its leader ``b`` ended.

    The ISR then contains only ``b``. In releases with an ELR (KIP-966) the ISR is empty.
    """
    if k[scope.K_ELR]:
        keep_eligible(s, k, before, 0)
        s[layout.LAST_LEADER] = b + 1
        decide(s, -1, 0, 1)
    else:
        decide(s, -1, 1 << b, 1)


@rule
def welcome(s: State, k: Constants, b: int, killed: bool) -> None:
    """Begin a broker's session; the broker is elected if it is eligible and no broker leads."""
    s[layout.LIVE] = int(s[layout.LIVE]) | (1 << b)
    if s[layout.JOIN] and (int(s[layout.JOIN]) >> 3) & 3 == b:
        s[layout.JOIN] = int(s[layout.JOIN]) | layout.STALE
    if k[scope.K_ELR] and killed and k[scope.K_UNCLEAN_START_LEAVES]:
        s[layout.ELR] = int(s[layout.ELR]) & ~(1 << b) & 7  # it may lack unflushed records
    if leader_of(s, newest(s)) < 0:
        candidates = eligible(s, k)
        if (candidates >> b) & 1:
            elect(s, k, b)
        elif s[layout.LAST_LEADER] and candidates:
            # only the last known leader is eligible, and it may be dead: KAFKA-19522
            elect(s, k, int(s[layout.LAST_LEADER]) - 1)


@rule
def reassign(s: State, k: Constants, target: int, first: int) -> bool:
    """Reassign the partition to ``target``; ``first`` is the preferred replica (KIP-455).

    The controller accepts one reassignment at a time
    (``ReplicationControlManager.changePartitionReassignment``). If the scope has interruptions, a
    request replaces the reassignment in progress. With ZooKeeper the new reassignment starts from
    the original replicas, and other replicas that were being added are dropped at once. A KRaft
    controller starts from all present replicas. It keeps the old set of added replicas if it adds
    no other replica, and the old set of removed replicas if it removes no other replica. So one
    replica may be in both sets.

    With ZooKeeper the leader epoch increases, and added brokers must be alive
    (``KafkaController.onPartitionReassignment``, phase A). A KRaft controller refuses the request
    if no broker leads and an added broker is in the ELR (``LeaderAcceptor`` finds no directory for
    it; 4.4.0 returned UNKNOWN_SERVER_ERROR).
    """
    last = newest(s)
    replicas, leader = replicas_of(s, last), leader_of(s, last)
    if s[layout.REASSIGNED] and not k[scope.K_INTERRUPTS]:
        return False
    if k[scope.K_KRAFT]:
        comes, goes = target & ~replicas & 7 or adding(s), replicas & ~target or removing(s)
        if (comes, goes, target & ~replicas) == (adding(s), removing(s), 0):
            return False  # only the order of the replicas changes
        if leader < 0 and isr_of(s, last) == 0 and int(s[layout.ELR]) & target & ~replicas:
            return False
        both = replicas | target
    else:
        both = replicas & ~adding(s) | target
        comes, goes = both & ~(replicas & ~adding(s)), both & ~target
        if not (comes or goes) or comes & ~int(s[layout.LIVE]):
            return False
    if not goes and target & ((1 << first) - 1):
        return False  # no order changes the leader, so the search takes only the lowest order
    if not spend(s, 6, k[scope.K_REASSIGNMENTS]):
        return False
    _drop(s, replicas & ~both, both)
    s[layout.REASSIGNED] = signed(goes | comes << 3 | (first + 1 if goes else 0) << _FIRST_SHIFT)
    if not complete(s, k, both) and (both != replicas or not k[scope.K_KRAFT]):
        last = newest(s)
        decide(s, leader_of(s, last), isr_of(s, last), 0 if k[scope.K_KRAFT] else 1)
        set_replicas(s, newest(s), both)
    return True


@rule
def cancel(s: State, k: Constants, successor: int) -> bool:
    """Cancel the reassignment in progress: the added replicas go, and all others stay (KIP-455).

    If all members of the ISR are added replicas, a KRaft controller refuses
    (``PartitionReassignmentRevert``), because the model's operator allows no unclean election here.
    A controller with ZooKeeper accepts, and no broker leads afterwards (KAFKA-14424).

    Args:
        successor: the leader afterwards; 0 if no broker leads.
    """
    if not s[layout.REASSIGNED]:
        return False
    last, comes = newest(s), adding(s)
    replicas, leader, isr = replicas_of(s, last) & ~comes, leader_of(s, last), isr_of(s, last)
    s[layout.REASSIGNED] = 0
    if k[scope.K_KRAFT]:
        if not isr & ~comes:
            return False
        _leave(s, k, isr, isr & ~comes, replicas)
        isr &= ~comes
    else:
        _drop(s, comes, replicas)
        leader, isr = leader_of(s, newest(s)), isr_of(s, newest(s))
    able = isr & replicas & int(s[layout.LIVE])
    if able and (leader < 0 or (comes >> leader) & 1):
        leader = successor if (able >> successor) & 1 else -1
    if successor != max(leader, 0) or (leader < 0 and able):
        return False
    if comes or not k[scope.K_KRAFT]:
        decide(s, leader, isr, int(k[scope.K_KRAFT] or leader >= 0))
        set_replicas(s, newest(s), replicas)
    return True


@rule
def _drop(s: State, dropped: int, replicas: int) -> None:
    """Remove brokers from the ISR, as a ZooKeeper controller does before it deletes their logs.

    The last member stays in the ISR, but it cannot stay the leader
    (``ReplicaStateMachine.doRemoveReplicasFromIsr``). Up to 3.4 a broker outside the ISR does not
    delete its log (KAFKA-13972); the model has no rule for this.
    """
    for b in range(layout.MAX_BROKERS):
        leader, isr = leader_of(s, newest(s)), isr_of(s, newest(s))
        if (dropped & isr) >> b & 1:
            decide(s, -1 if leader == b else leader, isr & ~(1 << b) or isr, 1)
            set_replicas(s, newest(s), replicas)


@rule
def _leave(s: State, k: Constants, before: int, after: int, replicas: int) -> None:
    """Update the ELR when the ISR and the replicas change together."""
    keep_eligible(s, k, before, after)
    if k[scope.K_ELR_OF_REPLICAS]:
        s[layout.ELR] = int(s[layout.ELR]) & replicas


@rule
def complete(s: State, k: Constants, both: int) -> bool:
    """Complete a reassignment if its new replicas are in sync; return whether it was completed.

    A KRaft controller completes a reassignment in the record of another change of the partition
    (``PartitionChangeBuilder.completeReassignmentIfNeeded``). The leader epoch increases if a
    replica is removed. A controller with ZooKeeper first writes the replicas, and then the smaller
    ISR (phase B), each with a new leader epoch.

    Args:
        both: the old and the new replicas, as a mask.
    """
    if not s[layout.REASSIGNED]:
        return False
    last, goes, comes = newest(s), removing(s), adding(s)
    before, replicas = isr_of(s, last), both & ~goes
    isr = before & ~goes
    fewer = not k[scope.K_ADDED_COMPLETE] or size(comes) < size(goes)
    if not isr or (comes & ~isr and k[scope.K_ADDED_COMPLETE]) or (fewer and replicas & ~isr):
        return False
    leader = _leader_after(s, leader_of(s, last), replicas, isr & int(s[layout.LIVE]))
    s[layout.REASSIGNED] = 0
    _leave(s, k, before, isr, replicas)
    if not k[scope.K_KRAFT]:
        decide(s, leader, before, 1)
        set_replicas(s, newest(s), replicas)
    if goes:
        decide(s, leader, isr, 1)
        set_replicas(s, newest(s), replicas)
    return True


@rule
def _leader_after(s: State, leader: int, replicas: int, able: int) -> int:
    """Return the leader among the new replicas: the old leader, an eligible replica, or -1."""
    if leader >= 0 and (replicas >> leader) & 1:
        return leader
    first = ((int(s[layout.REASSIGNED]) >> _FIRST_SHIFT) & 3) - 1
    if first >= 0 and (able >> first) & 1:
        return first
    for b in range(layout.MAX_BROKERS):
        if (able >> b) & 1:
            return b
    return -1

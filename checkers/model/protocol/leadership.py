"""The effect of the controller's decisions on a broker: it becomes leader, follower or neither."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.replica_log import cut, delete, last_epoch, raise_hw
from highwater.checkers.model.protocol.state_layout import (
    Fetcher,
    epoch_of,
    follows,
    get,
    has_replica,
    is_live,
    is_up,
    isr_of,
    joiner,
    leader_of,
    newest,
    put,
    replicas_of,
)


@rule
def learn(s: State, k: Constants, b: int) -> bool:
    """Apply the controller's next decision. After a lost session, apply only the newest decision.

    With ZooKeeper a broker ignores a decision without a leader, and keeps its leader and its epoch
    (``ReplicaManager.makeFollowers``). So it can miss an epoch. But a member of the ISR that loses
    its replica gets StopReplica.
    """
    applied, last = get(s, b, layout.APPLIED_DECISION), newest(s)
    if not is_up(s, b) or not (is_live(s, b) or (k[scope.K_KRAFT] and applied >= 0)):
        return False
    late = (int(s[layout.LATE_JOINERS]) >> b) & 1
    decision = last if late or applied < 0 else max(applied + 1, int(s[layout.DELIVERS]))
    while not k[scope.K_KRAFT] and decision <= last and _ignores(s, b, decision):
        decision += 1
    if applied >= last or decision > last:
        return False
    if applied >= 0 and not has_replica(s, b):
        while decision < last and not (replicas_of(s, decision) >> b) & 1:
            decision += 1  # decisions about other brokers change nothing for ``b``
    s[layout.LATE_JOINERS] = int(s[layout.LATE_JOINERS]) & ~(1 << b) & 7
    apply_decision(s, k, b, decision, bool(k[scope.K_KRAFT]) or (applied >= 0 and not late))
    return True


@rule
def _ignores(s: State, b: int, decision: int) -> bool:
    stops = isr_of(s, decision) & ~replicas_of(s, decision)
    return leader_of(s, decision) < 0 and not (stops >> b) & 1


@rule
def skip(s: State, k: Constants, b: int) -> bool:
    """Apply several decisions as one, as a KRaft broker does with the newest metadata image."""
    applied, last = get(s, b, layout.APPLIED_DECISION), newest(s)
    if not k[scope.K_KRAFT] or not is_up(s, b) or applied < 0 or applied + 1 >= last:
        return False
    s[layout.LATE_JOINERS] = int(s[layout.LATE_JOINERS]) & ~(1 << b) & 7
    apply_decision(s, k, b, last, True)
    return True


@rule
def apply_decision(s: State, k: Constants, b: int, decision: int, deletes: bool) -> None:
    """Apply one of the controller's decisions to a broker.

    Args:
        deletes: whether the broker deletes its log if it no longer has a replica. A KRaft broker
            deletes the log, also at its start (``TopicDelta.localChanges``,
            ``LogManager.isStrayKraftReplica``). With ZooKeeper a broker deletes the log only when
            it receives StopReplica, so a broker that was down keeps its old log.
    """
    before, old_epoch, old_replicas = -1, -1, 0
    if has_replica(s, b):  # if one delta removes and adds its replica, the log stays
        before, old_epoch = follows(s, b), epoch_of(s, b)
        old_replicas = replicas_of(s, get(s, b, layout.APPLIED_DECISION))
    put(s, b, layout.APPLIED_DECISION, decision)
    if joiner(s, b):
        s[layout.JOIN] = 0  # the controller would refuse the request, and no broker waits for it
    leader = leader_of(s, decision)
    if not (replicas_of(s, decision) >> b) & 1:
        _retire(s, b)
        put(s, b, layout.FETCHER, Fetcher.NONE)
        if deletes:
            delete(s, b)
    elif leader == b:
        _become_leader(s, k, b, before, old_epoch, old_replicas)
    elif leader < 0:
        _retire(s, b)
        put(s, b, layout.FETCHER, Fetcher.NONE)
    else:
        _become_follower(s, k, b, before, old_epoch)


@rule
def _become_leader(
    s: State, k: Constants, b: int, before: int, old_epoch: int, old_replicas: int
) -> None:
    """Make the broker leader. The leader starts with its own HW, which may be stale.

    A new leader does not know its followers' LEOs. A leader that is elected again keeps the LEOs of
    brokers that have a replica before and after. One delta may even have removed and added the
    replica again (``Partition.updateAssignmentAndIsr``, ``remoteReplicasMap``).

    Args:
        old_replicas: the replicas of the decision that the broker had applied before, as a mask.
    """
    applied = get(s, b, layout.APPLIED_DECISION)
    put(s, b, layout.VIEW, isr_of(s, applied) & replicas_of(s, applied))
    put(s, b, layout.PENDING, 0)
    put(s, b, layout.FETCHER, Fetcher.NONE)
    missed = epoch_of(s, b) > old_epoch + 1 and k[scope.K_ELECTED_AGAIN_IS_NEW]
    remembered = 0 if before != b or missed else old_replicas & replicas_of(s, applied)
    for other in range(k[scope.K_BROKERS]):
        if not (remembered >> other) & 1:
            put(s, b, layout.REMOTE + other, -1)
    if epoch_of(s, b) != old_epoch and k[scope.K_EPOCHS] and k[scope.K_EPOCH_ON_ELECTION]:
        put(s, b, layout.ELECTED, epoch_of(s, b) + 1)
    raise_hw(s, k, b)


@rule
def _become_follower(s: State, k: Constants, b: int, before: int, old_epoch: int) -> None:
    """Make the broker follower, and truncate by the rules of the release (``rules_by_release``)."""
    _retire(s, b)
    leader = follows(s, b)
    gap = epoch_of(s, b) - old_epoch
    ended = get(s, b, layout.FETCHER) == Fetcher.ENDED
    if ended and leader == before and not (k[scope.K_PARTITION_FAILS_ALONE] and gap > 0):
        return
    anew = (k[scope.K_CUT_ON_NEW_EPOCH] and gap > 0) or (k[scope.K_CUT_ON_MISSED_EPOCH] and gap > 1)
    if leader == before and not anew and not ended:
        return
    if not k[scope.K_EPOCHS]:
        cut(s, k, b, get(s, b, layout.HW))
        put(s, b, layout.FETCHER, Fetcher.FETCHING)
        return
    if not k[scope.K_CUT_ON_FETCH]:
        put(s, b, layout.FETCHER, Fetcher.TRUNCATING)
        return
    if last_epoch(s, b) < 0:
        cut(s, k, b, get(s, b, layout.HW))
    put(s, b, layout.FETCHER, Fetcher.FETCHING)


@rule
def _retire(s: State, b: int) -> None:
    """Clear the fields that only a leader uses."""
    put(s, b, layout.VIEW, 0)
    put(s, b, layout.PENDING, 0)
    put(s, b, layout.AWAITED, 0)
    for other in range(layout.MAX_BROKERS):
        put(s, b, layout.REMOTE + other, 0)

"""A replica's log: append, truncate, store epochs, increase the high watermark."""

from highwater.checkers.model.protocol import scope
from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.state_layout import (
    ProducerStatus,
    get,
    joiner,
    put,
    replicas_of,
    size,
)

UNDEFINED = -1


@rule
def append(s: State, b: int, entry: int) -> None:
    """Append an entry to the log, and clear ELECTED, because the entry's epoch now has a record."""
    leo = get(s, b, layout.LEO)
    put(s, b, layout.LOG + leo, entry)
    put(s, b, layout.LEO, leo + 1)
    put(s, b, layout.ELECTED, 0)


@rule
def cut(s: State, k: Constants, b: int, offset: int) -> None:
    """Truncate a replica's log to an offset, and with it the leader epochs and the HW."""
    leo = get(s, b, layout.LEO)
    if offset >= leo:
        if k[scope.K_CUT_DROPS_EMPTY_EPOCH]:
            put(s, b, layout.ELECTED, 0)
        return
    if k[scope.K_BATCH] > 1:
        _empty_batch(s, b, offset)
    for position in range(offset, leo):
        put(s, b, layout.LOG + position, 0)
    put(s, b, layout.LEO, offset)
    put(s, b, layout.ELECTED, 0)
    put(s, b, layout.HW, min(get(s, b, layout.HW), offset))


@rule
def delete(s: State, b: int) -> None:
    """Delete the replica's log, epochs and HW, in memory and on disk, as StopReplica does."""
    for field in range(layout.PROCESS):
        put(s, b, field, 0)
    put(s, b, layout.ELECTED, 0)


@rule
def least_isr(s: State, k: Constants, b: int) -> int:
    """Return the smallest ISR with which a leader accepts records with acks=all.

    Since KAFKA-15583 it is at most the number of replicas (``Partition.effectiveMinIsr``).
    """
    least = int(k[scope.K_MIN_ISR])
    if k[scope.K_STRICT_MIN_ISR]:
        least = min(least, size(replicas_of(s, get(s, b, layout.APPLIED_DECISION))))
    return least


@rule
def _empty_batch(s: State, b: int, offset: int) -> None:
    """Make a gap if the truncation offset is inside a batch.

    ``LogSegment.truncateTo`` removes the complete batch from the file. But ``Log.truncateTo``
    (1.1.1; ``LocalLog.truncateTo`` in 3.9.0) sets the LEO to the offset.
    """
    position = offset
    while position > 0 and continues(s, get(s, b, layout.LOG + position)):
        position -= 1
    for gap in range(position, offset):
        put(s, b, layout.LOG + gap, get(s, b, layout.LOG + gap) & ~7)


@rule
def continues(s: State, entry: int) -> bool:
    """Return whether an entry is in the same batch as the entry before it."""
    record = (entry & 7) - 1
    return record > 0 and (int(s[layout.BATCHED]) >> record) & 1 == 1


@rule
def last_epoch(s: State, b: int) -> int:
    """Return the newest epoch in the replica's leader-epoch checkpoint, or UNDEFINED."""
    elected = get(s, b, layout.ELECTED)
    if elected:
        return elected - 1
    leo = get(s, b, layout.LEO)
    return get(s, b, layout.LOG + leo - 1) >> 3 if leo else UNDEFINED


@rule
def largest_epoch_to(s: State, b: int, epoch: int) -> int:
    """Return the replica's largest leader epoch that is not above ``epoch``, or UNDEFINED."""
    elected = get(s, b, layout.ELECTED)
    if elected and elected - 1 <= epoch:
        return elected - 1
    for position in range(get(s, b, layout.LEO) - 1, -1, -1):
        number = get(s, b, layout.LOG + position) >> 3
        if number <= epoch:
            return number
    return UNDEFINED


@rule
def start_after(s: State, b: int, epoch: int) -> int:
    """Return the end offset of ``epoch``: the start of the next larger epoch, else the LEO."""
    leo = get(s, b, layout.LEO)
    for position in range(leo):
        if get(s, b, layout.LOG + position) >> 3 > epoch:
            return position
    return leo


@rule
def told_epoch(s: State, k: Constants, b: int, number: int) -> int:
    """Return the epoch in a leader's response to a request about epoch ``number``, or UNDEFINED.

    The rule is ``LeaderEpochFileCache.endOffsetFor`` since KIP-279. Since 2.0.1 an epoch below the
    leader's first epoch counts as known and empty.
    """
    latest = last_epoch(s, b)
    if number > latest:
        return UNDEFINED
    to = largest_epoch_to(s, b, number)
    return number if to == UNDEFINED and k[scope.K_BELOW_FIRST_IS_EMPTY] else to


@rule
def expose(s: State, k: Constants, b: int, offset: int) -> None:
    """Let consumers read a record below the leader's HW, and acknowledge it to its producer."""
    entry = get(s, b, layout.LOG + offset)
    record = (entry & 7) - 1
    if record < 0:
        return
    if s[layout.READ + offset] == 0:
        s[layout.READ + offset] = record + 1
    elif s[layout.READ + offset] != record + 1:
        s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_REREAD
    batched = int(s[layout.BATCHED])
    if (batched >> (record + 1)) & 1:
        return  # the producer gets a response when the last record of the batch is committed
    awaited = get(s, b, layout.AWAITED)
    while (awaited >> record) & 1:
        awaited &= ~(1 << record)
        if size(get(s, b, layout.VIEW) | joiner(s, b)) >= least_isr(s, k, b):
            s[layout.STATUS + record] = ProducerStatus.ACKNOWLEDGED
        if not (batched >> record) & 1:
            break
        record -= 1
    put(s, b, layout.AWAITED, awaited)


@rule
def raise_hw(s: State, k: Constants, b: int) -> None:
    """Increase a leader's HW to the smallest LEO in its ISR; a follower that joins counts, too.

    With the rule ``strict_min_isr`` the HW does not rise while the ISR without this follower is
    smaller than min.insync.replicas (``Partition.isUnderMinIsr``).
    """
    if k[scope.K_STRICT_MIN_ISR] and size(get(s, b, layout.VIEW)) < least_isr(s, k, b):
        return
    view = get(s, b, layout.VIEW) | joiner(s, b)
    least = get(s, b, layout.LEO)
    for other in range(k[scope.K_BROKERS]):
        if other != b and (view >> other) & 1:
            least = min(least, get(s, b, layout.REMOTE + other))
    for offset in range(get(s, b, layout.HW), least):
        expose(s, k, b, offset)
    if least > get(s, b, layout.HW):
        put(s, b, layout.HW, least)

"""The brokers' moves: decisions of the coordinator, and appends to logs by leaders.

A function that handles a request returns the response: ``OK``, ``WAIT`` (an error after which the
client retries, such as CONCURRENT_TRANSACTIONS), or ``REFUSED`` (a permanent error).
"""

from typing import Final

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_layout import (
    CoordinatorState,
    leader,
    set_leader,
)
from highwater.checkers.model.transactions.transaction_scope import (
    K_ADDS_BY_PRODUCE,
    K_ANSWERS_FIRST,
    K_BUMPS_EPOCH,
    K_COPY_IS_NOT_LOWEST,
    K_DUPLICATES_CACHED,
    K_FIRST_IS_ZERO,
    K_LOWEST_SEQUENCE,
    K_MARKER_ABOVE,
    K_OPEN_IN_EPOCH,
    K_STALE_EPOCH_FIRST,
    K_UNKNOWN_ACCEPTED,
    K_VERIFICATION,
)

OK: Final = 0
WAIT: Final = 1
REFUSED: Final = 2
LATER: Final = 3
"""The result for a request that was handled, and whose response comes later."""


@rule
def is_preparing(s: State) -> bool:
    """Return whether the coordinator must still write markers."""
    return int(s[layout.STATE]) in (CoordinatorState.PREPARE_COMMIT, CoordinatorState.PREPARE_ABORT)


@rule
def add_partition(s: State, p: int, epoch: int) -> int:
    """Add a partition to the transaction (``handleAddPartitionsToTransaction``)."""
    if epoch != int(s[layout.EPOCH]):
        return REFUSED
    if is_preparing(s):
        return WAIT
    s[layout.PARTS] = int(s[layout.PARTS]) | 1 << p
    s[layout.STATE] = CoordinatorState.ONGOING
    return OK


@rule
def verify_partition(s: State, p: int, epoch: int) -> int:
    """Return OK if a partition is in the transaction (``handleVerifyPartitionsInTransaction``)."""
    if epoch != int(s[layout.EPOCH]):
        return REFUSED
    if is_preparing(s):
        return WAIT
    return OK if int(s[layout.PARTS]) >> p & 1 else REFUSED


@rule
def end_transaction(s: State, k: Constants, commit: int, epoch: int) -> int:  # noqa: PLR0911 - as in the source
    """Handle EndTxn: decide to commit or to abort (``endTransaction``)."""
    state, own_epoch = int(s[layout.STATE]), int(s[layout.EPOCH])
    decided = CoordinatorState.PREPARE_COMMIT if commit else CoordinatorState.PREPARE_ABORT
    done = CoordinatorState.COMPLETE_COMMIT if commit else CoordinatorState.COMPLETE_ABORT
    again = False
    if k[K_BUMPS_EPOCH] and state not in (CoordinatorState.EMPTY, CoordinatorState.ONGOING):
        again = own_epoch == epoch + 1
        if not again and (is_preparing(s) or epoch != own_epoch):
            return REFUSED
    elif epoch != own_epoch:
        return REFUSED
    if state == CoordinatorState.ONGOING:
        prepare(s, decided, int(k[K_BUMPS_EPOCH]))
        return OK if k[K_ANSWERS_FIRST] else LATER
    if is_preparing(s):
        return WAIT if state == decided else REFUSED
    if k[K_BUMPS_EPOCH] and not again:
        if commit:
            return REFUSED
        s[layout.EPOCH] = own_epoch + 1
        s[layout.STATE] = CoordinatorState.COMPLETE_ABORT
        return OK
    return OK if state == done else REFUSED


@rule
def prepare(s: State, decided: int, bump: int) -> None:
    """Store the decision to commit or abort. After that, the coordinator must write the markers."""
    s[layout.STATE] = decided
    s[layout.EPOCH] = int(s[layout.EPOCH]) + bump
    s[layout.PENDING] = s[layout.PARTS]


@rule
def fence(s: State, k: Constants) -> None:
    """Abort the transaction in an epoch that no producer uses (``prepareFenceProducerEpoch``)."""
    prepare(s, CoordinatorState.PREPARE_ABORT, 1 + int(k[K_BUMPS_EPOCH]))


@rule
def write_marker(s: State, k: Constants, p: int, commit: int, epoch: int) -> bool:
    """Append a marker (``appendEndTxnMarker``); return whether the leader accepts it."""
    own_epoch = leader(s, p, layout.LEADER_EPOCH) - 1
    if epoch < own_epoch:
        return False
    if k[K_MARKER_ABOVE] and epoch == own_epoch and leader(s, p, layout.OPEN):
        return False
    _append(s, p, layout.COMMIT if commit else layout.ABORT)
    if epoch != own_epoch:
        set_leader(s, p, layout.LEADER_EPOCH, epoch + 1)
        set_leader(s, p, layout.LAST, 0)
        set_leader(s, p, layout.CACHED, 0)
    set_leader(s, p, layout.OPEN, 0)
    set_leader(s, p, layout.LOWEST, 0)
    set_leader(s, p, layout.LOWEST_EPOCH, 0)
    return True


@rule
def complete(s: State, p: int) -> None:
    """Mark a partition's marker as written. The last marker completes the transaction."""
    left = int(s[layout.PENDING]) & ~(1 << p)
    s[layout.PENDING] = left
    if left == 0:
        s[layout.STATE] = int(s[layout.STATE]) + 2
        s[layout.PARTS] = 0


@rule
def append_record(s: State, k: Constants, r: int) -> int:
    """Append a record, unless the leader already has the record, or the rules refuse it."""
    p, epoch = int(s[layout.R_PARTITION + r]), int(s[layout.R_EPOCH + r])
    sequence, own_epoch = int(s[layout.R_SEQUENCE + r]), leader(s, p, layout.LEADER_EPOCH) - 1
    if k[K_STALE_EPOCH_FIRST] and epoch < own_epoch:
        return REFUSED
    is_open = leader(s, p, layout.OPEN) != 0
    if k[K_OPEN_IN_EPOCH] and epoch != own_epoch:
        is_open = False
    if k[K_VERIFICATION] and not is_open:
        _await_confirmation(s, k, p, epoch, sequence)
        if k[K_ADDS_BY_PRODUCE]:
            confirmed = add_partition(s, p, epoch)
        else:
            confirmed = verify_partition(s, p, epoch)
        if confirmed != OK:
            return confirmed
    if _is_copy(s, k, p, epoch, sequence):
        return OK
    if epoch < own_epoch or not _in_sequence(s, k, p, epoch, sequence):
        return REFUSED
    if epoch != own_epoch:
        set_leader(s, p, layout.LEADER_EPOCH, epoch + 1)
        set_leader(s, p, layout.CACHED, 0)
    set_leader(s, p, layout.LAST, sequence + 1)
    set_leader(s, p, layout.CACHED, _remember(leader(s, p, layout.CACHED), sequence))
    if leader(s, p, layout.OPEN) == 0:
        set_leader(s, p, layout.OPEN, leader(s, p, layout.LENGTH) + 1)
    set_leader(s, p, layout.LOWEST, 0)
    set_leader(s, p, layout.LOWEST_EPOCH, 0)
    _append(s, p, r + 1)
    return OK


@rule
def forget_producer(s: State, p: int) -> bool:
    """Forget a producer without an open transaction (``isProducerExpired``)."""
    if leader(s, p, layout.LEADER_EPOCH) == 0 or leader(s, p, layout.OPEN):
        return False
    set_leader(s, p, layout.LEADER_EPOCH, 0)
    set_leader(s, p, layout.LAST, 0)
    set_leader(s, p, layout.CACHED, 0)
    return True


@rule
def _await_confirmation(s: State, k: Constants, p: int, epoch: int, sequence: int) -> None:
    """Store the lowest unconfirmed sequence number (``maybeUpdateLowestSequenceAndEpoch``)."""
    if not k[K_LOWEST_SEQUENCE]:
        return
    if k[K_COPY_IS_NOT_LOWEST] and _is_copy(s, k, p, epoch, sequence):
        return
    lowest, lowest_epoch = leader(s, p, layout.LOWEST) - 1, leader(s, p, layout.LOWEST_EPOCH)
    if lowest < 0 or epoch > lowest_epoch or (epoch == lowest_epoch and sequence < lowest):
        set_leader(s, p, layout.LOWEST, sequence + 1)
        set_leader(s, p, layout.LOWEST_EPOCH, epoch)


@rule
def _is_copy(s: State, k: Constants, p: int, epoch: int, sequence: int) -> bool:
    if epoch != leader(s, p, layout.LEADER_EPOCH) - 1:
        return False
    if k[K_DUPLICATES_CACHED]:
        return bool(leader(s, p, layout.CACHED) >> sequence & 1)
    return leader(s, p, layout.LAST) == sequence + 1


@rule
def _in_sequence(s: State, k: Constants, p: int, epoch: int, sequence: int) -> bool:
    own_epoch, lowest = leader(s, p, layout.LEADER_EPOCH) - 1, leader(s, p, layout.LOWEST) - 1
    if lowest >= 0 and (
        sequence > lowest
        or (k[K_FIRST_IS_ZERO] and sequence != 0 and leader(s, p, layout.CACHED) == 0)
    ):
        return False
    if own_epoch < 0:
        return sequence == 0 or bool(k[K_UNKNOWN_ACCEPTED])
    if epoch != own_epoch:
        return sequence == 0
    return sequence == leader(s, p, layout.LAST)


@rule
def _remember(cached: int, sequence: int) -> int:
    """Return the mask of cached sequence numbers after one more batch; only the last five stay."""
    cached |= 1 << sequence
    count = 0
    for bit in range(layout.MAX_RECORDS):
        count += cached >> bit & 1
    if count > layout.CACHED_MOST:
        cached &= cached - 1
    return cached


@rule
def _append(s: State, p: int, entry: int) -> None:
    length = leader(s, p, layout.LENGTH)
    if length == layout.MAX_LOG:
        s[layout.FLAGS] = int(s[layout.FLAGS]) | layout.FLAG_OVERFLOW
        return
    set_leader(s, p, layout.LOG + length, entry)
    set_leader(s, p, layout.LENGTH, length + 1)

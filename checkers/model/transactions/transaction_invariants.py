"""Invariants of the model of transactions, each a function of a state."""

from typing import Final

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.invariants import invariants_of
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_brokers import is_preparing
from highwater.checkers.model.transactions.transaction_layout import (
    CoordinatorState,
    Status,
    leader,
)

NOWHERE: Final = 0
UNDECIDED: Final = 1
PUBLISHED: Final = 2
WITHDRAWN: Final = 4
"""The outcomes of a record in a log, as bits: no marker after the record, a commit, or an abort. A
record at several offsets may have several bits. The next marker after the record decides, as for a
read_committed reader (``Fetcher``, aborted transactions)."""


@rule
def verdict_of(s: State, r: int) -> int:
    """Return the outcome of a record in its partition's log."""
    p, fate = int(s[layout.R_PARTITION + r]), NOWHERE
    for offset in range(leader(s, p, layout.LENGTH)):
        if leader(s, p, layout.LOG + offset) == r + 1:
            fate |= _next_marker(s, p, offset)
    return fate


@rule
def _next_marker(s: State, p: int, offset: int) -> int:
    for later in range(offset + 1, leader(s, p, layout.LENGTH)):
        entry = leader(s, p, layout.LOG + later)
        if entry == layout.COMMIT:
            return PUBLISHED
        if entry == layout.ABORT:
            return WITHDRAWN
    return UNDECIDED


@rule
def _status(s: State, r: int) -> int:
    return int(s[layout.STATUS + int(s[layout.R_TRANSACTION + r]) - 1])


@rule
def aborted_unread(s: State) -> bool:
    """No read_committed reader gets a record of a transaction that its application aborted."""
    for r in range(int(s[layout.SENT])):
        if _status(s, r) == Status.ABORTED and verdict_of(s, r) & PUBLISHED:
            return False
    return True


@rule
def open_unread(s: State) -> bool:
    """No read_committed reader gets a record before its application has asked for a commit."""
    for r in range(int(s[layout.SENT])):
        if _status(s, r) == Status.OPEN and verdict_of(s, r) & PUBLISHED:
            return False
    return True


@rule
def committed_kept(s: State) -> bool:
    """Every record of a transaction that its application committed is in the log, not aborted."""
    for r in range(int(s[layout.SENT])):
        if _status(s, r) == Status.COMMITTED and not verdict_of(s, r) & (PUBLISHED | UNDECIDED):
            return False
    return True


@rule
def all_or_nothing(s: State) -> bool:
    """No transaction that its application wanted to commit is committed only in part."""
    for number in range(1, int(s[layout.BEGUN]) + 1):
        status = int(s[layout.STATUS + number - 1])
        if status not in (Status.COMMIT_ASKED, Status.COMMITTED):
            continue
        published, missing = False, False
        for r in range(int(s[layout.SENT])):
            if int(s[layout.R_TRANSACTION + r]) == number:
                fate = verdict_of(s, r)
                published = published or bool(fate & PUBLISHED)
                missing = missing or fate in (NOWHERE, WITHDRAWN)
        if published and missing:
            return False
    return True


@rule
def written_once(s: State) -> bool:
    """No record is in a log twice."""
    for r in range(int(s[layout.SENT])):
        p, places = int(s[layout.R_PARTITION + r]), 0
        for offset in range(leader(s, p, layout.LENGTH)):
            places += int(leader(s, p, layout.LOG + offset) == r + 1)
        if places > 1:
            return False
    return True


@rule
def _rises(s: State, by_sequence: bool) -> bool:
    """Return whether each epoch's records are in order (``by_sequence``: from 0 on, no gaps)."""
    for p in range(layout.MAX_PARTITIONS):
        epoch, last = -1, -1
        for offset in range(leader(s, p, layout.LENGTH)):
            r = leader(s, p, layout.LOG + offset) - 1
            if r + 1 >= layout.COMMIT:
                continue
            if int(s[layout.R_EPOCH + r]) != epoch:
                epoch, last = int(s[layout.R_EPOCH + r]), -1
            number = int(s[layout.R_SEQUENCE + r]) if by_sequence else r
            if number <= last or (by_sequence and number > last + 1):
                return False
            last = number
    return True


@rule
def gapless(s: State) -> bool:
    """In a log the sequence numbers of a producer epoch start at 0, without gap or repetition."""
    return _rises(s, True)


@rule
def in_order(s: State) -> bool:
    """In a log the records of a producer epoch are in the order in which they were sent."""
    return _rises(s, False)


@rule
def ends(s: State) -> bool:
    """No log has an open transaction that the coordinator does not know: the LSO rises."""
    for p in range(layout.MAX_PARTITIONS):
        if leader(s, p, layout.OPEN) == 0:
            continue
        if is_preparing(s):
            owed = int(s[layout.PENDING])
        elif int(s[layout.STATE]) == CoordinatorState.ONGOING:
            owed = int(s[layout.PARTS])
        else:
            owed = 0
        if not owed >> p & 1:
            return False
    return True


@rule
def goes_on(s: State) -> bool:
    """No producer fails, unless another producer replaced it or its transaction lasted too long."""
    return int(s[layout.FLAGS]) & layout.FLAG_REFUSED == 0


@rule
def successor_goes_on(s: State) -> bool:
    """No producer that took another's place fails, unless its transaction lasts too long."""
    return int(s[layout.FLAGS]) & layout.FLAG_SUCCESSOR_REFUSED == 0


TRANSACTION_INVARIANTS: Final = invariants_of(
    (
        aborted_unread,
        committed_kept,
        all_or_nothing,
        open_unread,
        written_once,
        gapless,
        in_order,
        ends,
        goes_on,
        successor_goes_on,
    )
)
_ALL: Final = (1 << len(TRANSACTION_INVARIANTS)) - 1


@rule
def overflowed(s: State) -> bool:
    """Return whether a state had no space for a message or an entry."""
    return int(s[layout.FLAGS]) & layout.FLAG_OVERFLOW != 0


@rule
def broken_of(s: State, k: Constants) -> int:  # noqa: ARG001 - of all machines
    """Return a mask of the invariants that a state breaks, in their order.

    A state without space for a message or an entry breaks all invariants.
    """
    if overflowed(s):
        return _ALL
    return (
        int(not aborted_unread(s))
        | int(not committed_kept(s)) << 1
        | int(not all_or_nothing(s)) << 2
        | int(not open_unread(s)) << 3
        | int(not written_once(s)) << 4
        | int(not gapless(s)) << 5
        | int(not in_order(s)) << 6
        | int(not ends(s)) << 7
        | int(not goes_on(s)) << 8
        | int(not successor_goes_on(s)) << 9
    )

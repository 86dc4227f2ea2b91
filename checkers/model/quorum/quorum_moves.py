"""Every move of the model of the quorum, by number.

Each move is one step: an election with its votes, or a fetch with its response. The messages in
between can be lost at any time, because no move must ever be taken.
"""

from enum import IntEnum
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import (
    Constants,
    State,
    copy_state,
    rule,
    spend_one,
)
from highwater.checkers.model.quorum import quorum_layout as layout
from highwater.checkers.model.quorum.quorum_layout import (
    get,
    is_behind,
    last_epoch,
    put,
    set_offset,
    size_of,
    voters_of,
)
from highwater.checkers.model.quorum.quorum_scope import (
    K_CHANGE_AFTER_COMMIT,
    K_CHANGES,
    K_DECISIONS,
    K_DIRECTORY_IDS,
    K_EPOCHS,
    K_FORMAT,
    K_ONE_CHANGE,
    K_OWN_EPOCH_COMMITS,
    K_RESTARTS,
    K_VOTERS,
    K_WIPES,
    NEW_ID,
    OLD_ID,
    QuorumScope,
)
from highwater.checkers.model.search.machine import Moves


class QuorumMove(IntEnum):
    """The kind of a move, with its arguments: replicas, or for ELECT a mask of voters."""

    ELECT = 0
    FETCH = 1
    FETCH_ONE = 2  # one entry fits into the response
    FETCH_NONE = 3  # the response is lost
    DECIDE = 4
    RESTART = 5
    REPLACE = 6
    ADD = 7
    REMOVE = 8


FETCHES: Final = (QuorumMove.FETCH, QuorumMove.FETCH_ONE, QuorumMove.FETCH_NONE)


def quorum_moves(scope: QuorumScope) -> Moves:
    """Return every move that a scope allows."""
    replicas = range(scope.replicas)
    rows = []
    for a in replicas:
        rows += [
            (QuorumMove.ELECT, a, mask)
            for mask in range(1 << scope.replicas)
            if mask >> a & 1 and size_of(mask) <= scope.replicas // 2 + 1
        ]
        rows += [(QuorumMove.DECIDE, a, 0)]
        rows += [(QuorumMove.RESTART, a, 0)] if scope.restarts else []
        rows += [(QuorumMove.REPLACE, a, 0)] if scope.wipes else []
        for b in replicas:
            rows += [(kind, a, b) for kind in FETCHES] if a != b else []
            rows += [(QuorumMove.ADD, a, b), (QuorumMove.REMOVE, a, b)] if scope.changes else []
    return np.array(rows, dtype=np.int64)


@rule
def unchanged_form(s: State, out: State, k: Constants) -> None:  # noqa: ARG001 - of all machines
    """Write ``s`` to ``out``: each state stands for itself."""
    copy_state(s, out)


@rule
def take(s: State, k: Constants, kind: int, a: int, b: int) -> bool:  # noqa: PLR0911 - one case a move
    """Take a move in place; return False if the move is not possible."""
    if get(s, a, layout.STATUS) != layout.USED:
        return False
    if kind == QuorumMove.ELECT:
        return elect(s, k, a, b)
    if kind == QuorumMove.FETCH:
        return fetch(s, k, a, b, layout.MAX_LOG)
    if kind in (QuorumMove.FETCH_ONE, QuorumMove.FETCH_NONE):
        return fetch(s, k, a, b, int(kind == QuorumMove.FETCH_ONE))
    if kind == QuorumMove.RESTART:
        return restart(s, k, a)
    if kind == QuorumMove.REPLACE:
        return replace_disk(s, k, a)
    if not get(s, a, layout.LEADS):
        return False
    if kind == QuorumMove.DECIDE:
        return decide(s, k, a)
    return change(s, k, a, b, kind == QuorumMove.ADD)


@rule
def elect(s: State, k: Constants, c: int, granting: int) -> bool:
    """Elect a candidate with the votes of a majority of the voters in which it believes.

    It leads the first epoch in which all of them still have a vote (``handleVoteRequest``).
    """
    voters = voters_of(s, c)
    if not voters >> c & 1 or granting & ~voters or size_of(granting) != size_of(voters) // 2 + 1:
        return False
    epoch = 0
    for r in range(layout.MAX_REPLICAS):
        if granting >> r & 1:
            if get(s, r, layout.STATUS) != layout.USED or is_behind(s, c, r):
                return False
            epoch = max(epoch, get(s, r, layout.EPOCH) + 1)
    if epoch > k[K_EPOCHS]:
        return False
    for r in range(layout.MAX_REPLICAS):
        if granting >> r & 1:
            _resign(s, r)
            put(s, r, layout.EPOCH, epoch)
    put(s, c, layout.LEADS, 1)
    put(s, c, layout.START, get(s, c, layout.LEO))
    first = k[K_DIRECTORY_IDS] and set_offset(s, c) < 0
    _append(s, k, c, layout.SET + voters if first else layout.EPOCH_START)
    return True


@rule
def fetch(s: State, k: Constants, f: int, leader: int, most: int) -> bool:
    """Fetch from a leader: report the own end offset, then truncate, or append ``most`` entries.

    A follower never truncates below its HW: it exits, and needs a restart.
    """
    epoch = get(s, leader, layout.EPOCH)
    if not get(s, leader, layout.LEADS) or not _finds(s, f, leader):
        return False
    if get(s, f, layout.EPOCH) > epoch or (
        get(s, f, layout.EPOCH) == epoch and get(s, f, layout.LEADS)
    ):
        return False
    if get(s, f, layout.EPOCH) < epoch:
        _resign(s, f)
        put(s, f, layout.EPOCH, epoch)
    leo = get(s, f, layout.LEO)
    last = last_epoch(s, f)
    end = _end_of(s, leader, last)
    epoch = get(s, leader, layout.EPOCHS + end - 1) if end else 0
    if last and (end < leo or epoch != last):
        return most > 0 and _truncate(s, f, end, epoch)
    put(s, leader, layout.FETCHED + f, leo)
    _raise_hw(s, k, leader)
    if most == 0:
        return True
    for offset in range(leo, min(leo + most, get(s, leader, layout.LEO))):
        put(s, f, layout.EPOCHS + offset, get(s, leader, layout.EPOCHS + offset))
        put(s, f, layout.VALUES + offset, get(s, leader, layout.VALUES + offset))
        put(s, f, layout.LEO, offset + 1)
    hw = min(get(s, leader, layout.HW), get(s, f, layout.LEO))
    put(s, f, layout.HW, max(hw, get(s, f, layout.HW)))
    return True


@rule
def _finds(s: State, f: int, leader: int) -> bool:
    """Return whether a replica learns of a leader.

    A leader sends BeginQuorumEpoch to the nodes of its voters, and a node accepts it with any
    directory id (``handleBeginQuorumEpochRequest``). A replica that is no voter asks all nodes.
    """
    voters = voters_of(s, leader)
    for r in range(layout.MAX_REPLICAS):
        if voters >> r & 1 and get(s, r, layout.NODE) == get(s, f, layout.NODE):
            return True
    return not voters_of(s, f) >> f & 1


@rule
def _end_of(s: State, r: int, epoch: int) -> int:
    """Return the end offset of the last epoch in a log up to ``epoch`` (``endOffsetForEpoch``)."""
    end = get(s, r, layout.LEO)
    while end and get(s, r, layout.EPOCHS + end - 1) > epoch:
        end -= 1
    return end


@rule
def _truncate(s: State, f: int, end: int, epoch: int) -> bool:
    """Truncate to where an epoch ended in the leader's log (``truncateToEndOffset``)."""
    if end < get(s, f, layout.HW):
        return False
    here = _end_of(s, f, epoch)
    if epoch == 0 or (here and get(s, f, layout.EPOCHS + here - 1) == epoch):
        here = min(end, get(s, f, layout.LEO) if epoch == 0 else here)
    for offset in range(here, get(s, f, layout.LEO)):
        put(s, f, layout.EPOCHS + offset, 0)
        put(s, f, layout.VALUES + offset, 0)
    put(s, f, layout.LEO, here)
    put(s, f, layout.HW, min(here, get(s, f, layout.HW)))
    return True


@rule
def decide(s: State, k: Constants, leader: int) -> bool:
    """Append a decision. The leader answers its client when the HW is above it."""
    if not spend_one(s, layout.DECIDED, k[K_DECISIONS]):
        return False
    _append(s, k, leader, int(s[layout.DECIDED]))
    return True


@rule
def restart(s: State, k: Constants, r: int) -> bool:
    """Restart a controller: it keeps its log and its votes, and forgets the rest."""
    _resign(s, r)
    put(s, r, layout.HW, 0)
    return spend_one(s, layout.RESTARTS, k[K_RESTARTS])


@rule
def replace_disk(s: State, k: Constants, r: int) -> bool:
    """Replace a controller's disk by an empty disk, which an operator formats (``Formatter``)."""
    if not spend_one(s, layout.WIPES, k[K_WIPES]):
        return False
    node, format_ = get(s, r, layout.NODE), k[K_FORMAT] if k[K_DIRECTORY_IDS] else OLD_ID
    for field in range(layout.REPLICA):
        put(s, r, field, 0)
    put(s, r, layout.NODE, node)
    if format_ == OLD_ID:
        put(s, r, layout.STATUS, layout.USED)
        put(s, r, layout.FORMATTED, (1 << k[K_VOTERS]) - 1)
        return True
    put(s, r, layout.STATUS, layout.REPLACED)
    new = 0
    while get(s, new, layout.STATUS) != layout.UNUSED:
        new += 1
    put(s, new, layout.NODE, node)
    put(s, new, layout.STATUS, layout.USED)
    put(s, new, layout.FORMATTED, 0 if format_ == NEW_ID else 1 << new)
    return True


@rule
def change(s: State, k: Constants, leader: int, r: int, adds: bool) -> bool:  # noqa: PLR0911 - as in the source
    """Append a larger or smaller voter set (``AddVoterHandler``, ``RemoveVoterHandler``).

    A new voter must have fetched from this leader, and its node must not be a voter.
    """
    voters, hw = voters_of(s, leader), get(s, leader, layout.HW)
    if not k[K_DIRECTORY_IDS] or not spend_one(s, layout.CHANGES, k[K_CHANGES]):
        return False
    if k[K_CHANGE_AFTER_COMMIT] and hw <= get(s, leader, layout.START):
        return False
    if k[K_ONE_CHANGE] and set_offset(s, leader) >= hw:
        return False
    if not adds:
        if not voters >> r & 1 or size_of(voters) == 1:
            return False
        _append(s, k, leader, layout.SET + (voters & ~(1 << r)))
        return True
    if get(s, r, layout.STATUS) != layout.USED or not get(s, leader, layout.FETCHED + r):
        return False
    for other in range(layout.MAX_REPLICAS):
        if voters >> other & 1 and get(s, other, layout.NODE) == get(s, r, layout.NODE):
            return False
    _append(s, k, leader, layout.SET + (voters | 1 << r))
    return True


@rule
def _append(s: State, k: Constants, leader: int, value: int) -> None:
    offset = get(s, leader, layout.LEO)
    put(s, leader, layout.EPOCHS + offset, get(s, leader, layout.EPOCH))
    put(s, leader, layout.VALUES + offset, value)
    put(s, leader, layout.LEO, offset + 1)
    _raise_hw(s, k, leader)


@rule
def _raise_hw(s: State, k: Constants, leader: int) -> None:
    """Raise the HW to what a majority of the voters has (``LeaderState.maybeUpdateHighWatermark``).

    A leader that is not in the voter set does not count itself, and resigns after the commit. In
    4.4.0 it goes on to lead if the request for its removal timed out before the commit
    (``RemoveVoterHandler.highWatermarkUpdated``); the model does not have this.
    """
    put(s, leader, layout.FETCHED + leader, get(s, leader, layout.LEO))
    voters, hw = voters_of(s, leader), get(s, leader, layout.LEO)
    while hw > get(s, leader, layout.HW):
        holders = 0
        for r in range(layout.MAX_REPLICAS):
            if voters >> r & 1 and get(s, leader, layout.FETCHED + r) >= hw:
                holders += 1
        if holders > size_of(voters) // 2:
            break
        hw -= 1
    if hw <= get(s, leader, layout.HW):
        return
    if k[K_OWN_EPOCH_COMMITS] and hw <= get(s, leader, layout.START):
        return
    put(s, leader, layout.HW, hw)
    for offset in range(hw):
        value = get(s, leader, layout.VALUES + offset)
        if 0 < value < layout.SET and not s[layout.COMMITTED + value - 1]:
            s[layout.COMMITTED + value - 1] = get(s, leader, layout.EPOCH)
    if not voters >> leader & 1 and set_offset(s, leader) < hw:
        _resign(s, leader)


@rule
def _resign(s: State, r: int) -> None:
    put(s, r, layout.LEADS, 0)
    put(s, r, layout.START, 0)
    for other in range(layout.MAX_REPLICAS):
        put(s, r, layout.FETCHED + other, 0)

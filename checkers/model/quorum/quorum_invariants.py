"""Invariants of the model of the quorum, each a function of a state."""

from typing import Final

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.protocol.invariants import invariants_of
from highwater.checkers.model.quorum import quorum_layout as layout
from highwater.checkers.model.quorum.quorum_layout import get, is_behind, size_of, voters_of


@rule
def committed_kept(s: State) -> bool:
    """No leader lacks a decision that a leader of an earlier epoch has committed."""
    for r in range(layout.MAX_REPLICAS):
        for decision in range(1, int(s[layout.DECIDED]) + 1):
            epoch = int(s[layout.COMMITTED + decision - 1])
            later = get(s, r, layout.LEADS) and 0 < epoch < get(s, r, layout.EPOCH)
            if later and not _has(s, r, decision):
                return False
    return True


@rule
def _has(s: State, r: int, decision: int) -> bool:
    for offset in range(get(s, r, layout.LEO)):
        if get(s, r, layout.VALUES + offset) == decision:
            return True
    return False


@rule
def agree_below_hw(s: State) -> bool:
    """Two controllers hold the same entries below the high watermarks of both."""
    for a in range(layout.MAX_REPLICAS):
        for b in range(a):
            if not _same_to(s, a, b, min(get(s, a, layout.HW), get(s, b, layout.HW))):
                return False
    return True


@rule
def one_leader(s: State) -> bool:
    """No two controllers lead in the same epoch."""
    for a in range(layout.MAX_REPLICAS):
        for b in range(a):
            leads = get(s, a, layout.LEADS) and get(s, b, layout.LEADS)
            if leads and get(s, a, layout.EPOCH) == get(s, b, layout.EPOCH):
                return False
    return True


@rule
def quorum_returns(s: State) -> bool:
    """If all controllers restart, they can elect a leader."""
    for c in range(layout.MAX_REPLICAS):
        voters = voters_of(s, c)
        if get(s, c, layout.STATUS) != layout.USED or not voters >> c & 1:
            continue
        votes = 0
        for r in range(layout.MAX_REPLICAS):
            if voters >> r & 1 and get(s, r, layout.STATUS) == layout.USED:
                votes += int(not is_behind(s, c, r))
        if votes > size_of(voters) // 2:
            return True
    return False


@rule
def log_matching(s: State) -> bool:
    """Two logs with the same epoch at an offset are equal up to that offset."""
    for a in range(layout.MAX_REPLICAS):
        for b in range(a):
            for offset in range(min(get(s, a, layout.LEO), get(s, b, layout.LEO)) - 1, -1, -1):
                if get(s, a, layout.EPOCHS + offset) == get(s, b, layout.EPOCHS + offset):
                    if not _same_to(s, a, b, offset + 1):
                        return False
                    break
    return True


@rule
def _same_to(s: State, a: int, b: int, end: int) -> bool:
    for offset in range(end):
        for field in (layout.EPOCHS, layout.VALUES):
            if get(s, a, field + offset) != get(s, b, field + offset):
                return False
    return True


QUORUM_INVARIANTS: Final = invariants_of(
    promises=(committed_kept, agree_below_hw, one_leader, quorum_returns), needs=(log_matching,)
)


@rule
def broken_of(s: State, k: Constants) -> int:  # noqa: ARG001 - of all machines
    """Return a mask of the invariants that a state breaks, in their order."""
    return (
        int(not committed_kept(s))
        | int(not agree_below_hw(s)) << 1
        | int(not one_leader(s)) << 2
        | int(not quorum_returns(s)) << 3
        | int(not log_matching(s)) << 4
    )

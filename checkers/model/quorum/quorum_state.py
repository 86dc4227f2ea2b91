"""The state of the model of the quorum in readable form, and sentences about its moves."""

from typing import Final

import msgspec

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.readable_state import members
from highwater.checkers.model.quorum import quorum_layout as layout
from highwater.checkers.model.quorum.quorum_layout import get, voters_of
from highwater.checkers.model.quorum.quorum_moves import QuorumMove

_NODES: Final = "ABCDEFG"


class ModelController(msgspec.Struct, frozen=True, kw_only=True):
    """A controller with its disk, such as B; B' is its node with the next directory id.

    Attributes:
        epoch: the highest epoch that the controller knows.
        log: ``d1`` for a decision, ``e2`` for the begin of epoch 2, ``AB`` for a set of voters.
        hw: the high watermark that the controller knows.
        voters: the voter set in which the controller believes.
    """

    name: str
    leads: bool
    epoch: int
    log: tuple[str, ...]
    hw: int
    voters: tuple[str, ...]


def name_of(s: State, r: int) -> str:
    """Return the name of a replica: its node, with a mark for each disk that was replaced."""
    node = get(s, r, layout.NODE)
    before = sum(
        get(s, other, layout.STATUS) != layout.UNUSED and get(s, other, layout.NODE) == node
        for other in range(r)
    )
    return _NODES[node] + "'" * before


def _names(s: State, mask: int) -> tuple[str, ...]:
    return tuple(name_of(s, r) for r in members(mask))


def decode_quorum(s: State) -> tuple[ModelController, ...]:
    """Return the controllers of a state, without replaced disks."""
    return tuple(
        ModelController(
            name=name_of(s, r),
            leads=bool(get(s, r, layout.LEADS)),
            epoch=get(s, r, layout.EPOCH),
            log=tuple(_entry(s, r, offset) for offset in range(get(s, r, layout.LEO))),
            hw=get(s, r, layout.HW),
            voters=_names(s, voters_of(s, r)),
        )
        for r in range(layout.MAX_REPLICAS)
        if get(s, r, layout.STATUS) == layout.USED
    )


def _entry(s: State, r: int, offset: int) -> str:
    value = get(s, r, layout.VALUES + offset)
    if value >= layout.SET:
        return "".join(_names(s, value - layout.SET))
    return f"d{value}" if value else f"e{get(s, r, layout.EPOCHS + offset)}"


def says_quorum(kind: int, a: int, b: int, before: State, after: State) -> str:
    """Return a move as a sentence, from the states before and after it."""
    move, who = QuorumMove(kind), name_of(before, a)
    other = name_of(before, b) if b < layout.MAX_REPLICAS else ""
    sentences = {
        QuorumMove.FETCH: f"{who} fetches from {other}{_fetched(a, before, after)}",
        QuorumMove.FETCH_ONE: f"{who} fetches one entry from {other}{_fetched(a, before, after)}",
        QuorumMove.FETCH_NONE: f"{who} fetches from {other}, but the response is lost",
        QuorumMove.DECIDE: f"{who} appends decision d{int(after[layout.DECIDED])}",
        QuorumMove.RESTART: f"{who} restarts",
        QuorumMove.REPLACE: f"{who} gets an empty disk{_formatted(a, after)}",
        QuorumMove.ADD: f"{who} adds the voter {other}",
        QuorumMove.REMOVE: f"{who} removes the voter {other}",
    }
    if move is QuorumMove.ELECT:
        votes = " and ".join(_names(before, b))
        sentence = f"{who} is elected in epoch {get(after, a, layout.EPOCH)}, by {votes}"
    else:
        sentence = sentences[move]
    return sentence + _committed(before, after)


def _fetched(f: int, before: State, after: State) -> str:
    start, end = get(before, f, layout.LEO), get(after, f, layout.LEO)
    if end < start:
        return f": it truncates its log to offset {end}"
    entries = ", ".join(_entry(after, f, offset) for offset in range(start, end))
    return f": it gets {entries}" if entries else ""


def _formatted(r: int, after: State) -> str:
    if get(after, r, layout.STATUS) == layout.USED:
        return ", and stays a voter"
    alone = any(
        get(after, other, layout.FORMATTED) == 1 << other for other in range(r, layout.MAX_REPLICAS)
    )
    return " with a new directory id" + (", as a quorum of its own" if alone else "")


def _committed(before: State, after: State) -> str:
    names = [
        f"d{decision + 1}"
        for decision in range(layout.MAX_DECISIONS)
        if after[layout.COMMITTED + decision] and not before[layout.COMMITTED + decision]
    ]
    return f"; {', '.join(names)} is committed" if names else ""

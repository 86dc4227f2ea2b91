"""Counterexamples that are known by heart, for pages and tests; nothing is searched."""

from typing import Final

from highwater.checkers.model.protocol.moves import Move
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import play

A, B, C = 0, 1, 2
LOSS: Final = (
    (Move.SEND, A, 0),
    (Move.FETCH, B, 0),
    (Move.FETCH, C, 0),
    (Move.FETCH, B, 0),
    (Move.FETCH, C, 0),
    (Move.STOP, A, B),
    (Move.STOP, B, C),
    (Move.LEARN, C, 0),
    (Move.LEARN, C, 0),
)
"""A and B are shut down in order, and C, who has yet to hear of the commit, cuts m1 off."""
FORK: Final = (*LOSS, (Move.SEND, C, 0))
"""C takes another record in its place."""


def found(moves: tuple[tuple[Move, int, int], ...], invariant: str) -> Counterexample:
    """A path on 0.10.2.2 that breaks an invariant with its last move."""
    setting = ModelSettings(kafka="0.10.2.2", scope=Scope(records=2, failures=0, moves=2))
    machine = setting.machine()
    rows = [(int(kind), a, b) for kind, a, b in moves]
    leaps = play(machine, rows, machine.breach(invariant))
    assert leaps is not None
    assert len(leaps) == len(moves)
    return setting.counterexample(invariant, leaps)


def lost() -> Counterexample:
    """An acknowledged record is lost."""
    return found(LOSS, "acked-kept")


def forked() -> Counterexample:
    """Two replicas have committed different records."""
    return found(FORK, "agree-below-hw")

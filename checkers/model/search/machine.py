"""A machine to search: an initial state, moves, and invariants."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State, rule

Moves = np.ndarray[Any, np.dtype[np.int64]]
"""(m, 3): kind and two arguments of each move."""


@rule
def anything(state: State, constants: Constants, kind: int, b: int) -> bool:  # noqa: ARG001
    """Return that every move may be possible."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineFunctions:
    """The functions that a search compiles. Each must be marked as a ``rule``.

    Attributes:
        apply: takes a move in place; False if it is not enabled, and the state is then undefined.
            possible: a cheap test of a move's kind and first argument, before the state is copied;
            false only where ``apply`` would be false too.
        canonical: writes to its second argument a state that stands for all of the same shape
            (broker names exchanged). The fewer it chooses from, the fewer states there are.
        broken: mask of the invariants that a state breaks, the same for every state of a shape.
    """

    apply: Callable[[State, Constants, int, int, int], bool]
    canonical: Callable[[State, State, Constants], None]
    broken: Callable[[State, Constants], int]
    possible: Callable[[State, Constants, int, int], bool] = anything


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machine:
    """A system with a finite number of states, within the bounds that ``constants`` holds.

    Attributes:
        laws: its functions. moves: every possible move.
        constants: handed to every law.
        initial: the first state, whole words of eight bytes.
        invariants: name to its bit in what ``broken`` returns, from 0.
        overflowed: whether something in a state has no room, so that nothing is known of it; it
            breaks every invariant. renamed: every state of the same shape as one, itself included.
    """

    laws: MachineFunctions
    moves: Moves
    constants: Constants
    initial: State
    invariants: Mapping[str, int]
    overflowed: Callable[[State], bool] = lambda _: False
    renamed: Callable[[State], Iterable[State]] = lambda state: (state,)

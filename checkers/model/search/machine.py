"""The type of systems that can be searched: an initial state, moves, and invariants."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.harness.base.errors import UsageError

Moves = np.ndarray[Any, np.dtype[np.int64]]
"""An array with a row of three numbers for each move: its kind and two arguments."""


@rule
def anything(state: State, constants: Constants, kind: int, b: int) -> bool:  # noqa: ARG001
    """Return True, because every move may be possible."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineFunctions:
    """The functions that a search compiles. Each function needs the decorator ``rule``.

    States of one shape differ only in the numbers of brokers.

    Attributes:
        apply: takes a move in place; returns False if the move is impossible. The state is then
            undefined.
        possible: a cheap test of a move's kind and first argument, before the state is copied. It
            returns False only if ``apply`` would return False too.
        canonical: writes to its second argument a state that stands for all states of its shape. A
            shape may have several canonical states; the search then visits each of them.
        broken: returns a mask of the invariants that a state breaks, equal for a whole shape.
    """

    apply: Callable[[State, Constants, int, int, int], bool]
    canonical: Callable[[State, State, Constants], None]
    broken: Callable[[State, Constants], int]
    possible: Callable[[State, Constants, int, int], bool] = anything


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machine:
    """A system with a finite number of states, within the bounds that ``constants`` holds.

    Attributes:
        laws: the functions that the search compiles.
        moves: every possible move.
        constants: the bounds and rules that every function gets.
        initial: the first state; its size is a multiple of eight bytes.
        invariants: for each name its bit in the mask that ``broken`` returns, from 0.
        overflowed: returns whether a state had no space for a part of its content. Such a state
            counts as breaking every invariant.
        renamed: returns all states that have the shape of its argument, including the argument.
    """

    laws: MachineFunctions
    moves: Moves
    constants: Constants
    initial: State
    invariants: Mapping[str, int]
    overflowed: Callable[[State], bool] = lambda _: False
    renamed: Callable[[State], Iterable[State]] = lambda state: (state,)

    def breach(self, invariant: str) -> Callable[[State], bool]:
        """Return a function that tests whether a state breaks an invariant.

        Raises:
            UsageError: the machine does not have the invariant.
        """
        if invariant not in self.invariants:
            raise UsageError(f"the model does not know {invariant!r}")
        bit = self.invariants[invariant]
        return lambda state: bool(self.laws.broken(state, self.constants) >> bit & 1)

"""Machines with a known number of states and a known shortest path, for tests of the search."""

from itertools import combinations_with_replacement
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State, rule
from highwater.checkers.model.search.machine import Machine, MachineFunctions

WIDTH: Final = 128
FILL_3, FILL_5, EMPTY_3, EMPTY_5, POUR_3_TO_5, POUR_5_TO_3 = range(6)


@rule
def pour(s: State, k: Constants, kind: int, a: int, b: int) -> bool:  # noqa: ARG001 - all laws are called alike
    """The puzzle of the two jugs (TLC's DieHard): measure four with a three and a five."""
    three, five = int(s[0]), int(s[1])
    if kind == FILL_3:
        three = 3
    elif kind == FILL_5:
        five = 5
    elif kind == EMPTY_3:
        three = 0
    elif kind == EMPTY_5:
        five = 0
    elif kind == POUR_3_TO_5:
        moved = min(three, 5 - five)
        three, five = three - moved, five + moved
    else:
        moved = min(five, 3 - three)
        three, five = three + moved, five - moved
    s[0], s[1] = three, five
    return True


@rule
def as_it_is(s: State, out: State, k: Constants) -> None:  # noqa: ARG001
    for at in range(s.shape[0]):
        out[at] = s[at]


@rule
def four_measured(s: State, k: Constants) -> int:  # noqa: ARG001
    """Bit 1: there are four in a jug. Bit 2: there are seven, which cannot be."""
    return (1 if s[1] == 4 else 0) | (2 if s[1] == 7 else 0)


@rule
def count_up(s: State, k: Constants, kind: int, a: int, b: int) -> bool:  # noqa: ARG001 - all laws are called alike
    """Counters that go up by one, ``k[1]`` of them up to ``k[0]``."""
    if a >= k[1] or s[a] >= k[0]:
        return False
    s[a] += 1
    return True


@rule
def sort_counters(s: State, out: State, k: Constants) -> None:
    for at in range(s.shape[0]):
        out[at] = s[at]
    for _ in range(k[1]):
        for at in range(k[1] - 1):
            if out[at] > out[at + 1]:
                out[at], out[at + 1] = out[at + 1], out[at]


@rule
def all_at_the_top(s: State, k: Constants) -> int:
    total = 0
    for at in range(k[1]):
        total += int(s[at])
    return (1 if total == k[0] * k[1] else 0) | (4 if total == 3 else 0)


def machine(laws: MachineFunctions, moves: int, constants: tuple[int, ...] = (0,)) -> Machine:
    numbered = np.zeros((moves, 3), np.int64)
    numbered[:, 0] = numbered[:, 1] = np.arange(moves)
    return Machine(
        laws=laws,
        moves=numbered,
        constants=np.array(constants, np.int64),
        initial=np.zeros(WIDTH, np.int8),
        invariants={"first": 0, "never": 1, "three": 2},
    )


JUGS: Final = MachineFunctions(apply=pour, canonical=as_it_is, broken=four_measured)
NAMED: Final = MachineFunctions(apply=count_up, canonical=as_it_is, broken=all_at_the_top)
NAMELESS: Final = MachineFunctions(apply=count_up, canonical=sort_counters, broken=all_at_the_top)


def jugs() -> Machine:
    """16 states, and four litres after six moves."""
    return machine(JUGS, 6)


def counters(top: int, number: int, *, named: bool) -> Machine:
    """(top + 1) ** number states with names, and as many as ``multisets`` without."""
    return machine(NAMED if named else NAMELESS, number, (top, number))


def multisets(top: int, number: int) -> int:
    return len(list(combinations_with_replacement(range(top + 1), number)))

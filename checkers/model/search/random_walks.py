"""Random walks, for bounds that no search can exhaust.

Their findings are real, though not the shortest; they do not prove that there are no others.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from highwater.checkers.model.search.breadth_first import (
    Limits,
    Reason,
    SearchProgress,
    Watch,
    overflows,
)
from highwater.checkers.model.search.kernels import Problem, kernels
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.paths import PathStep
from highwater.harness.base.ddmin import ddmin
from highwater.harness.base.errors import UsageError

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1
_AT_ONCE_S: Final = 0.2
"""Seconds of walking, about, between two checks of the limits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomWalkResult:
    """The result of random walks.

    Attributes:
        paths: for each invariant that was broken the walk that broke it first, shrunk.
        reason: why they ended before all were taken; None if they did not.
        walks: how many were taken.
        steps: moves of all of them.
        depth: moves of the longest.
    """

    paths: dict[str, tuple[PathStep, ...]]
    reason: Reason | None
    walks: int
    steps: int
    depth: int
    seconds: float
    compile_seconds: float


@dataclass(slots=True)
class _Tally:
    walks: int = 0
    steps: int = 0
    depth: int = 0


def walk(
    machine: Machine,
    invariants: Sequence[str],
    *,
    walks: int,
    depth: int,
    seed: int,
    limits: Limits,
    watch: Watch = lambda _: None,
) -> RandomWalkResult:
    """Take seeded walks of random moves, until every invariant asked for was broken.

    Args:
        machine: where to walk.
        invariants: names of its invariants.
        walks: how many at most; each follows from the seed and its number alone.
        depth: moves of each at most.
        seed: what every choice follows from.
        limits: of the walks. watch: told about the progress, several times a second.
    """
    take, compile_seconds = _compile(machine)
    began = time.perf_counter()
    bits = {name: machine.invariants[name] for name in invariants}
    paths: dict[str, tuple[PathStep, ...]] = {}
    tally, reason, looked = _Tally(), None, began
    for number in range(walks):
        open_bits = {name: bit for name, bit in bits.items() if name not in paths}
        problem = _problem(machine, open_bits.values())
        route = np.empty(depth, np.int64)
        rows = take(machine.initial.copy(), problem, depth, _seed_of(seed, number), route)
        tally.walks, tally.steps = tally.walks + 1, tally.steps + abs(rows)
        tally.depth = max(tally.depth, abs(rows))
        if rows < 0:
            tried = machine.moves[route[:-rows]].tolist()
            for name, bit in open_bits.items():
                path = play(machine, tried, bit)
                if path is not None and not overflows(machine, path):
                    paths[name] = shrink(machine, tried, bit)
        if len(paths) == len(bits):
            break
        now = time.perf_counter()
        if now - looked > _AT_ONCE_S:
            looked = now
            watch(SearchProgress(states=tally.steps, depth=tally.depth, seconds=now - began))
            if reason := _over(limits, now - began):
                break
    return RandomWalkResult(
        paths=paths,
        reason=reason,
        walks=tally.walks,
        steps=tally.steps,
        depth=tally.depth,
        seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds,
    )


def play(machine: Machine, moves: Sequence[Sequence[int]], bit: int) -> tuple[PathStep, ...] | None:
    """Take the moves that can be taken, up to the first state that breaks an invariant.

    Returns:
        The path to it; None if no state on the path breaks it.
    """
    state, leaps = machine.initial, []
    for kind, a, b in moves:
        after = state.copy()
        if machine.laws.apply(after, machine.constants, kind, a, b):
            leaps.append(PathStep(move=(kind, a, b), after=after))
            state = after
            if machine.laws.broken(after, machine.constants) >> bit & 1:
                return tuple(leaps)
    return None


class _Numbered(Protocol):
    def numbers(self) -> tuple[int, int, int]: ...


def replayed(
    machine: Machine, steps: Sequence[_Numbered], invariant: str
) -> tuple[PathStep, ...] | None:
    """Return the states of stored steps; None if not the last of them breaks the invariant.

    Raises:
        UsageError: a move or an invariant that the model does not know.
    """
    try:
        moves = [step.numbers() for step in steps]
        bit = machine.invariants[invariant]
    except KeyError as error:
        raise UsageError(f"the model does not know {error}") from error
    path = play(machine, moves, bit)
    return None if path is None or len(path) < len(moves) or overflows(machine, path) else path


def shrink(machine: Machine, moves: Sequence[Sequence[int]], bit: int) -> tuple[PathStep, ...]:
    """Drop moves for as long as the invariant is broken; no single one of the rest can be dropped.

    Args:
        machine: where the moves are taken.
        moves: a way to break the invariant.
        bit: the invariant's.
    """
    path = play(machine, moves, bit)
    assert path is not None
    steps = [leap.move for leap in path]
    needed = ddmin(steps, lambda part: play(machine, part, bit) is not None)
    shorter = play(machine, needed, bit)
    assert shorter is not None
    return shorter


def _compile(machine: Machine) -> tuple[Callable[..., int], float]:
    began = time.perf_counter()
    take = kernels(machine.laws).walk
    none = _problem(machine, ())
    take(machine.initial.copy(), none, 0, np.uint64(1), np.empty(0, np.int64))
    return take, time.perf_counter() - began


def _problem(machine: Machine, bits: Iterable[int]) -> Problem:
    return Problem(machine.constants, machine.moves, sum(1 << bit for bit in bits))


def _seed_of(seed: int, number: int) -> np.uint64:
    """Return a seed for each walk, far from its neighbours' (SplitMix64)."""
    value = (seed * 0x632BE59BD9B4E019 + (number + 1) * _GOLDEN) & _MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return np.uint64(value ^ (value >> 31))


def _over(limits: Limits, seconds: float) -> Reason | None:
    if limits.stop():
        return "stopped"
    if limits.seconds is not None and seconds > limits.seconds:
        return "time"
    return None

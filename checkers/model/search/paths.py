"""The moves and states of a path that a search found or that a file holds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.search.kernels import kernels
from highwater.checkers.model.search.machine import Machine
from highwater.harness.base.errors import HarnessError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathStep:
    """One move of a path, and the state after it; brokers keep their original numbers."""

    move: tuple[int, int, int]
    after: State


def follow(machine: Machine, chain: Sequence[int]) -> tuple[PathStep, ...]:
    """Return the moves along fingerprints of canonical states, from the initial state on.

    The search renames the brokers of every state, and does not store the old names. So this
    function takes the path in two forms at once: with the search's states, and with states that
    keep the original names. The search also drops decisions that every broker knows. This function
    keeps them, and ends early at a state without space for one more decision.

    Raises:
        HarnessError: no move leads to the next state, because a function of the machine treats
            brokers differently by their numbers.
    """
    form, state = _canonical(machine, machine.initial), machine.initial
    leaps: list[PathStep] = []
    for fingerprint in chain[1:]:
        form = _step(machine, form, fingerprint, len(leaps))
        state = _alike(machine, state, _shape(machine, form), leaps)
        if machine.overflowed(state):
            break
    return tuple(leaps)


def transitions(
    machine: Machine, path: Sequence[PathStep]
) -> Iterator[tuple[tuple[int, int, int], State, State]]:
    """Yield each move of a path with the states before and after it."""
    before = machine.initial
    for leap in path:
        yield leap.move, before, leap.after
        before = leap.after


def overflows(machine: Machine, path: Sequence[PathStep]) -> bool:
    """Return whether the last state of a path did not fit into the model's fixed-size fields."""
    return bool(path) and machine.overflowed(path[-1].after)


def play(
    machine: Machine, moves: Sequence[Sequence[int]], breach: Callable[[State], bool]
) -> tuple[PathStep, ...] | None:
    """Take the moves that are possible, up to the first state that breaks an invariant.

    Args:
        breach: tests whether a state breaks the invariant.

    Returns:
        The path to that state; None if no state breaks the invariant.
    """
    state, leaps = machine.initial, []
    for kind, a, b in moves:
        after = state.copy()
        if machine.laws.apply(after, machine.constants, kind, a, b):
            leaps.append(PathStep(move=(kind, a, b), after=after))
            state = after
            if breach(after):
                return tuple(leaps)
    return None


class _Numbered(Protocol):
    def numbers(self) -> tuple[int, int, int]: ...


def replayed(
    machine: Machine, steps: Sequence[_Numbered], breach: Callable[[State], bool]
) -> tuple[PathStep, ...] | None:
    """Return the path of stored steps; None unless exactly the last step breaks the invariant.

    Raises:
        UsageError: the model does not know a move.
    """
    try:
        moves = [step.numbers() for step in steps]
    except KeyError as error:
        raise UsageError(f"the model knows no move {error}") from error
    path = play(machine, moves, breach)
    return None if path is None or len(path) < len(moves) or overflows(machine, path) else path


def _alike(machine: Machine, state: State, shape: bytes, leaps: list[PathStep]) -> State:
    """Append the step to a state of this shape, or to an overflowed state; return that state."""
    steps = [PathStep(move=move, after=after) for move, after in successors(machine, state)]
    for leap in (
        *(leap for leap in steps if _shape(machine, leap.after) == shape),
        *(leap for leap in steps if machine.overflowed(leap.after)),
    ):
        leaps.append(leap)
        return leap.after
    raise _astray(len(leaps))


def successors(machine: Machine, state: State) -> list[tuple[tuple[int, int, int], State]]:
    """Return every possible move with the state after it, computed in plain Python."""
    steps = []
    for kind, a, b in machine.moves.tolist():
        after = state.copy()
        if machine.laws.apply(after, machine.constants, kind, a, b):
            steps.append(((kind, a, b), after))
    return steps


def _step(machine: Machine, form: State, number: int, steps: int) -> State:
    """Return the canonical state that follows ``form`` and has this fingerprint."""
    identify = kernels(machine.laws).identify
    for _, after in successors(machine, form):
        if int(identify(after, machine.constants)) == number:
            return _canonical(machine, after)
    raise _astray(steps)


def _shape(machine: Machine, state: State) -> bytes:
    """Return bytes that are equal for all states of a shape: its smallest canonical state."""
    return min(_canonical(machine, renaming).tobytes() for renaming in machine.renamed(state))


def _canonical(machine: Machine, state: State) -> State:
    form = state.copy()
    machine.laws.canonical(state, form, machine.constants)
    return form


def _astray(steps: int) -> HarnessError:
    return HarnessError(
        f"no move continues the path that the search found, after its step {steps}",
        hint="This is a bug of the model: a rule treats brokers differently by their numbers.",
    )

"""The inner loops of the search, compiled for one machine's functions and cached on disk."""

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, register_rules, rule
from highwater.checkers.model.search.fingerprints import Table, Words, copy_all, fingerprint, insert
from highwater.checkers.model.search.machine import MachineFunctions, Moves
from highwater.checkers.spark.numba_cache import cached_compilation

F = TypeVar("F", bound=Callable[..., Any])

_MODEL: Final = "highwater.checkers.model."
_FOLDER: Final = Path(__file__).parents[1]

_RECENT: Final = 1 << 17
"""The number of recent states that a call remembers, by fingerprints from before brokers are
renamed. Most states are soon reached again, and then need no renaming."""


class Problem(NamedTuple):
    """The constant part of a search: constants, moves, and a mask of the invariants to check."""

    constants: Constants
    moves: Moves
    invariants: int


class Expansion(NamedTuple):
    """The numbers of source rows expanded, new states written, and moves taken by one call."""

    row: int
    new: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernels:
    """The compiled functions of a search.

    Attributes:
        expand: ``(source, row, out, table, problem, marks)``: takes every move from each of the
            canonical states ``source[row:]``. It writes new states to ``out``. For the first state
            that breaks an invariant, it writes the fingerprint to ``marks``, at the invariant's
            bit. It stops when ``out`` may have no space for the next row. It releases the GIL.
        identify: ``(state, constants)``: returns the fingerprint of a state's canonical form.
        fingerprint: returns the fingerprint of a canonical state, as words.
        grow: ``(old table, new table)``: copies all entries into the new table.
    """

    expand: Callable[[Words, int, Words, Table, Problem, Words], Expansion]
    identify: Callable[[np.ndarray[Any, np.dtype[np.int8]], Constants], int]
    fingerprint: Callable[[Words], int]
    grow: Callable[[Table, Table], None]


@functools.cache
def kernels(laws: MachineFunctions) -> Kernels:
    """Return the kernels for a machine's functions. Their first call compiles or loads them."""
    register_rules()
    with cached_compilation("kernels", _sources(laws)):
        return Kernels(
            expand=_expander(laws),
            identify=_identifier(laws),
            fingerprint=_compiled(_fingerprint),
            grow=_compiled(_grow),
        )


def _compiled(function: F) -> F:
    return cast("F", numba.njit(nogil=True, cache=True)(function))


def _sources(laws: MachineFunctions) -> list[Path]:
    """Return the files on which the compiled code depends: its functions, and their imports."""
    here = Path(__file__)
    rules = (laws.apply, laws.possible, laws.canonical, laws.broken)
    waiting, files = [here, *(Path(rule.__code__.co_filename) for rule in rules)], set[Path]()
    while waiting:
        if (path := waiting.pop()) not in files:
            files.add(path)
            waiting += _imported(path)
    return sorted(files)


def _imported(path: Path) -> Iterator[Path]:
    """Yield the files of the model's modules that a module imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_MODEL):
            folder = _FOLDER.joinpath(*str(node.module).removeprefix(_MODEL).split("."))
            names = (folder / name.name for name in node.names)
            for part in (folder, *names):
                if part.with_suffix(".py").exists():
                    yield part.with_suffix(".py")


@rule
def mark(breaches: int, key: np.uint64, marks: Words) -> None:
    """Record that the state with fingerprint ``key`` breaks these invariants."""
    for bit in range(marks.shape[0]):
        if (breaches >> bit) & 1:
            marks[bit] = key


def _fingerprint(state: Words) -> Any:  # noqa: ANN401 - uint64, or what it is outside of Numba
    return fingerprint(state)


def _grow(old: Table, new: Table) -> None:
    copy_all(old, new)


def _identifier(laws: MachineFunctions) -> Callable[..., int]:
    canonical = laws.canonical

    def identify(state: Any, constants: Constants) -> Any:  # noqa: ANN401 - int8 in, uint64 out
        form = np.empty(state.shape[0] // 8, np.uint64)
        canonical(state, form.view(np.int8), constants)
        return fingerprint(form)

    return _compiled(identify)


def _expander(laws: MachineFunctions) -> Callable[..., Expansion]:  # noqa: C901 - one loop, in one piece
    apply, canonical, broken = laws.apply, laws.canonical, laws.broken
    possible = laws.possible

    def expand(
        source: Words, row: int, out: Words, table: Table, problem: Problem, marks: Words
    ) -> Expansion:
        constants, moves, bits = problem
        words = source.shape[1]
        work, form = np.empty(words, np.uint64), np.empty(words, np.uint64)
        work_bytes, form_bytes = work.view(np.int8), form.view(np.int8)
        recent = np.zeros(_RECENT, np.uint64)
        new, moves_taken = 0, 0
        room = out.shape[0] - moves.shape[0]
        while row < source.shape[0] and new <= room and (bits or not problem.invariants):
            parent = fingerprint(source[row])
            before = source[row].view(np.int8)
            for move in range(moves.shape[0]):
                if not possible(before, constants, moves[move, 0], moves[move, 1]):
                    continue
                for word in range(words):
                    work[word] = source[row, word]
                if not apply(work_bytes, constants, moves[move, 0], moves[move, 1], moves[move, 2]):
                    continue
                moves_taken += 1
                raw = fingerprint(work)
                seat = raw & np.uint64(_RECENT - 1)
                if recent[seat] == raw:
                    continue
                recent[seat] = raw
                canonical(work_bytes, form_bytes, constants)
                key = fingerprint(form)
                if not insert(table, key, parent):
                    continue
                for word in range(words):
                    out[new, word] = form[word]
                new += 1
                breaches = broken(form_bytes, constants) & bits
                if breaches:
                    bits &= ~breaches
                    mark(breaches, key, marks)
            row += 1
        return Expansion(row, new, moves_taken)

    return _compiled(expand)

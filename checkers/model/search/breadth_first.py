"""Breadth-first search: every state within the bounds, and the shortest way to break an invariant.

The search goes level by level, so the first breach that it finds has the fewest moves. A complete
state is stored only until it is expanded. After that, only its fingerprint and its parent's
fingerprint are stored; from these, a second pass reconstructs a path.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import psutil

from highwater.checkers.model.search.fingerprints import (
    CROWDED,
    FULL,
    Words,
    ancestors,
    collisions,
    new_table,
    size_of,
)
from highwater.checkers.model.search.kernels import Expansion, Kernels, Problem, kernels
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.paths import PathStep, follow, overflows

Reason = Literal["memory", "time", "stopped", "overflow"]
"""The reason why a search ended early: it used up its memory or time, its caller stopped it, or a
state within the bounds does not fit in the vector."""

BLOCK: Final = 1 << 15
"""The number of states in one block of memory. One call of the compiled search loop adds at most
one block."""

_BITS: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search.

    Attributes:
        memory: maximum bytes for the table and for the states that wait to be expanded.
        seconds: maximum search time, without the time to compile; None for no limit.
        stop: called several times a second; True stops the search.
    """

    memory: int
    seconds: float | None = None
    stop: Callable[[], bool] = lambda: False


def half_of_free_memory() -> int:
    """Return the number of bytes that a search may use by default."""
    return int(psutil.virtual_memory().available) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProgress:
    """The progress of a search.

    Attributes:
        states: number of distinct states found.
        depth: number of moves from the initial state to the states that are expanded now.
        seconds: the time since the search began.
    """

    states: int
    depth: int
    seconds: float


Watch = Callable[[SearchProgress], None]

Visit = Callable[[Words, int], Mapping[int, int]]
"""A function that gets new states, one state a row, and their level. It returns names of some of
them, and their rows. The search keeps a path to each state with a name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchOutcome:
    """The result of a search.

    Attributes:
        paths: for each broken invariant, a shortest path to a state that breaks it.
        chains: for each name that ``visit`` returned, the fingerprints along a shortest path to its
            state, an argument of ``follow``.
        reason: why the search ended early; None if it found every state or a breach of every
            invariant.
        exhausted: whether the search found every state within the bounds.
        depth: number of moves from the initial state to the farthest state that the search found.
        transitions: number of moves taken, to new or to known states.
        seconds: search time; ``compile_seconds`` is the time before it to compile or load kernels.
        peak_bytes: the largest amount of memory that this process used.
    """

    paths: dict[str, tuple[PathStep, ...]]
    chains: dict[int, list[int]]
    reason: Reason | None
    exhausted: bool
    states: int
    transitions: int
    depth: int
    seconds: float
    compile_seconds: float
    peak_bytes: int

    @property
    def collision(self) -> float:
        """An upper bound of the probability that two states had the same fingerprint."""
        return collisions(self.states)


def explore(
    machine: Machine,
    invariants: Sequence[str],
    *,
    limits: Limits,
    jobs: int = 1,
    watch: Watch = lambda _: None,
    visit: Visit = lambda *_: {},
) -> SearchOutcome:
    """Search until every given invariant is broken, all states are found, or a limit is reached.

    Args:
        machine: the machine to search.
        invariants: names of its invariants; without names the search finds every state.
        limits: the limits of the search. The outcome includes what the search found before a limit.
        jobs: number of threads. With several threads, the search may find any of the shortest
            paths.
        watch: called with the progress several times a second.
        visit: called with every block of states before the search expands it; see ``Visit``.
    """
    compiled = kernels(machine.laws)
    compile_seconds = compile_all(machine)
    began = time.perf_counter()
    with ThreadPoolExecutor(jobs, thread_name_prefix="explore") as pool:
        search = _Search(machine, invariants, compiled, jobs, pool)
        reason = search.run(limits, watch, began, visit)
    paths = {name: follow(machine, ancestors(search.table, at)) for name, at in search.breaches()}
    broken = {name: path for name, path in paths.items() if not overflows(machine, path)}
    return SearchOutcome(
        paths=broken,
        chains={name: ancestors(search.table, at) for name, at in search.named.items()},
        reason=reason if len(broken) == len(paths) else "overflow",
        exhausted=search.exhausted and len(broken) == len(paths),
        states=search.states,
        transitions=search.transitions,
        depth=search.depth,
        seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds,
        peak_bytes=search.peak,
    )


def compile_all(machine: Machine) -> float:
    """Compile or load every kernel of a search; return the seconds that this took."""
    began = time.perf_counter()
    compiled, none = kernels(machine.laws), new_table(2)
    states = np.empty((0, machine.initial.nbytes // 8), np.uint64)
    marks = np.zeros(_BITS, np.uint64)
    problem = Problem(machine.constants, machine.moves, 0)
    compiled.expand(states, 0, states, none, problem, marks)
    compiled.identify(machine.initial, machine.constants)
    compiled.grow(none, none)
    return time.perf_counter() - began


@dataclass(slots=True)
class _Output:
    """The new states that one thread has found, in blocks; the last block is not full."""

    words: int
    blocks: list[Words] = field(default_factory=list)
    filled: int = BLOCK

    def room(self, least: int) -> Words:
        """Return free rows for new states, at least ``least`` of them."""
        if BLOCK - self.filled < least:
            self._trim()
            self.blocks.append(np.empty((BLOCK, self.words), np.uint64))
            self.filled = 0
        return self.blocks[-1][self.filled :]

    def nbytes(self) -> int:
        """Return the memory that the states use, in bytes."""
        return sum(block.nbytes for block in self.blocks)

    def close(self) -> list[Words]:
        """Return the blocks of all states that were written."""
        self._trim()
        return self.blocks

    def _trim(self) -> None:
        if self.blocks:
            self.blocks[-1] = self.blocks[-1][: self.filled]


class _Search:
    """The state of a search. It changes after each round, in which each thread calls the kernel."""

    def __init__(
        self,
        machine: Machine,
        invariants: Sequence[str],
        compiled: Kernels,
        jobs: int,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.machine, self.compiled, self.jobs, self.pool = machine, compiled, jobs, pool
        self.bits = {name: machine.invariants[name] for name in invariants}
        self.asked_bits = sum(1 << bit for bit in self.bits.values())
        self.marks = np.zeros((jobs, _BITS), np.uint64)
        self.table = new_table()
        self.states, self.transitions, self.peak = 1, 0, 0
        self.level, self.depth = 0, 0
        self.frontier: list[Words] = []
        self.named: dict[int, int] = {}
        self.exhausted = False
        self._process = psutil.Process()

    def run(self, limits: Limits, watch: Watch, began: float, visit: Visit) -> Reason | None:
        """Search level after level; return why the search ended early, or None."""
        self._begin()
        while self.frontier and not self._all_broken():
            for block in self.frontier:
                for name, row in visit(block, self.level).items():
                    self.named[name] = int(self.compiled.fingerprint(block[row]))
            next_level = [_Output(self.machine.initial.nbytes // 8) for _ in range(self.jobs)]
            for _ in self._rounds(next_level):
                seconds = time.perf_counter() - began
                self.peak = max(self.peak, self._process.memory_info().rss)
                watch(SearchProgress(states=self.states, depth=self.level, seconds=seconds))
                if self._all_broken():
                    return None
                if limits.stop():
                    return "stopped"
                if limits.seconds is not None and seconds > limits.seconds:
                    return "time"
                if not self._make_room(limits.memory, next_level):
                    return "memory"
            self.frontier = [block for level in next_level for block in level.close() if len(block)]
            self.level += 1
        self.exhausted = not self.frontier
        return None

    def breaches(self) -> Iterator[tuple[str, int]]:
        """Yield each broken invariant, with the fingerprint of a state that breaks it."""
        for name, bit in self.bits.items():
            if mark := self.marks[:, bit].max():
                yield name, int(mark)

    def _begin(self) -> None:
        form = np.empty_like(self.machine.initial)
        self.machine.laws.canonical(self.machine.initial, form, self.machine.constants)
        key = int(self.compiled.identify(self.machine.initial, self.machine.constants))
        slot = key & (len(self.table.keys) - 1)
        self.table.keys[slot] = self.table.parents[slot] = key
        self.frontier = [form.view(np.uint64)[None, :]]
        broken = self.machine.laws.broken(form, self.machine.constants)
        for bit in self.bits.values():
            if broken >> bit & 1:
                self.marks[0, bit] = key

    def _rounds(self, outputs: Sequence[_Output]) -> Iterator[None]:
        """Expand all states of the present level; yield after each round."""
        while self.frontier:
            now = _deal(self.frontier, self.jobs)
            calls = [
                self.pool.submit(self._expand, rows, outputs[job], self.marks[job])
                for job, rows in enumerate(now)
            ]
            for rows, output, call in zip(now, outputs, calls, strict=False):
                done = call.result()
                output.filled += done.new
                self.states += done.new
                self.transitions += done.moves
                self.depth = self.level + 1 if done.new else self.depth
                if done.row < len(rows):
                    self.frontier.append(rows[done.row :])
            yield

    def _expand(self, rows: Words, output: _Output, marks: Words) -> Expansion:
        left = self.asked_bits
        for bit in self.bits.values():
            if self.marks[:, bit].any():
                left &= ~(1 << bit)
        room = output.room(len(self.machine.moves))
        problem = Problem(self.machine.constants, self.machine.moves, left)
        return self.compiled.expand(rows, 0, room, self.table, problem, marks)

    def _all_broken(self) -> bool:
        return bool(self.bits) and all(self.marks[:, bit].any() for bit in self.bits.values())

    def _make_room(self, memory: int, outputs: Sequence[_Output]) -> bool:
        """Return whether the next round fits in memory; double the table if necessary."""
        after = self.states + self.jobs * BLOCK
        waiting = sum(rows.nbytes for rows in self.frontier)
        waiting += sum(output.nbytes() for output in outputs)
        while after > FULL * len(self.table.keys):
            if waiting + 3 * size_of(self.table) > memory:
                return after <= CROWDED * len(self.table.keys)
            larger = new_table(2 * len(self.table.keys))
            self.compiled.grow(self.table, larger)
            self.table = larger
        return waiting + size_of(self.table) <= memory


def _deal(frontier: list[Words], jobs: int) -> list[Words]:
    """Return rows for each thread to expand: a block each, or equal shares of the last blocks."""
    if len(frontier) >= jobs:
        return [frontier.pop() for _ in range(jobs)]
    rows = np.concatenate(frontier)
    frontier.clear()
    return [share for share in np.array_split(rows, jobs) if len(share)]

"""The search itself, on machines whose states, depth and shortest path are known."""

import dataclasses
import functools
import os
import time
from pathlib import Path

import numpy as np
import pytest

from highwater.checkers.model.search import kernels as compiled
from highwater.checkers.model.search.breadth_first import BLOCK, Limits, SearchProgress, explore
from highwater.checkers.model.search.fingerprints import Words, ancestors, collisions, new_table
from highwater.checkers.model.search.kernels import kernels
from highwater.checkers.model.search.paths import follow, successors
from highwater.harness.base.errors import HarnessError
from tests.unit.checkers.model.search.toys import counters, jugs, multisets

pytestmark = pytest.mark.slow  # each machine is compiled, the first time

PLENTY = Limits(memory=1 << 30)


def test_the_jugs_are_as_tlc_says() -> None:
    """DieHard: 16 distinct states; four litres after six moves, which TLC calls seven states."""
    found = explore(jugs(), ["first", "never"], limits=PLENTY)
    assert (found.states, found.transitions, found.exhausted, found.reason) == (16, 96, True, None)
    assert set(found.paths) == {"first"}
    path = found.paths["first"]
    assert len(path) == 6
    assert path[-1].after[1] == 4
    assert found.collision == collisions(16) == 16 * 16 / 2**65


def test_every_state_is_visited_once_with_its_level() -> None:
    seen: list[tuple[bytes, int]] = []

    def visit(states: Words, level: int) -> dict[int, int]:
        rows = {len(seen) + row: row for row in range(len(states))}
        seen.extend((state.tobytes(), level) for state in states)
        return rows

    machine = jugs()
    found = explore(machine, [], limits=PLENTY, visit=visit)
    assert len(seen) == len({state for state, _ in seen}) == found.states == 16
    assert {level for _, level in seen} == set(range(found.depth + 1))
    for name, (state, level) in enumerate(seen):
        path = follow(machine, found.chains[name])
        assert len(path) == level
        assert not path or path[-1].after.tobytes() == state


def test_the_search_ends_as_soon_as_everything_asked_for_is_broken() -> None:
    found = explore(counters(9, 5, named=True), ["three"], limits=PLENTY)
    assert len(found.paths["three"]) == found.depth == 3
    assert found.states < 100
    assert not found.exhausted
    assert found.reason is None


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("named", [True, False])
def test_every_state_is_met_once(jobs: int, *, named: bool) -> None:
    """More states than a block holds, and than the first table, with and without names."""
    machine = counters(9, 5, named=named)
    found = explore(machine, [], limits=PLENTY, jobs=jobs)
    assert found.states == (10**5 if named else multisets(9, 5))
    assert found.depth == 45
    assert found.exhausted
    assert found.states > 2 * BLOCK or not named


def test_many_threads_find_what_one_finds() -> None:
    one, four = (
        explore(counters(9, 5, named=False), ["first"], limits=PLENTY, jobs=jobs) for jobs in (1, 4)
    )
    assert len(one.paths["first"]) == len(four.paths["first"]) == 45
    assert one.transitions == four.transitions


def test_what_breaks_at_the_start_has_an_empty_path() -> None:
    found = explore(counters(0, 3, named=True), ["first"], limits=PLENTY)
    assert found.paths == {"first": ()}


def test_out_of_memory_says_how_far_it_came_and_keeps_what_it_found() -> None:
    few = Limits(memory=32 * BLOCK * 128 // 10)
    found = explore(counters(30, 5, named=True), ["three", "never"], limits=few)
    assert found.reason == "memory"
    assert not found.exhausted
    assert found.states > 1000
    assert len(found.paths["three"]) == 3


def test_out_of_time_and_stopped() -> None:
    machine = counters(30, 5, named=True)
    assert explore(machine, [], limits=Limits(memory=1 << 30, seconds=0)).reason == "time"
    glances: list[SearchProgress] = []
    stop = Limits(memory=1 << 30, stop=lambda: len(glances) >= 3)
    assert explore(machine, [], limits=stop, watch=glances.append).reason == "stopped"
    assert [one.depth for one in glances] == [0, 1, 2]
    assert [one.states for one in glances] == [6, 21, 56]


def test_laws_that_treat_names_differently_are_found_out() -> None:
    """A path along fingerprints that no move leads to is refused, not made up."""
    machine = counters(3, 2, named=True)
    start = int(kernels(machine.laws).identify(machine.initial, machine.constants))
    with pytest.raises(HarnessError, match="after its step 0"):
        follow(machine, [start, 12345])


def test_fingerprints_are_xxhash_and_murmur_by_the_book() -> None:
    """Against the definition in plain integers."""
    mask = (1 << 64) - 1

    def turn(lane: int, word: int) -> int:
        lane = lane + word * 0xC2B2AE3D27D4EB4F & mask
        return ((lane << 31 | lane >> 33) & mask) * 0x9E3779B185EBCA87 & mask

    def by_the_book(words: list[int]) -> int:
        mixers = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
        lanes = [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x85EBCA77C2B2AE63, mixers[0]]
        for at, word in enumerate(words):
            lane = at % 4 if at < len(words) // 4 * 4 else 0
            lanes[lane] = turn(lanes[lane], word)
        value = functools.reduce(turn, lanes)
        for factor in mixers:
            value = (value ^ value >> 33) * factor & mask
        return value ^ value >> 33

    machine = jugs()
    identify = kernels(machine.laws).identify
    generator = np.random.default_rng(5)
    for _ in range(20):
        state = generator.integers(-128, 128, len(machine.initial), dtype=np.int8)
        words = [int(word) for word in state.view(np.uint64)]
        assert int(identify(state, machine.constants)) == by_the_book(words)


def test_a_fingerprint_that_was_never_met_has_no_ancestors() -> None:
    with pytest.raises(KeyError):
        ancestors(new_table(8), 7)


def test_successors_are_the_moves_that_can_be_taken() -> None:
    machine = counters(1, 3, named=True)
    full = dataclasses.replace(machine, initial=machine.initial.copy())
    full.initial[1] = 1
    assert [move[1] for move, _ in successors(machine, full.initial)] == [0, 2]


def test_machine_code_is_kept_by_what_the_rules_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.kernels.cache_clear()
    try:
        explore(jugs(), [], limits=PLENTY)
        (folder,) = (tmp_path / "highwater" / "kernels").iterdir()
        assert list(folder.rglob("*.nbc"))
    finally:
        compiled.kernels.cache_clear()


def test_old_machine_code_is_removed_but_none_that_may_be_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "highwater" / "kernels"
    hours = [0.1, 0.5, 2, 3, 4, 5]
    for each in hours:
        (cache / f"{each}").mkdir(parents=True)
        os.utime(cache / f"{each}", (time.time() - each * 3600,) * 2)
    compiled.kernels.cache_clear()
    try:
        compiled.kernels(jugs().laws)
        kept = {one.name for one in cache.iterdir()}
    finally:
        compiled.kernels.cache_clear()
    assert len(kept) == 4
    assert {"0.1", "0.5", "2"} < kept

"""Cycles of operations, by kernels in this process.

``components`` finds by brute force, from all edges of a history, what is on a cycle.
"""

import itertools
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from highwater.checkers.cycles import cycles as finder
from highwater.checkers.history.view import ClientHistory
from tests.support.small_views import numbered, random_rows, view_of
from tests.unit.checkers.cycles.test_search import (
    BY_HAND,
    EXPECTED,
    Op,
    defined,
    random_history,
    rows_of,
    words,
)

Json = dict[str, Any]
WAYS = pytest.mark.parametrize("ww", [True, False])


def seen(histories: dict[str, list[Op]]) -> ClientHistory:
    return view_of(numbered(rows_of(histories)))


def found(view: ClientHistory, *, ww: bool) -> list[Json]:
    anomalies = finder.find(view, ww=ww)
    return [] if anomalies is None else anomalies.table().to_pylist()


@WAYS
def test_cycles_of_histories_written_by_hand(ww: bool) -> None:
    anomalies = found(seen(BY_HAND), ww=ww)
    assert sorted((row["run"], words(row)) for row in anomalies) == sorted(
        (run, told) for run, told in EXPECTED if ww or told.startswith("G1c")
    )
    assert {row["topic"] for row in anomalies} <= {"events"}


@pytest.mark.slow
@WAYS
def test_no_cycle_is_missed(ww: bool) -> None:
    histories = {f"seed {seed}": random_history(Random(seed)) for seed in range(600)}  # noqa: S311
    expected = {run: defined(ops, ww=ww) for run, ops in histories.items()}
    kinds: dict[str, set[str]] = {run: set() for run in histories}
    for row in found(seen(histories), ww=ww):
        kinds[row["run"]].add(row["kind"])
    wrong = {run: (kinds[run], expected[run]) for run in histories if kinds[run] != expected[run]}
    assert not wrong
    assert 60 < sum(map(bool, expected.values())) < 540


def damaged(seed: int) -> list[Op]:
    """A history whose log is damaged, and in which some offsets are not known."""
    dice = Random(seed)  # noqa: S311 - histories are no secrets
    scale = dice.choice([1, 1000, 10**9])
    ops = random_history(dice)
    for op in ops:
        for place, (partition, told, value) in enumerate(op.sent):
            unknown = dice.random() < 0.1
            op.sent[place] = partition, None if unknown else elsewhere(dice, told or 0), value
        for place, (partition, offset, value) in enumerate(op.read):
            op.read[place] = partition, elsewhere(dice, offset), value
    return [replace(op, begin=op.begin * scale, end=op.end * scale) for op in ops]


def elsewhere(dice: Random, offset: int) -> int:
    return max(0, offset + dice.choice([-1, 1])) if dice.random() < 0.15 else offset


def components(ops: list[Op], *, ww: bool) -> list[set[int]]:
    """By brute force, the operations of each component of the graph of all edges.

    Those apart that no edge by records leads to or from: there is a cycle without them.
    """
    sent = {value: number for number, op in enumerate(ops) for *_, value in op.sent}
    known: dict[str, set[tuple[int, int]]] = {value: set() for value in sent}
    for op in ops:
        failed = [] if op.outcome == "fail" else op.sent
        for partition, offset, value in [*failed, *op.read]:
            if offset is not None:
                known[value].add((partition, offset))
    seen = {value for op in ops for *_, value in op.read}
    read = {value for op in ops if op.outcome == "ok" for *_, value in op.read}
    proven = {sent[value] for value in read if ops[sent[value]].outcome == "info"}
    took = {
        value: min(known[value])
        for value, number in sent.items()
        if known[value] and (value in seen or ops[number].outcome == "ok" or number in proven)
    }
    sure = sorted(
        (place, sent[value])
        for value, place in took.items()
        if len(known[value]) == 1 and [*took.values()].count(place) == 1
    )
    edges = {
        (sent[value], reader)
        for reader, op in enumerate(ops)
        for *_, value in op.read
        if value in took
    }
    if ww:
        edges |= {(a, b) for (one, a), (two, b) in itertools.pairwise(sure) if one[0] == two[0]}
    edges = {(a, b) for a, b in edges if a != b}
    count = len(ops)
    reach = np.zeros((count, count), bool)
    for a, b in itertools.permutations(range(count), 2):
        reach[a, b] = (a, b) in edges or (ops[a].outcome == "ok" and ops[a].end < ops[b].begin)
    for middle in range(count):
        reach |= reach[:, [middle]] & reach[[middle], :]
    both = reach & reach.T
    touched = {end for a, b in edges if both[a, b] for end in (a, b)}
    groups = {frozenset(np.flatnonzero(row).tolist()) & touched for row in both if row.any()}
    return [set(group) for group in groups if group]


@WAYS
def test_every_component_of_a_damaged_history_has_a_cycle(ww: bool) -> None:
    histories = {f"seed {seed}": damaged(seed) for seed in range(1000)}
    cycles: dict[str, list[set[int]]] = {run: [] for run in histories}
    for row in found(seen(histories), ww=ww):
        steps = {operation_of(histories[row["run"]], step) for step in row["steps"]}
        cycles[row["run"]].append(steps)
    count = 0
    for run, ops in histories.items():
        groups = components(ops, ww=ww)
        owners = [[n for n, group in enumerate(groups) if cycle & group] for cycle in cycles[run]]
        assert all(len(of) == 1 for of in owners), (run, groups, cycles[run])
        assert {of[0] for of in owners} == {*range(len(groups))}, (run, groups, cycles[run])
        count += len(groups)
    assert count > 200


def operation_of(ops: list[Op], step: Json) -> int:
    own = [number for number, op in enumerate(ops) if op.process == step["process"]]
    nth: int = step["op"]
    return own[nth - 1]


@WAYS
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_changes_nothing(ww: bool, seed: int) -> None:
    histories = {f"seed {number}": damaged(number) for number in range(seed, 150, 3)}
    rows = numbered(rows_of(histories))
    view = view_of(rows)
    cycles = found(view, ww=ww)
    assert len(cycles) > 10
    Random(seed).shuffle(rows)  # noqa: S311 - for the same reason
    assert found(view_of(rows), ww=ww) == cycles


def side_by_side(seed: int) -> list[Op]:
    """A valid history of transactions that happen at a moment each, and some of which overlap."""
    dice = Random(seed)  # noqa: S311 - for the same reason
    ends, ops, log = [0, 0, 0], list[Op](), list[tuple[int, int, str]]()
    for moment in range(100, 1000, 10):
        sent: list[tuple[int, int | None, str]] = []
        read = dice.sample(log[-9:], min(len(log), dice.randrange(3)))
        for partition in dice.sample(range(3), dice.randrange(4)):
            sent.append((partition, ends[partition], f"{moment} {partition}"))
            log.append((partition, ends[partition], f"{moment} {partition}"))
            ends[partition] += 1
        begin, end = moment - dice.randrange(15), moment + dice.randrange(15)
        ops.append(Op(process=str(moment), begin=begin, end=end, sent=sent, read=read))
    return ops


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_found_in_valid_transactions(seed: int) -> None:
    view = seen({"run": side_by_side(seed)})
    assert finder.find(view, ww=True) is finder.find(view, ww=False) is None


LONG = [
    Op(process="p", begin=0, end=9, sent=[(0, 0, "a"), (2, 0, "e")], read=[(1, 0, "b")]),
    Op(process="q", begin=1, end=8, sent=[(1, 0, "b")], read=[(0, 0, "a")]),
]
ALONE = [
    Op(process="p", begin=0, end=1, sent=[(0, n, str(n)) for n in range(4)]),
    Op(process="c", begin=2, end=3, read=[(0, 0, "0")]),
]


@WAYS
def test_a_long_history_is_not_searched_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, ww: bool
) -> None:
    """Four rows are the most; what has more and can have no cycle is told of with ww alone."""
    monkeypatch.setattr(finder, "ROWS_MAX", 4)
    histories = {"short": BY_HAND["each reads the other"], "long": LONG, "alone": ALONE}
    view = seen(histories)
    assert {row["run"] for row in found(view, ww=ww)} == {"short"}
    told = {run: finder.unsearched(view, run, ww=ww) for run in histories}
    says = "the history has 5 rows, and only histories of at most 4 rows are searched for cycles"
    assert told == {"short": "", "long": says, "alone": says if ww else ""}


@pytest.mark.slow
def test_rows_of_any_kind_are_judged_alike_in_any_order() -> None:
    count = 0
    for seed in range(100):
        rows = random_rows(seed)
        cycles = found(view_of(rows), ww=True)
        Random(seed).shuffle(rows)  # noqa: S311 - for the same reason
        assert found(view_of(rows), ww=True) == cycles
        count += len(cycles)
    assert count > 10

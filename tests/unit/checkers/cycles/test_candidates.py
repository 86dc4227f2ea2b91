"""Operations that can be in cycles, and the cycles, by kernels in this process.

``components`` finds by brute force, from all edges of a history, what is on a cycle.
"""

import itertools
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from highwater.checkers.cycles import candidates
from highwater.checkers.cycles import cycles as finder
from highwater.checkers.cycles.candidates import MEMBER, suspects
from highwater.checkers.history.view import ClientHistory
from tests.support.small_views import number as hash_of
from tests.support.small_views import numbered, random_rows, shuffled, view_of
from tests.unit.checkers.cycles.test_search import (
    BY_HAND,
    EXPECTED,
    Op,
    defined,
    random_history,
    words,
)

Json = dict[str, Any]
WAYS = pytest.mark.parametrize("ww", [True, False])


def rows_of(histories: dict[str, list[Op]]) -> list[Json]:
    rows: list[Json] = []
    for run, ops in histories.items():
        numbers = dict.fromkeys((op.process for op in ops), 0)
        for op in ops:
            numbers[op.process] += 1
            records = [("send", *it) for it in op.sent] + [("read", *it) for it in op.read]
            rows += [
                {
                    "run": run, "at": len(rows) + place, "process": op.process, "kind": kind,
                    "phase": "run", "outcome": op.outcome, "invoke_ns": op.begin,
                    "complete_ns": op.end, "topic": "events", "partition": partition,
                    "offset": offset, "value": value, "op": numbers[op.process],
                }
                for place, (kind, partition, offset, value) in enumerate(records)
            ]  # fmt: skip
    return numbered(rows)


def found(view: ClientHistory, *, ww: bool) -> list[Json]:
    anomalies = finder.find(view, ww=ww)
    return [] if anomalies is None else anomalies.table().to_pylist()


@WAYS
def test_cycles_of_histories_written_by_hand(ww: bool) -> None:
    anomalies = found(view_of(rows_of(BY_HAND)), ww=ww)
    assert sorted((row["run"], words(row)) for row in anomalies) == sorted(
        (run, told) for run, told in EXPECTED if ww or told.startswith("G1c")
    )
    assert {row["topic"] for row in anomalies} <= {"events"}


@pytest.mark.slow
@WAYS
def test_no_cycle_is_missed_where_only_some_times_are_looked_at(ww: bool) -> None:
    histories = {f"seed {seed}": random_history(Random(seed)) for seed in range(600)}  # noqa: S311
    expected = {run: defined(ops, ww=ww) for run, ops in histories.items()}
    kinds: dict[str, set[str]] = {run: set() for run in histories}
    for row in found(view_of(rows_of(histories)), ww=ww):
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


def members(view: ClientHistory, *, ww: bool) -> pa.Table:
    found = suspects(view, ww=ww)
    return MEMBER.empty_table() if found is None else found.table()


def in_order(table: pa.Table) -> list[Json]:
    return sorted(table.to_pylist(), key=lambda row: [row[name] or 0 for name in MEMBER.names])


@WAYS
def test_all_that_is_on_a_cycle_is_in_one_segment(ww: bool) -> None:
    histories = {f"seed {seed}": damaged(seed) for seed in range(1000)}
    rows = rows_of(histories)
    segments: dict[int, set[int]] = {}
    for row in members(view_of(rows), ww=ww).to_pylist():
        segments.setdefault(row["operation"], set()).add(row["segment"])
    count = 0
    for run, ops in histories.items():
        for component in components(ops, ww=ww):
            operations = [operation_of(run, ops, number) for number in component]
            assert all(operation in segments for operation in operations), (run, component)
            assert len(set.union(*(segments[operation] for operation in operations))) == 1, (
                run,
                component,
            )
            count += 1
    assert count > 200


def operation_of(run: str, ops: list[Op], number: int) -> int:
    process = ops[number].process
    nth = sum(op.process == process for op in ops[: number + 1])
    return hash_of(hash_of(run, process), nth)


@WAYS
@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_size_of_chunks_change_nothing(
    monkeypatch: pytest.MonkeyPatch, ww: bool, seed: int
) -> None:
    histories = {f"seed {number}": damaged(number) for number in range(seed, 150, 3)}
    rows = rows_of(histories)
    view = view_of(rows)
    expected, cycles = in_order(members(view, ww=ww)), found(view, ww=ww)
    assert len(cycles) > 10
    Random(seed).shuffle(rows)  # noqa: S311 - for the same reason
    assert in_order(members(view_of(rows), ww=ww)) == expected
    assert found(view_of(rows), ww=ww) == cycles
    monkeypatch.setattr(candidates, "_CHUNK_BITS", seed)
    assert in_order(members(view_of(rows), ww=ww)) == expected


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
def test_nothing_is_suspected_of_valid_transactions(seed: int) -> None:
    view = view_of(rows_of({"run": side_by_side(seed)}))
    assert suspects(view, ww=True) is suspects(view, ww=False) is None


def test_rows_in_any_order_have_the_same_times() -> None:
    histories = {f"seed {seed}": damaged(seed) for seed in range(100)}
    places = candidates._places(view_of(rows_of(histories))).table()
    bounds = [
        candidates._set_bounds(it) for it in (places, shuffled(places, 1), shuffled(places, 2))
    ]
    ordered = [it.sort_by([(name, "ascending") for name in it.column_names]) for it in bounds]
    assert ordered[0] == ordered[1] == ordered[2]


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

"""Operations that can be in cycles, and the cycles, by kernels in this process.

``related`` finds both by brute force, from every edge of a history.
"""

from random import Random
from typing import Any

import pytest

from checkers.clients import cycles as finder
from checkers.clients.view import View
from tests.small_views import numbered, view_of
from tests.unit.test_cycles import BY_HAND, EXPECTED, Op, defined, random_history, words

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


def found(view: View, *, ww: bool) -> list[Json]:
    anomalies = finder.find(view, ww=ww)
    return [] if anomalies is None else anomalies.table().to_pylist()


@WAYS
def test_cycles_of_histories_written_by_hand(ww: bool) -> None:
    anomalies = found(view_of(rows_of(BY_HAND)), ww=ww)
    assert sorted((row["run"], words(row)) for row in anomalies) == sorted(
        (run, told) for run, told in EXPECTED if ww or told.startswith("G1c")
    )
    assert {row["topic"] for row in anomalies} <= {"events"}


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
    """A history whose log may be damaged, too, and in which offsets may not be known."""
    dice = Random(seed)  # noqa: S311 - histories are no secrets
    scale = dice.choice([1, 1000, 10**9])
    ops = [
        replace(op, begin=op.begin * scale, end=op.end * scale)
        for op in random_history(dice) + random_history(dice) * (seed % 2)
    ]
    for op in ops:
        for records in (op.sent, op.read):
            for place, (partition, offset, value) in enumerate(records):
                if dice.random() < 0.1:
                    records[place] = partition, max(0, offset + dice.choice([-1, 1])), value
                elif dice.random() < 0.1 and records is op.sent:
                    records[place] = partition, None, value
    return ops

"""Cycles in small graphs of operations, drawn by hand, and against a search of all of them."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from highwater.checkers.cycles import cycles as finder
from highwater.checkers.cycles.search import Dependencies, Operations, cycles
from highwater.checkers.history.columns import NEVER, Bools
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Engine
from highwater.harness.runs.history import OPERATIONS

Drawn = list[tuple[int, int, str]]
Span = tuple[int, int | None]
Row = dict[str, Any]


def _graph(
    spans: list[Span], edges: Drawn, processes: list[int] | None = None
) -> tuple[Operations, Dependencies]:
    count = len(spans)
    return (
        Operations(
            history=np.zeros(count, np.int64),
            process=np.array(processes or range(count), np.int64),
            begin=np.array([begin for begin, _ in spans], np.int64),
            end=np.array([NEVER if end is None else end for _, end in spans], np.int64),
        ),
        Dependencies(
            source=np.array([source for source, _, _ in edges], np.int64),
            target=np.array([target for _, target, _ in edges], np.int64),
            wr=np.array([why == "wr" for _, _, why in edges], bool),
        ),
    )


def _told(spans: list[Span], edges: Drawn, processes: list[int] | None = None) -> list[str]:
    """Each cycle in words: ``G0: 0 -ww-> 1 -ww-> 0``."""
    found = cycles(*_graph(spans, edges, processes))
    return [
        f"{name}: " + " ".join(f"{leg.source} -{leg.why}->" for leg in legs) + f" {legs[0].source}"
        for name, legs in found
    ]


TOGETHER: list[Span] = [(0, 9), (1, 9), (2, 9), (3, 9)]


@pytest.mark.parametrize(
    ("spans", "edges", "processes", "expected"),
    [
        (TOGETHER, [], None, []),
        (TOGETHER, [(0, 1, "ww"), (1, 2, "wr")], None, []),
        (TOGETHER, [(0, 1, "ww"), (1, 0, "ww")], None, ["G0: 0 -ww-> 1 -ww-> 0"]),
        (TOGETHER, [(0, 1, "ww"), (1, 0, "wr")], None, ["G1c: 0 -ww-> 1 -wr-> 0"]),
        # Where one edge is both, the weaker is named.
        (TOGETHER, [(0, 1, "wr"), (0, 1, "ww"), (1, 0, "ww")], None, ["G0: 0 -ww-> 1 -ww-> 0"]),
        # A short cycle rather than a long one.
        (
            TOGETHER,
            [(0, 1, "ww"), (1, 2, "ww"), (2, 3, "ww"), (3, 0, "ww"), (2, 1, "ww")],
            None,
            ["G0: 1 -ww-> 2 -ww-> 1"],
        ),
        # One that ended before the other began is written after it.
        ([(0, 1), (2, 3)], [(1, 0, "ww")], None, ["G0-realtime: 0 -realtime-> 1 -ww-> 0"]),
        ([(0, 1), (2, 3)], [(1, 0, "ww")], [7, 7], ["G0-process: 0 -process-> 1 -ww-> 0"]),
        ([(0, 1), (2, 3)], [(1, 0, "wr")], None, ["G1c-realtime: 0 -realtime-> 1 -wr-> 0"]),
        # To end where the other begins is no order; nor is there one after what never ended.
        ([(0, 2), (2, 3)], [(1, 0, "ww")], None, []),
        ([(0, None), (2, 3)], [(1, 0, "ww")], None, []),
        # The first needs no time, and implies all others; the second component needs it.
        (
            [(0, 9), (0, 9), (20, 21), (22, 23)],
            [(0, 1, "ww"), (1, 0, "ww"), (3, 2, "ww")],
            None,
            ["G0: 0 -ww-> 1 -ww-> 0", "G0-realtime: 2 -realtime-> 3 -ww-> 2"],
        ),
        # Neither G1c nor G0-process implies the other.
        (
            [(0, 1), (2, 3), (0, 9)],
            [(1, 0, "ww"), (0, 2, "wr"), (2, 0, "wr")],
            [7, 7, 8],
            ["G1c: 0 -wr-> 2 -wr-> 0", "G0-process: 0 -process-> 1 -ww-> 0"],
        ),
    ],
)
def test_cycle_is_named_by_the_weakest_edges_that_close_it(
    spans: list[Span], edges: Drawn, processes: list[int] | None, expected: list[str]
) -> None:
    assert _told(spans, edges, processes) == expected


def _expected(
    spans: list[Span], edges: Drawn, processes: list[int]
) -> Iterator[tuple[frozenset[int], set[str]]]:
    """Of each strongly connected component its sorts, by the definition: every way is walked."""
    count = len(spans)

    def reach(wr: bool, order: str | None) -> Bools:
        linked = np.zeros((count, count), bool)
        for source, target, why in edges:
            linked[source, target] |= why == "ww" or wr
        for a, b in itertools.permutations(range(count), 2):
            end = spans[a][1]
            before = end is not None and end < spans[b][0]
            same = order == "realtime" or (order == "process" and processes[a] == processes[b])
            linked[a, b] |= before and same
        for middle in range(count):
            linked |= linked[:, [middle]] & linked[[middle], :]
        return linked & linked.T

    orders = (None, "process", "realtime")
    closed = {(wr, order): reach(wr, orders[order]) for wr in (False, True) for order in (0, 1, 2)}
    whole = closed[True, 2]
    for component in {frozenset(np.flatnonzero(row).tolist()) for row in whole if row.any()}:
        some = sorted(component)
        sorts = {sort for sort, both in closed.items() if both[np.ix_(some, some)].any()}
        least = {
            sort
            for sort in sorts
            if not any(o != sort and o[0] <= sort[0] and o[1] <= sort[1] for o in sorts)
        }
        names = ("", "-process", "-realtime")
        yield component, {("G1c" if wr else "G0") + names[order] for wr, order in least}


spans_of_time = st.tuples(st.integers(0, 12), st.integers(0, 6), st.booleans()).map(
    lambda it: (it[0], it[0] + it[1] if it[2] else None)
)


@pytest.mark.slow
@given(data=st.data(), spans=st.lists(spans_of_time, min_size=2, max_size=7))
@settings(max_examples=400)
def test_every_component_has_the_sorts_of_the_definition(
    data: st.DataObject, spans: list[Span]
) -> None:
    some = st.integers(0, len(spans) - 1)
    edge = st.tuples(some, some, st.sampled_from(["ww", "wr"])).filter(lambda it: it[0] != it[1])
    edges = data.draw(st.lists(edge, max_size=9))
    processes = data.draw(st.lists(st.integers(0, 2), min_size=len(spans), max_size=len(spans)))
    found = cycles(*_graph(spans, edges, processes))
    expected = dict(_expected(spans, edges, processes))
    told: dict[frozenset[int], set[str]] = {component: set() for component in expected}
    for name, legs in found:
        owner = next(component for component in expected if legs[0].source in component)
        assert name not in told[owner]
        told[owner].add(name)
        for leg, following in zip(legs, legs[1:] + legs[:1], strict=True):
            assert leg.target == following.source
            if leg.edge >= 0:
                assert edges[leg.edge] == (leg.source, leg.target, leg.why)
            else:
                end = spans[leg.source][1]
                assert end is not None
                assert end < spans[leg.target][0]
        whys = {leg.why for leg in legs}
        assert name.startswith("G1c" if "wr" in whys else "G0")
        assert name.endswith(("-process", "-realtime")) == bool(whys & {"process", "realtime"})
    assert told == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operation: what it sent and read, as (partition, offset, value)."""

    process: str
    begin: int
    end: int
    outcome: str = "ok"
    sent: list[tuple[int, int | None, str]] = field(default_factory=list)
    read: list[tuple[int, int, str]] = field(default_factory=list)


def rows_of(histories: dict[str, list[Op]]) -> list[Row]:
    """Return operations in columns of ``history.OPERATIONS``, with ``run`` and ``at``."""
    rows: list[Row] = []
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
    return rows


def words(row: Row) -> str:
    """``G0: p/1 send a@0:0, ...``."""
    steps = [
        f"{step['process']}/{step['op']} {step['kind']}"
        + (f" {step['value']}@{step['partition']}:{step['offset']}" if step["value"] else "")
        for step in row["steps"]
    ]
    return f"{row['kind']}: " + ", ".join(steps)


BY_HAND = {
    "nothing": [
        Op(process="p", begin=0, end=1, sent=[(0, 0, "a")]),
        Op(process="p", begin=2, end=3, sent=[(0, 1, "b")]),
        Op(process="c", begin=2, end=4, read=[(0, 0, "a"), (0, 1, "b")]),
    ],
    # Two transactions in opposite orders in two partitions.
    "side by side": [
        Op(process="p", begin=0, end=9, sent=[(0, 0, "a"), (1, 1, "b")]),
        Op(process="q", begin=1, end=8, sent=[(0, 1, "c"), (1, 0, "d")]),
    ],
    # In the same order in both.
    "one after another": [
        Op(process="p", begin=0, end=9, sent=[(0, 0, "a"), (1, 0, "b")]),
        Op(process="q", begin=1, end=8, sent=[(0, 1, "c"), (1, 1, "d")]),
    ],
    "each reads the other": [
        Op(process="p", begin=0, end=9, sent=[(0, 0, "a")], read=[(1, 0, "b")]),
        Op(process="q", begin=1, end=8, sent=[(1, 0, "b")], read=[(0, 0, "a")]),
    ],
    "each reads the other, and is told no offset": [
        Op(process="p", begin=0, end=9, sent=[(0, None, "a")], read=[(1, 0, "b")]),
        Op(process="q", begin=1, end=8, sent=[(1, None, "b")], read=[(0, 0, "a")]),
    ],
    # Which of a transaction's own records it reads is no cycle; see precommitted-read.
    "reads its own": [Op(process="p", begin=0, end=9, sent=[(0, 0, "a")], read=[(0, 0, "a")])],
    "read, then sent": [
        Op(process="c", begin=0, end=1, read=[(0, 0, "a")]),
        Op(process="p", begin=2, end=3, sent=[(0, 0, "a")]),
    ],
    "before its elder": [
        Op(process="p", begin=0, end=1, sent=[(0, 1, "a")]),
        Op(process="q", begin=2, end=3, sent=[(0, 0, "b")]),
    ],
    "before its own elder": [
        Op(process="p", begin=0, end=1, sent=[(0, 1, "a")]),
        Op(process="p", begin=2, end=3, sent=[(0, 0, "b")]),
    ],
    # The log is to blame: of a record at two offsets, and of two at one, nobody knows the order.
    "twice": [
        Op(process="p", begin=0, end=1, sent=[(0, 0, "a")]),
        Op(process="q", begin=2, end=3, sent=[(0, 1, "b")]),
        Op(process="c", begin=4, end=5, read=[(0, 0, "a"), (0, 1, "b"), (0, 2, "a")]),
    ],
}  # fmt: skip

EXPECTED = {
    ("side by side", "G0: p/1 send a@0:0, q/1 send c@0:1, q/1 send d@1:0, p/1 send b@1:1"),
    ("each reads the other", "G1c: p/1 send a@0:0, q/1 read a@0:0, q/1 send b@1:0, p/1 read b@1:0"),
    (
        "each reads the other, and is told no offset",
        "G1c: p/1 send a@0:None, q/1 read a@0:0, q/1 send b@1:None, p/1 read b@1:0",
    ),
    (
        "read, then sent",
        "G1c-realtime: c/1 realtime, p/1 realtime, p/1 send a@0:0, c/1 read a@0:0",
    ),
    (
        "before its elder",
        "G0-realtime: p/1 realtime, q/1 realtime, q/1 send b@0:0, p/1 send a@0:1",
    ),
    (
        "before its own elder",
        "G0-process: p/1 process, p/2 process, p/2 send b@0:0, p/1 send a@0:1",
    ),
}


@pytest.mark.slow
@pytest.mark.spark
def test_cycles_are_found_by_tasks_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    table = pa.Table.from_pylist(rows_of(BY_HAND), schema)
    pq.write_table(table, tmp_path / "operations.parquet")
    operations = spark.read.parquet(str(tmp_path / "operations.parquet"))
    with Engine(spark, 0) as engine:
        anomalies = finder.find(ClientHistory(engine, operations, len(table)), ww=True)
        assert anomalies is not None
        found = anomalies.table().to_pylist()
    assert sorted((row["run"], words(row)) for row in found) == sorted(EXPECTED)


def random_history(random: Random) -> list[Op]:
    """A history in which anything may be wrong, but each record stands at one offset of its own."""
    ops: list[Op] = []
    records: list[tuple[int, int, str]] = []
    ends = [0, 0]
    for number in range(random.randint(2, 9)):
        begin = random.randint(0, 30)
        partitions = random.choices([0, 1], k=random.choice([0, 1, 1, 1, 2, 3]))
        sent: list[tuple[int, int, str]] = []
        for partition in partitions:
            sent.append((partition, ends[partition], f"m{number}-{len(sent)}"))
            ends[partition] += 1
        records += sent
        ops.append(
            Op(
                process=random.choice("pqr"),
                begin=begin,
                end=begin + random.randint(0, 12),
                outcome=random.choice(["ok", "ok", "ok", "ok", "fail", "info"]),
                sent=[*sent],
            )
        )
    for op in ops:
        if random.random() < (0.2 if op.sent else 1):
            op.read.extend(random.sample(records, min(len(records), random.randint(1, 3))))
    return ops


def defined(ops: list[Op], *, ww: bool) -> set[str]:
    """The sorts of a history's cycles, from all of its edges."""
    read = {value for op in ops if op.outcome == "ok" for _, _, value in op.read}
    seen = {value for op in ops for _, _, value in op.read}
    proven = [op.outcome == "ok" or bool({v for *_, v in op.sent} & read) for op in ops]
    there = {
        (partition, offset): (number, value)
        for number, op in enumerate(ops)
        for partition, offset, value in op.sent
        if value in seen or (op.outcome != "fail" and proven[number])
    }
    writers = {value: number for number, value in there.values()}
    edges = []
    for partition in (0, 1):
        places = [there[place][0] for place in sorted(there) if place[0] == partition]
        edges += [(one, two, "ww") for one, two in itertools.pairwise(places) if ww and one != two]
    for reader, op in enumerate(ops):
        senders = {writers[value] for _, _, value in op.read} - {reader}
        edges += [(sender, reader, "wr") for sender in senders]
    spans: list[Span] = [(op.begin, op.end if op.outcome == "ok" else None) for op in ops]
    processes = ["pqr".index(op.process) for op in ops]
    return {name for name, _ in cycles(*_graph(spans, edges, processes))}

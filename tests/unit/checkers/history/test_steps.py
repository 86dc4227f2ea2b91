"""Kernels that find steps which are not right, against plain loops over rows."""

import random
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from highwater.checkers.anomalies.step_checks import (
    KINDS,
    last_over,
    passed,
    step_findings,
    stepped_over,
)
from highwater.checkers.history.columns import NONE, Ints, so_far
from highwater.checkers.history.findings import COPY, OF_COPY, OF_LAST
from highwater.checkers.history.findings import STEP as STEP_PART
from highwater.checkers.history.offset_runs import (
    COUNTED,
    INPUT,
    OFFSET_RUN,
    READS,
    SENDS,
    SINGLE,
    SLOT_TOLD,
    offset_runs,
)
from highwater.checkers.history.row_flags import EVERYWHERE, SEEK_FLAG
from highwater.checkers.history.rows import ROW
from highwater.checkers.history.steps import SKIPPED_MAX, STEP, steps, wrong_steps
from highwater.checkers.history.version_order import Order, merge_offset_ranges
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows, complete
from tests.support.plain_steps import PlainSteps, random_steps
from tests.support.seeds import seeds
from tests.support.small_views import Row, numbered, shuffled, view_of

PAIR = ("client", "slot", "sent")
_OF_PAIR = itemgetter(*PAIR)
_TOLD = [name for name in STEP.names if name != "overlaps"]


def told(found: Rows) -> list[Row]:
    """Steps in an order that depends on nothing else."""
    return sorted(found.select(_TOLD).table().to_pylist(), key=itemgetter("client", "at"))


def plain(rows: list[Row]) -> list[Row]:
    """The same of plain loops, in the same order of columns."""
    found = ({name: step.row[name] for name in _TOLD} for step in PlainSteps(rows).steps)
    return sorted(found, key=itemgetter("client", "at"))


# Whole histories.


@pytest.mark.parametrize("seed", seeds(100))
def test_steps_of_a_history_are_those_that_plain_loops_find(seed: int) -> None:
    rows = random_steps(seed)
    assert told(wrong_steps(view_of(rows))) == plain(rows)


@pytest.mark.parametrize("seed", seeds(100))
def test_neither_the_order_of_rows_nor_how_they_are_shared_changes_a_step(seed: int) -> None:
    rows = random_steps(seed)
    assert told(wrong_steps(dealt(rows, seed))) == plain(rows)


def dealt(rows: list[Row], seed: int) -> ClientHistory:
    """A view whose offset runs were made of several ranges, in any order, as of any rows."""
    view, dice = view_of(rows), random.Random(seed)  # noqa: S311 - histories are no secrets
    table = shuffled(view._all.table(), seed)
    part = pa.array([dice.randrange(4) for _ in rows])
    parts = [table.filter(pc.equal(part, number)).select(INPUT) for number in range(4)]
    found = pa.concat_tables([offset_runs(one) for one in parts if len(one)])
    view.__dict__["_all"] = view.engine.table(table)
    view.__dict__["_offset_runs"] = view.engine.table(shuffled(found, seed))
    return view


def test_histories_have_what_is_to_be_found() -> None:
    """Else the comparisons above would say little."""
    found = [PlainSteps(random_steps(seed)) for seed in range(100)]
    assert {step.kind for each in found for step in each.steps} == {*KINDS, None}
    assert sum(len(each.steps) < len([*each._steps()]) for each in found) > 10  # excused
    views = [dealt(random_steps(seed), seed) for seed in range(100)]
    tangled = [any(steps(one.offset_runs.table())["overlaps"].to_pylist()) for one in views]
    assert 10 < sum(tangled) < 90


def test_reads_of_what_nobody_knows_to_be_there_may_go_back() -> None:
    """Not one offset is known if nobody sent what was read uncommitted."""
    read = {"kind": "read", "outcome": "ok", "topic": "t", "partition": 0, "process": "c1"}
    read |= {"isolation": "read_uncommitted", "invoke_ns": 0}
    some = [("a", 5), ("b", 3), ("c", 9)]
    rows = numbered(
        read | {"op": at, "at": at, "value": value, "offset": offset}
        for at, (value, offset) in enumerate(some)
    )
    (step,) = told(wrong_steps(view_of(rows)))
    assert (step["from_place"], step["place"], step["delta"]) == (5, 3, 0)
    assert told(wrong_steps(view_of(rows))) == plain(rows)


# What steps leave out.


@pytest.mark.parametrize("seed", seeds(60))
def test_findings_are_those_that_plain_loops_find(seed: int) -> None:
    rows = random_steps(seed)
    view = view_of(rows)
    found = wrong_steps(view)
    for kinds in (frozenset(KINDS), frozenset(KINDS[::2])):
        assert _findings(step_findings(view, found, kinds)) == PlainSteps(rows).findings(kinds)


def _findings(found: Rows) -> list[tuple[Any, ...]]:
    by: dict[tuple[str, int], list[Row]] = {}
    for row in found.table().to_pylist():
        by.setdefault((row["kind"], row["finding"]), []).append(row)
    findings = []
    for (kind, _), rows in by.items():
        ((delta, fault),) = {(row["delta"], row["fault"]) for row in rows}
        ends = sorted((row["nth"], row["at"]) for row in rows if row["part"] == STEP_PART)
        copies = [(row["place"], row["at"]) for row in rows if row["part"] == COPY]
        assert [nth for nth, _ in ends] == [0, 1]
        assert {row["note"] for row in rows if row["part"] == COPY} <= {"skipped"}
        assert (delta < 1, fault) == ((True, OF_LAST) if not copies else (False, OF_COPY))
        findings.append((kind, delta, *(at for _, at in ends), tuple(sorted(copies))))
    return sorted(findings)


@pytest.mark.parametrize("seed", seeds(60))
def test_records_that_readers_passed_are_those_that_plain_loops_find(seed: int) -> None:
    rows = random_steps(seed)
    view = view_of(rows)
    found = passed(view, wrong_steps(view)).table().to_pylist()
    assert {(row["key"], row["client"], row["at"]) for row in found} == PlainSteps(rows).passed()


def test_a_step_names_the_first_offsets_that_it_leaves_out() -> None:
    known = {"what": SLOT_TOLD, "slot": 7, "place": 0, "last_place": 99}
    reads = [_read(op=1, at=4, place=3), _read(op=2, at=5, place=60)]
    (step,) = _steps([known, *reads])
    assert (step["delta"], step["left_out"]) == (57, [*range(4, 4 + SKIPPED_MAX)])


@pytest.mark.parametrize("seed", range(30))
def test_who_stepped_over_an_offset_last(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for the same reason
    some: list[Row] = []
    for at in range(dice.choice([1, 5, 40])):
        begin = dice.randrange(30)
        step = {"slot": dice.choice([-3, 0, 8]), "from_place": begin, "at": at // 2}
        some.append(step | {"place": begin + dice.randrange(2, 40), "client": dice.randrange(9)})
    asked = [{"key": at, "slot": slot, "offset": at} for slot in (-9, -3, 0, 8) for at in range(80)]
    ranges = last_over(shuffled(pa.Table.from_pylist(some), seed))
    found = stepped_over(complete(pa.Table.from_pylist(asked), ROW), ranges=ranges)
    expected = []
    for row in asked:
        over = [one for one in some if one["slot"] == row["slot"]]
        over = [one for one in over if one["from_place"] < row["offset"] < one["place"]]
        if over:
            at, client = max((one["at"], one["client"]) for one in over)
            expected.append({"key": row["key"], "client": client, "at": at})
    assert found.to_pylist() == expected


# Strides alone.


def _read(**columns: Any) -> Row:  # noqa: ANN401 - of columns
    """An offset run of one row."""
    row = {"what": READS, "client": 1, "slot": 7, "sent": False, "ok": True, "sure": True} | columns
    return row | {f"last_{name}": row[name] for name in ("op", "at", "place")}


def _steps(rows: list[Row]) -> list[Row]:
    found = steps(pa.Table.from_pylist(rows, OFFSET_RUN))
    assert found.schema == STEP
    some: list[Row] = found.to_pylist()
    return some


def expected(rows: list[Row]) -> Iterator[Row]:
    """The steps of some offset runs, by the words of ``checkers.history.steps``."""
    for _, sequence in groupby(sorted(rows, key=_OF_PAIR), key=_OF_PAIR):
        past: list[Row] = []
        for row in sorted(sequence, key=itemgetter("op", "at")):
            inner = bool(past) and past[-1]["last_op"] == row["op"]
            good = [one for one in past if one["ok"]]
            begin = past[-1] if inner else good[-1] if good else None
            overlaps = any(_end(one) > (row["op"], row["at"]) for one in past)
            if overlaps or (begin is not None and _odd(row, begin, inner=inner)):
                yield _step(row, begin, inner=inner, overlaps=overlaps)
            past.append(row)


def _end(row: Row) -> tuple[int, int]:
    return row["last_op"], row["last_at"]


def _odd(row: Row, begin: Row, *, inner: bool) -> bool:
    back = row["place"] <= begin["last_place"]
    if row["sent"] and not inner:
        return bool(row["ok"]) and back
    return bool(row["place"] != begin["last_place"] + 1)


def _step(row: Row, begin: Row | None, *, inner: bool, overlaps: bool) -> Row:
    step = {name: row[name] for name in (*PAIR, "op", "at", "place")}
    step |= {"inner": inner, "overlaps": overlaps}
    for name in ("op", "at", "place"):
        step[f"from_{name}"] = None if begin is None else begin[f"last_{name}"]
    return step


def _in_order(some: list[Row]) -> list[Row]:
    return sorted(some, key=itemgetter(*PAIR, "op", "at"))


def _drawn(seed: int, *, tangled: bool) -> list[Row]:
    """Strides of two clients in two slots, both ways; some fail."""
    draw, rows = random.Random(seed), []  # noqa: S311 - for the same reason
    for pair in ((client, slot, sent) for client in (1, 2) for slot in (3, 4) for sent in (0, 1)):
        at = op = place = 0
        for _ in range(draw.randrange(9)):
            ops, length = draw.choice(((0, 1), (1, 1), (1, 1), (2, 3))), draw.randrange(3)
            op += ops[0]
            row = dict(zip(PAIR, pair, strict=True)) | {"sent": bool(pair[2]), "sure": True}
            row |= {"op": op, "at": at, "place": max(0, place + draw.choice((0, 0, 0, 1, -2)))}
            longer = draw.randrange(2) if tangled else 0
            row |= {"last_op": op + longer, "last_at": at + length}
            row |= {"last_place": row["place"] + length, "ok": draw.random() < 0.8}
            row["what"] = draw.choice([SENDS if row["sent"] else READS, SINGLE])
            rows.append(row)
            at, place = at + length + 1, row["last_place"] + 1
    draw.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_offset_runs_are_linked_as_plain_words_link_them(seed: int) -> None:
    """All offsets are known, so that whatever is odd is not right."""
    rows = _drawn(seed, tangled=False)
    known = [{"what": SLOT_TOLD, "slot": slot, "place": 0, "last_place": 99} for slot in (3, 4)]
    found = _steps([*rows, *known])
    by_slot = [
        step for slot in (4, 3) for step in _steps([r for r in rows + known if r["slot"] == slot])
    ]
    assert _in_order(found) == _in_order(by_slot)
    names = {name for step in expected(rows) for name in step}
    plain_ones = _in_order([*expected(rows)])
    assert [{name: step[name] for name in names} for step in _in_order(found)] == plain_ones
    assert all(step["delta"] == step["place"] - step["from_place"] for step in found)


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_whose_offset_runs_overlap_is_known_by_neighbours(seed: int) -> None:
    """Whichever offset runs overlap, those that stand side by side do, too."""
    rows = _drawn(seed, tangled=True)
    found = {_OF_PAIR(step) for step in _steps(rows) if step["overlaps"]}
    assert found == {_OF_PAIR(step) for step in expected(rows) if step["overlaps"]}


def test_rows_that_are_no_offset_runs_are_passed_over() -> None:
    known = _read(op=1, at=1, place=1) | {"what": SLOT_TOLD, "sent": None, "last_place": 9}
    counted = known | {"what": COUNTED}
    later, read = _read(op=2, at=2, place=5), _read(op=1, at=1, place=1)
    found = _steps([known, counted, later, read])
    assert [(one["from_place"], one["place"], one["sought"]) for one in found] == [(1, 5, False)]
    assert _steps([known]) == []


def test_readers_go_on_from_where_they_sought() -> None:
    seek = {"what": SEEK_FLAG, "client": 1, "slot": 7, "op": 2, "at": 2, "place": 9}
    known = {"what": SLOT_TOLD, "slot": 7, "place": 0, "last_place": 99}
    before, after = _read(op=1, at=1, place=3), _read(op=3, at=3, place=11)
    (step,) = _steps([known, after, before, seek])
    assert (step["from_place"], step["place"], step["sought"]) == (8, 11, True)
    assert (step["delta"], step["left_out"]) == (3, [])
    for nowhere in ({"place": None}, {"what": SEEK_FLAG | EVERYWHERE}):
        (step,) = _steps([known, after, before, seek | nowhere])
        assert (step["from_place"], step["sought"]) == (3, False)


# The version order.

STRETCHES = {-7: [(2, 4), (5, 5), (9, 12)], 3: [(0, 0)], 8: [(1, 1), (3, 9)]}
"""By slot, the ranges of offsets that are known."""


def _order(known: dict[int, list[tuple[int, int]]]) -> Order:
    rows = [(slot, *ends) for slot, some in known.items() for ends in reversed(some)]
    return Order(*np.array(rows, np.int64).reshape(-1, 3).T)


@pytest.mark.parametrize("slot", [-9, -7, 0, 3, 8, 11])
def test_an_offset_stands_behind_all_known_ones_before_it(slot: int) -> None:
    order = _order(STRETCHES)
    known = [at for low, high in STRETCHES.get(slot, []) for at in range(low, high + 1)]
    asked = np.arange(-1, 15)
    before, there = order.before(np.full(16, slot), asked)
    assert (before - before[0]).tolist() == [sum(each < at for each in known) for at in asked]
    assert there.tolist() == [at in known for at in asked]
    assert order.offset(before[there]).tolist() == known


def test_nothing_is_known_of_logs_in_which_nothing_stands() -> None:
    before, there = _order({}).before(np.array([4]), np.array([0]))
    assert (before.tolist(), there.tolist()) == ([0], [False])
    length, _ = _order({}).between(np.array([4, 4]), np.array([0, 7]), np.array([7, 0]))
    assert length.tolist() == [1, 0]


def test_steps_leave_out_what_is_known_between_their_ends() -> None:
    slot, begin, end = (np.array(each) for each in ([-7, 8, -7], [2, 0, 6], [10, 3, 9]))
    length, first = _order(STRETCHES).between(slot, begin, end)
    assert length.tolist() == [5, 2, 1]
    index = np.concatenate([first[0] + np.arange(4), first[1:2]])
    assert _order(STRETCHES).offset(index).tolist() == [3, 4, 5, 9, 1]


@pytest.mark.parametrize("seed", range(30))
def test_every_offset_that_is_known_is_in_one_stretch(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - for the same reason
    known: dict[int, set[int]] = {}
    rows = []
    for _ in range(draw.randrange(24)):
        low, slot, more = draw.randrange(30), draw.choice((-5, 2, 9)), draw.randrange(6)
        rows.append((slot, low, low + more))
        known.setdefault(slot, set()).update(range(low, low + more + 1))
    given: list[Ints] = [*np.array(rows, np.int64).reshape(-1, 3).T]
    slots, lows, ends = merge_offset_ranges(*given)
    told = [*zip(slots.tolist(), lows.tolist(), ends.tolist(), strict=True)]
    assert told == sorted(told)
    assert all(one[0] < other[0] or one[2] < other[1] for one, other in pairwise(told))
    places = [(slot, at) for slot, low, end in told for at in range(low, end)]
    assert places == sorted((slot, at) for slot, some in known.items() for at in some)
    if places:
        asked = np.array(places).T
        before, there = Order(*given).before(asked[0], asked[1])
        assert before.tolist() == [*range(len(places))]
        assert there.all()


def test_only_offset_runs_of_what_is_committed_tell_offsets() -> None:
    sure, unsure = _read(op=5, at=5, place=4), _read(op=6, at=6, place=6) | {"sure": False}
    others = [row | {"client": 2} for row in (sure, unsure)]
    sends = _read(op=7, at=7, place=5) | {"what": SENDS, "sent": True, "client": 3}
    reads = [_read(op=1, at=1, place=3), _read(op=2, at=2, place=8)]
    (step,) = [one for one in _steps([*others, sends, *reads]) if one["client"] == 1]
    assert (step["delta"], step["left_out"]) == (2, [4])


def test_so_far_counts_rows_that_are_equal() -> None:
    known = np.array([4, 4, 2]), np.array([1, 1, NONE])
    asked = np.array([4, 4, 2, 1, 9]), np.array([1, 0, 5, 9, 0])
    assert so_far(known, asked).tolist() == [3, 1, 1, 0, 3]

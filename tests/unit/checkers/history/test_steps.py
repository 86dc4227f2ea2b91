"""Kernels that find steps which are not right, against plain loops over rows."""

import random
from operator import itemgetter
from typing import Any

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
from highwater.checkers.history.findings import COPY, OF_COPY, OF_LAST
from highwater.checkers.history.findings import STEP as STEP_PART
from highwater.checkers.history.offset_runs import (
    INPUT,
    OFFSET_RUN,
    READS,
    SLOT_TOLD,
    offset_runs,
)
from highwater.checkers.history.rows import ROW
from highwater.checkers.history.steps import SKIPPED_MAX, STEP, steps, wrong_steps
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows, complete
from tests.support.plain_steps import PlainSteps, random_steps
from tests.support.seeds import seeds
from tests.support.small_views import Row, numbered, shuffled, view_of

_TOLD = [name for name in STEP.names if name != "overlaps"]


def told(found: Rows) -> list[Row]:
    """Steps in an order that depends on nothing else."""
    return sorted(found.select(_TOLD).table().to_pylist(), key=itemgetter("client", "at"))


def plain(rows: list[Row]) -> list[Row]:
    """The same of plain loops, in the same order of columns."""
    found = ({name: step.row[name] for name in _TOLD} for step in PlainSteps(rows).steps)
    return sorted(found, key=itemgetter("client", "at"))


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


def _read(**columns: Any) -> Row:  # noqa: ANN401 - of columns
    """An offset run of one row."""
    row = {"what": READS, "client": 1, "slot": 7, "sent": False, "ok": True, "sure": True} | columns
    return row | {f"last_{name}": row[name] for name in ("op", "at", "place")}


def _steps(rows: list[Row]) -> list[Row]:
    found = steps(pa.Table.from_pylist(rows, OFFSET_RUN))
    assert found.schema == STEP
    some: list[Row] = found.to_pylist()
    return some

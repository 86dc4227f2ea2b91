"""Kernels that find records that were there, and are no more."""

import pyarrow as pa
import pytest

from highwater.checkers.anomalies.vanished import GONE, cut_off, vanished
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows
from tests.histories.clients import by_run, rows
from tests.support.plain_records import Plain
from tests.support.seeds import seeds
from tests.support.small_views import (
    anomalies,
    numbered,
    random_rows,
    references,
    shuffled,
    view_of,
)

Passed = list[dict[str, int]]


def told(history: str, passed: tuple[str, int] | None = None) -> tuple[str, ...]:
    """The anomalies of a history, if somebody stepped over a record with that row."""
    operations = numbered(rows(history))
    gone: Passed = []
    if passed is not None:
        key = next(row["key"] for row in operations if row["value"] == passed[0])
        row = next(row for row in operations if row["at"] == passed[1])
        gone.append({"key": key, "client": row["client"], "at": row["at"]})
    view = view_of(operations)
    return by_run(anomalies(view, [vanished(view, passed_rows(view, gone))])).get("r0", ())


def passed_rows(view: ClientHistory, gone: Passed) -> Rows:
    return view.engine.table(pa.Table.from_pylist(gone, GONE))


@pytest.mark.parametrize(
    ("history", "passed", "expected"),
    [
        # Stepped over after its last reader, and not before.
        (
            "p1: send k0 a@0 b@1 c@2 \n c1: poll k0 b@1 \n c2: poll k0 a@0 c@2",
            ("b", 5),
            ("vanished k0 b@1: p1 b@1, c1 b@1, c2 c@2",),
        ),
        (
            "p1: send k0 a@0 b@1 c@2 \n c2: poll k0 a@0 c@2 \n c1: poll k0 b@1",
            ("b", 4),
            (),
        ),
        # Neither what nobody acknowledged nor what nobody read.
        ("p1: send k0 b@1  info \n c1: poll k0 b@1 \n c2: poll k0 z@2", ("b", 2), ()),
        ("p1: send k0 b@1 \n c2: poll k0 z@2", ("b", 1), ()),
        # Another record was read there last.
        (
            "p1: send k0 a@0 \n c1: poll k0 a@0 \n p2: send k0 b@0 \n c2: poll k0 b@0",
            None,
            ("vanished k0 a@0: p1 a@0, c1 a@0, c2 b@0",),
        ),
        (
            "p1: send k0 a@0 \n p2: send k0 b@0 \n c2: poll k0 b@0 \n c1: poll k0 a@0",
            None,
            ("vanished k0 b@0: p2 b@0, c2 b@0, c1 a@0",),
        ),
        # The log ended there.
        (
            "p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1 \n c2: end k0@1",
            None,
            ("vanished k0 b@1: p1 b@1, c1 b@1, c2 @1",),
        ),
        ("p1: send k0 a@0 b@1 \n c2: end k0@1 \n c1: poll k0 a@0 b@1", None, ()),
        # A deposed leader may say so: somebody was further since.
        (
            "p1: send k0 a@0 b@1 c@2 \n c1: poll k0 b@1 \n c2: end k0@1 \n c1: poll k0 c@2",
            None,
            (),
        ),
        # A later send was given its place, and was read there.
        (
            "p1: send k0 a@5 \n c1: poll k0 a@5 \n p2: send k0 b@4 \n c1: poll k0 b@4 a@7",
            None,
            (),  # a was read after that
        ),
    ],
)
def test_who_came_by_last(
    history: str, passed: tuple[str, int] | None, expected: tuple[str, ...]
) -> None:
    assert told(history, passed) == expected


def test_a_later_send_at_an_earlier_place() -> None:
    history = """p1: send k0 a@5 d@9
                 c1: poll k0 a@5
                 c1: poll k0 d@9 d@8
                 p2: send k0 b@4 c@4
                 c2: poll k0 c@4
                 c3: peek k0 b@4"""
    lines = told(history)
    assert "vanished k0 a@5: p1 a@5, c1 a@5, p2 b@4" in lines
    unread = told("\n".join(history.splitlines()[:4]))
    assert unread == ()  # a deposed leader may take records that nobody is to read


def test_events_of_the_same_time_are_not_after_it() -> None:
    history = "p1: send k0 a@0 b@1 \n c1: poll k0 b@1 \n c2: end k0@1"
    operations = numbered(rows(history))
    operations[3]["invoke_ns"] = operations[2]["complete_ns"]
    assert not len(cut_off(view_of(operations).rows.table()))
    operations[3]["invoke_ns"] += 1
    assert len(cut_off(view_of(operations).rows.table())) == 1
    operations[2]["complete_ns"] = None  # it may be reading still
    assert not len(cut_off(view_of(operations).rows.table()))


def test_nothing_at_all() -> None:
    view = view_of(numbered(rows("p1: send k0 a@0 \n c1: poll k0 a@0")))
    assert vanished(view, passed_rows(view, [])) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(300))
def test_as_plain_loops_find(seed: int) -> None:
    operations = random_rows(seed)
    gone: Passed = []
    if seed % 3 == 0:
        passed = [row for row in operations if row["kind"] != "end"][:2]
        gone = [{name: row[name] for name in GONE.names} for row in passed]
        gone = [
            row | {"at": operations[-1]["at"], "client": operations[-1]["client"]} for row in gone
        ]
    expected = Plain(operations).vanished((row["key"], row["at"]) for row in gone)
    for ordered in (operations, shuffled(pa.array(operations), seed).to_pylist()):
        view = view_of(ordered)
        found = vanished(view, passed_rows(view, gone))
        assert (references(found.table()) if found else []) == expected

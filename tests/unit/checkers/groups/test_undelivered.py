"""Records that a group was never given: found where nothing but its own beginning explains it."""

from collections.abc import Iterable
from typing import Any

import pytest

from highwater.checkers.groups.undelivered import undelivered
from highwater.harness.runs.history import FINAL, READ, REBALANCE, RUN, SEEK, SEND, SUBSCRIBE
from tests.support.small_views import anomalies, numbered, view_of

Row = dict[str, Any]


def row(kind: str, process: str, at_ns: int, value: str = "", **columns: object) -> Row:
    """An operation that began then and took 5 ns."""
    return {
        "kind": kind,
        "process": process,
        "phase": RUN,
        "outcome": "ok",
        "invoke_ns": at_ns,
        "complete_ns": at_ns + 5,
        "topic": "t",
        "partition": 0,
        "offset": None,
        "value": value,
        **columns,
    }


def joined(process: str = "c0", at_ns: int = 0, group: str = "g") -> Row:
    return row(SUBSCRIBE, process, at_ns, group)


def sent(value: str, offset: int | None, at_ns: int, **columns: object) -> Row:
    return row(SEND, "p0", at_ns, value, offset=offset, **columns)


def given(value: str, offset: int, at_ns: int, process: str = "c0", **columns: object) -> Row:
    return row(READ, process, at_ns, value, offset=offset, **columns)


def at_last(value: str, offset: int, **columns: object) -> Row:
    return given(value, offset, 10_000, "reader", phase=FINAL, **columns)


def found(rows: Iterable[Row], **fields: object) -> list[Row]:
    """The anomalies of some rows, in any order of time."""
    ordered = [{**fields, **one, "at": at} for at, one in enumerate(rows)]
    return anomalies(view_of(numbered(ordered)), [undelivered(view_of(numbered(ordered)))])


LATE = [
    joined(),
    given("a", 0, 100, partition=7),
    sent("b", 0, 200),
    sent("c", 1, 300),
    given("c", 1, 400),
    at_last("b", 0),
    at_last("c", 1),
]
"""b is acknowledged, and c is given to the group."""


def test_a_record_that_the_group_went_past_is_found_with_its_evidence() -> None:
    [anomaly] = found(LATE)
    assert (anomaly["kind"], anomaly["partition"], anomaly["offset"], anomaly["value"]) == (
        "undelivered",
        0,
        0,
        "b",
    )
    assert [(step["process"], step["value"]) for step in anomaly["steps"]] == [
        ("p0", "b"),
        ("c0", "c"),
    ]
    [copy] = anomaly["copies"]
    assert (copy["offset"], copy["value"], copy["note"]) == (0, "b", "g")


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("no group is named", lambda rows: [joined(group=""), *rows[1:]]),
        ("the member had joined later", lambda rows: [rows[0], *rows[2:]]),
        (
            "another member was given it",
            lambda rows: [*rows, joined("c1"), given("b", 0, 50, "c1")],
        ),
        ("nothing behind it was given", lambda rows: [one for one in rows if one is not rows[4]]),
        ("it is not there", lambda rows: [one for one in rows if one is not rows[5]]),
        ("it is there twice", lambda rows: [*rows, at_last("b", 5)]),
        ("it was not acknowledged", lambda rows: _with(rows, 2, outcome="info")),
        ("it was acknowledged later", lambda rows: _with(rows, 2, complete_ns=401)),
        ("a place behind it was sought", lambda rows: [*rows, _sought(1, 350)]),
        ("… by another member", lambda rows: [*rows, joined("c1"), _sought(1, 350, "c1")]),
        ("another record was at its place", lambda rows: [*rows, given("x", 0, 450)]),
        ("the group had been past it before", lambda rows: [*rows, given("x", 1, 150)]),
        ("it is a fence", lambda rows: _with(rows, 2, process="fence")),
    ],
)
def test_what_comes_near_to_it_is_not_found(why: str, change: Any) -> None:  # noqa: ANN401
    assert found(change(list(LATE))) == [], why


@pytest.mark.parametrize(
    "more",
    [
        [row(SEEK, "c0", 350, offset=0)],  # to a place before it
        [row(SEEK, "c0", 350)],  # to wherever
        [row(SEEK, "c0", 500, offset=2)],  # later
        [row(SEEK, "reader", 350, offset=2)],  # of no member
        [row(REBALANCE, "c0", 390, partition=None)],  # as in a share group
        [given("b", 0, 350, "reader-2")],  # to somebody who is no member
        [joined("c9", group="h"), given("b", 0, 350, "c9")],  # to another group
    ],
)
def test_it_is_found_whatever_else_there_is(more: list[Row]) -> None:
    assert [one["value"] for one in found([*LATE, *more])] == ["b"]


def test_a_member_that_has_left_is_owed_nothing() -> None:
    left = [
        joined(),
        given("a", 0, 100, partition=7),
        sent("b", 0, 200),
        sent("c", 1, 300),
        joined("c1", 310),
        given("c", 1, 400, "c1"),
        at_last("b", 0),
        at_last("c", 1),
    ]
    assert found(left) == []
    assert [one["value"] for one in found([*left, given("d", 1, 410, partition=7)])] == ["b"]


def test_groups_are_judged_each_by_itself_and_only_in_their_own_runs() -> None:
    other = [{**one, "run": "r1"} for one in LATE if one["kind"] != SUBSCRIBE]
    both = [
        joined("d0", group="h"),
        given("a", 0, 90, "d0", partition=7),
        given("c", 1, 450, "d0"),
    ]
    rows = [*LATE, *both, *other]
    assert sorted(copy["note"] for one in found(rows) for copy in one["copies"]) == ["g", "h"]


def test_without_an_acknowledged_offset_the_final_read_tells_the_place() -> None:
    rows = _with(list(LATE), 2, offset=None, acks="0")
    assert [(one["offset"], one["value"]) for one in found(rows)] == [(0, "b")]


def _with(rows: list[Row], place: int, **columns: object) -> list[Row]:
    return [*rows[:place], {**rows[place], **columns}, *rows[place + 1 :]]


def _sought(offset: int, at_ns: int, process: str = "c0") -> Row:
    return row(SEEK, process, at_ns, offset=offset)

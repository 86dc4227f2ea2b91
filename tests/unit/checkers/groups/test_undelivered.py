"""What is told of a record that a group was never given; tests/property has which are found."""

from collections.abc import Iterable
from typing import Any

import pytest

from highwater.checkers.groups.undelivered import undelivered
from highwater.harness.runs.history import FINAL, READ, RUN, SEND, SUBSCRIBE
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


def test_groups_are_judged_each_by_itself_and_only_in_their_own_runs() -> None:
    other = [{**one, "run": "r1"} for one in LATE if one["kind"] != SUBSCRIBE]
    both = [
        joined("d0", group="h"),
        given("a", 0, 90, "d0", partition=7),
        given("c", 1, 450, "d0"),
    ]
    rows = [*LATE, *both, *other]
    assert sorted(copy["note"] for one in found(rows) for copy in one["copies"]) == ["g", "h"]


BACK = [
    joined("c0"),
    given("a", 0, 100, "c0"),
    sent("b", 1, 200),
    joined("c1", 300),
    sent("c", 2, 400),
    given("c", 2, 500, "c1"),
    at_last("b", 1),
    at_last("c", 2),
]
"""c0 has left before b was sent, and c1 begins behind b."""


@pytest.mark.parametrize(
    ("commits", "values"),
    [
        ({}, []),
        ({("g", 0): 150}, ["b"]),
        ({("g", 0): 201}, []),  # after b was sent
        ({("g", 1): 150}, []),  # of another partition
        ({("h", 0): 150}, []),
    ],
)
def test_a_group_that_has_committed_is_owed_what_is_sent_while_it_is_away(
    commits: dict[tuple[str, int], int], values: list[str]
) -> None:
    numbered_rows = [{**one, "at": at} for at, one in enumerate(BACK)]
    run = numbered(numbered_rows)[0]["run"]
    view = view_of(numbered(numbered_rows))
    answer = undelivered(view, {run: commits} if commits else {})
    assert [one["value"] for one in anomalies(view, [answer])] == values


def test_without_an_acknowledged_offset_the_final_read_tells_the_place() -> None:
    rows = [*LATE[:2], {**LATE[2], "offset": None, "acks": "0"}, *LATE[3:]]
    assert [(one["offset"], one["value"]) for one in found(rows)] == [(0, "b")]

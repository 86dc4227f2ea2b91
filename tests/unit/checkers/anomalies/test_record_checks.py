"""Kernels that find what is wrong with single records and single offsets."""

import pyarrow as pa
import pytest

from highwater.checkers.anomalies.record_checks import CONTENTS, contents
from highwater.checkers.anomalies.shared_offsets import (
    PLACES,
    crowded,
    known_places,
    places,
    shared_offsets,
)
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.offset_runs import OFFSET_RUN, READS, SENDS, SLOT_TOLD
from highwater.checkers.history.view import ClientHistory
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

SEEDS = seeds(150)


def told(history: str, kinds: frozenset[str] = CONTENTS) -> tuple[str, ...]:
    """The anomalies of a history, a line each."""
    view = view_of(numbered(rows(history)))
    found = [*contents(view, kinds), shared_offsets(view)]
    return by_run(anomalies(view, found)).get("r0", ())


def found_in(view: ClientHistory) -> pa.Table:
    tables = [FINDING.empty_table(), *(each.table() for each in contents(view, CONTENTS))]
    return pa.concat_tables(tables)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("p1: send k0 a@0 b@1 \n c1: poll k0 a@0 b@1", ()),
        # The first row that tells the least offset, and the first that tells the greatest.
        (
            "p1: send k0 a@1 \n c1: poll k0 a@4 \n c1: poll k0 a@2 \n c2: poll k0 a@4 a@1",
            ("duplicate k0 a@1: p1 a@1, c1 a@4",),
        ),
        # Under read_uncommitted a read tells a place only if the send took effect.
        (
            "p1: send k0 a@1  k0 z  fail \n c1: peek k0 a@4",
            (),
        ),
        # A send of unknown outcome counts once somebody has read what its operation sent.
        (
            "p1: send k0 a@1  k0 b  info \n c1: poll k0 b@2 \n c1: poll k0 a@4",
            ("duplicate k0 a@1: p1 a@1, c1 a@4",),
        ),
        # One G1a for each record, with the first of its readers.
        (
            "p1: send k0 a  fail \n c1: poll k0 a@0 \n c2: poll k0 a@0",
            ("G1a k0 a@0: p1 a, c1 a@0",),
        ),
        ("p1: send k0 a  fail \n p1: send k0 a  info \n c1: poll k0 a@0", ()),
        ("p1: send k0 a  fail \n c1: peek k0 a@0", ()),
        ("p1: send k0 a  fail \n c1: poll k0 a@0  info", ()),
        # Each operation that read what it sent.
        (
            "t1: send k0 a@0; poll k0 a@0 \n t2: poll k0 a@0",
            ("precommitted-read k0 a@0: t1 a@0, t1 a@0",),
        ),
        (
            "t1: send k0 a@0; poll k0 a@0 \n t1: send k0 a@0; poll k0 a@0",
            ("precommitted-read k0 a@0: t1 a@0, t1 a@0",) * 2,
        ),
        ("t1: send k0 a@0; peek k0 a@0", ()),
        ("c1: poll k0 a@3 \n c1: poll k0 a@3", ("phantom k0 a@3: c1 a@3",)),
        ("p1: send k1 a@3 \n c1: poll k0 a@3  k1 a@3", ("phantom k0 a@3: c1 a@3",)),
    ],
)
def test_records_by_themselves(history: str, expected: tuple[str, ...]) -> None:
    assert told(history) == expected


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        # The first row that read as far as anybody has.
        (
            "p1: send k0 a@0 b@1 c@2 \n c1: poll k0 c@2 \n c2: poll k0 b@1 c@2",
            ("lost-write k0 a@0: p1 a@0, c1 c@2",),
        ),
        ("p1: send k0 a@0 b@1 \n c1: poll k0 a@0", ("unseen k0 b@1: p1 b@1",)),
        ("p1: send k0 a \n c1: poll k0 z@0 \n p1: send k0 z@0", ("unseen k0 a: p1 a",)),
        # Nobody read that far: a record stands at the least offset that anybody names for it.
        (
            "p1: send k0 a@3 b@4 \n c1: poll k0 b@6",
            ("duplicate k0 b@4: p1 b@4, c1 b@6", "lost-write k0 a@3: p1 a@3"),
        ),
        # Without acknowledgement it is lost only if its operation took effect.
        ("p1: send k0 a@0  info \n p2: send k0 b@1 \n c1: poll k0 b@1", ()),
        (
            "p1: send k0 a@0 b@1  info \n c1: poll k0 b@1",
            ("lost-write k0 a@0: p1 a@0, c1 b@1",),
        ),
        ("p1: send k0 a@2 b@1  info \n c1: poll k0 b@1", ()),
        # Read in an operation of which nobody knows the end.
        (
            "p1: send k0 a@0 b@1 \n c1: poll k0 a@0  info \n c1: poll k0 b@1",
            ("lost-write k0 a@0: p1 a@0, c1 b@1",),
        ),
    ],
)
def test_unread_records(history: str, expected: tuple[str, ...]) -> None:
    assert told(history) == expected


def test_unseen_says_why_and_where() -> None:
    view = view_of(numbered(rows("p1: send k0 a@4 \n p1: send k0 b")))
    ((late,), (undecidable,)) = (
        each["copies"] for each in anomalies(view, contents(view, CONTENTS))
    )
    if late["value"] == "b":
        late, undecidable = undecidable, late
    assert (late["offset"], late["note"], late["value"]) == (4, "late", "a")
    assert (undecidable["offset"], undecidable["note"]) == (None, "undecidable")


def test_a_partition_that_nobody_was_told_may_be_any() -> None:
    sends = {"process": "p1", "kind": "send", "outcome": "ok", "topic": "t", "invoke_ns": 0}
    reads = sends | {"process": "c1", "kind": "read", "partition": 3, "offset": 7}
    here = numbered([sends | {"value": "a", "at": 0}, reads | {"value": "a", "at": 1}])
    assert not references(found_in(view_of(here)))
    gone = numbered([sends | {"value": "a", "at": 0}, reads | {"value": "b", "at": 1}])
    kinds = [each[0] for each in references(found_in(view_of(gone)))]
    assert kinds == ["phantom", "unseen"]


def test_only_kinds_that_are_asked_for() -> None:
    history = "p1: send k0 a@0 b@1 c@9 \n c1: poll k0 b@1 b@7 \n c1: poll k0 x@3"
    everything = told(history)
    assert len({line.split()[0] for line in everything}) == 4
    for kind in CONTENTS:
        asked = told(history, frozenset({kind}))
        assert asked == tuple(line for line in everything if line.split()[0] == kind)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("p1: send k0 a@0 \n p2: send k1 b@0", ()),
        ("p1: send k0 a@0 \n p2: send k0 b@0  info", ()),
        # In the order of their words, whoever was first.
        (
            "p2: send k0 c@5 \n p1: send k0 a@5 \n c1: poll k0 b@5 \n c2: poll k0 a@5 c@5",
            ("inconsistent-offsets k0 @5: p1 a@5, p2 c@5",),
        ),
        # There are as many places as records, but one of these has two.
        (
            "p1: send k0 a@0 b@0 \n c1: poll k0 a@0 b@0 \n c1: poll k0 a@1",
            ("inconsistent-offsets k0 @0: p1 a@0, p1 b@0",),
        ),
    ],
)
def test_offsets_with_several_records(history: str, expected: tuple[str, ...]) -> None:
    view = view_of(numbered(rows(history)))
    assert by_run(anomalies(view, [shared_offsets(view)])).get("r0", ()) == expected


def test_known_places_are_counted_once() -> None:
    stretches = [
        {"what": SLOT_TOLD, "slot": 1, "place": 3, "last_place": 5},
        {"what": SLOT_TOLD, "slot": 1, "place": 4, "last_place": 4},
        {"what": READS, "slot": 1, "place": 5, "last_place": 7, "sure": True},
        {"what": READS, "slot": 1, "place": 50, "last_place": 60, "sure": False},
        {"what": SENDS, "slot": 1, "place": 70, "last_place": 80, "sure": True},
        {"what": SLOT_TOLD, "slot": 1, "place": 10, "last_place": 10},
        {"what": SLOT_TOLD, "slot": 0, "place": 6, "last_place": 6},
        {"what": 8192, "slot": 1, "place": 9},
        {"what": 8192, "slot": 1, "place": 8},
        {"what": 8192, "slot": 1},
        {"what": 8192, "slot": 2, "place": 0},
    ]
    table = pa.Table.from_pylist(stretches, OFFSET_RUN)
    for seed in range(5):
        found = known_places(shuffled(table, seed)).cast(PLACES).sort_by("slot").to_pylist()
        assert [tuple(row.values()) for row in found] == [(0, 1, 6, None), (1, 6, 10, 8)]
    assert not len(known_places(table.slice(7)))


@pytest.mark.parametrize("seed", SEEDS)
def test_as_plain_loops_find(seed: int) -> None:
    rows = random_rows(seed)
    plain, view = Plain(rows), view_of(rows)
    assert set(crowded(view, places(view))["slot"].to_pylist()) == plain.crowded
    assert references(found_in(view)) == plain.contents()
    shared = shared_offsets(view)
    assert (references(shared.table()) if shared else []) == plain.shared_offsets()


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_rows_changes_nothing(seed: int) -> None:
    rows = random_rows(seed)
    other = view_of(shuffled(pa.array(rows), seed).to_pylist())
    assert references(found_in(other)) == references(found_in(view_of(rows)))

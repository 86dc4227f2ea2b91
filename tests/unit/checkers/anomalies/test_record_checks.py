"""Kernels that find what is wrong with single records and offsets find what plain loops find.

Histories written by hand are in tests/histories/clients_cases.py.
"""

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


def test_only_kinds_that_are_asked_for() -> None:
    history = "p1: send k0 a@0 b@1 c@9 \n c1: poll k0 b@1 b@7 \n c1: poll k0 x@3"
    everything = told(history)
    assert len({line.split()[0] for line in everything}) == 4
    for kind in CONTENTS:
        asked = told(history, frozenset({kind}))
        assert asked == tuple(line for line in everything if line.split()[0] == kind)


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

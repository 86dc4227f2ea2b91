"""Kernels that find records that were there, and are no more."""

import pyarrow as pa
import pytest

from highwater.checkers.anomalies.vanished import GONE, vanished
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows
from tests.histories.clients import rows
from tests.support.plain_records import Plain
from tests.support.seeds import seeds
from tests.support.small_views import (
    numbered,
    random_rows,
    references,
    shuffled,
    view_of,
)

Passed = list[dict[str, int]]


def passed_rows(view: ClientHistory, gone: Passed) -> Rows:
    return view.engine.table(pa.Table.from_pylist(gone, GONE))


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

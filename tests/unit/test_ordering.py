"""Sorting more rows than are held at once."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from checkers.ordering import in_order

ROWS = 5_000
HELD = 400
BY = ("word", "number")


@pytest.fixture
def table() -> pa.Table:
    """Words and numbers, some of them null, and a column that is carried along."""
    dice = random.Random(1)  # noqa: S311 - no secret
    words = [dice.choice((None, "a", "ab", "b", "é", "\U0001f600")) for _ in range(ROWS)]
    numbers = [dice.choice((None, dice.randrange(-500, 500))) for _ in range(ROWS)]
    carried = [[{"place": place}] for place in range(ROWS)]
    return pa.table({"word": words, "number": numbers, "carried": carried})


def _key(row: dict[str, object]) -> tuple[object, ...]:
    word, number = row["word"], row["number"]
    assert word is None or isinstance(word, str)
    return (
        *(word is not None, (word or "").encode()),
        *(number is not None, number or 0, str(row["carried"]).zfill(30)),
    )


@pytest.mark.parametrize("held", [HELD, ROWS])
def test_rows_are_in_order_and_few_are_held(table: pa.Table, tmp_path: Path, held: int) -> None:
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    data.mkdir()
    scratch.mkdir()
    for part in range(3):
        pq.write_table(table.slice(part * 2_000, 2_000), data / f"{part}.parquet")
    parts = list(in_order(ds.dataset(data), BY, scratch, range_rows=held))
    assert pa.concat_tables(parts).to_pylist() == sorted(table.to_pylist(), key=_key)
    assert max(map(len, parts)) <= (2 * held if held < ROWS else held)
    assert len(parts) >= ROWS // held
    assert not list(scratch.iterdir())


def test_no_rows_are_in_order(table: pa.Table, tmp_path: Path) -> None:
    nothing = ds.dataset([], table.schema, format="parquet")
    assert [len(part) for part in in_order(nothing, BY, tmp_path)] == [0]

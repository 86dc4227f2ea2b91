"""Which rows are asked for, told by their numbers, and the rows that a pass leaves."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.clients.facts import READ_OK, SENT
from checkers.clients.numbers import Rows, Source, parts, tables
from checkers.clients.picks import PLACE, RECORD, Among, Held, Picking, Request, Want, distinct
from harness.history import OPERATIONS
from tests.histories.clients import rows
from tests.histories.clients_cases import CASES


@pytest.mark.parametrize("size", [0, 1, 50, 20_000])
@pytest.mark.parametrize("kept", [False, True])
def test_numbers_are_found_among_some_whatever_their_last_bits(
    size: int, kept: bool, tmp_path: Path
) -> None:
    draw = np.random.default_rng(size)
    some = np.unique(draw.integers(-(1 << 62), 1 << 62, size))
    near = some[:100] ^ (1 << 40)  # the same last bits
    numbers = draw.permutation(np.concatenate([some, near, draw.integers(-9, 9, 100)]))
    among = Among(some)
    if kept:
        among.keep(tmp_path / "asked")
        among = Among.kept(tmp_path / "asked")
    assert len(among) == size
    assert among(numbers).tolist() == np.isin(numbers, some).tolist()


@pytest.mark.parametrize("size", [0, 1, 2, 1_000])
def test_numbers_are_told_once_each_and_in_order(size: int) -> None:
    numbers = np.random.default_rng(size).integers(-300, 300, size)
    assert distinct(numbers).tolist() == sorted(set(numbers.tolist()))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """All histories written by hand, in a file of many row groups."""
    schema = OPERATIONS.append(pa.field("run", pa.string())).append(pa.field("at", pa.int64()))
    found = [{**row, "run": case.name} for case in CASES for row in rows(case.history)]
    path = tmp_path / "operations.parquet"
    pq.write_table(pa.Table.from_pylist(found, schema=schema), path, row_group_size=50)
    return Source(str(path))


def test_one_pass_leaves_the_rows_of_every_request(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.clients.numbers.FEW_ROWS", 1)
    tasks, _ = parts([source], 3)
    numbers = [
        Rows(table) for task in tasks for part in task for table in tables(part, OPERATIONS.names)
    ]
    key, slot, offset, fact = (
        np.concatenate([getattr(each, name) for each in numbers])
        for name in ("key", "slot", "offset", "fact")
    )
    by_key, by_place = (
        pa.table({"key": key[::7]}),
        pa.table({"slot": slot[::5], "offset": offset[::5]}),
    )
    sends = Want(by=RECORD, rows=lambda: by_key, columns=("value", "acks"), facts=SENT)
    reads = Want(by=PLACE, rows=lambda: by_place, columns=("offset",), facts=READ_OK)
    requests = [
        Request.of(want, tmp_path / str(number), held=True)
        for number, want in enumerate((sends, reads))
    ]
    for number, task in enumerate(tasks):
        Picking(requests)(number, task)
    keys = [each for batch in Held([requests[0].folder]) for each in batch["one"].to_pylist()]
    assert sorted(keys) == sorted(key[np.isin(key, key[::7]) & (fact & SENT != 0)].tolist())
    places = set(zip(slot[::5].tolist(), offset[::5].tolist(), strict=True))
    expected = [
        at
        for where, at, what in zip(slot.tolist(), offset.tolist(), fact.tolist(), strict=True)
        if what & READ_OK and (where, at) in places
    ]
    batches = [*Held([requests[1].folder])]
    found = [each for batch in batches for each in batch["offset"].to_pylist()]
    assert sorted(found) == sorted(expected)
    assert {tuple(batch.schema.names) for batch in batches} == {("offset", "one")}


def test_rows_of_some_numbers_are_looked_for_where_they_may_be(tmp_path: Path) -> None:
    for name, start in (("a", 0), ("b", 100)):
        schema = pa.schema([("at", pa.int64())])
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", schema) as file:
            for begin in (start, start + 50):
                file.write_batch(pa.record_batch([np.arange(begin, begin + 10)], schema=schema))
    held = Held([tmp_path])
    assert [batch["at"][0].as_py() for batch in held.between("at", 9, 100)] == [0, 50, 100]
    assert not [*held.between("at", 10, 49)]
    assert len([*held.between("at", -5, 500)]) == 4

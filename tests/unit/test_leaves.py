"""Files in which tasks leave rows for one another."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.leaves import batches, dataset, leaves, writer

SCHEMA = pa.schema([("number", pa.int64()), ("words", pa.list_(pa.string()))])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven rows of a task's, three of Spark's, and what Spark leaves beside them."""
    with writer(tmp_path, 2, SCHEMA) as file:
        file.write_batch(_rows(0, 5))
        file.write_batch(_rows(5, 7))
    pq.write_table(pa.Table.from_batches([_rows(7, 10)]), tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"?")
    return tmp_path


def _rows(begin: int, end: int) -> pa.RecordBatch:
    numbers = range(begin, end)
    return pa.record_batch([list(numbers), [[str(each)] * each for each in numbers]], schema=SCHEMA)


def test_rows_of_both_kinds_of_files_are_read(folder: Path) -> None:
    assert [path.name for path in leaves(folder)] == ["2.arrow", "part-0.parquet"]
    table = dataset([folder], SCHEMA).to_table()
    assert table.sort_by("number").equals(pa.Table.from_batches([_rows(0, 10)]))


def test_rows_come_a_few_at_a_time(folder: Path) -> None:
    sizes = [[len(batch) for batch in batches(path, 3)] for path in leaves(folder)]
    assert sizes == [[3, 2, 2], [3]]
    found = [batch["number"] for path in leaves(folder) for batch in batches(path, 3)]
    assert pa.concat_arrays(found).to_pylist() == list(range(10))


def test_where_no_task_left_anything_there_are_no_rows(tmp_path: Path) -> None:
    assert dataset([tmp_path], SCHEMA).count_rows() == 0
    assert dataset([], SCHEMA).to_table().schema == SCHEMA

"""Sorts rows of Parquet files in bounded memory, and without Spark.

What was found is written sorted, wide as it is. Spark's own sort of 500,000 anomalies took 10.8 CPU
seconds with the writing of them, on one core; like this it is 2.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

RANGE_ROWS: Final = 250_000
"""So many rows are sorted at once, about; more are dealt out to ranges first. Four ranges are held:
one that is asked for, and those that threads are ahead with."""

_THREADS: Final = 2
_BATCH_ROWS: Final = 50_000
_SAMPLES: Final = 100  # of a range: the more, the more equal they are


def in_order(
    source: ds.Dataset, by: Sequence[str], folder: Path, *, range_rows: int = RANGE_ROWS
) -> Iterator[pa.Table]:
    """All rows, sorted: nulls first, strings by their bytes, as Spark does.

    Args:
        source: the rows, as many as may be.
        by: columns of numbers or strings, the most significant first.
        folder: an empty one, for ranges of rows that are too many to hold.
        range_rows: how many are held at once.
    """
    rows = source.count_rows()
    if rows <= range_rows:
        yield _sorted(source.to_table(), by)
        return
    bounds = _bounds(source, by, rows, -(-rows // range_rows))
    paths = [folder / f"{number}.arrow" for number in range(len(bounds) + 1)]
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(path, source.schema)) for path in paths]
        for dealt in ahead(partial(_dealt, bounds=bounds, by=by), _batches(source)):
            for number, batch in dealt:
                writers[number].write_batch(batch)
    yield from ahead(partial(_range, by=by), paths)


def ahead(do: Callable[[_Given], _Made], things: Iterable[_Given]) -> Iterator[_Made]:
    """What is made of some things, in their order, by threads that are a few things ahead.

    Arrow lets other threads go on while it works. Of things not asked for yet as many are held as
    there are threads.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        begun: deque[Future[_Made]] = deque()
        for thing in things:
            begun.append(pool.submit(do, thing))
            if len(begun) > _THREADS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _range(path: Path, by: Sequence[str]) -> pa.Table:
    """One range, sorted; its file is gone then."""
    with pa.memory_map(str(path)) as file:
        table = _sorted(pa.ipc.open_file(file).read_all(), by)
    path.unlink()
    return table


def _dealt(
    batch: pa.RecordBatch, bounds: pa.Table, by: Sequence[str]
) -> list[tuple[int, pa.RecordBatch]]:
    """The rows of each range."""
    numbers = _ranges(batch, bounds, by)
    asked = np.flatnonzero(np.bincount(numbers)).tolist()
    return [(number, batch.filter(pa.array(numbers == number))) for number in asked]


def _batches(source: ds.Dataset, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """One batch after the other, and few of them at once, where Arrow would read 16 ahead."""
    yield from source.to_batches(
        columns=None if columns is None else list(columns),
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
    )


def _sorted(table: pa.Table, by: Sequence[str]) -> pa.Table:
    return table.combine_chunks().take(_order(table, by))


def _order(table: pa.Table, by: Sequence[str]) -> pa.Array:
    """Which row comes first, and so on. To compare words that are all the same takes its time."""
    telling = [name for name in by if _varies(table[name])] or by[-1:]
    keys = [(name, "ascending", "at_start") for name in telling]
    return pc.sort_indices(table.select(telling), sort_keys=keys)


def _varies(column: pa.ChunkedArray) -> bool:
    if not len(column):
        return False
    return bool(column.null_count) or not pc.all(pc.equal(column, column[0])).as_py()


def _bounds(source: ds.Dataset, by: Sequence[str], rows: int, ranges: int) -> pa.Table:
    """The first row of each range but the first, as far as a sample tells."""
    every = max(rows // (ranges * _SAMPLES), 1)
    taken = [
        batch.take(pa.array(np.arange(0, len(batch), every))) for batch in _batches(source, by)
    ]
    sample = _sorted(pa.Table.from_batches(taken), by)
    places = np.arange(1, ranges) * len(sample) // ranges
    return sample.take(pa.array(places))


def _ranges(batch: pa.RecordBatch, bounds: pa.Table, by: Sequence[str]) -> NDArray[Any]:
    """The number of the range of each row: how many bounds come before it, or are equal to it."""
    both = pa.concat_tables([bounds, pa.Table.from_batches([batch.select(list(by))])])
    order = _order(both, by).to_numpy()  # stable: a bound comes before what is equal to it
    is_bound = order < len(bounds)
    numbers = np.empty(len(both), np.int64)
    numbers[order] = np.cumsum(is_bound)
    return numbers[len(bounds) :]

"""Fetches a few rows of a history by what the numbers say: its record, its place, its client.

Spark would scan the whole history, hash it and join it; a task that reads a file itself, and keeps
only what is asked for, needs a third of that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import types as T  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.clients.numbers import Numbers, Part, Rows, tables
from harness.history import OPERATIONS

RECORD: Final = ("key",)
PLACE: Final = ("slot", "offset")
ROW: Final = ("at", "client")
"""By what rows are picked. Rows are counted within a run, which its clients tell from others."""

_ROWS: Final = pa.schema(
    [
        *(
            (one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type)
            for one in OPERATIONS
        ),
        ("run", pa.string()),
        ("at", pa.int64()),
    ]
)
ROWS: Final[T.StructType] = from_arrow_schema(_ROWS)
"""What is left of them: their words as such, and which rows they were."""

HELD_ROWS: Final = 50_000
"""So many rows of an Arrow file are looked at together."""

_ENDS: Final = 1 << 22
_MIX: Final = np.int64(-7046029254386353131)


def wanted(rows: pa.Table, by: Sequence[str], path: Path) -> Path:
    """Leave in a file, for every task to look into, which rows are wanted.

    Args:
        rows: numbers in these columns, in any order.
        by: RECORD, PLACE or ROW.
        path: of the file.
    """
    np.save(path, np.unique(one({name: rows[name].to_numpy() for name in by})))
    return path


class Picking:
    """A task of Spark's: the rows of some parts of a history that are asked for.

    Args:
        by: RECORD, PLACE or ROW.
        asked: the file that ``wanted`` left.
        folder: where to leave the rows, in columns of ``ROWS``.
        held: whether they are to be read as they lie, as Arrow files, with their number in a column
            ``one``; else they are Parquet, for Spark.
    """

    def __init__(self, by: Sequence[str], asked: Path, folder: Path, *, held: bool = False) -> None:
        self._by = tuple(by)
        self._asked = asked
        self._folder = folder
        self._held = held

    def __call__(self, number: int, task: Sequence[Part]) -> None:
        """Pick from what one task reads, whose number its file bears."""
        asked = np.load(self._asked, mmap_mode="r")
        found = [
            picked
            for part in task
            for table in tables(part, OPERATIONS.names)
            if len(picked := self._picked(table, asked))
        ]
        if not found:
            return
        whole = pa.concat_tables(found)
        if self._held:
            with pa.ipc.new_file(self._folder / f"{number}.arrow", whole.schema) as writer:
                writer.write_table(whole, HELD_ROWS)
        else:
            pq.write_table(whole, self._folder / f"{number}.parquet", compression="lz4")

    def _picked(self, table: pa.Table, asked: NDArray[np.int64]) -> pa.Table:
        numbers = one(Rows(table).columns(self._by))
        among = within(numbers, asked)
        picked = table.filter(pa.array(among)).select(_ROWS.names).cast(_ROWS)
        return picked.append_column("one", pa.array(numbers[among])) if self._held else picked


def within(numbers: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers are among some, which are in order.

    Most are not, and end otherwise than any of those: looking that up takes a fifth of the search.
    """
    if not len(some):
        return np.zeros(len(numbers), np.bool_)
    ends = np.zeros(_ENDS, np.bool_)
    ends[some & (_ENDS - 1)] = True
    maybe = np.flatnonzero(ends[numbers & (_ENDS - 1)])
    place = np.minimum(np.searchsorted(some, numbers[maybe]), len(some) - 1)
    found = np.zeros(len(numbers), np.bool_)
    found[maybe] = some[place] == numbers[maybe]
    return found


def one(rows: Numbers) -> NDArray[np.int64]:
    """One number for several, by which a row that is not asked for is picked once in 2 ** 64."""
    first, *others = rows.values()
    number: NDArray[Any] = first
    for more in others:
        number = number * _MIX + more
    return number

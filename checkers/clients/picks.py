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

_LEAST_BITS, _MOST_BITS, _SPARE = 16, 26, 16
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


class Among:
    """Which numbers are among some.

    Most are not, and end otherwise than any of those: looking that up takes a fifth of the search,
    if few of all ends are those of any (100 million rows and 6 million asked for: 22 bits would be
    the ends of three rows in four).

    Args:
        some: in order.
    """

    def __init__(self, some: NDArray[np.int64]) -> None:
        self._some = some
        bits = max(_LEAST_BITS, min((_SPARE * len(some)).bit_length(), _MOST_BITS))
        self._ends = np.zeros(1 << bits, np.bool_)
        self._ends[some & ((1 << bits) - 1)] = True

    def __call__(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each is one of them."""
        found = np.zeros(len(numbers), np.bool_)
        if len(self._some):
            maybe = np.flatnonzero(self._ends[numbers & (len(self._ends) - 1)])
            place = np.searchsorted(self._some, numbers[maybe])
            place = np.minimum(place, len(self._some) - 1)
            found[maybe] = self._some[place] == numbers[maybe]
        return found


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
        among = Among(np.load(self._asked, mmap_mode="r"))
        found = [
            picked
            for part in task
            for table in tables(part, OPERATIONS.names)
            if len(picked := self._picked(table, among))
        ]
        if not found:
            return
        whole = pa.concat_tables(found)
        if self._held:
            with pa.ipc.new_file(self._folder / f"{number}.arrow", whole.schema) as writer:
                writer.write_table(whole, HELD_ROWS)
        else:
            pq.write_table(whole, self._folder / f"{number}.parquet", compression="lz4")

    def _picked(self, table: pa.Table, among: Among) -> pa.Table:
        numbers = one(Rows(table).columns(self._by))
        asked = among(numbers)
        picked = table.filter(pa.array(asked)).select(_ROWS.names).cast(_ROWS)
        return picked.append_column("one", pa.array(numbers[asked])) if self._held else picked


def one(rows: Numbers) -> NDArray[np.int64]:
    """One number for several, by which a row that is not asked for is picked once in 2 ** 64."""
    first, *others = rows.values()
    number: NDArray[Any] = first
    for more in others:
        number = number * _MIX + more
    return number

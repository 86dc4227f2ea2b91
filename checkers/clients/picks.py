"""Fetches a few rows of a history by what the numbers say: its record, its place, its number.

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
ROW: Final = ("at",)
"""By what rows are picked. A number counts rows within a run: it picks those of other runs too."""

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

_MIX: Final = np.int64(-7046029254386353131)


class Picking:
    """A task of Spark's: the rows of some parts of a history that are asked for.

    Args:
        by: RECORD, PLACE or ROW.
        wanted: numbers in these columns.
        folder: where to leave the rows, in columns of ``ROWS``.
    """

    def __init__(self, by: Sequence[str], wanted: pa.Table, folder: Path) -> None:
        self._by = tuple(by)
        self._wanted = np.unique(_one({name: wanted[name].to_numpy() for name in by}, self._by))
        self._folder = folder

    def __call__(self, number: int, task: Sequence[Part]) -> None:
        """Pick from what one task reads, whose number its file bears."""
        found = [
            table.filter(pa.array(asked))
            for part in task
            for table in tables(part, OPERATIONS.names)
            if (asked := self._asked(table)).any()
        ]
        if found:
            whole = pa.concat_tables([_plain(table) for table in found])
            pq.write_table(whole, self._folder / f"{number}.parquet", compression="lz4")

    def _asked(self, table: pa.Table) -> NDArray[np.bool_]:
        return np.isin(_one(Rows(table).columns(self._by), self._by), self._wanted)


def _one(rows: Numbers, by: Sequence[str]) -> NDArray[np.int64]:
    """One number for several, by which a row that is not asked for is picked once in 2 ** 64."""
    number: NDArray[Any] = rows[by[0]]
    for name in by[1:]:
        number = number * _MIX + rows[name]
    return number


def _plain(table: pa.Table) -> pa.Table:
    return table.select(_ROWS.names).cast(_ROWS)

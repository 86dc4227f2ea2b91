"""Arrow columns as NumPy arrays, which hold no null."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = dict[str, NDArray[Any]]

NONE: Final = np.iinfo(np.int64).min
"""The null of a column of integers; in a boolean column null is false."""


def numbers(table: pa.Table, names: Iterable[str] | None = None) -> Numbers:
    """Return some columns of a table, or all of them, by name."""
    return {name: _column(table[name]) for name in names or table.column_names}


def _column(column: pa.ChunkedArray) -> NDArray[Any]:
    if column.null_count:
        none = False if pa.types.is_boolean(column.type) else NONE
        column = pc.fill_null(column, pa.scalar(none, column.type))
    numbers: NDArray[Any] = column.to_numpy()
    return numbers


def nullable(column: NDArray[Any]) -> pa.Array:
    """Numbers as Arrow has them, with null for ``NONE``."""
    return pa.array(column, mask=column == NONE)


def any_of(facts: NDArray[Any], number: int) -> Bools:
    """Return which of some facts have any of these bits."""
    mask: Bools = (facts & np.int32(number)) != 0
    return mask


def groups(*columns: NDArray[Any]) -> Ints:
    """Return where each group of equal rows begins, of rows in the order of these columns."""
    fresh = np.ones(len(columns[0]), np.bool_)
    fresh[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(fresh)


def sizes(first: Ints, count: int) -> Ints:
    """Return how many rows each group has, of this many rows in all."""
    lengths: Ints = np.diff(np.append(first, count))
    return lengths


def least(first: Ints, column: NDArray[Any], mask: Bools) -> Ints:
    """Return the least number of each group among the rows of ``mask``; ``NONE`` without rows."""
    most = np.iinfo(np.int64).max
    least: Ints = np.minimum.reduceat(np.where(mask, column, most), first)
    least[least == most] = NONE
    return least


def greatest(first: Ints, column: NDArray[Any], mask: Bools) -> Ints:
    """Return the greatest number of each group among the rows asked for; ``NONE`` without rows."""
    greatest: Ints = np.maximum.reduceat(np.where(mask, column, NONE), first)
    return greatest


def distinct(column: NDArray[Any]) -> Ints:
    """Return the numbers in order, once each.

    numpy's own ``unique`` hashes them first: six million that differ take it 6.4 s, and this 0.4.
    """
    ordered = np.sort(column)
    distinct: Ints = ordered[groups(ordered)] if len(ordered) else ordered
    return distinct

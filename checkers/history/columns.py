"""Sort, group and look up columns, which are NumPy arrays without nulls.

A *place* is the index of a row in these arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = dict[str, NDArray[Any]]

NONE: Final = np.iinfo(np.int64).min
"""The integer that stands for null in an integer column. (In a boolean column, false stands for
null.)"""

NEVER: Final = np.iinfo(np.int64).max
"""The largest int64. No time and no offset in a history reaches it."""

_ARRAYS: Final = (np.ndarray, pa.Array, pa.ChunkedArray)


def schema(*names: str, **types: pa.DataType) -> pa.Schema:
    """Return a schema of columns with these names. ``types`` has the types other than int64."""
    return pa.schema([(name, types.get(name, pa.int64())) for name in names])


def numbers(table: pa.Table, names: Iterable[str] | None = None) -> Numbers:
    """Return columns of a table as arrays, by name; without ``names``, all columns."""
    return {name: _column(table[name]) for name in names or table.column_names}


def _column(column: pa.ChunkedArray) -> NDArray[Any]:
    if column.null_count:
        none = False if pa.types.is_boolean(column.type) else NONE
        column = pc.fill_null(column, pa.scalar(none, column.type))
    numbers: NDArray[Any] = column.to_numpy()
    return numbers


def arrow(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return columns as a table with this schema.

    A column is a NumPy array (where ``NONE`` means null), an Arrow array, or one value for all
    rows. A column that is missing is null.
    """
    size = max(len(column) for column in columns.values() if isinstance(column, _ARRAYS))
    arrays = [_arrow(columns.get(field.name), field.type, size) for field in schema]
    return pa.table(arrays, schema=schema)


def _arrow(column: Any, kind: pa.DataType, size: int) -> pa.Array:  # noqa: ANN401 - see ``arrow``
    if not isinstance(column, _ARRAYS):
        return pa.repeat(pa.scalar(column, kind), size)
    if isinstance(column, np.ndarray):
        column = pa.array(column, mask=column == NONE if column.dtype == np.int64 else None)
    return column.cast(kind)


def any_of(facts: NDArray[Any], number: int) -> Bools:
    """Return a mask of the rows whose flags (``fact``) include at least one of these bits."""
    mask: Bools = (facts & np.int32(number)) != 0
    return mask


def choose(rows: Numbers, chosen: Ints | Bools) -> Numbers:
    """Return the rows at these indices, or the rows that this mask selects."""
    return {name: column[chosen] for name, column in rows.items()}


def sort(rows: Numbers, *by: str) -> Numbers:
    """Return the rows sorted by these columns. Rows with equal values keep their order."""
    return choose(rows, np.lexsort([rows[name] for name in reversed(by)]))


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of consecutive rows: the index of each group's first row, and the group's size."""

    first: Ints
    size: Ints

    @classmethod
    def of(cls, *columns: NDArray[Any]) -> Self:
        """Return the groups of consecutive rows that have equal values in these columns."""
        same = [column[1:] == column[:-1] for column in columns]
        return cls.joined(np.logical_and.reduce(same), len(columns[0]))

    @classmethod
    def joined(cls, goes_on: Bools, count: int) -> Self:
        """Divide ``count`` consecutive rows into groups.

        ``goes_on`` has one boolean for each row after the first: true if the row belongs to the
        same group as the row before it.
        """
        fresh = np.ones(count, np.bool_)
        fresh[1:] = ~goes_on
        first = np.flatnonzero(fresh)
        return cls(first, np.diff(np.append(first, count)))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def last(self) -> Ints:
        """The index of each group's last row."""
        return self.first + self.size - 1

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return, for each row, the value of its group."""
        return np.repeat(values, self.size)

    def any(self, mask: Bools) -> Bools:
        """Return a mask of the groups that have a row in ``mask``."""
        return np.logical_or.reduceat(mask, self.first)

    def least(self, column: Ints, mask: Bools | None = None) -> Ints:
        """Return each group's least value among rows in ``mask``; ``NONE`` without such a row."""
        if mask is None:
            return np.minimum.reduceat(column, self.first)
        least: Ints = np.minimum.reduceat(np.where(mask, column, NEVER), self.first)
        return np.where(least == NEVER, NONE, least)

    def greatest(self, column: Ints, mask: Bools | None = None) -> Ints:
        """Return each group's greatest value among rows in ``mask``; ``NONE`` without one."""
        chosen = column if mask is None else np.where(mask, column, NONE)
        return np.maximum.reduceat(chosen, self.first)

    def first_place(self, mask: Bools) -> Ints:
        """Return the index of each group's first row in ``mask``; ``NONE`` without such a row."""
        return self.least(np.arange(len(mask)), mask)

    def last_place(self, mask: Bools) -> Ints:
        """Return the index of each group's last row in ``mask``; ``NONE`` without such a row."""
        return self.greatest(np.arange(len(mask)), mask)


def grouped(rows: Numbers, *by: str, then: Sequence[str] = ()) -> tuple[Numbers, Groups]:
    """Return the rows sorted by ``by`` and ``then``, and the groups of rows with equal ``by``."""
    ordered = sort(rows, *by, *then)
    return ordered, Groups.of(*(ordered[name] for name in by))


def first_of(rows: Numbers, *by: str) -> Numbers:
    """Return, for each group of rows with equal ``by`` columns, the row with the least ``at``."""
    ordered, group = grouped(rows, *by, then=("at",))
    return choose(ordered, group.first)


def at_place(column: Ints, place: Ints) -> Ints:
    """Return a column's values at these indices; NONE where the index is NONE."""
    has_place = place != NONE
    values = np.full(len(place), NONE)
    values[has_place] = column[place[has_place]]
    return values


def look_up(haystack: Ints, needles: Ints) -> Ints:
    """Return the index of each needle in a haystack of distinct numbers; ``NONE`` if missing."""
    if not len(haystack):
        return np.full(len(needles), NONE)
    order = np.argsort(haystack)
    place = order[np.minimum(np.searchsorted(haystack, needles, sorter=order), len(haystack) - 1)]
    return np.where(haystack[place] == needles, place, NONE)


def look_up_columns(table: pa.Table, by: str, needles: Ints) -> Numbers:
    """Return, for each needle, the other columns of the row that has the needle in column ``by``.

    A needle without a row gives NONE. The values of ``by`` are distinct.
    """
    columns = numbers(table)
    place = look_up(columns.pop(by), needles)
    return {name: at_place(column, place) for name, column in columns.items()}


def so_far(haystack: Sequence[Ints], needles: Sequence[Ints]) -> Ints:
    """Return, for each needle, the number of haystack rows that are less than or equal to it.

    Needles and haystack are lists of columns, with the most significant column first. Their rows
    may be in any order.
    """
    columns = [np.concatenate(both) for both in zip(haystack, needles, strict=True)]
    order = np.lexsort(columns[::-1])  # a row of the haystack comes before an equal needle
    count = np.empty(len(order), np.int64)
    count[order] = np.cumsum(order < len(haystack[0]))
    return count[len(haystack[0]) :]

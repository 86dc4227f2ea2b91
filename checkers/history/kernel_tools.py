"""Tools that several kernels share: rows in order, look-ups in small tables, steps of findings."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Ints,
    Numbers,
    greatest,
    groups,
    least,
    nullable,
)
from highwater.checkers.history.columns import numbers as columns_of
from highwater.checkers.history.findings import FINDING, findings


def sort(rows: Numbers, *by: str) -> Numbers:
    """Return rows in the order of some columns and then of the history."""
    order = np.lexsort((rows["at"], *(rows[name] for name in reversed(by))))
    return {name: column[order] for name, column in rows.items()}


def first_of(rows: Numbers, *by: str) -> Numbers:
    """Return the first row of each group of rows that are equal in some columns, in their order."""
    ordered = sort(rows, *by)
    return choose(ordered, groups(*(ordered[name] for name in by)))


def choose(rows: Numbers, chosen: Ints | Bools) -> Numbers:
    """Return some rows, by their places or by a mask."""
    return {name: column[chosen] for name, column in rows.items()}


def first_place(first: Ints, mask: Bools) -> Ints:
    """Return the place of each group's first row among those asked for; NONE if there is none."""
    return least(first, np.arange(len(mask)), mask)


def last_place(first: Ints, mask: Bools) -> Ints:
    """Return the place of each group's last row among those asked for; NONE if there is none."""
    return greatest(first, np.arange(len(mask)), mask)


def at_place(column: Ints, place: Ints) -> Ints:
    """Return a column's values at some places, and NONE where the place is NONE."""
    has_place = place != NONE
    values = np.full(len(place), NONE)
    values[has_place] = column[place[has_place]]
    return values


def look_up(haystack: Ints, needles: Ints) -> Ints:
    """Return the place of each number among the known ones, which differ; NONE if it is not there.

    Args:
        known: numbers in any order.
        needles: the numbers to look up, in any order.
    """
    if not len(haystack):
        return np.full(len(needles), NONE)
    order = np.argsort(haystack)
    place = order[np.minimum(np.searchsorted(haystack, needles, sorter=order), len(haystack) - 1)]
    return np.where(haystack[place] == needles, place, NONE)


def look_up_columns(table: pa.Table, by: str, needles: Ints) -> Numbers:
    """Return the columns of a small table for some numbers, NONE where it does not have them.

    Args:
        table: one row for each number in ``by``.
        by: the column to look up.
        needles: the numbers, in any order.
    """
    columns = columns_of(table)
    place = look_up(columns.pop(by), needles)
    return {name: at_place(column, place) for name, column in columns.items()}


def steps(
    kind: str, finding: Ints, references: Sequence[tuple[Ints, Ints]], offset: Ints
) -> pa.Table:
    """Return findings that consist of steps, in ``FINDING``; their fault is ``OF_FIRST``.

    Args:
        kind: the anomaly's name.
        finding: a number for each finding.
        references: for each step, ``client`` and ``at`` of its row, NONE where there is no row.
        offset: of the record at fault; NONE if it is not known.
    """
    tables = [FINDING.empty_table()]
    for nth, (client, at) in enumerate(references):
        rows = findings(kind, finding, nth=nth, client=client, at=at, offset=nullable(offset))
        tables.append(rows.filter(pa.array(at != NONE)))
    return pa.concat_tables(tables)


def reference(rows: Numbers, place: Ints) -> tuple[Ints, Ints]:
    """Return ``client`` and ``at`` of the rows at some places, for ``steps``."""
    return at_place(rows["client"], place), at_place(rows["at"], place)

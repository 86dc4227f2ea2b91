"""Findings of kernels, by reference to the rows that show them.

A kernel has only numbers. It names the rows that show an anomaly, and the part of each;
``rows_of_findings`` looks up their words and makes the anomaly.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.history.columns import Bools, Ints, groups, sizes

COPIES: Final[pa.StructType] = SCHEMA.field("copies").type.value_type
STEPS: Final[pa.StructType] = SCHEMA.field("steps").type.value_type
STEP_NAMES: Final = [field.name for field in STEPS]

FINDING: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("finding", pa.int64()),
        ("part", pa.int32()),
        ("nth", pa.int32()),
        *((name, pa.int64()) for name in ("client", "at")),
        ("fault", pa.int32()),
        *((name, pa.int64()) for name in ("offset", "delta", "place")),
        ("note", pa.string()),
    ]
)
"""One row for each row of a history that a finding refers to.

``kind`` and ``finding`` name the finding; ``client`` and ``at`` the row of the history, ``part``
its part in the finding, and ``nth`` the order of steps. ``fault`` says which record is at fault,
``offset`` and ``delta`` are the anomaly's: all three are equal on all rows of a finding. ``place``
and ``note`` are those of a copy.
"""

STEP: Final = 0
COPY: Final = 1
END: Final = 2
SUBJECT: Final = 3
"""Parts: a STEP of the anomaly; a COPY of a record, with its place; an END, also a copy, of which
the first and the last by place and value are the steps; a SUBJECT, which only names the record's
producer, ``nth`` 1 if it was acknowledged."""

OF_FIRST: Final = 0
OF_LAST: Final = 1
OF_COPY: Final = 2
OF_NONE: Final = 3
"""Faults. The record at fault is that of the first step or subject, at ``offset``; that of the last
step, at its own offset; that of the first copy, at the copy's; or none that has a value."""


def findings(kind: str | pa.Array, finding: Any, **columns: Any) -> pa.Table:  # noqa: ANN401
    """Rows of ``FINDING``.

    Args:
        kind: of all rows, or of each.
        finding: an array.
        columns: arrays (of numpy or Arrow), or one value for all rows; others are null.
    """
    size = len(finding)
    given = {"kind": kind, "finding": finding, "part": STEP, "nth": 0, "fault": OF_FIRST} | columns
    arrays = []
    for field in FINDING:
        column = given.get(field.name)
        if isinstance(column, np.ndarray | pa.Array | pa.ChunkedArray):
            arrays.append(pa.chunked_array([column]) if isinstance(column, pa.Array) else column)
        else:
            arrays.append(pa.repeat(pa.scalar(column, field.type), size))
    return pa.table(arrays, names=FINDING.names).cast(FINDING)


FINDING_COLUMNS: Final = {"kind": "found", "offset": "found_offset"}
"""Names of these columns of a finding beside the words of its rows."""


def rows_of_findings(rows: pa.Table) -> pa.Table:
    """Return findings with their words as anomalies, in ``SCHEMA``. A kernel by ``finding``.

    Args:
        rows: in columns of ``FINDING``, two of them called as in ``FINDING_COLUMNS``, and of
            ``checkers.history.rows.WORDS``.
    """
    by = ("found", "finding", "part", "nth", "place", "value")
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in by])).combine_chunks()
    codes = rows["found"].combine_chunks().dictionary_encode().indices.to_numpy()
    first = groups(codes, rows["finding"].to_numpy())
    size = sizes(first, len(rows))
    number = np.repeat(np.arange(len(first)), size)
    step = _steps(rows["part"].to_numpy(), number)
    copy = np.isin(rows["part"].to_numpy(), (COPY, END))
    nth = np.where(step | ~copy & ~_any(step, first, size), np.arange(len(rows)), -1)
    last = np.maximum.reduceat(nth, first)
    last = np.where(last >= 0, last, first + size - 1)
    partition = rows["partition"].take(pa.array(last))
    columns = {
        "run": rows["run"].take(pa.array(last)),
        "kind": rows["found"].take(pa.array(first)),
        "topic": rows["topic"].take(pa.array(last)),
        "partition": partition,
        **_fault(rows, first, step, copy, last),
        "acks": _acks(rows, step, first, size),
        "copies": _lists(_copies(rows, copy, partition, number), copy, first, COPIES),
        "steps": _lists(rows.select(STEP_NAMES).filter(pa.array(step)), step, first, STEPS),
        "delta": rows["delta"].take(pa.array(first)),
        "cause": pa.nulls(len(first), pa.string()),
    }
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _steps(part: Ints, number: Ints) -> Bools:
    """Return which rows are steps: rows that say so, and the ends of each finding."""
    ends = np.flatnonzero(part == END)
    step: Bools = part == STEP
    if len(ends):
        first = groups(number[ends])
        step[ends[first]] = True
        step[ends[np.append(first[1:], len(ends)) - 1]] = True
    return step


def _any(mask: Bools, first: Ints, size: Ints) -> Bools:
    """Return whether any row of its finding is asked for, row by row."""
    by_row: Bools = np.repeat(np.logical_or.reduceat(mask, first), size)
    return by_row


def _fault(
    rows: pa.Table, first: Ints, step: Bools, copy: Bools, last: Ints
) -> dict[str, pa.ChunkedArray]:
    """Offset and value of the record at fault."""
    fault = rows["fault"].to_numpy()[first]
    here = np.arange(len(rows))
    most = len(rows)
    of_copy = np.minimum.reduceat(np.where(copy, here, most), first)
    of_step = np.minimum.reduceat(np.where(step | ~copy, here, most), first)
    row = np.select([fault == OF_LAST, fault == OF_COPY, of_step < most], [last, of_copy, of_step])
    at = pa.array(row)
    given = rows["found_offset"].take(pa.array(first))
    offset = pc.if_else(pa.array(fault == OF_LAST), rows["offset"].take(at), given)
    offset = pc.if_else(pa.array(fault == OF_COPY), rows["place"].take(at), offset)
    none = pa.scalar(None, pa.string())
    value = pc.if_else(pa.array(fault == OF_NONE), none, rows["value"].take(at))
    return {"offset": offset, "value": value}


def _acks(rows: pa.Table, step: Bools, first: Ints, size: Ints) -> pa.Array:
    """Return the greatest of the words of each finding's steps, or of its subjects.

    Of subjects that were acknowledged, if there are any.
    """
    words = rows["acks"].combine_chunks()
    vocabulary = words.drop_null().unique().sort()
    rank = pc.index_in(words, vocabulary).fill_null(-1).to_numpy()
    subject = rows["part"].to_numpy() == SUBJECT
    sure = subject & (rows["nth"].to_numpy() == 1)
    # An acknowledged one's word may be null; the others' are asked for then.
    sure &= _any(sure & (rank >= 0), first, size)
    witness = step | np.where(_any(sure, first, size), sure, subject)
    most = np.maximum.reduceat(np.where(witness, rank, -1), first)
    return vocabulary.take(pa.array(most, mask=most < 0))


def _copies(rows: pa.Table, copy: Bools, partition: pa.ChunkedArray, number: Ints) -> pa.Table:
    """Return copies of records that clients read: the broker is unknown."""
    is_copy = pa.array(copy)
    given = {
        "partition": partition.take(pa.array(number[copy])),
        "offset": rows["place"].filter(is_copy),
        **{name: rows[name].filter(is_copy) for name in ("value", "note")},
    }
    size = int(copy.sum())
    columns = [given.get(field.name, pa.nulls(size, field.type)) for field in COPIES]
    return pa.table(columns, names=[field.name for field in COPIES])


def _lists(rows: pa.Table, mask: Bools, first: Ints, kind: pa.StructType) -> pa.Array:
    """Rows in order as a list for each finding; null where it has none."""
    size = np.add.reduceat(mask.astype(np.int32), first)
    ends = pa.array(np.concatenate(([0], np.cumsum(size))), pa.int32())
    columns = [
        rows[field.name].cast(field.type).combine_chunks() if len(rows) else pa.nulls(0, field.type)
        for field in kind
    ]
    arrays = pa.StructArray.from_arrays(columns, fields=list(kind))
    return pa.ListArray.from_arrays(ends, arrays, mask=pa.array(size == 0))

"""Findings: references to the rows of histories that show an anomaly.

The checkers work only on numbers. Their finding names the rows that show an anomaly, and the role
of each row. ``rows_of_findings`` adds the texts of these rows, and so makes the anomaly.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Groups,
    Ints,
    Numbers,
    arrow,
    at_place,
    choose,
    schema,
)

COPIES: Final[pa.StructType] = SCHEMA.field("copies").type.value_type
STEPS: Final[pa.StructType] = SCHEMA.field("steps").type.value_type

FINDING: Final = schema(
    *(
        "kind",
        "finding",
        "part",
        "nth",
        "client",
        "at",
        "fault",
        "offset",
        "delta",
        "place",
        "note",
    ),
    kind=pa.string(),
    part=pa.int32(),
    nth=pa.int32(),
    fault=pa.int32(),
    note=pa.string(),
)
"""One row for each row of a history that a finding refers to.

``kind`` and ``finding`` identify the finding; ``client`` and ``at`` identify the row of the
history. ``part`` is the role of the row in the finding, and ``nth`` the order of steps. ``fault``
states which row names the record at fault. ``offset`` and ``delta`` are columns of the anomaly. All
rows of a finding have the same ``fault``, ``offset`` and ``delta``. ``place`` and ``note`` describe
a copy of a record."""

STEP: Final = 0
COPY: Final = 1
END: Final = 2
SUBJECT: Final = 3
"""The values of ``part``: the role of a row in a finding. STEP: a step of the anomaly. COPY: a copy
of a record, with its offset. END: also a copy. A finding's first and last END, by offset and value,
are also steps of the anomaly. SUBJECT: a row that only names a record's producer; its ``nth`` is 1
if the record was acknowledged."""

OF_FIRST: Final = 0
OF_LAST: Final = 1
OF_COPY: Final = 2
OF_NONE: Final = 3
"""The values of ``fault``: the record at fault in a finding. OF_FIRST: the record of the first step
or subject, at ``offset``. OF_LAST: the record of the last step, at that step's offset. OF_COPY: the
record of the first copy, at the copy's offset. OF_NONE: no record."""

FINDING_COLUMNS: Final = {"kind": "found", "offset": "found_offset"}
"""New names for those columns of ``FINDING`` whose names ``WORDS`` also has."""


def findings(kind: str | pa.Array, finding: Ints, **columns: Any) -> pa.Table:  # noqa: ANN401
    """Return a table of ``FINDING`` with these columns; missing columns become null."""
    shared = {"kind": kind, "finding": finding, "part": STEP, "nth": 0, "fault": OF_FIRST}
    return arrow(shared | columns, FINDING)


def reference(rows: Numbers, place: Ints) -> tuple[Ints, Ints]:
    """Return ``client`` and ``at`` of the rows at these indices. Together they identify a row."""
    return at_place(rows["client"], place), at_place(rows["at"], place)


def steps(
    kind: str | pa.Array,
    finding: Ints,
    references: Sequence[tuple[Ints, Ints]],
    **columns: Any,  # noqa: ANN401 - arrays, or one value
) -> pa.Table:
    """Return findings that consist of steps, as ``FINDING`` rows.

    Args:
        references: for each step, ``client`` and ``at`` of its row in every finding; NONE if a
            finding lacks this step.
        columns: the other columns of ``FINDING``.
    """
    tables = [FINDING.empty_table()]
    for nth, (client, at) in enumerate(references):
        rows = findings(kind, finding, nth=nth, client=client, at=at, **columns)
        tables.append(rows.filter(rows["at"].is_valid()))
    return pa.concat_tables(tables)


def end_rows(kind: str, rows: Numbers, group: Groups, finding: Ints, *, fault: int) -> pa.Table:
    """Return a finding for each group of two or more rows, as END rows of ``FINDING``.

    ``place`` is the row's own offset; ``offset`` is the first offset of the group.

    Args:
        rows: sorted by group and then by offset.
        finding: the number of each group's finding.
    """
    several = group.spread(group.size > 1)
    offset, number = group.spread(rows["offset"][group.first]), group.spread(finding)
    end = choose(rows | {"fault_offset": offset, "finding": number}, several)
    columns = {"client": end["client"], "at": end["at"], "place": end["offset"]}
    columns["offset"] = end["fault_offset"]
    return findings(kind, end["finding"], part=END, fault=fault, **columns)


def mix(first: Ints, other: Ints) -> Ints:
    """Return a hash of each pair of numbers."""
    return first ^ (other * np.int64(-7046029254386353131))  # 2**64 divided by the golden ratio


def rows_of_findings(rows: pa.Table) -> pa.Table:
    """Return the anomalies of these findings, as ``SCHEMA`` rows.

    All rows of one ``finding`` must be in one table.

    Args:
        rows: rows of ``FINDING``, two columns of which ``FINDING_COLUMNS`` renames, joined with
            ``checkers.history.rows.WORDS``.
    """
    by = ("found", "finding", "part", "nth", "place", "value")
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in by])).combine_chunks()
    codes = rows["found"].combine_chunks().dictionary_encode().indices.to_numpy()
    group, part = Groups.of(codes, rows["finding"].to_numpy()), rows["part"].to_numpy()
    number = group.spread(np.arange(len(group)))
    step, copy = _steps(part, number), np.isin(part, (COPY, END))
    # Run, topic and partition come from the last step. Without steps they come from the last
    # subject; without subjects, from the last row.
    last = group.last_place(step | ~copy & ~group.spread(group.any(step)))
    last = pa.array(np.where(last == NONE, group.last, last))
    first = pa.array(group.first)
    partition = rows["partition"].take(last)
    columns = {
        **{name: rows[name].take(last) for name in ("run", "topic")},
        "kind": rows["found"].take(first),
        "partition": partition,
        **_fault(rows, group, step, copy, last.to_numpy()),
        "acks": _acks(rows, group, step),
        "copies": _lists(_copies(rows, copy, partition, number), copy, group, COPIES),
        "steps": _lists(rows.filter(pa.array(step)), step, group, STEPS),
        "delta": rows["delta"].take(first),
    }
    return arrow(columns, SCHEMA)


def _steps(part: Ints, number: Ints) -> Bools:
    """Return a mask of all steps: STEP rows, and each finding's first and last END."""
    step: Bools = part == STEP
    at = np.flatnonzero(part == END)
    group = Groups.of(number[at])
    step[at[group.first]] = step[at[group.last]] = True
    return step


def _fault(
    rows: pa.Table, group: Groups, step: Bools, copy: Bools, last: Ints
) -> dict[str, pa.ChunkedArray]:
    fault = rows["fault"].to_numpy()[group.first]
    of_copy, of_step = group.first_place(copy), group.first_place(step | ~copy)
    of_step = np.where(of_step == NONE, 0, of_step)
    at = pa.array(np.select([fault == OF_LAST, fault == OF_COPY], [last, of_copy], of_step))
    offset = rows["found_offset"].take(pa.array(group.first))
    offset = pc.if_else(pa.array(fault == OF_LAST), rows["offset"].take(at), offset)
    offset = pc.if_else(pa.array(fault == OF_COPY), rows["place"].take(at), offset)
    none = pa.scalar(None, pa.string())
    value = pc.if_else(pa.array(fault == OF_NONE), none, rows["value"].take(at))
    return {"offset": offset, "value": value}


def _acks(rows: pa.Table, group: Groups, step: Bools) -> pa.Array:
    """Return the greatest ``acks`` (0, 1, all) of each finding's steps and subjects; else null.

    If an acknowledged subject has ``acks``, unacknowledged subjects are ignored.
    """
    words = rows["acks"].combine_chunks()
    vocabulary = words.drop_null().unique().sort()
    rank = pc.index_in(words, vocabulary).fill_null(-1).to_numpy()
    subject = rows["part"].to_numpy() == SUBJECT
    sure = subject & (rows["nth"].to_numpy() == 1)
    # The ``acks`` of an acknowledged subject may be null: then all subjects count.
    has_sure = group.spread(group.any(sure & (rank >= 0)))
    most = group.greatest(np.where(step | np.where(has_sure, sure, subject), rank, -1))
    return vocabulary.take(pa.array(most, mask=most < 0))


def _copies(rows: pa.Table, copy: Bools, partition: pa.ChunkedArray, number: Ints) -> pa.Table:
    """Return the elements of ``copies``. Their ``broker`` is null, because clients read them."""
    copies = rows.filter(pa.array(copy))
    columns = {"partition": partition.take(pa.array(number[copy])), "offset": copies["place"]}
    columns |= {name: copies[name] for name in ("value", "note")}
    return arrow(columns, pa.schema(list(COPIES)))


def _lists(rows: pa.Table, mask: Bools, group: Groups, kind: pa.StructType) -> pa.Array:
    size = np.add.reduceat(mask.astype(np.int32), group.first)
    bounds = pa.array(np.append(0, np.cumsum(size)), pa.int32())
    columns = [rows[field.name].cast(field.type).combine_chunks() for field in kind]
    arrays = pa.StructArray.from_arrays(columns, fields=list(kind))
    return pa.ListArray.from_arrays(bounds, arrays, mask=pa.array(size == 0))

"""Classify every input of a program: processed once, lost, doubled, or not reached.

An input is a record that the final read has returned. It is *lost* if the group's committed
position has passed it and no output names it: after its next start the program would go on behind
it. It is *doubled* if more outputs name it than the input has copies of it. Without an output, and
at or behind the position, it is *unreached*: nothing is known of it.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

ONCE: Final = "once"
LOST: Final = "lost"
DOUBLED: Final = "doubled"
UNREACHED: Final = "unreached"

INPUT: Final = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.string())]
)
"""Columns of an input: where it is, and its name."""

OUTCOME: Final = pa.schema(
    [
        *INPUT,  # offset: of its last copy
        ("copies", pa.int64()),  # of it in the input
        ("outputs", pa.int64()),  # that name it
        ("outcome", pa.string()),
    ]
)


def input_outcomes(
    inputs: pa.Table, outputs: pa.Table, positions: Mapping[int, int | None], *, complete: bool
) -> pa.Table:
    """Return the outcome of every input in ``OUTCOME``, in order of partition and offset.

    Args:
        inputs: in columns of ``INPUT``; a row for each copy.
        outputs: with a column ``input``, the name of an input or null; a row for each output.
        positions: the group's committed offset of each partition in the end; None if it has none.
        complete: whether these are all outputs; otherwise no input counts as lost.
    """
    by_name = inputs.group_by("value").aggregate(
        [("partition", "max"), ("offset", "max"), ("offset", "count")]
    )
    named = outputs.filter(pc.is_valid(outputs["input"]))
    counts = named.group_by("input").aggregate([("input", "count")])
    rows = by_name.join(counts, "value", "input", join_type="left outer")
    partition, offset = rows["partition_max"], rows["offset_max"]
    copies, written = rows["offset_count"], pc.fill_null(rows["input_count"], 0)
    passed = pc.less(offset, _positions(partition, positions))
    outcome = pc.case_when(
        pc.make_struct(
            pc.greater(written, copies),
            pc.greater(written, 0),
            pc.and_(passed, pa.scalar(complete)),
        ),
        DOUBLED,
        ONCE,
        LOST,
        UNREACHED,
    )
    columns = [partition, offset, rows["value"], copies, written, outcome]
    return pa.table(columns, schema=OUTCOME).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )


def strange_outputs(names: pa.Table, outputs: pa.Table) -> pa.Table:
    """Return the outputs that name an input that was never sent.

    Args:
        names: with a column ``value``, the names of all records that were ever sent.
    """
    named = outputs.filter(pc.is_valid(outputs["input"]))
    strange = pc.invert(pc.is_in(named["input"], value_set=names["value"].combine_chunks()))
    return named.filter(strange)


def _positions(partition: pa.ChunkedArray, positions: Mapping[int, int | None]) -> pa.Array:
    """Return the committed offset of the partition of each row; -1 where there is none."""
    partitions = pa.array(positions.keys(), pa.int32())
    offsets = pa.array([-1 if offset is None else offset for offset in positions.values()])
    places = pc.index_in(partition, value_set=partitions)
    return pc.fill_null(pc.take(offsets.cast(pa.int64()), places), -1)
